"""Clients make, look at, change and delete topics."""

import pytest

from ottla.core.errors import ErrorCode
from tests.interop.brokers import eventually
from tests.interop.clients.client import Record, Refused
from tests.interop.features import feature


@feature("Describe cluster")
def test_the_cluster_names_its_brokers(client, bootstrap_server):
    assert client.describe_cluster() == [bootstrap_server]


@feature("List and describe topics")
def test_topics_are_listed_and_described(client, new_topic):
    topic = new_topic(partitions=3)
    assert eventually(lambda: topic in client.list_topics())
    assert client.partition_count(topic) == 3


@feature("Create topics with configs")
def test_a_topic_is_created_as_it_was_asked_for(client, control, unused_topic):
    client.create_topic(unused_topic, 4, {"retention.ms": "3600000", "cleanup.policy": "compact"})
    assert eventually(lambda: unused_topic in control.list_topics())
    assert control.partition_count(unused_topic) == 4
    configs = control.topic_configs(unused_topic)
    assert (configs["retention.ms"], configs["cleanup.policy"]) == ("3600000", "compact")


@feature("Errors by their number")
def test_refusals_reach_the_client_with_their_number(client, new_topic, unused_topic):
    topic = new_topic(partitions=2)
    refused = {
        ErrorCode.TOPIC_ALREADY_EXISTS: lambda: client.create_topic(topic, 1, {}),
        ErrorCode.INVALID_CONFIG: lambda: client.create_topic(unused_topic, 1, {"retention.ms": "soon"}),
        ErrorCode.INVALID_TOPIC_EXCEPTION: lambda: client.create_topic("no/slash", 1, {}),
        ErrorCode.INVALID_PARTITIONS: lambda: client.create_partitions(topic, 1),
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: lambda: client.delete_topic(unused_topic),
    }
    for code, call in refused.items():
        with pytest.raises(Refused) as refusal:
            call()
        assert refusal.value.code == code


@feature("Read configs")
def test_configs_are_read_with_their_defaults(client, new_topic):
    topic = new_topic(segment_bytes="1048576")
    assert eventually(lambda: client.topic_configs(topic)["segment.bytes"] == "1048576")
    configs = client.topic_configs(topic)
    assert configs["max.message.bytes"] == "1048588"
    assert {"cleanup.policy", "retention.ms", "min.insync.replicas", "compression.type"} <= configs.keys()


@feature("Alter configs")
def test_configs_are_altered(client, control, new_topic):
    topic = new_topic()
    client.alter_config(topic, "retention.ms", "7200000")
    assert eventually(lambda: control.topic_configs(topic)["retention.ms"] == "7200000")


@feature("Add partitions")
def test_partitions_are_added_and_can_be_used_at_once(client, control, new_topic):
    topic = new_topic()
    client.create_partitions(topic, 3)
    assert eventually(lambda: client.partition_count(topic) == 3)
    control.produce(topic, [Record(2, b"k", b"v")])
    assert [each.value for each in client.consume(topic, {2: 0}, 1)] == [b"v"]


@feature("Delete records")
def test_records_are_deleted_up_to_an_offset(client, control, new_topic):
    topic = new_topic()
    control.produce(topic, [Record(0, b"k", b"v%d" % i) for i in range(10)])
    client.delete_records(topic, 0, 6)
    assert control.watermarks(topic, 0) == (6, 10)
    assert [each.value for each in control.consume(topic, {0: 6}, 4)] == [b"v6", b"v7", b"v8", b"v9"]


@feature("Delete topics")
def test_a_deleted_topic_is_gone_and_its_name_is_free(client, control, new_topic):
    topic = new_topic()
    control.produce(topic, [Record(0, b"k", b"old")])
    client.delete_topic(topic)
    assert eventually(lambda: topic not in client.list_topics())
    client.create_topic(topic, 2, {})
    assert eventually(lambda: control.partition_count(topic) == 2)
    assert client.watermarks(topic, 0) == (0, 0)


@feature("Sizes of log directories")
def test_the_sizes_of_partitions_are_told(client, control, new_topic):
    topic = new_topic(partitions=2)
    control.produce(topic, [Record(1, b"k", b"v" * 1000)])
    sizes = client.log_dir_sizes(topic)
    assert sizes[0] == 0
    assert 1000 < sizes[1] < 1200


@feature("Producers of a partition")
def test_the_producers_of_a_partition_are_told(client, control, new_topic):
    topic = new_topic()
    control.produce(topic, [Record(0, b"k", b"v")], idempotent=True)
    assert client.active_producers(topic, 0) == 1
