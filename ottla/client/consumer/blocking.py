"""The consumer for programs without an event loop: the same names as `AsyncConsumer`, in plain calls.

    with Consumer("orders", bootstrap_servers="localhost:9092", group_id="billing") as consumer:
        for record in consumer:
            ...

It works in a thread of its own, so heartbeats and fetches go on while the application works on records. Iterating
crosses threads once for many records. Listeners and callbacks of commits run in the calling thread, within a call.
"""

import os
import re
import weakref
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, TypeVar, Unpack

from ottla.client.consumer.caller import Caller, CallersListener
from ottla.client.consumer.commits import Callback
from ottla.client.consumer.config import ConsumerConfig
from ottla.client.consumer.consumer import AsyncConsumer
from ottla.client.consumer.interceptors import Records
from ottla.client.consumer.subscription_pattern import SubscriptionPattern
from ottla.client.listener import RebalanceListener
from ottla.client.parameters import ConsumerParameters
from ottla.client.records import (
    ConsumerRecord,
    GroupMetadata,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    Offsets,
)
from ottla.core.errors import KafkaError
from ottla.core.ids import TopicPartition

T = TypeVar("T")

_here: "weakref.WeakSet[Consumer]" = weakref.WeakSet()


class Consumer:
    """Reads records. It is started when it is made: raises NoBrokersAvailable if no broker is reached in time."""

    def __init__(self, *topics: str, **settings: Unpack[ConsumerParameters]) -> None:
        self._inner = AsyncConsumer(*topics, **settings)
        _here.add(self)
        self._caller = Caller("ottla-consumer")
        try:
            self._caller.run(self._inner.start())
        except BaseException:
            self._caller.end()
            raise

    @property
    def config(self) -> ConsumerConfig:
        """The settings, checked."""
        return self._inner.config

    def __enter__(self) -> "Consumer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self, timeout_ms: float | None = None, leave_group: bool = True) -> None:
        """Commit, if that is automatic, leave the group, and end. More than once is fine."""
        if not self._caller.is_open:
            return
        try:
            self._caller.run(self._inner.close(timeout_ms, leave_group), is_asked=True)
        finally:
            self._caller.end()

    def _do(self, function: Callable[..., T], *args: Any) -> T:
        """A plain method of the asynchronous consumer, on its loop."""

        async def call() -> T:
            return function(*args)

        return self._caller.run(call())

    # --- what is read ---------------------------------------------------------------------------------------------

    def subscribe(
        self,
        topics: Iterable[str] | str = (),
        pattern: str | re.Pattern[str] | SubscriptionPattern | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Read these topics, or all that match the pattern, instead of those before."""
        wrapped = None if listener is None else CallersListener(self._caller, listener)
        self._do(self._inner.subscribe, topics, pattern, wrapped)

    def unsubscribe(self, timeout_ms: float | None = None) -> None:
        """Read nothing any more, and leave the group."""
        self._caller.run(self._inner.unsubscribe(timeout_ms), is_asked=True)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these, chosen by hand. Partitions that stay keep their place."""
        self._do(self._inner.assign, partitions)

    def assignment(self) -> set[TopicPartition]:
        return self._do(self._inner.assignment)

    def subscription(self) -> set[str]:
        return self._do(self._inner.subscription)

    def pause(self, *partitions: TopicPartition) -> None:
        self._do(self._inner.pause, *partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        self._do(self._inner.resume, *partitions)

    def paused(self) -> set[TopicPartition]:
        return self._do(self._inner.paused)

    # --- records --------------------------------------------------------------------------------------------------

    def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> Records:
        """Records by partition; waits for the first of them as long as it may, -1 is for ever."""
        work = self._inner.poll(timeout_ms, max_records)
        return self._caller.run(work, is_asked=True, undo=self._inner.give_back)

    def getmany(
        self, *partitions: TopicPartition, timeout_ms: float = 0, max_records: int | None = None
    ) -> Records:
        work = self._inner.getmany(*partitions, timeout_ms=timeout_ms, max_records=max_records)
        return self._caller.run(work, is_asked=True, undo=self._inner.give_back)

    def getone(self, *partitions: TopicPartition) -> ConsumerRecord:
        def undo(record: ConsumerRecord) -> None:
            self._inner.give_back({record.topic_partition: [record]})

        return self._caller.run(self._inner.getone(*partitions), is_asked=True, undo=undo)

    def __iter__(self) -> "Consumer":
        return self

    def __next__(self) -> ConsumerRecord:
        # The loop looks at the index only when this thread calls it: until then it is ours to move.
        fetched = self._inner.current
        if fetched is None or fetched.ready_index >= len(fetched.ready):
            timeout_ms = self._inner.config.consumer_timeout_ms
            fetched = self._caller.run(self._inner.refill(timeout_ms), is_asked=True)
            if fetched is None:
                raise StopIteration
        record = fetched.ready[fetched.ready_index]
        fetched.ready_index += 1
        return record

    def wakeup(self) -> None:
        """From any thread: a poll that waits, or else the next one, raises WakeupError."""
        self._inner.wakeup()

    # --- positions ------------------------------------------------------------------------------------------------

    def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int:
        return self._caller.run(self._inner.position(partition, timeout_ms))

    def positions(self) -> dict[TopicPartition, int]:
        """As far as they are known: nobody is asked."""
        return self._do(self._inner.positions)

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        self._do(self._inner.seek, partition, offset)

    def seek_to_beginning(self, *partitions: TopicPartition, timeout_ms: float | None = None) -> None:
        self._caller.run(self._inner.seek_to_beginning(*partitions, timeout_ms=timeout_ms))

    def seek_to_end(self, *partitions: TopicPartition, timeout_ms: float | None = None) -> None:
        self._caller.run(self._inner.seek_to_end(*partitions, timeout_ms=timeout_ms))

    def seek_to_time(
        self, timestamp: int | Mapping[TopicPartition, int], timeout_ms: float | None = None
    ) -> None:
        self._caller.run(self._inner.seek_to_time(timestamp, timeout_ms))

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        return self._caller.run(self._inner.offsets_for_times(timestamps, timeout_ms))

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        return self._caller.run(self._inner.beginning_offsets(partitions, timeout_ms))

    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        return self._caller.run(self._inner.end_offsets(partitions, timeout_ms))

    def highwater(self, partition: TopicPartition) -> int | None:
        return self._do(self._inner.highwater, partition)

    def lag(self, partition: TopicPartition) -> int | None:
        return self._do(self._inner.lag, partition)

    # --- commits --------------------------------------------------------------------------------------------------

    def commit(self, offsets: Offsets | None = None, timeout_ms: float | None = None) -> None:
        """Commit these, or what was handed out so far, and wait until that holds."""
        self._caller.run(self._inner.commit(offsets, timeout_ms))

    def commit_async(self, offsets: Offsets | None = None, callback: Callback | None = None) -> None:
        """The same without waiting. The callback is called by this thread, in a later `poll` or in `close`."""
        caller = self._caller

        def later(places: dict[TopicPartition, OffsetAndMetadata], error: KafkaError | None) -> None:
            if callback is not None:
                caller.later(lambda: callback(places, error))

        self._do(self._inner.commit_async, offsets, later)

    def committed(
        self, partition: TopicPartition, timeout_ms: float | None = None
    ) -> OffsetAndMetadata | None:
        return self._caller.run(self._inner.committed(partition, timeout_ms))

    def committed_many(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        return self._caller.run(self._inner.committed_many(partitions, timeout_ms))

    # --- the group, the cluster -----------------------------------------------------------------------------------

    def group_metadata(self) -> GroupMetadata:
        return self._do(self._inner.group_metadata)

    def enforce_rebalance(self, reason: str = "") -> None:
        self._do(self._inner.enforce_rebalance, reason)

    def topics(self, timeout_ms: float | None = None) -> set[str]:
        return self._caller.run(self._inner.topics(timeout_ms))

    def partitions_for_topic(self, topic: str, timeout_ms: float | None = None) -> set[int] | None:
        return self._caller.run(self._inner.partitions_for_topic(topic, timeout_ms))

    def metrics(self) -> dict[str, int]:
        return self._do(self._inner.metrics)


def _let_go() -> None:
    """In a child that was forked off: what the parent is handing out one by one is the parent's."""
    for consumer in list(_here):
        consumer._inner.current = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)
