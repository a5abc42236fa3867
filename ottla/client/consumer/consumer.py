"""The consumer for programs that have an event loop.

    async with AsyncConsumer("orders", bootstrap_servers="localhost:9092", group_id="billing") as consumer:
        async for record in consumer:
            ...

What only looks or notes is a plain method; what may ask a broker is a coroutine, takes a `timeout_ms`, and raises
within it. One task reads at a time; `wakeup` may be called from any thread.
"""

import asyncio
import re
from collections.abc import Iterable, Mapping
from typing import Unpack

from ottla.client.consumer.commits import Callback, Commits
from ottla.client.consumer.config import ConsumerConfig
from ottla.client.consumer.fetched import Decoding, Fetched
from ottla.client.consumer.interceptors import Interceptors, Records
from ottla.client.consumer.lookup import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from ottla.client.consumer.reader import Reader
from ottla.client.consumer.subscription import EARLIEST, LATEST, PartitionState, Position, Subscription
from ottla.client.consumer.subscription_pattern import SubscriptionPattern
from ottla.client.deadline import Deadline
from ottla.client.errors import ClosedError, IllegalStateError
from ottla.client.listener import RebalanceListener
from ottla.client.parameters import ConsumerParameters
from ottla.client.records import (
    ConsumerRecord,
    GroupMetadata,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    Offsets,
    with_notes,
)
from ottla.client.serde.registry import deserializer_of
from ottla.client.settings import read_settings
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition

_CLOSE_MS = 30_000


