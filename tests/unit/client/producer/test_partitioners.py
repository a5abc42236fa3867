"""Where records go: the hash of keys against Java's vectors and aiokafka's, and all the others."""

import collections
import socket

import pytest
from aiokafka.partitioner import murmur2 as reference
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.metadata import Metadata, Node, PartitionInfo, TopicInfo
from ottla.client.producer.partitioners import KeyHashes, Outgoing, murmur2, partitioner_of, stick
from ottla.core.errors import ConfigError, KafkaError
from ottla.core.ids import NULL_ID

JAVA = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}
"""From the tests of Kafka's Java client."""


def topic_of(*leaders: int) -> TopicInfo:
    rows = [PartitionInfo("t", number, leader, 0) for number, leader in enumerate(leaders)]
    return TopicInfo("t", NULL_ID, tuple(rows))


def record(key: bytes | None = None, value: bytes | None = b"v") -> Outgoing:
    return Outgoing("t", key, key, value, value)


def cluster() -> Metadata:
    metadata = Metadata()
    metadata.learn_brokers(
        [Node(1, "one.example", 9092, "here"), Node(2, socket.gethostname(), 9092, "there")]
    )
    return metadata


def choices(setting: object, topic: TopicInfo, count: int = 60, rack: str = "") -> list[int]:
    partitioner = partitioner_of(setting, rack)
    assert partitioner is not None
    return [partitioner.partition(record(b"%d" % number), topic, cluster()) for number in range(count)]


@pytest.mark.parametrize("key", JAVA)
def test_the_hash_is_javas(key):
    assert murmur2(key) == JAVA[key] % 2**32


@given(st.binary(max_size=100), st.integers(1, 1000))
def test_the_hash_is_that_of_others(key, partitions):
    assert murmur2(key) == reference(key) % 2**32
    assert KeyHashes()(key) % partitions == (reference(key) & 0x7FFFFFFF) % partitions


def test_hashes_are_remembered_within_limits(monkeypatch):
    monkeypatch.setattr("ottla.client.producer.partitioners._KNOWN_KEYS_MAX", 10)
    hashes = KeyHashes()
    for number in range(25):
        assert hashes(b"%d" % number) == hashes(b"%d" % number) == murmur2(b"%d" % number) & 0x7FFFFFFF
        assert len(hashes._known) <= 10


def test_sticking_goes_elsewhere_each_time_and_avoids_partitions_without_a_leader_and_queues():
    topic = topic_of(1, -1, 2, 1)
    now, seen = -1, set()
    for _ in range(200):
        before, now = now, stick(topic, now, lambda *_: 0)
        assert now != before
        seen.add(now)
    assert seen == {0, 2, 3}
    counts = collections.Counter(stick(topic, -1, lambda _, number: number == 0) for _ in range(300))
    assert counts[0] < counts[2] and counts[0] < counts[3]
    assert stick(topic_of(1), 0, lambda *_: 0) == 0
    assert stick(topic_of(-1, -1), -1, lambda *_: 0) in (0, 1)


def test_in_turn_by_chance_and_by_key():
    assert choices("round_robin", topic_of(1, -1, 1), 4) == [0, 2, 0, 2]
    assert set(choices("random", topic_of(1, -1, 1), 100)) == {0, 2}
    assert choices("key", topic_of(-1, -1, -1), 9) == [
        (murmur2(b"%d" % n) & 0x7FFFFFFF) % 3 for n in range(9)
    ]
    with pytest.raises(KafkaError, match="needs a key"):
        partitioner_of("key", "").partition(record(None), topic_of(1), cluster())


def test_near_leaders_are_preferred():
    assert choices("rack", topic_of(1, 2, 1, 2), 4, "there") == [1, 3, 1, 3]
    assert choices("rack", topic_of(1, 2), 2, "nowhere") == [0, 1]
    assert choices("host", topic_of(1, 2, 1), 2) == [1, 1]
    with pytest.raises(ConfigError, match=r"client\.rack must be set"):
        partitioner_of("rack", "")


def test_your_own():
    assert choices(lambda topic, key, value, partitions: int(key) % partitions, topic_of(1, 1), 3) == [
        0,
        1,
        0,
    ]

    class Last:
        def partition(self, record, topic, cluster):
            return len(topic.partitions) - 1

    assert choices(Last, topic_of(1, 1), 1) == choices(Last(), topic_of(1, 1), 1) == [1]


def test_names():
    assert partitioner_of("default", "") is None
    assert partitioner_of("org.apache.kafka.clients.producer.internals.DefaultPartitioner", "") is None
    assert choices("org.apache.kafka.clients.producer.RoundRobinPartitioner", topic_of(1, 1), 2) == [0, 1]
    for wrong in ("unknown", 5):
        with pytest.raises(ConfigError, match="partitioner is"):
            partitioner_of(wrong, "")
