"""Internal topics have the replicas that the settings say, where there can be any."""

import pytest

from ottla.broker.config import BrokerConfig
from ottla.broker.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE, internal_topic
from ottla.storage.config import TopicConfig

SHARED = [
    {"zookeeper.connect": "127.0.0.1:2181"},
    {"metadata.store.connect": "127.0.0.1:9999"},
    {"metadata.store.listen": "127.0.0.1:9999"},
]


@pytest.mark.parametrize("name", [CONSUMER_OFFSETS, TRANSACTION_STATE])
def test_a_broker_whose_metadata_is_its_own_has_one_replica(name):
    topic = internal_topic(name, BrokerConfig({}))
    assert (topic.replication_factor, topic.partitions) == (1, 50)


@pytest.mark.parametrize("shared", SHARED)
@pytest.mark.parametrize("name", [CONSUMER_OFFSETS, TRANSACTION_STATE])
def test_where_others_may_come_there_are_as_many_replicas_as_the_settings_say(name, shared):
    assert internal_topic(name, BrokerConfig(shared)).replication_factor == 3


def test_a_cluster_of_one_says_so():
    settings = {"offsets.topic.replication.factor": 1, "transaction.state.log.replication.factor": 1}
    config = BrokerConfig({**SHARED[0], **settings})
    assert internal_topic(CONSUMER_OFFSETS, config).replication_factor == 1
    state = internal_topic(TRANSACTION_STATE, config)
    assert (state.replication_factor, state.configs["min.insync.replicas"]) == (1, "1")


def test_they_are_compacted_and_their_settings_are_settings_of_topics():
    config = BrokerConfig({"offsets.topic.segment.bytes": "2097152"})
    topic = TopicConfig(dict(internal_topic(CONSUMER_OFFSETS, config).configs))
    assert topic.cleanup_policy == ("compact",) and topic.segment_bytes == 2 << 20


def test_a_transaction_outlives_one_replica_but_never_waits_for_replicas_that_do_not_exist():
    assert internal_topic(TRANSACTION_STATE, BrokerConfig(SHARED[0])).configs["min.insync.replicas"] == "2"
    assert internal_topic(TRANSACTION_STATE, BrokerConfig({})).configs["min.insync.replicas"] == "1"