class AsyncConsumer:
    """Reads records. `topics` are subscribed to; settings are Kafka's, with underscores (`ConsumerConfig`)."""

    def __init__(self, *topics: str, **settings: Unpack[ConsumerParameters]) -> None:
        self.config = read_settings(ConsumerConfig, settings)
        self._interceptors = Interceptors(self.config.interceptors)
        self._decoding = Decoding(
            self.config.check_crcs,
            self.config.isolation_level == "read_committed",
            deserializer_of(self.config.key_deserializer, is_key=True),
            deserializer_of(self.config.value_deserializer),
        )
        self._subscription = Subscription()
        self._reader: Reader | None = None
        self._is_closed = False
        self.current: Fetched | None = None
        """What is handed out one by one at the moment. For the blocking consumer, which does so without the loop."""
        if topics:
            self._subscription.subscribe(topics, None, None)

    # --- life -----------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> "AsyncConsumer":
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Find the cluster. Raises NoBrokersAvailable if that does not succeed in `default_api_timeout_ms`."""
        if self._is_closed:
            raise ClosedError("the consumer was closed")
        if self._reader is None:
            reader = Reader(self.config, self._subscription, self._decoding, self._interceptors)
            await reader.start()
            self._reader = reader

    async def close(self, timeout_ms: float | None = None, leave_group: bool = True) -> None:
        """Commit, if that is automatic, leave the group, and end. Without `leave_group` the group finds out by itself,
        after the session timeout. More than once is fine."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            if self._reader is not None:  # listeners may still call us
                deadline = Deadline(_CLOSE_MS if timeout_ms is None else timeout_ms)
                await self._reader.close(deadline, leave_group=leave_group)
        finally:
            self._reader = self.current = None

    @property
    def _running(self) -> Reader:
        if self._reader is None:
            raise ClosedError(
                "the consumer was closed" if self._is_closed else "the consumer was not started"
            )
        return self._reader

    def _deadline(self, timeout_ms: float | None) -> Deadline:
        return Deadline(self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms)

    # --- what is read ---------------------------------------------------------------------------------------------

    def subscribe(
        self,
        topics: Iterable[str] | str = (),
        pattern: str | re.Pattern[str] | SubscriptionPattern | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Read these topics, or all that match the pattern, instead of those before. Without a group all of their
        partitions are read."""
        names = [topics] if isinstance(topics, str) else list(topics)
        if bool(names) == (pattern is not None):
            raise IllegalStateError("subscribe to topics or to a pattern: to one of them")
        if isinstance(pattern, str):
            try:
                pattern = re.compile(pattern)
            except re.error as error:
                raise IllegalStateError(f"{pattern!r} is not a pattern: {error}") from error
        self._settle()
        self._subscription.subscribe(names, pattern, listener)
        if self._reader is not None:
            self._reader.membership.subscription_changed()

    async def unsubscribe(self, timeout_ms: float | None = None) -> None:
        """Read nothing any more, and leave the group."""
        self.current = None
        await self._running.unsubscribe(self._deadline(timeout_ms))

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these, chosen by hand. Partitions that stay keep their place."""
        self._settle()
        self._subscription.assign_manually(TopicPartition(*each) for each in partitions)

    def assignment(self) -> set[TopicPartition]:
        """What is read now."""
        return set(self._subscription.partitions)

    def subscription(self) -> set[str]:
        """The topics that were subscribed to, or that the pattern matches."""
        return set(self._subscription.topics)

    def pause(self, *partitions: TopicPartition) -> None:
        """Hand out nothing of these until `resume`. What was fetched is kept."""
        self._settle()
        for state in self._states(partitions):
            state.is_paused = True

    def resume(self, *partitions: TopicPartition) -> None:
        for state in self._states(partitions):
            state.is_paused = False
        self._moved()

    def paused(self) -> set[TopicPartition]:
        return {key for key, state in self._subscription.partitions.items() if state.is_paused}

    def _states(self, partitions: Iterable[TopicPartition]) -> list[PartitionState]:
        return [self._subscription.state(TopicPartition(*each)) for each in partitions]

    def _settle(self) -> None:
        """Whoever takes records one by one has taken them up to here."""
        self.current = None
        if self._reader is not None and self._reader.undelivered.settle():
            self._reader.changed()

    def _moved(self) -> None:
        if self._reader is not None:
            self._reader.changed()

    # --- records --------------------------------------------------------------------------------------------------

    async def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> Records:
        """Records by partition, at most `max_poll_records`; waits for the first of them as long as it may, -1 is for
        ever."""
        count = self._count(max_records)
        self.current = None
        return await self._running.poll(Deadline(timeout_ms), count)

    async def getmany(
        self, *partitions: TopicPartition, timeout_ms: float = 0, max_records: int | None = None
    ) -> Records:
        """As `poll`, of these partitions only if some are named."""
        count, only = self._count(max_records), self._only(partitions)
        self.current = None
        return await self._running.poll(Deadline(timeout_ms), count, only)

    async def getone(self, *partitions: TopicPartition) -> ConsumerRecord:
        """The next record, of these partitions if some are named. Waits for it."""
        fetched, only = self.current, self._only(partitions)
        if (
            fetched is None
            or fetched.ready_index >= len(fetched.ready)
            or (only is not None and fetched.partition not in only)
        ):
            fetched = await self.refill(-1, only)
        assert fetched is not None, "it waits for ever"
        record = fetched.ready[fetched.ready_index]
        fetched.ready_index += 1
        return record

    def __aiter__(self) -> "AsyncConsumer":
        return self

    async def __anext__(self) -> ConsumerRecord:
        fetched = self.current
        if fetched is None or fetched.ready_index >= len(fetched.ready):
            fetched = await self.refill(self.config.consumer_timeout_ms)
            if fetched is None:
                raise StopAsyncIteration
        record = fetched.ready[fetched.ready_index]
        fetched.ready_index += 1
        return record

    async def refill(
        self, timeout_ms: float, only: frozenset[TopicPartition] | None = None
    ) -> Fetched | None:
        """Records to hand out one by one: `ready` from `ready_index` on, which whoever does must move. The position
        follows. None if there are none in time."""
        self.current = None
        self.current = await self._running.open(Deadline(timeout_ms), self.config.max_poll_records, only)
        return self.current

    def give_back(self, records: Records) -> None:
        """Of a poll whose caller was interrupted before it had them: as if they had not been handed out."""
        self._settle()
        for partition, each in records.items():
            state = self._subscription.partitions.get(partition)
            if state is not None and each:
                state.seek(Position(each[0].offset))
        self._moved()

    def _only(self, partitions: tuple[TopicPartition, ...]) -> frozenset[TopicPartition] | None:
        for each in partitions:
            self._subscription.state(each)
        return frozenset(partitions) or None

    def _count(self, max_records: int | None) -> int:
        if max_records is None:
            return self.config.max_poll_records
        if max_records < 1:
            raise IllegalStateError(f"max_records is {max_records}, but must be at least 1")
        return max_records

    def wakeup(self) -> None:
        """From any thread: a poll that waits, or else the next one, raises WakeupError."""
        if self._reader is not None:
            self._reader.wakeup()

    # --- positions ------------------------------------------------------------------------------------------------

    async def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int:
        """The offset of the next record, looked up if it is not known yet."""
        self._settle()
        state = self._subscription.state(TopicPartition(*partition))
        deadline = self._deadline(timeout_ms)
        while state.position is None:
            await self._running.positions.find([state], deadline)
        return state.position.offset

    def positions(self) -> dict[TopicPartition, int]:
        """The offsets of the next records of everything that is read, as far as they are known. Nobody is asked."""
        self._settle()
        return {key: position.offset for key, position in self._subscription.positions().items()}

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Go on from there. One that is not in the log is reset as `auto_offset_reset` says."""
        place = OffsetAndMetadata(offset) if isinstance(offset, int) else offset
        if place.offset < 0:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"offsets start at 0: {partition} has no {place.offset}"
            )
        self._settle()
        state = self._subscription.state(TopicPartition(*partition))
        state.seek(Position(place.offset, place.leader_epoch))
        self._moved()

    async def seek_to_beginning(self, *partitions: TopicPartition, timeout_ms: float | None = None) -> None:
        """Go on from the first record, of these partitions or of all."""
        await self._reset(partitions, EARLIEST, timeout_ms)

    async def seek_to_end(self, *partitions: TopicPartition, timeout_ms: float | None = None) -> None:
        """Go on behind the last record (with `read_committed`, of what may be read)."""
        await self._reset(partitions, LATEST, timeout_ms)

    async def seek_to_time(
        self, timestamp: int | Mapping[TopicPartition, int], timeout_ms: float | None = None
    ) -> None:
        """Go on from the first record that is not older: of all partitions, or of each its own. Milliseconds since
        1970. Where there is none, from the end."""
        self._settle()
        if isinstance(timestamp, int):
            timestamp = dict.fromkeys(self._subscription.partitions, timestamp)
        states = {key: self._subscription.state(key) for key in timestamp}
        deadline = self._deadline(timeout_ms)
        found = await self._running.lookup.offsets(timestamp, deadline)
        late = dict.fromkeys((key for key, place in found.items() if place is None), LATEST_TIMESTAMP)
        found |= await self._running.lookup.offsets(late, deadline)
        for key, place in found.items():
            if place is not None:
                states[key].seek(Position(place.offset, place.leader_epoch))
        self._moved()

    async def _reset(
        self, partitions: tuple[TopicPartition, ...], where: str, timeout_ms: float | None
    ) -> None:
        self._settle()
        states = self._states(partitions or self._subscription.partitions)
        reader = self._running
        for state in states:
            state.reset(where)
        await reader.positions.find(states, self._deadline(timeout_ms))
        self._moved()

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record of each partition that is not older than its timestamp; None if all are."""
        for partition, timestamp in timestamps.items():
            if timestamp < 0:
                raise IllegalStateError(f"{partition}: {timestamp} is no time")
        return await self._running.lookup.offsets(timestamps, self._deadline(timeout_ms))

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """The offsets of the first records."""
        return await self._ends(partitions, EARLIEST_TIMESTAMP, timeout_ms)

    async def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """The offsets behind the last records; with `read_committed`, of what may be read."""
        return await self._ends(partitions, LATEST_TIMESTAMP, timeout_ms)

    async def _ends(
        self, partitions: Iterable[TopicPartition], timestamp: int, timeout_ms: float | None
    ) -> dict[TopicPartition, int]:
        wanted = {TopicPartition(*each): timestamp for each in partitions}
        found = await self._running.lookup.offsets(wanted, self._deadline(timeout_ms))
        return {key: place.offset for key, place in found.items() if place is not None}

    def highwater(self, partition: TopicPartition) -> int | None:
        """The end of what is replicated, as the last fetch said; None before the first."""
        mark = self._subscription.state(TopicPartition(*partition)).high_watermark
        return mark if mark >= 0 else None

    def lag(self, partition: TopicPartition) -> int | None:
        """How many offsets are still to be read, as the last fetch said; with `read_committed`, may be read."""
        self._settle()
        state = self._subscription.state(TopicPartition(*partition))
        is_committed = self._decoding.is_read_committed and state.last_stable_offset >= 0
        end = state.last_stable_offset if is_committed else state.high_watermark
        return None if state.position is None or end < 0 else max(0, end - state.position.offset)

    # --- commits --------------------------------------------------------------------------------------------------

    async def commit(self, offsets: Offsets | None = None, timeout_ms: float | None = None) -> None:
        """Commit these, or what was handed out so far, and wait until that holds. Raises CommitFailedError if the
        group has gone on without us."""
        self._settle()
        commits, places = self._places(offsets)
        await commits.commit(places, self._deadline(timeout_ms))

    def commit_async(
        self, offsets: Offsets | None = None, callback: Callback | None = None
    ) -> "asyncio.Future[None]":
        """The same without waiting, behind the commits before it. `callback(offsets, error)` is called in the end; the
        future may be awaited, or not."""
        self._settle()
        commits, places = self._places(offsets)
        return commits.commit_soon(places, callback)

    def _places(self, offsets: Offsets | None) -> tuple[Commits, dict[TopicPartition, OffsetAndMetadata]]:
        commits = self._running.commits
        if commits is None:
            raise IllegalStateError("there is no group.id: nothing can be committed")
        if offsets is None:
            return commits, commits.consumed()
        places = with_notes({TopicPartition(*key): each for key, each in offsets.items()})
        for partition, place in places.items():
            if place.offset < 0:
                raise KafkaError(
                    ErrorCode.OFFSET_OUT_OF_RANGE, f"offsets start at 0: {place.offset} of {partition}"
                )
        return commits, places

    async def committed(
        self, partition: TopicPartition, timeout_ms: float | None = None
    ) -> OffsetAndMetadata | None:
        """What the group has committed for a partition; None if nothing."""
        found = await self.committed_many([partition], timeout_ms)
        return found[TopicPartition(*partition)]

    async def committed_many(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        committed = self._running.committed
        if committed is None:
            raise IllegalStateError("there is no group.id: nothing is committed")
        wanted = [TopicPartition(*each) for each in partitions]
        return await committed.fetch(wanted, self._deadline(timeout_ms))

    # --- the group, the cluster -----------------------------------------------------------------------------------

    def group_metadata(self) -> GroupMetadata:
        """Who this consumer is in its group: for `send_offsets_to_transaction`."""
        return self._running.group_metadata

    def enforce_rebalance(self, reason: str = "") -> None:
        """Let the group share its partitions anew, at the next poll."""
        self._running.membership.enforce_rebalance(reason)

    async def topics(self, timeout_ms: float | None = None) -> set[str]:
        """All topics that this client may see, internal ones aside."""
        cluster = self._running.cluster
        deadline = self._deadline(timeout_ms)
        await cluster.patiently(lambda: cluster.refresh(None), deadline, "the topics were not listed")
        return {each.name for each in cluster.metadata.topics.values() if not each.is_internal}

    async def partitions_for_topic(self, topic: str, timeout_ms: float | None = None) -> set[int] | None:
        """The numbers of its partitions; None if there is no such topic."""
        cluster = self._running.cluster
        if topic not in cluster.metadata.topics:
            deadline = self._deadline(timeout_ms)
            failed = f"topic {topic} was not asked for"
            await cluster.patiently(lambda: cluster.refresh([topic]), deadline, failed)
        found = cluster.metadata.topics.get(topic)
        return None if found is None else {each.partition for each in found.partitions}

    def metrics(self) -> dict[str, int]:
        """How much there was of everything so far."""
        reader = self._running
        return {
            "records_consumed_total": reader.record_count,
            "bytes_consumed_total": reader.answers.bytes_count,
            "fetch_total": reader.answers.fetch_count,
            "commit_total": 0 if reader.commits is None else reader.commits.count,
            "assigned_partitions": len(self._subscription.partitions),
        }
