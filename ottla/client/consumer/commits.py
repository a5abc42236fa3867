"""Commits in their order: those that are waited for, those that are not, and those that happen by themselves.

Commits are sent one after the other, so that an older offset never overwrites a newer one. One that nobody waits for is
tried once; one that is waited for is tried again until its deadline. Automatic ones happen in a poll, when the
application is done with what earlier polls handed out.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

from ottla.client.cluster import Cluster
from ottla.client.consumer.config import ConsumerConfig
from ottla.client.consumer.interceptors import Interceptors
from ottla.client.consumer.offsets import CommittedOffsets
from ottla.client.consumer.subscription import PartitionState, Subscription
from ottla.client.deadline import Deadline
from ottla.client.errors import ClosedError, CommitFailedError
from ottla.client.records import OffsetAndMetadata
from ottla.core.errors import ErrorCode, KafkaError, RetriableError, StaleMetadataError
from ottla.core.ids import TopicPartition

logger = logging.getLogger(__name__)

_MS = 1000
_PAUSE_MS_MIN = 10  # between automatic commits of one who waits, whatever the interval is

Places = dict[TopicPartition, OffsetAndMetadata]
Callback = Callable[[Places, KafkaError | None], Any]


class Commits:
    """Of one consumer that has a group."""

    def __init__(
        self,
        cluster: Cluster,
        config: ConsumerConfig,
        subscription: Subscription,
        committed: CommittedOffsets,
        interceptors: Interceptors,
        wake: Callable[[], None],
    ) -> None:
        """`wake` is called when an automatic commit is done: `next_tick` is another then."""
        self._cluster, self._config, self._subscription = cluster, config, subscription
        self._committed, self._interceptors, self._wake = committed, interceptors, wake
        self._turn = asyncio.Lock()
        self._under_way: set[asyncio.Task[None]] = set()
        self._next_auto = self._last_auto = 0.0
        self._automatic: asyncio.Task[None] | None = None
        self.count = 0

    def consumed(self) -> Places:
        """What was handed out so far."""
        return {
            partition: OffsetAndMetadata(position.offset, "", position.offset_epoch)
            for partition, position in self._subscription.positions().items()
        }

    # --- on demand ------------------------------------------------------------------------------------------------

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], deadline: Deadline) -> None:
        """Behind the commits that were asked for before. Raises CommitFailedError, and whatever else prevents it."""
        await self._commit(dict(offsets), deadline)

    async def _commit(self, places: Places, deadline: Deadline, *, is_automatic: bool = False) -> None:
        failed = f"the offsets of the group {self._committed.group_id!r} were not committed"
        owned = self._owned(places)

        async def attempt() -> None:
            self._check_owned(owned)
            try:
                await self._committed.commit(places)
            except StaleMetadataError as error:
                if is_automatic and _is_topic_gone(error):
                    raise KafkaError(error.code, error.detail) from error  # nobody waits for it to come back
                raise

        try:
            async with asyncio.timeout(deadline.left_seconds()):
                await self._turn.acquire()
        except TimeoutError:
            raise self._cluster.too_late(failed, deadline, None) from None
        try:
            if places:
                await self._cluster.patiently(attempt, deadline, failed)
        finally:
            self._turn.release()
        self._done(places)

    def commit_soon(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], callback: Callback | None = None
    ) -> "asyncio.Task[None]":
        """The same without waiting, and tried once."""
        places = dict(offsets)
        task = asyncio.ensure_future(self._commit_once(places, self._owned(places), callback))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        task.add_done_callback(lambda each: None if each.cancelled() else each.exception())  # seen
        return task

    async def _commit_once(
        self, places: Places, owned: list[PartitionState], callback: Callback | None
    ) -> None:
        error: KafkaError | None = None
        try:
            async with self._turn:
                if places:
                    self._check_owned(owned)
                    await self._committed.commit(places)
        except KafkaError as found:
            error = found
        except asyncio.CancelledError:
            error = ClosedError("the consumer was closed before the offsets were committed")
        if error is None:
            self._done(places)
        if callback is not None:
            try:
                callback(places, error)
            except Exception:
                logger.exception("the callback of a commit failed")
        if error is not None:
            raise error

    def _owned(self, places: Places) -> list[PartitionState]:
        """Those that the group has given us."""
        subscription = self._subscription
        if not subscription.uses_group:
            return []
        return [state for each in places if (state := subscription.partitions.get(each)) is not None]

    def _check_owned(self, owned: list[PartitionState]) -> None:
        """A commit that had to wait may have outlived what it is about: sent now, it would undo what the next owner has
        committed since."""
        for state in owned:
            if self._subscription.partitions.get(state.partition) is not state:
                raise CommitFailedError(f"{state.partition} was given up before its offset was committed")

    def _done(self, places: Places) -> None:
        self.count += 1
        self._interceptors.on_commit(places)

    async def arrived(self, deadline: Deadline) -> None:
        """Wait for what is under way, as long as the deadline allows."""
        if waiting := set(self._under_way):
            await asyncio.wait(waiting, timeout=deadline.left_seconds())

    async def settle(self, deadline: Deadline) -> None:
        """Wait for what is under way, as long as the deadline allows; what is late is given up."""
        waiting = set(self._under_way)
        if waiting:
            _, late = await asyncio.wait(waiting, timeout=deadline.left_seconds())
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    # --- by themselves ----------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """In a poll: commit what earlier polls have handed out, if it is time."""
        if not self._config.auto_commits:
            return
        now = asyncio.get_running_loop().time()
        if self._next_auto == 0.0:
            self._next_auto = now + self._config.auto_commit_interval_ms / _MS
        if now < self._next_auto or self._is_under_way:
            return
        self._next_auto, self._last_auto = now + self._config.auto_commit_interval_ms / _MS, now
        if places := self.consumed():
            self._automatic = self.commit_soon(places, self._automatic_done)

    @property
    def _is_under_way(self) -> bool:
        return self._automatic is not None and not self._automatic.done()

    @property
    def next_tick(self) -> float | None:
        """When `tick` wants to be called, on the loop's clock. None while there is nothing for it to do."""
        if not self._config.auto_commits or self._is_under_way:
            return None
        return max(self._next_auto, self._last_auto + _PAUSE_MS_MIN / _MS)

    def _automatic_done(self, places: Places, error: KafkaError | None) -> None:
        if isinstance(error, RetriableError) and not _is_topic_gone(error):
            pause_ms = min(self._config.retry_backoff_ms, self._config.auto_commit_interval_ms)
            self._next_auto = asyncio.get_running_loop().time() + pause_ms / _MS
        if error is not None:
            logger.warning("an automatic commit of %d partitions failed: %s", len(places), error)
        self._wake()

    async def commit_automatically(self, deadline: Deadline) -> None:
        """Before partitions are given up: what was handed out of them, now. An error is only logged."""
        if not self._config.auto_commits:
            await self.arrived(deadline)
            return
        places = self.consumed()
        try:
            await self._commit(places, deadline, is_automatic=True)
        except KafkaError as error:
            logger.warning("an automatic commit of %d partitions failed: %s", len(places), error)


def _is_topic_gone(error: KafkaError) -> bool:
    return error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
