"""kafka-python: the oldest client in pure Python."""

import gc
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import kafka
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, OffsetSpec
from kafka.errors import BrokerResponseError

from tests.interop.clients.client import WAIT_SECONDS_MAX, Record, Refused

_WAIT_MS = int(WAIT_SECONDS_MAX * 1000)


def _forget_refused_sockets() -> None:
    """kafka-python does not close a socket whose connection was refused. Found later, in the midst of somebody else's
    test, it would be that test's failure."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


class KafkaPython:
    version = kafka.__version__

    def __init__(self, bootstrap_server: str) -> None:
        self._bootstrap = bootstrap_server
        self._admin = KafkaAdminClient(bootstrap_servers=bootstrap_server)

    def close(self) -> None:
        self._admin.close()
        _forget_refused_sockets()

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
        producer = KafkaProducer(
            bootstrap_servers=self._bootstrap,
            compression_type=None if codec == "none" else codec,
            acks=acks if acks == "all" else int(acks),
            enable_idempotence=idempotent or transactional_id is not None,
            transactional_id=transactional_id,
            linger_ms=5,
        )
        try:
            if transactional_id:
                producer.init_transactions()
                producer.begin_transaction()
            sent = [self._send(producer, topic, each) for each in records]
            producer.flush(WAIT_SECONDS_MAX)
            for future in sent:
                _call(lambda future=future: future.get(WAIT_SECONDS_MAX))
            if transactional_id:
                (producer.commit_transaction if commit else producer.abort_transaction)()
        finally:
            producer.close()

    def _send(self, producer: Any, topic: str, record: Record) -> Any:
        return producer.send(
            topic,
            value=record.value,
            key=record.key,
            headers=list(record.headers),
            partition=record.asked_partition,
            timestamp_ms=record.timestamp,
        )

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
            consumer.commit()
            return found

    @contextmanager
    def _consumer(self, **settings: str) -> Iterator[Any]:
        consumer = KafkaConsumer(
            bootstrap_servers=self._bootstrap,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            **{"group_id": None, **settings},
        )
        try:
            yield consumer
        finally:
            consumer.close()

    def _take(self, consumer: Any, count: int) -> list[Record]:
        found: list[Record] = []
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while len(found) < count and time.monotonic() < deadline:
            for messages in consumer.poll(500, max_records=count - len(found)).values():
                found += [
                    Record(
                        each.partition, each.key, each.value, tuple(each.headers), each.timestamp, each.offset
                    )
                    for each in messages
                ]
        return found

    def sender(self) -> "TransactionalProducer":
        return TransactionalProducer(self._bootstrap, None)

    def transactional(self, transactional_id: str, timeout_ms: int = 60_000) -> "TransactionalProducer":
        return TransactionalProducer(self._bootstrap, transactional_id, timeout_ms)

    def create_topic(
        self, topic: str, partitions: int, configs: Mapping[str, str], replicas: int = 1
    ) -> None:
        wanted = {"num_partitions": partitions, "replication_factor": replicas, "configs": dict(configs)}
        _call(lambda: self._admin.create_topics({topic: wanted}))

    def delete_topic(self, topic: str) -> None:
        _call(lambda: self._admin.delete_topics([topic]))

    def list_topics(self) -> set[str]:
        return set(self._admin.list_topics())

    def partition_count(self, topic: str) -> int:
        return len(self._admin.describe_topics([topic])[0]["partitions"])

    def topic_configs(self, topic: str) -> dict[str, str]:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        found = self._admin.describe_configs([resource], config_filter="all")
        (entries,) = found if isinstance(found, list) else [found["topic"][topic]]
        return {name: entry["value"] for name, entry in entries.items()}

    def alter_config(self, topic: str, key: str, value: str) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, {key: value})
        _call(lambda: self._admin.alter_configs([resource], raise_on_unknown=False))

    def create_partitions(self, topic: str, count: int) -> None:
        _call(lambda: self._admin.create_partitions({topic: count}))

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        _call(lambda: self._admin.delete_records({TopicPartition(topic, partition): before}))

    def describe_cluster(self) -> list[str]:
        return [f"{each['host']}:{each['port']}" for each in self._admin.describe_cluster()["brokers"]]

    def watermarks(self, topic: str, partition: int) -> tuple[int, int]:
        where = TopicPartition(topic, partition)
        with self._consumer() as consumer:
            return consumer.beginning_offsets([where])[where], consumer.end_offsets([where])[where]

    def offset_for_time(self, topic: str, partition: int, timestamp: int) -> int | None:
        where = TopicPartition(topic, partition)
        with self._consumer() as consumer:
            found = consumer.offsets_for_times({where: timestamp})[where]
        return None if found is None else found.offset

    def offset_of_newest(self, topic: str, partition: int) -> int:
        where = TopicPartition(topic, partition)
        return self._admin.list_partition_offsets({where: OffsetSpec.MAX_TIMESTAMP})[where].offset

    def log_dir_sizes(self, topic: str) -> dict[int, int]:
        (answer,) = self._admin.describe_log_dirs([topic])
        topics = [each for directory in answer["log_dirs"] for each in directory["topics"]]
        return {
            each["partition_index"]: each["partition_size"]
            for found in topics
            if found["name"] == topic
            for each in found["partitions"]
        }

    def active_producers(self, topic: str, partition: int) -> int:
        where = TopicPartition(topic, partition)
        return len(self._admin.describe_producers([where])[where].active_producers)


class TransactionalProducer:
    """Also one without a transactional id, of which nothing but `send` is asked."""

    def __init__(self, bootstrap_server: str, transactional_id: str | None, timeout_ms: int = 60_000) -> None:
        self._producer = KafkaProducer(
            bootstrap_servers=bootstrap_server,
            enable_idempotence=True,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
        )
        if transactional_id is not None:
            _call(self._producer.init_transactions)

    def begin(self) -> None:
        _call(self._producer.begin_transaction)

    def send(self, topic: str, records: Sequence[Record]) -> None:
        sent = [
            _call(
                lambda each=each: self._producer.send(
                    topic, value=each.value, key=each.key, partition=each.partition
                )
            )
            for each in records
        ]
        _call(lambda: self._producer.flush(WAIT_SECONDS_MAX))
        for future in sent:
            _call(lambda future=future: future.get(WAIT_SECONDS_MAX))

    def send_offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        wanted = {
            TopicPartition(topic, partition): OffsetAndMetadata(offset, "", -1)
            for partition, offset in offsets.items()
        }
        _call(lambda: self._producer.send_offsets_to_transaction(wanted, group))

    def commit(self) -> None:
        _call(self._producer.commit_transaction)

    def abort(self) -> None:
        _call(self._producer.abort_transaction)

    def close(self) -> None:
        self._producer.close(1)


def _call(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except BrokerResponseError as error:
        raise Refused(error.errno, str(error)) from error


def member_command() -> list[str]:
    """The program that is a member of a group."""
    return [sys.executable, "-m", "tests.interop.clients.member_program", "kafka-python"]
