"""confluent-kafka: librdkafka, as most programs outside of Java use it."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import confluent_kafka
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.interop.clients.client import WAIT_SECONDS_MAX, Record, Refused


class ConfluentKafka:
    version = f"{confluent_kafka.__version__}, librdkafka {confluent_kafka.libversion()[0]}"

    def __init__(self, bootstrap_server: str, **settings: str) -> None:
        self._bootstrap = bootstrap_server
        self._common = {"bootstrap.servers": bootstrap_server, "log_level": 2, **settings}
        self._admin = AdminClient(self._common)

    def close(self) -> None:
        self._admin.poll(0)

    def as_of(self, kafka: str) -> "ConfluentKafka":
        """The same client, which does not ask the broker for versions and takes it for this old Kafka."""
        settings = {"api.version.request": "false", "broker.version.fallback": kafka}
        return ConfluentKafka(self._bootstrap, **settings)

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
        settings = {"compression.type": codec, "acks": acks, "enable.idempotence": idempotent}
        settings["message.max.bytes"] = 10_000_000  # the broker is to decide what is too large
        if transactional_id:
            settings |= {"transactional.id": transactional_id, "enable.idempotence": True}
        failures: list[int] = []
        producer = Producer({**self._common, **settings})
        if transactional_id:
            producer.init_transactions(WAIT_SECONDS_MAX)
            producer.begin_transaction()
        for each in records:
            self._send(producer, topic, each, failures)
        left = producer.flush(WAIT_SECONDS_MAX)
        if transactional_id:
            finish = producer.commit_transaction if commit else producer.abort_transaction
            finish(WAIT_SECONDS_MAX)
        if failures:
            raise Refused(failures[0])
        assert left == 0, f"{left} records were not delivered"

    def _send(self, producer: Any, topic: str, record: Record, failures: list[int]) -> None:
        def delivered(error: Any, _message: Any) -> None:
            if error is not None:
                failures.append(error.code())

        when = {} if record.timestamp is None else {"timestamp": record.timestamp}
        while True:
            try:
                producer.produce(
                    topic,
                    record.value,
                    record.key,
                    record.partition,
                    on_delivery=delivered,
                    headers=list(record.headers),
                    **when,
                )
            except BufferError:
                producer.poll(0.1)
            except KafkaException as error:
                raise Refused(error.args[0].code(), error.args[0].str()) from error
            else:
                producer.poll(0)
                return

    def consume(
        self, topic: str, starts: Mapping[int, int], count: int, *, isolation: str = "read_uncommitted"
    ) -> list[Record]:
        with self._consumer(**{"isolation.level": isolation}) as consumer:
            consumer.assign(
                [TopicPartition(topic, partition, offset) for partition, offset in starts.items()]
            )
            return self._take(consumer, count)

    def group_consume(self, topic: str, group: str, count: int) -> list[Record]:
        with self._consumer(**{"group.id": group}) as consumer:
            consumer.subscribe([topic])
            found = self._take(consumer, count)
            consumer.commit(asynchronous=False)
            return found

    @contextmanager
    def _consumer(self, **settings: str) -> Iterator[Any]:
        common = {"group.id": "none", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        consumer = Consumer({**self._common, **common, **settings})
        try:
            yield consumer
        finally:
            consumer.close()

    def _take(self, consumer: Any, count: int) -> list[Record]:
        found: list[Record] = []
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while len(found) < count and time.monotonic() < deadline:
            for message in consumer.consume(count - len(found), timeout=0.2):
                if message.error() is not None:
                    raise Refused(message.error().code())
                found.append(
                    Record(
                        message.partition(),
                        message.key(),
                        message.value(),
                        tuple(message.headers() or ()),
                        message.timestamp()[1],
                        message.offset(),
                    )
                )
        return found

    def sender(self) -> "TransactionalProducer":
        return TransactionalProducer({**self._common, "enable.idempotence": True})

    def transactional(self, transactional_id: str, timeout_ms: int = 60_000) -> "TransactionalProducer":
        settings = {"transactional.id": transactional_id, "transaction.timeout.ms": timeout_ms}
        return TransactionalProducer({**self._common, **settings})

    def committed(self, group: str, topic: str, partition: int) -> int | None:
        """What a group has committed; not what a transaction has not committed yet."""
        with self._consumer(**{"group.id": group, "isolation.level": "read_uncommitted"}) as consumer:
            asked = [TopicPartition(topic, partition)]
            (found,) = _call(lambda: consumer.committed(asked, timeout=WAIT_SECONDS_MAX))
        return found.offset if found.offset >= 0 else None

    def create_topic(
        self, topic: str, partitions: int, configs: Mapping[str, str], replicas: int = 1
    ) -> None:
        _result(
            self._admin.create_topics([NewTopic(topic, partitions, replicas, config=dict(configs))])[topic]
        )

    def delete_topic(self, topic: str) -> None:
        _result(self._admin.delete_topics([topic])[topic])

    def list_topics(self) -> set[str]:
        return set(self._admin.list_topics(timeout=WAIT_SECONDS_MAX).topics)

    def partition_count(self, topic: str) -> int:
        found = self._admin.list_topics(topic, timeout=WAIT_SECONDS_MAX).topics[topic]
        return sum(partition.leader >= 0 for partition in found.partitions.values())

    def is_led(self, topic: str, partitions: int) -> bool:
        """Does somebody answer for all partitions? Metadata may name a leader a moment earlier."""
        asked = {TopicPartition(topic, number): OffsetSpec.latest() for number in range(partitions)}
        try:
            for future in self._admin.list_offsets(asked).values():
                _result(future)
        except Refused:
            return False
        return True

    def topic_configs(self, topic: str) -> dict[str, str]:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        entries = _result(self._admin.describe_configs([resource])[resource])
        return {name: entry.value for name, entry in entries.items()}

    def alter_config(self, topic: str, key: str, value: str) -> None:
        entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        _result(self._admin.incremental_alter_configs([resource])[resource])

    def create_partitions(self, topic: str, count: int) -> None:
        _result(self._admin.create_partitions([NewPartitions(topic, count)])[topic])

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        where = TopicPartition(topic, partition, before)
        _result(next(iter(self._admin.delete_records([where]).values())))

    def describe_cluster(self) -> list[str]:
        return [f"{node.host}:{node.port}" for node in _result(self._admin.describe_cluster()).nodes]

    def watermarks(self, topic: str, partition: int) -> tuple[int, int]:
        with self._consumer() as consumer:
            where = TopicPartition(topic, partition)
            return _call(lambda: consumer.get_watermark_offsets(where, timeout=WAIT_SECONDS_MAX))

    def offset_for_time(self, topic: str, partition: int, timestamp: int) -> int | None:
        with self._consumer() as consumer:
            asked = [TopicPartition(topic, partition, timestamp)]
            (found,) = consumer.offsets_for_times(asked, timeout=WAIT_SECONDS_MAX)
        return found.offset if found.offset >= 0 else None

    def offset_of_newest(self, topic: str, partition: int) -> int:
        asked = {TopicPartition(topic, partition): OffsetSpec.max_timestamp()}
        return _result(next(iter(self._admin.list_offsets(asked).values()))).offset

    def group_type(self, group: str) -> str | None:
        """CLASSIC or CONSUMER."""
        found = _result(self._admin.list_consumer_groups(request_timeout=WAIT_SECONDS_MAX)).valid
        return next((each.type.name for each in found if each.group_id == group), None)


class TransactionalProducer:
    """Also one without a transactional id, of which nothing but `send` is asked."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings
        self._failures: list[Any] = []
        self._producer = Producer(settings)
        if "transactional.id" in settings:
            _call(lambda: self._producer.init_transactions(WAIT_SECONDS_MAX))

    def begin(self) -> None:
        _call(self._producer.begin_transaction)

    def send(self, topic: str, records: Sequence[Record]) -> None:
        for each in records:
            _call(
                lambda each=each: self._producer.produce(
                    topic, each.value, each.key, each.partition, on_delivery=self._delivered
                )
            )
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while len(self._producer) and time.monotonic() < deadline:
            _call(lambda: self._producer.poll(0.1))
        if self._failures:
            raise Refused(self._failures[0].code(), str(self._failures[0]))

    def _delivered(self, error: Any, _message: Any) -> None:
        if error is not None:
            self._failures.append(error)

    def send_offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        places = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
        consumer = Consumer({"bootstrap.servers": self._settings["bootstrap.servers"], "group.id": group})
        try:
            metadata = consumer.consumer_group_metadata()
            _call(lambda: self._producer.send_offsets_to_transaction(places, metadata, WAIT_SECONDS_MAX))
        finally:
            consumer.close()

    def commit(self) -> None:
        _call(lambda: self._producer.commit_transaction(WAIT_SECONDS_MAX))

    def abort(self) -> None:
        _call(lambda: self._producer.abort_transaction(WAIT_SECONDS_MAX))

    def close(self) -> None:
        with suppress(KafkaException, SystemError):  # of a producer that was fenced
            self._producer.close(1)


def _result(future: Any) -> Any:
    return _call(lambda: future.result(WAIT_SECONDS_MAX))


def _call(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except KafkaException as error:
        raise Refused(error.args[0].code(), error.args[0].str()) from error


def member_command() -> list[str]:
    """The program that is a member of a group."""
    return [sys.executable, "-m", "tests.interop.clients.member_program", "confluent-kafka"]
