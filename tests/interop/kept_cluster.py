"""A cluster as its clients see it, and one that has a bit of everything: for brokers that take over from each other."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.interop.brokers import eventually, set_for_all_brokers
from tests.interop.features import CODECS

LONG_AGO_MS = 1_000_000_000_000
CLASSIC, MODERN, ALIVE, IN_TRANSACTION = "classic-group", "modern-group", "group-with-a-member", "txn-group"
WRITER = "writer-with-an-open-transaction"
PARTITIONS = {
    "plain": 3,
    "old": 2,
    "codecs": 5,
    "compacted": 1,
    "wide": 40,
    "grown": 4,
    "trimmed": 1,
    "reborn": 1,
}
"""Topics, and how many partitions they have in the end."""
_SETTINGS = {
    "old": {"retention.ms": "-1", "segment.ms": "86400000"},
    "compacted": {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01"},
    "wide": {"retention.bytes": "100000000", "max.message.bytes": "2000000"},
}
CONFIG = {
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "2",
    "log.index.size.max.bytes": "16384",  # a directory that is copied while it is in use has them at full size
    "log.cleaner.backoff.ms": "100",
    "log.flush.start.offset.checkpoint.interval.ms": "100",
    "log.initial.task.delay.ms": "100",
}
"""Other than the defaults of any broker, so that it is seen where a number comes from."""
_WAIT_SECONDS = 30


class Row(NamedTuple):
    """A record as a consumer gets it."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: tuple[int, int]


class View(NamedTuple):
    """What clients can see of a cluster and keep."""

    cluster_id: str
    topics: dict[str, tuple[str, int]]
    """The id and the number of partitions of each."""
    records: dict[tuple[str, int, str], list[Row]]
    """By topic, partition and isolation level."""
    watermarks: dict[tuple[str, int], tuple[int, int]]
    committed: dict[str, dict[tuple[str, int], int]]
    groups: dict[str, str]
    """What type each is of."""
    settings: dict[str, dict[str, str]]
    """What was set for topics, and for all brokers."""


# --- filling ----------------------------------------------------------------------------------------------------------


@contextmanager
def filled(bootstrap_server: str, *, has_modern_groups: bool) -> Iterator[None]:
    """A bit of everything. Within the block a transaction is open, and a member is in a group."""
    admin = AdminClient({"bootstrap.servers": bootstrap_server})
    _create_topics(admin)
    _write_records(bootstrap_server, admin)
    _commit_offsets(bootstrap_server, CLASSIC, {"group.protocol": "classic"})
    if has_modern_groups:
        _commit_offsets(bootstrap_server, MODERN, {"group.protocol": "consumer"})
    _set_others(bootstrap_server, admin)
    member = _joined(bootstrap_server, ALIVE, {"group.protocol": "classic"})
    writer = _transactions(bootstrap_server)
    try:
        yield
    finally:
        del writer
        member.close()


def _create_topics(admin: AdminClient) -> None:
    small = {"grown": 2, "reborn": 2}
    wanted = [
        NewTopic(name, small.get(name, count), 1, config=_SETTINGS.get(name, {}))
        for name, count in PARTITIONS.items()
    ]
    _done(admin.create_topics([*wanted, NewTopic("gone", 3, 1)]))
    _done(admin.create_partitions([NewPartitions("grown", PARTITIONS["grown"])]))
    _done(admin.delete_topics(["gone", "reborn"]))
    assert eventually(lambda: "reborn" not in admin.list_topics(timeout=10).topics)
    _done(admin.create_topics([NewTopic("reborn", 1, 1)]))


def _write_records(bootstrap_server: str, admin: AdminClient) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_server, "enable.idempotence": True})
    for topic in ("plain", "wide", "grown", "trimmed", "reborn"):
        for partition in range(PARTITIONS[topic]):
            for number in range(10 if topic != "wide" else 1):
                producer.produce(
                    topic, b"value %d" % number, key=b"key %d" % (number % 3), partition=partition
                )
    for number in range(20):
        producer.produce("old", b"old %d" % number, partition=number % 2, timestamp=LONG_AGO_MS + number)
    producer.flush()
    for partition, codec in enumerate(CODECS):
        compressing = Producer(
            {"bootstrap.servers": bootstrap_server, "compression.type": codec, "linger.ms": 50}
        )
        for number in range(50):
            headers = [("codec", codec.encode()), ("empty", b""), ("null", None)]
            value = None if number % 7 == 6 else codec.encode() * (number + 1)
            compressing.produce(
                "codecs", value, key=None if number % 5 == 4 else b"k", partition=partition, headers=headers
            )
        compressing.flush()
    _write_until_compacted(bootstrap_server, producer)
    _done(admin.delete_records([TopicPartition("trimmed", 0, 4)]))


def _write_until_compacted(bootstrap_server: str, producer: Producer) -> None:
    """A compacted log has holes."""
    for number in range(4):
        producer.produce("compacted", b"%d" % number, key=b"same")
        producer.produce("compacted", None if number == 2 else b"%d" % number, key=b"other %d" % number)
        producer.flush()
        time.sleep(0.15)  # a segment's life
    assert eventually(
        lambda: read(bootstrap_server, [("compacted", 0)], "read_committed")["compacted", 0][0].offset
    )


def _commit_offsets(bootstrap_server: str, group: str, settings: Mapping[str, str]) -> None:
    consumer = _joined(bootstrap_server, group, settings)
    consumer.commit(
        offsets=[TopicPartition("plain", partition, 3 + partition, f"by {group}") for partition in range(3)],
        asynchronous=False,
    )
    consumer.close()


