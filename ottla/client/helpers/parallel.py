"""Many records at a time: those of one key in order, those of different keys in parallel.

    consumer = Consumer(group_id="billing", enable_auto_commit=False, ...)
    work = Parallel(consumer, handle, workers=16)
    work.subscribe(["orders"])
    work.run()

One task (or thread) polls and commits, `workers` others call the handler. A consumer is not for many threads; here only
one ever touches it.

What holds: records of one key and partition are handled strictly one after the other. An offset is committed when every
record below it is done, so no crash loses a record; those done beyond the first unfinished one are done again, so it is
at least once. Of a partition those are at most `in_flight_max`. When partitions move away, what is being worked on is
finished (for up to `finish_ms`) and committed before they go; what waits is left to the next owner.

What does not: order among different keys, and order of a key whose handler hangs while its partition moves: a thread
cannot be stopped, and the next owner does not wait for it longer than `finish_ms`.
"""

import time
from collections.abc import Callable, Collection
from typing import Any

from ottla.client.errors import DeserializationError, IllegalStateError
from ottla.client.helpers.attempts import ONCE, Attempts, Handler, OnExhausted, fail
from ottla.client.helpers.backlog import Backlog, KeyOf
from ottla.client.helpers.crews import Crew, TaskCrew, ThreadCrew
from ottla.client.helpers.faces import AnyConsumer, drive, go_back, listener_for, settled
from ottla.client.helpers.polling import POLL_MS, commit_done, must_commit_by_hand
from ottla.client.listener import RebalanceListener
from ottla.client.records import ConsumerRecord
from ottla.core.errors import ConfigError
from ottla.core.ids import TopicPartition

_MS = 1000
_BLOCKED_POLL_MS = 50  # while partitions wait for room that may come at any moment

Partitions = Collection[TopicPartition]


def by_key(record: ConsumerRecord) -> Any:
    """Records of one key in order; those without a key in none."""
    return record.key


def by_partition(record: ConsumerRecord) -> int:
    """All records of a partition in order: as many at a time as there are partitions."""
    return record.partition


