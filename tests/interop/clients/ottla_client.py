"""Our own client, `ottla.client`, in its face for programs without an event loop."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import ottla
from ottla.client import Admin, Consumer, Producer, TopicPartition
from ottla.client.admin.config_values import ConfigResource
from ottla.client.admin.partitions import OffsetSpec
from ottla.core.errors import KafkaError
from tests.interop.clients.client import WAIT_SECONDS_MAX, Record, Refused

T = TypeVar("T")


class OttlaClient:
    version = ottla.__version__

    def __init__(self, bootstrap_server: str) -> None:
        self._bootstrap = bootstrap_server
        self._admin = Admin(bootstrap_servers=bootstrap_server)

    def close(self) -> None:
        self._admin.close()

    def produce(
        self,
        topic: str,
        records: Sequence[Record],
        *,
        codec: str = "none",
        acks: str = "all",
        idempotent: bool = False,
        transactional_id: str | None = None,
        commit: bool = True,
    ) -> None:
        settings = {"transactional_id": transactional_id} if transactional_id else {}
        with Producer(
            bootstrap_servers=self._bootstrap,
            compression_type=codec,
            acks=acks,
            enable_idempotence=idempotent or transactional_id is not None,
            **settings,
        ) as producer:
            if transactional_id:
                _call(producer.init_transactions)
                _call(producer.begin_transaction)
            _send_all(producer, topic, records)
            if transactional_id:
                _call(producer.commit_transaction if commit else producer.abort_transaction)

    def consume(
        self, topic: str, starts: Mapping[int, int], count: int, *, isolation: str = "read_uncommitted"
    ) -> list[Record]:
        with self._consumer(isolation_level=isolation) as consumer:
            consumer.assign([TopicPartition(topic, partition) for partition in starts])
            for partition, offset in starts.items():
                consumer.seek(TopicPartition(topic, partition), offset)
            return self._take(consumer, count)

    def group_consume(self, topic: str, group: str, count: int) -> list[Record]:
        with self._consumer(group_id=group) as consumer:
            consumer.subscribe([topic])
            found = self._take(consumer, count)
            _call(consumer.commit)
            return found

    @contextmanager
    def _consumer(self, **settings: str) -> Iterator[Consumer]:
        with Consumer(
            bootstrap_servers=self._bootstrap,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            **settings,
        ) as consumer:
            yield consumer

    def _take(self, consumer: Consumer, count: int) -> list[Record]:
        found: list[Record] = []
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while len(found) < count and time.monotonic() < deadline:
            left = count - len(found)
            for messages in _call(lambda left=left: consumer.poll(500, max_records=left)).values():
                found += [
                    Record(each.partition, each.key, each.value, each.headers, each.timestamp, each.offset)
                    for each in messages
                ]
        return found

    def sender(self) -> "TransactionalProducer":
        return TransactionalProducer(bootstrap_servers=self._bootstrap)

    def transactional(self, transactional_id: str, timeout_ms: int = 60_000) -> "TransactionalProducer":
        return TransactionalProducer(
            bootstrap_servers=self._bootstrap,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
        )

    def create_topic(
        self, topic: str, partitions: int, configs: Mapping[str, str], replicas: int = 1
    ) -> None:
        _call(lambda: self._admin.create_topic(topic, partitions, replicas, configs=configs))

    def delete_topic(self, topic: str) -> None:
        _call(lambda: self._admin.delete_topic(topic))

    def list_topics(self) -> set[str]:
        return set(_call(self._admin.list_topics))

    def partition_count(self, topic: str) -> int:
        return len(_call(lambda: self._admin.describe_topic(topic)).partitions)

    def topic_configs(self, topic: str) -> dict[str, str]:
        resource = ConfigResource.topic(topic)
        entries = _call(lambda: self._admin.describe_configs([resource]))[resource]
        return {name: entry.value for name, entry in entries.items() if entry.value is not None}

    def alter_config(self, topic: str, key: str, value: str) -> None:
        _call(lambda: self._admin.incremental_alter_configs({ConfigResource.topic(topic): {key: value}}))

    def create_partitions(self, topic: str, count: int) -> None:
        _call(lambda: self._admin.create_partitions({topic: count}))

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        _call(lambda: self._admin.delete_records({TopicPartition(topic, partition): before}))

    def describe_cluster(self) -> list[str]:
        return [f"{each.host}:{each.port}" for each in _call(self._admin.describe_cluster).brokers]

    def watermarks(self, topic: str, partition: int) -> tuple[int, int]:
        where = TopicPartition(topic, partition)
        with self._consumer() as consumer:
            return (
                _call(lambda: consumer.beginning_offsets([where]))[where],
                _call(lambda: consumer.end_offsets([where]))[where],
            )

    def offset_for_time(self, topic: str, partition: int, timestamp: int) -> int | None:
        where = TopicPartition(topic, partition)
        with self._consumer() as consumer:
            found = _call(lambda: consumer.offsets_for_times({where: timestamp}))[where]
        return None if found is None else found.offset

    def offset_of_newest(self, topic: str, partition: int) -> int:
        where = TopicPartition(topic, partition)
        return _call(lambda: self._admin.list_offsets({where: OffsetSpec.MAX_TIMESTAMP}))[where].offset

    def log_dir_sizes(self, topic: str) -> dict[int, int]:
        brokers = _call(self._admin.describe_log_dirs)
        replicas = [
            each for paths in brokers.values() for path in paths.values() for each in path.replicas.items()
        ]
        return {where.partition: found.size for where, found in replicas if where.topic == topic}

    def active_producers(self, topic: str, partition: int) -> int:
        where = TopicPartition(topic, partition)
        return len(_call(lambda: self._admin.describe_producers([where]))[where])


class TransactionalProducer:
    """Also one without a transactional id, of which nothing but `send` is asked."""

    def __init__(self, **settings: Any) -> None:
        self._producer = Producer(**settings)
        if "transactional_id" in settings:
            try:
                _call(self._producer.init_transactions)
            except Refused:
                self.close()
                raise

    def begin(self) -> None:
        _call(self._producer.begin_transaction)

    def send(self, topic: str, records: Sequence[Record]) -> None:
        _send_all(self._producer, topic, records)

    def send_offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        wanted = {TopicPartition(topic, partition): offset for partition, offset in offsets.items()}
        _call(lambda: self._producer.send_offsets_to_transaction(wanted, group))

    def commit(self) -> None:
        _call(self._producer.commit_transaction)

    def abort(self) -> None:
        _call(self._producer.abort_transaction)

    def close(self) -> None:
        self._producer.close(1)


def _send_all(producer: Producer, topic: str, records: Sequence[Record]) -> None:
    sent = [
        _call(
            lambda each=each: producer.send(
                topic, each.value, each.key, each.headers, each.asked_partition, each.timestamp
            )
        )
        for each in records
    ]
    _call(lambda: producer.flush(WAIT_SECONDS_MAX))
    for delivery in sent:
        _call(lambda delivery=delivery: delivery.get(WAIT_SECONDS_MAX))


def _call(call: Callable[[], T]) -> T:
    try:
        return call()
    except KafkaError as error:
        raise Refused(error.code, str(error)) from error


def member_command() -> list[str]:
    """The program that is a member of a group."""
    return [sys.executable, "-m", "tests.interop.clients.member_program", "ottla"]
