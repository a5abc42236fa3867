"""aiokafka: the client for asyncio, which speaks the protocol as it was before flexible versions."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import BrokerResponseError, ProducerFenced, for_code

from ottla.core.errors import ErrorCode
from tests.interop.clients.client import WAIT_SECONDS_MAX, Record, Refused

T = TypeVar("T")


class AioKafka:
    version = aiokafka.__version__

    def __init__(self, bootstrap_server: str) -> None:
        self._bootstrap = bootstrap_server

    def close(self) -> None:
        """Nothing stays open: every verb runs a loop of its own."""

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
        async def run() -> None:
            producer = AIOKafkaProducer(
                bootstrap_servers=self._bootstrap,
                compression_type=None if codec == "none" else codec,
                acks=acks if acks == "all" else int(acks),
                enable_idempotence=idempotent or transactional_id is not None,
                transactional_id=transactional_id,
                linger_ms=5,
            )
            async with producer:
                if transactional_id:
                    await producer.begin_transaction()
                await _send_all(producer, topic, records)
                if transactional_id:
                    await (producer.commit_transaction() if commit else producer.abort_transaction())

        _run(run())

    def consume(
        self, topic: str, starts: Mapping[int, int], count: int, *, isolation: str = "read_uncommitted"
    ) -> list[Record]:
        async def run() -> list[Record]:
            async with self._consumer(isolation_level=isolation) as consumer:
                consumer.assign([TopicPartition(topic, partition) for partition in starts])
                for partition, offset in starts.items():
                    consumer.seek(TopicPartition(topic, partition), offset)
                return await self._take(consumer, count)

        return _run(run())

    def group_consume(self, topic: str, group: str, count: int) -> list[Record]:
        async def run() -> list[Record]:
            async with self._consumer(group_id=group) as consumer:
                consumer.subscribe([topic])
                found = await self._take(consumer, count)
                await consumer.commit()
                return found

        return _run(run())

    @asynccontextmanager
    async def _consumer(self, **settings: str) -> AsyncIterator[Any]:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self._bootstrap,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            **settings,
        )
        async with consumer:
            yield consumer

    async def _take(self, consumer: Any, count: int) -> list[Record]:
        found: list[Record] = []
        deadline = asyncio.get_running_loop().time() + WAIT_SECONDS_MAX
        while len(found) < count and asyncio.get_running_loop().time() < deadline:
            for messages in (await consumer.getmany(timeout_ms=500, max_records=count - len(found))).values():
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
        new = NewTopic(topic, partitions, replicas, topic_configs=dict(configs))
        _check(each[1] for each in self._ask(lambda admin: admin.create_topics([new])).topic_errors)

    def delete_topic(self, topic: str) -> None:
        _check(each[1] for each in self._ask(lambda admin: admin.delete_topics([topic])).topic_error_codes)

    def list_topics(self) -> set[str]:
        return set(self._ask(lambda admin: admin.list_topics()))

    def partition_count(self, topic: str) -> int:
        return len(self._ask(lambda admin: admin.describe_topics([topic]))[0]["partitions"])

    def topic_configs(self, topic: str) -> dict[str, str]:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        (answer,) = self._ask(lambda admin: admin.describe_configs([resource]))
        _check(each[0] for each in answer.resources)
        return {entry[0]: entry[1] for entry in answer.resources[0][4]}

    def alter_config(self, topic: str, key: str, value: str) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, {key: value})
        (answer,) = self._ask(lambda admin: admin.alter_configs([resource]))
        _check(each[0] for each in answer.resources)

    def create_partitions(self, topic: str, count: int) -> None:
        self._ask(lambda admin: admin.create_partitions({topic: NewPartitions(count)}))

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        wanted = {TopicPartition(topic, partition): RecordsToDelete(before)}
        self._ask(lambda admin: admin.delete_records(wanted))

    def describe_cluster(self) -> list[str]:
        found = self._ask(lambda admin: admin.describe_cluster())
        return [f"{each['host']}:{each['port']}" for each in found["brokers"]]

    def watermarks(self, topic: str, partition: int) -> tuple[int, int]:
        where = TopicPartition(topic, partition)

        async def run() -> tuple[int, int]:
            async with self._consumer() as consumer:
                start, end = await consumer.beginning_offsets([where]), await consumer.end_offsets([where])
                return start[where], end[where]

        return _run(run())

    def offset_for_time(self, topic: str, partition: int, timestamp: int) -> int | None:
        where = TopicPartition(topic, partition)

        async def run() -> int | None:
            async with self._consumer() as consumer:
                found = (await consumer.offsets_for_times({where: timestamp}))[where]
                return None if found is None else found.offset

        return _run(run())

    def _ask(self, question: Callable[[Any], Awaitable[T]]) -> T:
        async def run() -> T:
            admin = AIOKafkaAdminClient(bootstrap_servers=self._bootstrap)
            await admin.start()
            try:
                return await question(admin)
            finally:
                await admin.close()

        return _run(run())


class TransactionalProducer:
    """Has a loop of its own, which runs while a step is taken. One without a transactional id can but `send`."""

    def __init__(self, bootstrap_server: str, transactional_id: str | None, timeout_ms: int = 60_000) -> None:
        self._loop = asyncio.new_event_loop()

        async def start() -> Any:
            producer = AIOKafkaProducer(
                bootstrap_servers=bootstrap_server,
                enable_idempotence=True,
                transactional_id=transactional_id,
                transaction_timeout_ms=timeout_ms,
            )
            await producer.start()
            return producer

        self._producer = self._run(start())

    def begin(self) -> None:
        self._run(self._producer.begin_transaction())

    def send(self, topic: str, records: Sequence[Record]) -> None:
        self._run(_send_all(self._producer, topic, records))

    def send_offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        wanted = {TopicPartition(topic, partition): offset for partition, offset in offsets.items()}
        self._run(self._producer.send_offsets_to_transaction(wanted, group))

    def commit(self) -> None:
        self._run(self._producer.commit_transaction())

    def abort(self) -> None:
        self._run(self._producer.abort_transaction())

    def close(self) -> None:
        with contextlib.suppress(Exception):  # of a producer that was fenced
            self._run(self._producer.stop())
        self._loop.close()

    def _run(self, work: Any) -> Any:
        return _translated(lambda: self._loop.run_until_complete(work))


async def _send_all(producer: Any, topic: str, records: Iterable[Record]) -> None:
    sent = [
        await producer.send(
            topic,
            each.value,
            each.key,
            each.asked_partition,
            timestamp_ms=each.timestamp,
            headers=list(each.headers),
        )
        for each in records
    ]
    await producer.flush()
    await asyncio.gather(*sent)


def _check(codes: Iterable[int]) -> None:
    for code in codes:
        if code:
            raise Refused(code, for_code(code).__name__)


def _run(work: Any) -> Any:
    return _translated(lambda: asyncio.run(work))


def _translated(call: Callable[[], T]) -> T:
    try:
        return call()
    except BrokerResponseError as error:
        raise Refused(error.errno, str(error)) from error
    except ProducerFenced as error:
        raise Refused(ErrorCode.PRODUCER_FENCED, str(error)) from error


def member_command() -> list[str]:
    """The program that is a member of a group."""
    return [sys.executable, "-m", "tests.interop.clients.member_program", "aiokafka"]
