"""A consumer at work: everything that runs between its start and its end, and what a poll does with it.

A poll tends to the group, lets automatic commits happen, and sees that every partition has a position and a fetch under
way; then it hands out what is there, or waits until something happens and looks again. Fetches, lookups and heartbeats
go on in the background, so a poll that does not wait makes progress too.
"""

import asyncio
from collections.abc import Callable, Collection
from typing import Any, TypeVar

from ottla.client.cluster import Cluster
from ottla.client.consumer.alone import Alone
from ottla.client.consumer.answers import Answers
from ottla.client.consumer.commits import Commits
from ottla.client.consumer.config import ConsumerConfig
from ottla.client.consumer.fetched import Decoding, Fetched
from ottla.client.consumer.fetcher import Fetcher
from ottla.client.consumer.interceptors import Interceptors, Records
from ottla.client.consumer.lookup import OffsetLookup
from ottla.client.consumer.membership import Membership
from ottla.client.consumer.offsets import CommittedOffsets
from ottla.client.consumer.positions import Positions
from ottla.client.consumer.subscription import Subscription
from ottla.client.consumer.topics import TopicWatch
from ottla.client.consumer.undelivered import Undelivered
from ottla.client.deadline import Deadline
from ottla.client.errors import ClosedError, IllegalStateError, WakeupError
from ottla.client.records import ConsumerRecord, GroupMetadata
from ottla.core.ids import TopicPartition

T = TypeVar("T")