def _joined(bootstrap_server: str, group: str, settings: Mapping[str, str]) -> Consumer:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap_server, "group.id": group, "enable.auto.commit": False, **settings}
    )
    consumer.subscribe(["plain"])
    deadline = time.monotonic() + _WAIT_SECONDS
    while not consumer.assignment():
        assert time.monotonic() < deadline, f"{group} was assigned nothing"
        consumer.poll(0.1)
    return consumer


def _set_others(bootstrap_server: str, admin: AdminClient) -> None:
    entry = ConfigEntry("min.compaction.lag.ms", "5", incremental_operation=AlterConfigOpType.SET)
    plain = ConfigResource(ResourceType.TOPIC, "plain", incremental_configs=[entry])
    _done(admin.incremental_alter_configs([plain]))
    set_for_all_brokers(bootstrap_server, "message.max.bytes", "3000000")
    sha = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    _done(admin.alter_user_scram_credentials([UserScramCredentialUpsertion("alice", sha, b"secret")]))


def _transactions(bootstrap_server: str) -> Producer:
    """One that is committed, one that is aborted, and one that is open: its producer."""
    producer = Producer(
        {"bootstrap.servers": bootstrap_server, "transactional.id": WRITER, "transaction.timeout.ms": 600_000}
    )
    producer.init_transactions(_WAIT_SECONDS)
    consumer = Consumer({"bootstrap.servers": bootstrap_server, "group.id": IN_TRANSACTION})
    for number, end in enumerate([producer.commit_transaction, producer.abort_transaction, producer.flush]):
        producer.begin_transaction()
        for partition in range(3):
            producer.produce("plain", b"transaction %d" % number, partition=partition)
        offsets = [TopicPartition("plain", 0, 10 + number)]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), _WAIT_SECONDS)
        end()
    consumer.close()
    return producer


# --- looking ----------------------------------------------------------------------------------------------------------


def look(bootstrap_server: str) -> View:
    admin = AdminClient({"bootstrap.servers": bootstrap_server})
    topics = {
        name: (str(each.topic_id), len(each.partitions))
        for name, future in admin.describe_topics(
            TopicCollection(list(admin.list_topics(timeout=10).topics))
        ).items()
        for each in [future.result()]
    }
    places = [(name, number) for name in PARTITIONS for number in range(topics[name][1])]
    records = {
        (*place, isolation): rows
        for isolation in ("read_committed", "read_uncommitted")
        for place, rows in read(bootstrap_server, places, isolation).items()
    }
    groups = {each.group_id: each.type.name for each in admin.list_consumer_groups().result().valid}
    return View(
        admin.describe_cluster().result().cluster_id,
        topics,
        records,
        _watermarks(bootstrap_server, places),
        {group: _committed(admin, group) for group in (CLASSIC, MODERN, ALIVE, IN_TRANSACTION)},
        groups,
        _settings(admin, list(topics)),
    )


def read(
    bootstrap_server: str, places: list[tuple[str, int]], isolation: str
) -> dict[tuple[str, int], list[Row]]:
    """All that a reader without a group finds in these partitions."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_server,
            "group.id": "nobody",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
        }
    )
    consumer.assign([TopicPartition(*place, OFFSET_BEGINNING) for place in places])
    found: dict[tuple[str, int], list[Row]] = {place: [] for place in places}
    unread = set(places)
    deadline = time.monotonic() + _WAIT_SECONDS
    while unread:
        assert time.monotonic() < deadline, f"the end is not seen of {sorted(unread)}"
        for message in consumer.consume(500, 0.2):
            place = message.topic(), message.partition()
            if message.error() is None:
                headers = tuple((name, value) for name, value in message.headers() or ())
                row = Row(message.offset(), message.key(), message.value(), headers, message.timestamp())
                found[place].append(row)
            else:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                unread.discard(place)
    consumer.close()
    return found


def _watermarks(
    bootstrap_server: str, places: list[tuple[str, int]]
) -> dict[tuple[str, int], tuple[int, int]]:
    consumer = Consumer({"bootstrap.servers": bootstrap_server, "group.id": "nobody"})
    marks = {place: consumer.get_watermark_offsets(TopicPartition(*place), timeout=10) for place in places}
    consumer.close()
    return marks


def _committed(admin: AdminClient, group: str) -> dict[tuple[str, int], int]:
    future = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group]
    found = future.result().topic_partitions or []
    return {(each.topic, each.partition): each.offset for each in found if each.offset >= 0}


def _settings(admin: AdminClient, topics: list[str]) -> dict[str, dict[str, str]]:
    """Only what was set while the cluster ran: for each topic, and for all brokers."""
    broker = str(admin.describe_cluster().result().controller.id)
    wanted = {ConfigResource(ResourceType.TOPIC, name): ConfigSource.DYNAMIC_TOPIC_CONFIG for name in topics}
    wanted[ConfigResource(ResourceType.BROKER, broker)] = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    found = {}
    for resource, source in wanted.items():
        entries = admin.describe_configs([resource])[resource].result()
        found[resource.name] = {
            name: entry.value for name, entry in entries.items() if entry.source == source.value
        }
    return found


def _done(futures: Mapping[Any, Any]) -> None:
    for future in futures.values():
        future.result(_WAIT_SECONDS)
