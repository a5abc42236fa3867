"""Put a record that fails into another topic and go on; read that topic later, and try again.

    plan = RetryPlan("orders", delays_ms=[1_000, 60_000])        # orders.retry.1, orders.retry.2, then orders.dlq
    consumer.subscribe(plan.topics)
    RetryTopics(consumer, producer, handle, plan).run()

A record that fails is written to the next topic of its plan as it is, with headers that say why
(`ottla.client.helpers.failures`), and its offset is committed behind it. One consumer may read all topics of the plan,
or one group the first and another the rest. The handler sees the record as it was when it was read first, wherever it
lies now. A record of a retry topic that is not due makes its partition pause at it; nothing sleeps, so polls,
heartbeats and other partitions go on.

What holds: the copy is acknowledged before the offset is committed, so no crash loses a record; one between the two
copies it twice. With a transactional producer both happen in one transaction, and readers with `read_committed` see one
copy. The handler's own effects happen at least once either way.

What does not: order. A record that was put aside is handled after others that came later, also of the same key. Within
a retry topic the order of failing is kept, and a record waits behind those before it.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ottla.client.errors import DeserializationError
from ottla.client.helpers.attempts import Handler, IsWorthwhile, always
from ottla.client.helpers.dead_letters import DEAD_LETTER_TOPIC, now_ms
from ottla.client.helpers.faces import (
    AnyConsumer,
    AnyProducer,
    Batches,
    acknowledged,
    drive,
    go_back,
    settled,
)
from ottla.client.helpers.failures import Failure
from ottla.client.helpers.polling import Polling, commit_done, must_commit_by_hand
from ottla.client.records import ConsumerRecord
from ottla.core.errors import ConfigError, KafkaError
from ottla.core.ids import TopicPartition

logger = logging.getLogger(__name__)

_MS = 1000


class Next(NamedTuple):
    """Where a record goes when it fails. Without a delay it stays there."""

    topic: str
    delay_ms: float | None


class RetryPlan:
    """Which topic follows on which, after which delay."""

    def __init__(
        self,
        topics: str | Sequence[str],
        delays_ms: Sequence[float] = (),
        retry_topic: str = "{topic}.retry.{number}",
        dead_letter_topic: str = DEAD_LETTER_TOPIC,
    ) -> None:
        """A delay for each retry topic; without any, what fails goes to the dead letters at once."""
        self._next: dict[str, Next] = {}
        self._delays_ms: dict[str, float] = {}
        self._dead: dict[str, Next] = {}
        for topic in [topics] if isinstance(topics, str) else topics:
            retries = [retry_topic.format(topic=topic, number=number + 1) for number in range(len(delays_ms))]
            dead = Next(dead_letter_topic.format(topic=topic), None)
            steps = [*map(Next, retries, delays_ms), dead]
            names = [topic, *retries]
            if len({*names, dead.topic, *self._next}) != len(names) + 1 + len(self._next):
                raise ConfigError(
                    f"the retry topics of {topic} must differ from each other, and from its dead letters"
                )
            self._next |= dict(zip(names, steps, strict=True))
            self._dead |= dict.fromkeys(names, dead)
            self._delays_ms |= dict(zip(retries, delays_ms, strict=True))

    @property
    def topics(self) -> list[str]:
        """All that are to be read: the topics themselves, and where they are tried again."""
        return list(self._next)

    @property
    def dead_letter_topics(self) -> list[str]:
        return sorted({each.topic for each in self._dead.values()})

    def after(self, topic: str, *, is_worthwhile: bool) -> Next:
        """Where a record of this topic goes that has failed."""
        table = self._next if is_worthwhile else self._dead
        if topic not in table:
            raise ConfigError(f"{topic} is not in the plan: only {', '.join(self._next)} are read with it")
        return table[topic]

    def wait_ms(self, record: ConsumerRecord, now: int) -> float:
        """How long until the record may be tried. Never longer than its topic's delay, whatever its clocks and headers
        say."""
        delay_ms = self._delays_ms.get(record.topic)
        if delay_ms is None:
            return 0
        due_ms = Failure.of(record).due_ms
        return min(due_ms - now if due_ms >= 0 else record.timestamp + delay_ms - now, delay_ms)


class AsyncRetryTopics:
    """For an AsyncConsumer and an AsyncProducer; `handler` may be a coroutine function."""

    def __init__(
        self,
        consumer: AnyConsumer,
        producer: AnyProducer,
        handler: Handler,
        plan: RetryPlan,
        is_worthwhile: IsWorthwhile = always,
    ) -> None:
        """`is_worthwhile` says whether to try again after an error; if not, the record goes to the dead letters."""
        must_commit_by_hand(consumer)
        self._consumer, self._producer, self._handler = consumer, producer, handler
        self._plan, self._is_worthwhile = plan, is_worthwhile
        self._due: dict[TopicPartition, float] = {}
        """Paused partitions, and when to resume them, on the monotonic clock."""
        self._failed: list[tuple[ConsumerRecord, Exception]] = []
        self._polling = Polling(self.step)

    async def run(self, count: int | None = None) -> int:
        """Work until `stop` is called, or so many records are handled or put aside. Returns how many were."""
        return await self._polling.run(count)

    def stop(self) -> None:
        """`run` returns after the poll that it is in. From anywhere, also from the handler."""
        self._polling.stop()

    async def step(self, timeout_ms: float = 500, max_records: int | None = None) -> int:
        """Poll once, handle what came, put aside what fails, and commit. Returns how many records that were.

        Raises if a record cannot be put aside or the commit fails; then all of this step is read again.
        """
        await self._resume()
        if self._due:
            timeout_ms = max(0.0, min(timeout_ms, (min(self._due.values()) - time.monotonic()) * _MS))
        first: dict[TopicPartition, int] = {}
        done: dict[TopicPartition, int] = {}
        self._failed.clear()
        try:
            batches = await self._poll(timeout_ms, max_records, first, done)
            first |= {partition: records[0].offset for partition, records in batches.items()}
            count = len(done)  # a record that could not be read
            for partition, records in batches.items():
                count += await self._work(partition, records, done)
            await self._settle(done)
        except BaseException:
            await go_back(self._consumer, first)
            raise
        return count

    async def _resume(self) -> None:
        now = time.monotonic()
        due = [partition for partition, moment in self._due.items() if moment <= now]
        held = await settled(self._consumer.assignment())
        for partition in due:
            del self._due[partition]
            if partition in held:
                await settled(self._consumer.resume(partition))

    async def _poll(
        self,
        timeout_ms: float,
        max_records: int | None,
        first: dict[TopicPartition, int],
        done: dict[TopicPartition, int],
    ) -> Batches:
        try:
            batches: Batches = await settled(
                self._consumer.poll(timeout_ms=timeout_ms, max_records=max_records)
            )
        except DeserializationError as error:
            if error.partition is None:
                raise
            first[error.partition], done[error.partition] = error.offset, error.offset + 1
            self._failed.append((error.record, error))
            await settled(self._consumer.seek(error.partition, error.offset + 1))
            return {}
        return batches

    async def _work(
        self, partition: TopicPartition, records: Sequence[ConsumerRecord], done: dict[TopicPartition, int]
    ) -> int:
        for count, record in enumerate(records):
            wait_ms = self._plan.wait_ms(record, now_ms())
            if wait_ms > 0:
                await settled(self._consumer.seek(partition, record.offset))
                await settled(self._consumer.pause(partition))
                self._due[partition] = time.monotonic() + wait_ms / _MS
                return count
            try:
                await settled(self._handler(Failure.of(record).original(record)))
            except Exception as error:
                self._failed.append((record, error))
            done[partition] = record.offset + 1
        return len(records)

    # --- the end of a step ------------------------------------------------------------------------------------------

    async def _settle(self, done: Mapping[TopicPartition, int]) -> None:
        """Write what failed, then commit; or both at once."""
        if not self._failed or self._producer.transactional_id is None:
            await self._put_aside()
            await commit_done(self._consumer, done)
            return
        await settled(self._producer.begin_transaction())
        try:
            await self._put_aside()
            group = await settled(self._consumer.group_metadata())
            await settled(self._producer.send_offsets_to_transaction(done, group))
            await settled(self._producer.commit_transaction())
        except BaseException:
            await self._abort()
            raise

    async def _abort(self) -> None:
        """Who is told of an error already is not told of another one."""
        try:
            await settled(self._producer.abort_transaction())
        except KafkaError as error:
            logger.warning("the transaction could not be aborted: %s", error)

    async def _put_aside(self) -> None:
        deliveries = [await self._send(record, error) for record, error in self._failed]
        for delivery in deliveries:
            await acknowledged(self._producer, delivery)

    async def _send(self, record: ConsumerRecord, error: Exception) -> Any:
        is_worthwhile = not isinstance(error, DeserializationError) and self._is_worthwhile(error)
        topic, delay_ms = self._plan.after(record.topic, is_worthwhile=is_worthwhile)
        failure = Failure.of(record).again(error, 1, now_ms(), delay_ms)
        return await settled(
            self._producer.send(topic, value=record.value, key=record.key, headers=failure.headers(record))
        )


class RetryTopics:
    """For a Consumer and a Producer."""

    def __init__(
        self,
        consumer: AnyConsumer,
        producer: AnyProducer,
        handler: Handler,
        plan: RetryPlan,
        is_worthwhile: IsWorthwhile = always,
    ) -> None:
        """`is_worthwhile` says whether to try again after an error; if not, the record goes to the dead letters."""
        self._inner = AsyncRetryTopics(consumer, producer, handler, plan, is_worthwhile)

    def run(self, count: int | None = None) -> int:
        """Work until `stop` is called, or so many records are handled or put aside. Returns how many were."""
        return drive(self._inner.run(count))

    def stop(self) -> None:
        """`run` returns after the poll that it is in. From any thread, also from the handler."""
        self._inner.stop()

    def step(self, timeout_ms: float = 500, max_records: int | None = None) -> int:
        """Poll once, handle what came, put aside what fails, and commit. Returns how many records that were.

        Raises if a record cannot be put aside or the commit fails; then all of this step is read again.
        """
        return drive(self._inner.step(timeout_ms, max_records))
