"""Compaction on demand: Ottla does it, Apache Kafka says in a sentence that it cannot be asked."""

import pytest

from ottla.client.admin.blocking import Admin
from ottla.client.errors import PartialFailure, UnsupportedVersionError
from ottla.client.producer.blocking import Producer
from ottla.core.errors import ErrorCode
from ottla.core.ids import TopicPartition
from tests.interop.brokers import eventually


@pytest.fixture
def admin(server):
    with Admin(bootstrap_servers=server) as client:
        yield client


def test_a_compacted_topic_is_compacted_when_it_is_asked_for(admin, server, new_topic, request):
    topic = new_topic(cleanup_policy="compact")
    with Producer(bootstrap_servers=server) as producer:
        for number in range(100):
            producer.send(topic, b"%d" % number, key=b"key")
    partition = TopicPartition(topic, 0)
    if request.node.callspec.params["server"] == "apache":
        with pytest.raises(UnsupportedVersionError, match="it is not Ottla"):
            admin.compact_partitions([partition])
        return
    admin.compact_partitions([partition])
    assert eventually(lambda: admin.compact_partitions([partition], start=False)[partition].runs > 0)
    status = admin.compact_partitions([partition], start=False)[partition]
    assert status.records_before == 100 and status.records_after < 100


def test_what_is_not_there_is_not_compacted(admin, name):
    with pytest.raises(PartialFailure) as failed:
        admin.compact_partitions([TopicPartition(name, 0)])
    assert failed.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