class AsyncParallel:
    """For an AsyncConsumer: the workers are tasks. `handler` and `on_exhausted` may be coroutine functions."""

    def __init__(
        self,
        consumer: AnyConsumer,
        handler: Handler,
        *,
        workers: int = 8,
        in_flight_max: int = 1000,
        key_of: KeyOf = by_key,
        attempts: Attempts = ONCE,
        on_exhausted: OnExhausted = fail,
        commit_interval_ms: float = 1000,
        finish_ms: float = 30_000,
        crew: Callable[..., Crew] = TaskCrew,
    ) -> None:
        """A record that fails is tried again by its worker, its key waits; in the end it goes to `on_exhausted`, and if
        that raises, `run` ends with it. `finish_ms` 0 abandons what is being worked on when partitions move away."""
        must_commit_by_hand(consumer)
        if workers < 1 or in_flight_max < 1:
            raise ConfigError(f"there must be workers ({workers}) and room for records ({in_flight_max})")
        self._consumer, self._in_flight_max = consumer, in_flight_max
        self._commit_interval, self._finish_ms = commit_interval_ms / _MS, finish_ms
        self._backlog = Backlog(key_of)
        self._make_crew: Callable[[], Crew] = lambda: crew(
            self._backlog, workers, handler, attempts, on_exhausted
        )
        self._on_exhausted = on_exhausted
        self._crew: Crew | None = None
        self._paused: set[TopicPartition] = set()
        self._next_commit = 0.0
        self._is_stopped = self._has_subscribed = False

    # --- what applications call -------------------------------------------------------------------------------------

    async def subscribe(
        self, topics: Any = (), pattern: Any = None, listener: RebalanceListener | None = None
    ) -> None:
        """As the consumer's: through here, because this must hear of partitions that move."""
        self._has_subscribed = True
        await settled(
            self._consumer.subscribe(topics, pattern, listener_for(self._consumer, _Watch(self, listener)))
        )

    async def run(self, count: int | None = None) -> int:
        """Work until `stop` is called, or so many records are done. Returns how many were.

        In the end what is being worked on is finished, for up to `finish_ms`, and committed. What else was read is
        forgotten: the next `run`, or the next owner, reads it again. Raises what `on_exhausted` raised.
        """
        if await settled(self._consumer.subscription()) and not self._has_subscribed:
            raise IllegalStateError(
                "subscribe with the method of this object: it must hear of partitions that move"
            )
        if self._crew is not None:
            raise IllegalStateError("it runs already")
        before, read = self._backlog.done_count, 0
        self._crew = self._make_crew()
        try:
            while not self._is_ending and (count is None or read < count):
                read += await self._read(None if count is None else count - read)
                self._crew.call()
                await self._commit_if_due()
            await self._finish()
            error = self._crew.error
        finally:
            await self._crew.close()
            await self._leave()
        if error is not None:
            raise error
        return self._backlog.done_count - before

    def stop(self) -> None:
        """`run` finishes what is being worked on, and returns. From anywhere, also from the handler."""
        self._is_stopped = True

    @property
    def _is_ending(self) -> bool:
        assert self._crew is not None, "only while it runs"
        return self._is_stopped or self._crew.error is not None

    # --- reading ----------------------------------------------------------------------------------------------------

    async def _read(self, count_max: int | None) -> int:
        """Poll once, for as much as there is room for. Returns how many records came."""
        assert self._crew is not None, "only while it runs"
        room = self._in_flight_max - self._backlog.unfinished_count
        held = await settled(self._consumer.assignment())
        full = {each for each in held if room <= 0 or self._backlog.kept_count(each) >= self._in_flight_max}
        await self._pause(full)
        timeout_ms = _BLOCKED_POLL_MS if full else POLL_MS
        if full and full == set(held):
            await self._crew.wait(timeout_ms)
            timeout_ms = 0
        wanted = max(1, room if count_max is None else min(room, count_max))
        try:
            batches = await settled(self._consumer.poll(timeout_ms=timeout_ms, max_records=wanted))
        except DeserializationError as error:
            return await self._skip(error)
        for partition, records in batches.items():
            self._backlog.add(partition, records)
        return sum(map(len, batches.values()))

    async def _pause(self, full: set[TopicPartition]) -> None:
        for partition in full - self._paused:
            await settled(self._consumer.pause(partition))
        for partition in self._paused - full:
            await settled(self._consumer.resume(partition))
        self._paused = full

    async def _skip(self, error: DeserializationError) -> int:
        """To read it again would bring the same bytes."""
        if error.partition is None:
            raise error
        await settled(self._on_exhausted(error.record, error, 1))
        await settled(self._consumer.seek(error.partition, error.offset + 1))
        self._backlog.skip(error.partition, error.offset)
        return 1

    # --- the end ----------------------------------------------------------------------------------------------------

    async def _finish(self) -> None:
        """All that was read, or if it must end now, only what is being worked on; and commit."""
        assert self._crew is not None, "only while it runs"
        end = float("inf")
        while self._backlog.unfinished_count and time.monotonic() < end:
            if self._is_ending:
                if end == float("inf"):
                    end = time.monotonic() + self._finish_ms / _MS
                    self._backlog.drop_waiting()
                if not self._backlog.running_count():
                    break
            await self._stay_member()
            await self._crew.wait(_BLOCKED_POLL_MS)
            await self._commit_if_due()
        await self._commit()

    async def _stay_member(self) -> None:
        """Poll without reading: the group may want something."""
        await self._pause(set(await settled(self._consumer.assignment())))
        batches = await settled(self._consumer.poll(timeout_ms=0, max_records=1))
        await go_back(
            self._consumer, {partition: records[0].offset for partition, records in batches.items()}
        )

    async def _leave(self) -> None:
        """As if nothing had been read that is not done."""
        marks = self._backlog.watermarks()
        self._backlog.forget(list(marks))
        self._crew, self._is_stopped = None, False
        held = set(await settled(self._consumer.assignment()))
        self._paused &= held
        await self._pause(set())
        await go_back(self._consumer, marks)

    # --- offsets ----------------------------------------------------------------------------------------------------

    async def _commit_if_due(self) -> None:
        if time.monotonic() >= self._next_commit:
            await self._commit()

    async def _commit(self, partitions: Partitions | None = None) -> None:
        if partitions is None:
            self._next_commit = time.monotonic() + self._commit_interval
        offsets = self._backlog.commits(partitions)
        if await commit_done(self._consumer, offsets):
            self._backlog.committed(offsets)

    async def revoked(self, partitions: Partitions) -> None:
        """They are about to go: finish, commit, forget."""
        self._backlog.drop_waiting(partitions)
        end = time.monotonic() + self._finish_ms / _MS
        while self._crew is not None and self._backlog.running_count(partitions) and time.monotonic() < end:
            await self._crew.wait(min(POLL_MS, max(0.0, (end - time.monotonic()) * _MS)))
        await self._commit(partitions)
        self.lost(partitions)

    def lost(self, partitions: Partitions) -> None:
        """They are gone."""
        self._backlog.forget(partitions)
        self._paused.difference_update(partitions)
        if self._crew is not None:
            self._crew.abandon(partitions)


