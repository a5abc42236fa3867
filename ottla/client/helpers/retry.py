"""Try a record again where it lies: its partition pauses, everything else goes on.

    consumer = Consumer("orders", group_id="billing", enable_auto_commit=False, ...)
    RetryInPlace(consumer, handle, Attempts(count=5), on_exhausted=DeadLetters(producer)).run()

A record that fails is kept, with those of the same poll behind it, and its partition is paused. Polling goes on: the
group sees a member that is alive, other partitions are read. When its pause is over the record is tried again. After
the last attempt it goes to `on_exhausted`, and the partition is resumed.

What holds: a record is committed when it was handled or `on_exhausted` has returned, never before: at least once.
Records of one partition are handled strictly in order, so a record that fails holds up all behind it, for as long as
its attempts take; where that is too much, see `ottla.client.helpers.retry_topics`. A crash, and a partition that moves
to another member, start its attempts anew.
"""

import time
from collections import deque
from dataclasses import dataclass

from ottla.client.errors import DeserializationError
from ottla.client.helpers.attempts import Attempts, Handler, OnExhausted, fail
from ottla.client.helpers.faces import AnyConsumer, Batches, drive, go_back, settled
from ottla.client.helpers.polling import Polling, commit_done, must_commit_by_hand
from ottla.client.records import ConsumerRecord
from ottla.core.ids import TopicPartition

_MS = 1000


@dataclass(slots=True)
class _Queue:
    """Records of one partition that are not done; of the first, how often it was tried."""

    records: deque[ConsumerRecord]
    attempt: int = 1
    due: float = 0.0
    """When to try the first one again, on the monotonic clock."""


class AsyncRetryInPlace:
    """For an AsyncConsumer; `handler` and `on_exhausted` may be coroutine functions."""

    def __init__(
        self,
        consumer: AnyConsumer,
        handler: Handler,
        attempts: Attempts | None = None,
        on_exhausted: OnExhausted = fail,
    ) -> None:
        must_commit_by_hand(consumer)
        self._consumer, self._handler, self._on_exhausted = consumer, handler, on_exhausted
        self._attempts = attempts or Attempts()
        self._waiting: dict[TopicPartition, _Queue] = {}
        self._done: dict[TopicPartition, int] = {}
        """Where to go on from, of partitions whose commit is due."""
        self._polling = Polling(self.step)

    # --- the loop -------------------------------------------------------------------------------------------------

    async def run(self, count: int | None = None) -> int:
        """Work until `stop` is called, or so many records are done. Returns how many were."""
        return await self._polling.run(count)

    def stop(self) -> None:
        """`run` returns after the poll that it is in. From anywhere, also from the handler."""
        self._polling.stop()

    @property
    def waiting(self) -> frozenset[TopicPartition]:
        """Partitions that pause because a record of theirs is to be tried again."""
        return frozenset(self._waiting)

    async def step(self, timeout_ms: float = 500, max_records: int | None = None) -> int:
        """Poll once, work on what came and on what is due, and commit what is done. Returns how many records that were.

        Raises what `on_exhausted` raises. Then nothing is lost: what was done is committed, and the next step begins
        with the record that failed.
        """
        batches = await self._poll(timeout_ms, max_records)
        await self._forget_moved()
        work = {partition: _Queue(deque(records)) for partition, records in batches.items()}
        now = time.monotonic()
        work |= {partition: queue for partition, queue in self._waiting.items() if queue.due <= now}
        count = len(self._done)  # a record that could not be read
        try:
            for partition, queue in work.items():
                count += await self._work(partition, queue)
        except BaseException as error:
            await self._go_back(work)
            if isinstance(error, Exception):
                await self._commit()
            raise
        await self._commit()
        return count

    async def _poll(self, timeout_ms: float, max_records: int | None) -> Batches:
        """What came, until the first of those that wait is due."""
        if self._waiting:
            first = min(queue.due for queue in self._waiting.values())
            timeout_ms = max(0.0, min(timeout_ms, (first - time.monotonic()) * _MS))
        try:
            batches: Batches = await settled(
                self._consumer.poll(timeout_ms=timeout_ms, max_records=max_records)
            )
        except DeserializationError as error:
            if error.partition is None:
                raise
            # To read it again would bring the same bytes.
            await settled(self._on_exhausted(error.record, error, 1))
            await settled(self._consumer.seek(error.partition, error.offset + 1))
            self._done[error.partition] = error.offset + 1
            return {}
        return batches

    async def _forget_moved(self) -> None:
        """A partition that we paused and that is not paused has been away: its records are read again, or elsewhere."""
        paused = await settled(self._consumer.paused())
        for partition in self._waiting.keys() - paused:
            del self._waiting[partition]

    # --- one partition ----------------------------------------------------------------------------------------------

    async def _work(self, partition: TopicPartition, queue: _Queue) -> int:
        """Handle records in order, up to the end or one that must wait. Returns how many are done."""
        count = 0
        while queue.records:
            record = queue.records[0]
            try:
                await settled(self._handler(record))
            except Exception as error:
                pause_ms = self._attempts.pause_ms(queue.attempt, error)
                if pause_ms is not None:
                    await self._wait(partition, queue, pause_ms)
                    return count
                await settled(self._on_exhausted(record, error, queue.attempt))
            queue.records.popleft()
            queue.attempt = 1
            self._done[partition] = record.offset + 1
            count += 1
        if self._waiting.pop(partition, None) is not None:
            await settled(self._consumer.resume(partition))
        return count

    async def _wait(self, partition: TopicPartition, queue: _Queue, pause_ms: float) -> None:
        queue.attempt += 1
        queue.due = time.monotonic() + pause_ms / _MS
        if partition not in self._waiting:
            self._waiting[partition] = queue
            await settled(self._consumer.pause(partition))

    # --- offsets ----------------------------------------------------------------------------------------------------

    async def _go_back(self, work: dict[TopicPartition, _Queue]) -> None:
        """What was not done will be read again, without what is known of its attempts."""
        for partition in work:
            self._waiting.pop(partition, None)
        first = {partition: queue.records[0].offset for partition, queue in work.items() if queue.records}
        await go_back(self._consumer, first)

    async def _commit(self) -> None:
        done, self._done = self._done, {}
        await commit_done(self._consumer, done)


class RetryInPlace:
    """For a Consumer."""

    def __init__(
        self,
        consumer: AnyConsumer,
        handler: Handler,
        attempts: Attempts | None = None,
        on_exhausted: OnExhausted = fail,
    ) -> None:
        self._inner = AsyncRetryInPlace(consumer, handler, attempts, on_exhausted)

    def run(self, count: int | None = None) -> int:
        """Work until `stop` is called, or so many records are done. Returns how many were."""
        return drive(self._inner.run(count))

    def stop(self) -> None:
        """`run` returns after the poll that it is in. From any thread, also from the handler."""
        self._inner.stop()

    @property
    def waiting(self) -> frozenset[TopicPartition]:
        """Partitions that pause because a record of theirs is to be tried again."""
        return self._inner.waiting

    def step(self, timeout_ms: float = 500, max_records: int | None = None) -> int:
        """Poll once, work on what came and on what is due, and commit what is done. Returns how many records that were.

        Raises what `on_exhausted` raises; the next step begins with the record that failed.
        """
        return drive(self._inner.step(timeout_ms, max_records))
