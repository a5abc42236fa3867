"""Membership in a classic group: the member's brain (`classic_member`), with hands.

Three tasks work in the background: a heart that keeps the session alive, a join while one is under way, and a watch
over topics. They only note what they find out, and wake whoever waits in a poll. `poll` is where partitions change
hands: it gives up what must be given up before a join begins, and takes over what came out of it.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from ottla.assignors.user_data import Claim
from ottla.client.cluster import GROUP, Cluster
from ottla.client.connections import COORDINATOR
from ottla.client.consumer.alerts import Alerts, overdue
from ottla.client.consumer.classic_joining import Joined, Joining
from ottla.client.consumer.classic_member import ClassicMember, Next
from ottla.client.consumer.classic_votes import grouped, read_votes
from ottla.client.consumer.config import ConsumerConfig
from ottla.client.consumer.group_topics import GroupTopics
from ottla.client.consumer.handover import Commit, Handover
from ottla.client.consumer.heartbeat import Heart
from ottla.client.consumer.subscription import Subscription
from ottla.client.consumer.subscription_pattern import SubscriptionPattern
from ottla.client.deadline import Backoff, Deadline
from ottla.client.errors import IllegalStateError
from ottla.client.records import GroupMetadata
from ottla.core.errors import KafkaError, RetriableError
from ottla.core.ids import TopicPartition
from ottla.protocol.messages.groups import LeaveGroupRequest

logger = logging.getLogger(__name__)


class ClassicMembership:
    """Behind `Membership`, for `group_protocol=classic`."""

    def __init__(
        self,
        cluster: Cluster,
        config: ConsumerConfig,
        subscription: Subscription,
        wake: Callable[[], None],
        commit: Commit,
        settle: Commit | None = None,
    ) -> None:
        assert config.group_id is not None, "a consumer without a group has no membership"
        self._cluster, self._config, self._subscription = cluster, config, subscription
        self._votes = read_votes(config.partition_assignment_strategy)
        self._member = ClassicMember(
            config.group_id, config.group_instance_id, config.session_timeout_ms, config.max_poll_interval_ms
        )
        self._handover = Handover(subscription, commit, settle)
        self._alerts = Alerts(config, wake)
        self._heart = Heart(self._beat, self._alerts.fail)
        self._watch = GroupTopics(cluster, config, subscription, self._wake_if_needed, self._alerts.fail)
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._joining: asyncio.Task[Joined | None] | None = None
        self._given = Claim({})
        """What we were given last, for sticky assignors."""
        self._joined_topics: frozenset[str] | None = None
        self._leads: dict[str, int] | None = None
        """The partitions that we have assigned for the group, and at which version of the metadata that was right."""
        self._assigned_at = 0
        self._is_closed = False

    # --- for the consumer -----------------------------------------------------------------------------------------

    @property
    def group_metadata(self) -> GroupMetadata:
        return self._member.metadata

    @property
    def needs_poll(self) -> bool:
        if self._alerts.are_there:
            return True
        if not self._subscription.uses_group:
            return False
        if self._joining is not None:
            return self._joining.done()
        if not self._may_join:
            return False
        return self._member.needs_join or self._rejoin_reason() is not None

    async def poll(self, deadline: Deadline) -> None:
        self._alerts.polled()
        if not self._subscription.uses_group:
            return
        if isinstance(self._subscription.pattern, SubscriptionPattern):
            raise IllegalStateError(
                "a SubscriptionPattern is matched by brokers: it needs group_protocol='consumer'"
            )
        self._watch.start()
        self._heart.start()
        self._watch.match()
        await self._proceed(deadline)
        self._handover.raise_first()
        self._alerts.raise_error()

    def subscription_changed(self) -> None:
        self._watch.look_soon()
        self._wake_if_needed()

    def enforce_rebalance(self, reason: str) -> None:
        self._member.rejoin(reason or "the application asked for a rebalance")
        self._wake_if_needed()

    def failed_commit(self, code: int) -> None:
        """What a commit was told may be about an earlier generation; a heartbeat is about this one."""
        self._heart.soon()

    async def leave(self, deadline: Deadline) -> None:
        await self._stop_joining()
        await self._watch.stop()
        held = self._handover.held if not self._subscription.is_manual else frozenset()
        if held and self._member.is_in:
            await self._handover.commit(deadline)
            await self._handover.revoke(held, deadline)
        elif held:
            await self._handover.lose()
        await self._heart.stop()
        await self._say_goodbye("the consumer leaves", deadline)
        self._forget_group()
        self._handover.raise_first()

    async def close(self) -> None:
        self._is_closed = True
        await self._stop_joining()
        await self._watch.stop()
        await self._heart.stop()

    # --- in a poll ------------------------------------------------------------------------------------------------

    async def _proceed(self, deadline: Deadline) -> None:
        """As far as it goes without waiting for others."""
        member = self._member
        while self._is_wanted:
            if self._joining is not None:
                if not self._joining.done():
                    return
                await self._complete()
                continue
            if not member.is_in:
                await self._handover.lose()
            if (reason := self._rejoin_reason()) is not None:
                member.rejoin(reason)
            if not (member.needs_join and self._may_join):
                return
            if member.is_in:
                await self._give_up(deadline)
            # A heartbeat may have brought bad news meanwhile, or a listener have closed the consumer.
            if self._is_wanted and (member.is_in or not self._handover.held):
                self._begin()

    @property
    def _is_wanted(self) -> bool:
        return not self._is_closed and self._subscription.uses_group

    @property
    def _may_join(self) -> bool:
        """What a pattern matches must be known first."""
        return self._subscription.pattern is None or self._watch.has_looked

    def _rejoin_reason(self) -> str | None:
        """Whether what we told the group, or assigned for it, is out of date."""
        if not self._member.beats:
            return None
        if self._joined_topics is not None and self._watch.matching() != self._joined_topics:
            return "the subscription has changed"
        if self._leads is not None and self._assigned_at != self._cluster.metadata.version:
            if self._leads != self._watch.counts(self._watch.others):
                return "topics or partitions have come or gone"
            self._assigned_at = self._cluster.metadata.version
        return None

    async def _give_up(self, deadline: Deadline) -> None:
        """What must be given up before we join: everything, or what we do not want any more."""
        held, topics = self._handover.held, self._watch.matching()
        leaving = (
            held if not self._votes.is_cooperative else {each for each in held if each.topic not in topics}
        )
        patience = self._alerts.for_commits(deadline)
        if held:
            await self._handover.commit(patience)
        if leaving or not self._votes.is_cooperative:
            await self._handover.revoke(leaving, patience)

    def _begin(self) -> None:
        member, topics = self._member, self._subscription.topics
        owned = Claim(grouped(self._handover.held), member.generation_id)
        protocols = self._votes.protocols(topics, owned, self._given, self._config.client_rack or None)
        member.begin()
        self._leads, self._watch.others = None, frozenset()
        work = Joining(self._cluster, self._config, member, self._votes, topics, protocols)
        self._joining = asyncio.ensure_future(work.run())
        self._joining.add_done_callback(lambda _: self._wake_if_needed())

    async def _complete(self) -> None:
        """The join has ended: take over what came out."""
        task, self._joining = self._joining, None
        assert task is not None, "only called when there is one"
        if (error := task.exception()) is not None:
            self._member.stop()
            self._alerts.fail(error if isinstance(error, Exception) else RuntimeError(str(error)))
            self._alerts.raise_error()
        joined = task.result()
        if joined is None or joined.generation_id != self._member.generation_id:
            return  # begin anew
        self._joined_topics = joined.topics
        if joined.leads is not None:
            self._leads, self._watch.others = dict(joined.leads), joined.group_topics
            self._assigned_at = 0
            if len(joined.leads) < len(joined.group_topics):
                self._watch.look_soon()  # until the others are there
        if any(each.topic not in self._subscription.topics for each in joined.partitions):
            self._member.rejoin("the assignment does not match the subscription")
            return
        self._given = Claim(grouped(joined.partitions), joined.generation_id)
        try:
            await self._take_over(joined.partitions)
        except BaseException:
            self._member.rejoin("taking over partitions was interrupted")
            raise

    async def _take_over(self, partitions: frozenset[TopicPartition]) -> None:
        held = self._handover.held
        if revoked := held - partitions:
            # Only a cooperative member still holds any. The group waits for it to join again without them.
            patience = Deadline(self._config.request_timeout_ms)
            await self._handover.commit(patience)
            await self._handover.revoke(revoked, patience)
            self._member.rejoin("this member has given up partitions that are to move")
        await self._handover.take(partitions - held)

    # --- in the background ----------------------------------------------------------------------------------------

    async def _beat(self) -> float:
        interval_ms: float = self._config.heartbeat_interval_ms
        if not self._member.beats:
            return interval_ms
        await self._check_application()
        if self._member.beats:
            pause_ms = await self._exchange()
            self._wake_if_needed()
            interval_ms = min(interval_ms if pause_ms is None else pause_ms, interval_ms)
        return max(1.0, self._alerts.next_ms(at_most=interval_ms))

    async def _exchange(self) -> float | None:
        """One heartbeat. Returns when to try again if it did not get through."""
        member = self._member
        request = member.heartbeat_request()
        limit_ms = min(self._config.request_timeout_ms, self._config.session_timeout_ms)
        try:
            answer = await self._ask(request, timeout_ms=limit_ms)
            outcome = member.beaten(request, answer.error_code)
        except RetriableError as error:
            logger.debug("a heartbeat to the group %s: %s", member.group_id, error)
            return self._backoff.next_ms()
        except KafkaError as error:
            self._alerts.fail(error)
            return None
        if outcome is Next.ELSEWHERE:
            self._cluster.forget_coordinator(GROUP, member.group_id)
        if outcome in (Next.ELSEWHERE, Next.AGAIN):
            return self._backoff.next_ms()
        self._backoff.reset()
        return None

    async def _check_application(self) -> None:
        """Does it still poll?"""
        if self._alerts.is_overdue:
            logger.warning(overdue(self._config))
            await self._say_goodbye(
                "the application does not poll", Deadline(self._config.request_timeout_ms)
            )
            self._member.forget()
            self._member.rejoin("the application polls again")
            self._wake_if_needed()

    async def _say_goodbye(self, reason: str, deadline: Deadline) -> None:
        """Tell the group, if it knows us, and if it hears it in time. A static member says nothing."""
        if not self._member.says_goodbye:
            return
        try:
            async with asyncio.timeout(deadline.left_seconds()):
                node_id = await self._cluster.coordinator(GROUP, self._member.group_id)
                version = await self._cluster.version_of(node_id, LeaveGroupRequest, COORDINATOR)
                request = self._member.leave_request(version, reason)
                await self._ask(request, timeout_ms=self._config.request_timeout_ms)
        except (KafkaError, TimeoutError) as error:
            logger.info("the group %s was not told that this member left: %s", self._member.group_id, error)

    async def _ask(self, request: object, timeout_ms: float) -> Any:
        return await self._cluster.ask_coordinator(
            GROUP, self._member.group_id, request, timeout_ms=timeout_ms
        )

    def _wake_if_needed(self) -> None:
        if self.needs_poll:
            self._alerts.wake()

    async def _stop_joining(self) -> None:
        task, self._joining = self._joining, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            self._member.stop()

    def _forget_group(self) -> None:
        self._member.forget()
        self._member.rejoin_reason = None
        self._joined_topics, self._leads = None, None
