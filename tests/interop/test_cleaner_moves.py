"""A partition moves house: its directory, compacted by Ottla, is put into the log directory of an Apache Kafka broker.

The broker there was stopped; it starts again with our files under its own topic ids, and serves them as its own.
"""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from ottla.testing.broker import Broker
from tests.interop.clients.client import Record
from tests.interop.clients.confluent import ConfluentKafka
from tests.oracles import apache_kafka
from tests.property.compaction import Cleaning, Outcome, compact, opened

TOPIC, GROUP, OFFSETS = "orders", "readers", "__consumer_offsets-0"
SETTINGS = {"offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1}


@pytest.fixture(scope="module")
def ours(tmp_path_factory) -> Path:
    """What Ottla has: keys written over and over, in transactions too, and a group that has read some of it."""
    with Broker(config=SETTINGS) as broker:
        broker.create_topic(TOPIC, 1, cleanup_policy="compact")
        client = ConfluentKafka(broker.bootstrap_server)
        for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
            records = [
                Record(0, b"k%d" % (number % 7), b"%s %d" % (codec.encode(), number)) for number in range(40)
            ]
            client.produce(TOPIC, records, codec=codec, idempotent=True)
        producer = client.transactional("payments")
        for is_kept in (True, False):
            producer.begin()
            producer.send(TOPIC, [Record(0, b"paid", b"%d" % is_kept)])
            (producer.commit if is_kept else producer.abort)()
        producer.close()
        commit(broker.bootstrap_server, 123)
        client.close()
        broker.stop()
        kept = shutil.copytree(broker.data_dir, tmp_path_factory.mktemp("ottla") / "data")
    for name in (f"{TOPIC}-0", OFFSETS):
        log = opened(kept / name, {"cleanup.policy": "compact"})
        log.roll()
        log.close()
        cleaning = Cleaning(None, int(time.time() * 1000))
        assert isinstance(compact(kept / name, {"cleanup.policy": "compact"}, cleaning), Outcome)
    return kept


def commit(bootstrap_server: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap_server, "group.id": GROUP})
    consumer.commit(offsets=[TopicPartition(TOPIC, 0, offset)], asynchronous=False)
    consumer.close()


@pytest.fixture(scope="module")
def moved(ours, tmp_path_factory) -> Iterator[ConfluentKafka]:
    """A client of Apache's broker, once our partitions lie in the place of its own."""
    home = tmp_path_factory.mktemp("apache")
    try:
        with apache_kafka.apache_kafka(data_dir=home) as broker:
            client = ConfluentKafka(broker.bootstrap_server)
            client.create_topic(TOPIC, 1, {"cleanup.policy": "compact"})
            commit(broker.bootstrap_server, 1)
            client.close()
    except apache_kafka.Unavailable as reason:
        pytest.skip(str(reason))
    for name in (f"{TOPIC}-0", OFFSETS):
        theirs = home / "data" / name
        metadata = (theirs / "partition.metadata").read_bytes()
        shutil.rmtree(theirs)
        shutil.copytree(ours / name, theirs)
        (theirs / "partition.metadata").write_bytes(metadata)
    for checkpoint in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (home / "data" / checkpoint).unlink(missing_ok=True)
    with apache_kafka.apache_kafka(data_dir=home) as broker:
        client = ConfluentKafka(broker.bootstrap_server)
        yield client
        client.close()


def test_apaches_broker_serves_the_newest_of_each_key(moved):
    found = moved.consume(TOPIC, {0: 0}, 8, isolation="read_committed")
    assert {each.key: each.value for each in found} == {
        b"paid": b"1",
        **{b"k%d" % (number % 7): b"zstd %d" % number for number in range(40)},
    }
    assert len(found) == 8


def test_apaches_coordinator_knows_our_groups(moved):
    assert moved.committed(GROUP, TOPIC, 0) == 123


def test_apaches_broker_writes_on_where_we_ended(moved):
    _, end = moved.watermarks(TOPIC, 0)
    moved.produce(TOPIC, [Record(0, b"new", b"one")])
    assert [each.offset for each in moved.consume(TOPIC, {0: end}, 1)] == [end]
