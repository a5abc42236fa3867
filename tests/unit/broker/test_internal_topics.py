from ottla.broker.config import BrokerConfig
from ottla.broker.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE, internal_topic
from ottla.storage.config import TopicConfig


def test_a_broker_alone_gets_one_replica_and_a_cluster_as_many_as_are_wanted():
    config = BrokerConfig({})
    for name in CONSUMER_OFFSETS, TRANSACTION_STATE:
        assert internal_topic(name, config, 1).replication_factor == 1
        assert internal_topic(name, config, 5).replication_factor == 3
        assert internal_topic(name, config, 5).partitions == 50


def test_they_are_compacted_and_their_settings_are_settings_of_topics():
    config = BrokerConfig({"offsets.topic.segment.bytes": "2097152"})
    topic = TopicConfig(dict(internal_topic(CONSUMER_OFFSETS, config, 1).configs))
    assert topic.cleanup_policy == ("compact",) and topic.segment_bytes == 2 << 20


def test_a_transaction_outlives_one_replica_but_never_waits_for_replicas_that_do_not_exist():
    config = BrokerConfig({})
    assert internal_topic(TRANSACTION_STATE, config, 3).configs["min.insync.replicas"] == "2"
    assert internal_topic(TRANSACTION_STATE, config, 1).configs["min.insync.replicas"] == "1"