class _Watch(RebalanceListener):
    """Tells of partitions that move, before it tells the application's own listener."""

    def __init__(self, parallel: AsyncParallel, listener: RebalanceListener | None) -> None:
        self._parallel, self._listener = parallel, listener or RebalanceListener()

    async def on_partitions_revoked(self, revoked: Partitions) -> None:
        await self._parallel.revoked(revoked)
        await settled(self._listener.on_partitions_revoked(revoked))

    async def on_partitions_lost(self, lost: Partitions) -> None:
        self._parallel.lost(lost)
        await settled(self._listener.on_partitions_lost(lost))

    async def on_partitions_assigned(self, assigned: Partitions) -> None:
        await settled(self._listener.on_partitions_assigned(assigned))


class Parallel:
    """For a Consumer: the workers are threads."""

    def __init__(
        self,
        consumer: AnyConsumer,
        handler: Handler,
        *,
        workers: int = 8,
        in_flight_max: int = 1000,
        key_of: KeyOf = by_key,
        attempts: Attempts = ONCE,
        on_exhausted: OnExhausted = fail,
        commit_interval_ms: float = 1000,
        finish_ms: float = 30_000,
    ) -> None:
        """A record that fails is tried again by its worker, its key waits; in the end it goes to `on_exhausted`, and if
        that raises, `run` ends with it. `finish_ms` 0 abandons what is being worked on when partitions move away."""
        self._consumer = consumer
        self._inner = AsyncParallel(
            consumer,
            handler,
            workers=workers,
            in_flight_max=in_flight_max,
            key_of=key_of,
            attempts=attempts,
            on_exhausted=on_exhausted,
            commit_interval_ms=commit_interval_ms,
            finish_ms=finish_ms,
            crew=ThreadCrew,
        )

    def subscribe(
        self, topics: Any = (), pattern: Any = None, listener: RebalanceListener | None = None
    ) -> None:
        """As the consumer's: through here, because this must hear of partitions that move."""
        drive(self._inner.subscribe(topics, pattern, listener))

    def run(self, count: int | None = None) -> int:
        """Work until `stop` is called, or so many records are done. Returns how many were. Raises what `on_exhausted`
        raised."""
        return drive(self._inner.run(count))

    def stop(self) -> None:
        """`run` finishes what is being worked on, and returns. From any thread, also from the handler."""
        self._inner.stop()