class Reader:
    """Made on the loop that it runs on. `start` first, `close` in the end."""

    def __init__(
        self,
        config: ConsumerConfig,
        subscription: Subscription,
        decoding: Decoding,
        interceptors: Interceptors,
    ) -> None:
        self.config, self.subscription, self.interceptors = config, subscription, interceptors
        self.cluster = Cluster(config, creates_topics=config.allow_auto_create_topics)
        self.lookup = OffsetLookup(self.cluster, is_read_committed=decoding.is_read_committed)
        self.topics = TopicWatch(self.cluster, config, subscription, self._changed)
        self.undelivered = Undelivered(subscription)
        self.committed, self.commits = self._make_commits()
        self.positions = Positions(
            self.cluster, config, subscription, self.lookup, self.committed, self._changed
        )
        self.answers = Answers(
            self.cluster,
            config,
            subscription,
            decoding,
            refresh=self.topics.refresh_soon,
            truncated=self.positions.diverged,
        )
        self.fetcher = Fetcher(
            self.cluster,
            config,
            subscription,
            self.undelivered,
            self.answers,
            wake=self.wake,
            refresh=self.topics.refresh_soon,
            validate=self.positions.update,
        )
        self.membership = self._make_membership()
        self.record_count = 0
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        self._is_due = True
        self._is_woken = False
        self._is_closing = False
        self._poller: asyncio.Task[Any] | None = None
        self._idle = asyncio.Event()
        """Nobody polls."""
        self._idle.set()

    def _make_commits(self) -> tuple[CommittedOffsets | None, Commits | None]:
        config = self.config
        if config.group_id is None:
            return None, None
        committed = CommittedOffsets(
            self.cluster,
            config.group_id,
            lambda: self.group_metadata,
            lambda code: self.membership.failed_commit(code),
            is_consumer_protocol=config.group_protocol == "consumer",
            needs_membership=lambda: self.subscription.uses_group,
        )
        commits = Commits(
            self.cluster, config, self.subscription, committed, self.interceptors, lambda: self.wake()
        )
        return committed, commits

    def _make_membership(self) -> Membership:
        """The protocols of groups are loaded only by those who have a group."""
        if self.commits is None:
            return Alone(self.cluster, self.config, self.subscription, self.topics.refresh_soon)
        commit, settle = self.commits.commit_automatically, self.commits.arrived
        if self.config.group_protocol == "consumer":
            from ottla.client.consumer.modern import ConsumerMembership

            return ConsumerMembership(self.cluster, self.config, self.subscription, self.wake, commit, settle)
        from ottla.client.consumer.classic import ClassicMembership

        return ClassicMembership(self.cluster, self.config, self.subscription, self.wake, commit, settle)

    @property
    def group_metadata(self) -> GroupMetadata:
        """Who we are: nobody in particular, for partitions that were assigned by hand."""
        if self.subscription.is_manual:
            return GroupMetadata(self.config.group_id or "")
        return self.membership.group_metadata

    # --- life -----------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Raises NoBrokersAvailable if none is reached within `default_api_timeout_ms`."""
        deadline = Deadline(self.config.default_api_timeout_ms)
        try:
            await self.cluster.patiently(lambda: self.cluster.refresh([]), deadline, "no broker was reached")
        except BaseException:
            await self.cluster.close()
            raise
        self.subscription.on_change.append(self._subscription_changed)
        self.topics.start()
        self._subscription_changed()

    async def close(self, deadline: Deadline, *, leave_group: bool) -> None:
        """Whoever polls in another task gets a ClosedError."""
        self._is_closing = True
        self.wake()
        await self._until_idle(deadline)
        self.undelivered.settle()
        subscription = self.subscription
        try:
            if self.commits is not None:
                if not (leave_group and subscription.uses_group):
                    await self.commits.commit_automatically(deadline)
                await self.commits.settle(deadline)
            if leave_group:
                await self.membership.leave(deadline)
        finally:
            subscription.on_change.remove(self._subscription_changed)
            await self.membership.close()
            await self.positions.close()
            await self.topics.close()
            await self.fetcher.close(deadline)
            await self.cluster.close()
            self.undelivered.clear()

    async def _until_idle(self, deadline: Deadline) -> None:
        """A poll under way must not meet a group that is being left. But a listener that closes its consumer is called
        by a poll: that cannot end first."""
        if self._poller is asyncio.current_task() or self.subscription.tells:
            return
        try:
            async with asyncio.timeout(deadline.left_seconds()):
                await self._idle.wait()
        except TimeoutError:
            pass

    async def unsubscribe(self, deadline: Deadline) -> None:
        self.undelivered.settle()
        try:
            if self.subscription.uses_group:
                await self.membership.leave(deadline)
        finally:
            self.subscription.unsubscribe()
            self.undelivered.clear()

    def _subscription_changed(self) -> None:
        """What is wanted, or assigned, is another: its metadata may be missing."""
        metadata = self.cluster.metadata
        names = self.topics.names
        has_own_pattern = self.config.group_id is None and self.subscription.pattern is not None
        if any(name not in metadata.topics for name in names) or (has_own_pattern and not names):
            self.topics.refresh_soon()
        self._changed()

    # --- waking ---------------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """A poll that waits looks again."""
        self._news.set()

    def _changed(self) -> None:
        self._is_due = True
        self._news.set()

    def changed(self) -> None:
        """Partitions may be fetched that were not: after a seek, a resume."""
        self._changed()

    def wakeup(self) -> None:
        """From any thread: the poll that waits, or the next one, raises WakeupError."""
        self._is_woken = True
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._news.set)

    # --- polling --------------------------------------------------------------------------------------------------

    async def poll(
        self, deadline: Deadline, count: int, only: Collection[TopicPartition] | None = None
    ) -> Records:
        """At most so many records; none if there are none in time."""

        def take() -> Records | None:
            records, is_used_up = self.undelivered.collect(count, only)
            if is_used_up:
                self.fetcher.fetch()
            if records and self.interceptors:
                records = self.interceptors.on_consume(records)
            return records or None

        found = await self._until(take, deadline) or {}
        self.record_count += sum(map(len, found.values()))
        return found

    async def open(
        self, deadline: Deadline, count: int, only: Collection[TopicPartition] | None = None
    ) -> Fetched | None:
        """Records for one who hands them out one by one: see `Undelivered.open`."""
        intercept = self._intercept if self.interceptors else None
        found = await self._until(lambda: self.undelivered.open(count, only, intercept), deadline)
        if found is not None:
            self.record_count += len(found.ready) - found.ready_index
        return found

    def _intercept(self, partition: TopicPartition, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        return self.interceptors.on_consume({partition: records}).get(partition, [])

    async def _until(self, take: Callable[[], T | None], deadline: Deadline) -> T | None:
        if self._poller is not None:
            raise IllegalStateError(
                "a poll is under way already: one task reads at a time, and no listener polls"
            )
        if self.subscription.is_empty:
            raise IllegalStateError("nothing is read: subscribe() to topics or assign() partitions first")
        self._poller = asyncio.current_task()
        self._idle.clear()
        try:
            await asyncio.sleep(0)  # whoever polls without ever waiting would keep the network out
            return await self._look(take, deadline)
        finally:
            self._poller = None
            self._idle.set()

    async def _look(self, take: Callable[[], T | None], deadline: Deadline) -> T | None:
        while True:
            self._news.clear()
            self._check_open()
            if self._is_woken:
                self._is_woken = False
                raise WakeupError("wakeup() was called")
            await self._tend(deadline)
            self._raise_error()
            found = take()
            if found is not None:
                return found
            if deadline.is_over:
                return None
            await self._wait(deadline)

    async def _tend(self, deadline: Deadline) -> None:
        if self.undelivered.settle():
            self._is_due = True
        if self.commits is not None:
            self.commits.tick()
        await self.membership.poll(deadline)
        self._check_open()  # somebody else may have closed it, or a listener
        self.positions.update()
        if self._is_due:
            self._is_due = False
            self.fetcher.fetch()

    def _check_open(self) -> None:
        if self._is_closing:
            raise ClosedError("the consumer was closed")

    async def _wait(self, deadline: Deadline) -> None:
        """Until something happens, or a commit is due."""
        if self._news.is_set():
            return
        seconds = deadline.left_seconds()
        if self.commits is not None and (tick := self.commits.next_tick) is not None:
            until_tick = max(0.0, tick - self._loop.time())
            seconds = until_tick if seconds is None else min(seconds, until_tick)
        self.fetcher.await_records(True)
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            pass
        finally:
            self.fetcher.await_records(False)

    def _raise_error(self) -> None:
        """What the background has found out that only the application can handle."""
        for source in (self.positions, self.topics, self.fetcher):
            error, source.error = source.error, None
            if error is not None:
                raise error
        self.answers.raise_error()
