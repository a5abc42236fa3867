"""Membership in a KIP-848 group: the member's brain (`modern_member`), with hands.

Two tasks work in the background: the heart, which carries everything that is said, and a watch over topics. `poll` is
where partitions change hands: it moves towards the target that the coordinator has named, step by step, and every step
is said at once. While the application works on records nothing moves.
"""

import asyncio
import logging
import re
from collections.abc import Callable

from ottla.client.cluster import GROUP, Cluster
from ottla.client.connections import COORDINATOR
from ottla.client.consumer.alerts import Alerts, overdue
from ottla.client.consumer.config import ConsumerConfig
from ottla.client.consumer.group_topics import GroupTopics
from ottla.client.consumer.handover import Commit, Handover
from ottla.client.consumer.heartbeat import Heart
from ottla.client.consumer.modern_member import ConsumerMember, Held, Next, Wishes
from ottla.client.consumer.subscription import Subscription
from ottla.client.consumer.subscription_pattern import SubscriptionPattern
from ottla.client.deadline import Backoff, Deadline
from ottla.client.errors import ClientError
from ottla.client.records import GroupMetadata
from ottla.core.errors import KafkaError, RetriableError
from ottla.core.ids import TopicPartition
from ottla.protocol.messages.consumer_groups import ConsumerGroupHeartbeatRequest

logger = logging.getLogger(__name__)

_PAUSE_MS_MIN = 10.0  # whatever a broker says
_IDLE_MS = 1000.0  # while there is no group to speak to; whoever joins does not wait for it


class ConsumerMembership:
    """Behind `Membership`, for `group_protocol=consumer`."""

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
        self._member = ConsumerMember(
            config.group_id,
            config.group_instance_id,
            config.max_poll_interval_ms,
            config.client_rack or None,
            config.group_remote_assignor,
        )
        self._handover = Handover(subscription, commit, settle)
        self._alerts = Alerts(config, wake)
        self._heart = Heart(self._beat, self._alerts.fail)
        self._watch = GroupTopics(cluster, config, subscription, self._wake_if_needed, self._alerts.fail)
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)

    # --- for the consumer -----------------------------------------------------------------------------------------

    @property
    def group_metadata(self) -> GroupMetadata:
        return self._member.metadata

    @property
    def needs_poll(self) -> bool:
        if self._alerts.are_there:
            return True
        if not self._subscription.uses_group or not self._may_join:
            return False
        is_out = not self._member.beats
        return is_out or self._has_work() or self._watch.matching() != self._subscription.topics

    async def poll(self, deadline: Deadline) -> None:
        self._alerts.polled()
        if not self._subscription.uses_group:
            return
        self._watch.start()
        self._heart.start()
        if self._watch.match():
            self._heart.soon()
        await self._proceed(deadline)
        self._handover.raise_first()

    def subscription_changed(self) -> None:
        self._watch.look_soon()
        self._heart.soon()
        self._wake_if_needed()

    def enforce_rebalance(self, reason: str) -> None:
        logger.warning(
            "with group_protocol=consumer the coordinator decides when the group rebalances: %s", reason
        )

    def failed_commit(self, code: int) -> None:
        """What a commit was told may be about an earlier epoch; a heartbeat is about this one, or brings the next."""
        self._heart.soon()

    async def leave(self, deadline: Deadline) -> None:
        await self._watch.stop()
        held = self._handover.held if not self._subscription.is_manual else frozenset()
        if held and self._member.is_in:
            await self._handover.commit(deadline)
            await self._handover.revoke(held, deadline)
        elif held:
            await self._handover.lose()
        await self._heart.stop()
        await self._say_goodbye(deadline)
        self._member.forget()
        self._handover.raise_first()

    async def close(self) -> None:
        await self._watch.stop()
        await self._heart.stop()

    # --- in a poll ------------------------------------------------------------------------------------------------

    @property
    def _may_join(self) -> bool:
        """What a pattern matches must be known first, unless the brokers match it."""
        return not isinstance(self._subscription.pattern, re.Pattern) or self._watch.has_looked

    def _wishes(self) -> Wishes:
        pattern = self._subscription.pattern
        if isinstance(pattern, SubscriptionPattern):
            return Wishes(frozenset(), pattern)
        return Wishes(self._subscription.topics)

    async def _proceed(self, deadline: Deadline) -> None:
        """As far as it goes without waiting for others."""
        member = self._member
        while self._may_join:
            if not member.beats:
                await self._handover.lose()
                member.join()
                self._heart.soon()
                return
            target = member.target
            if target is None:
                return
            known = self._known(target)
            if known == member.held and known != target:
                return  # the names of the others are asked for
            await self._move(known, deadline)
            if member.beats:
                member.holds(known, target)
                self._heart.soon()

    def _has_work(self) -> bool:
        target = self._member.target
        if target is None:
            return False
        known = self._known(target)
        return known == target or known != self._member.held

    def _known(self, target: Held) -> Held:
        """The part of a target whose topics have names."""
        return {each: numbers for each, numbers in target.items() if each in self._cluster.metadata.names}

    async def _move(self, wanted: Held, deadline: Deadline) -> None:
        """Give up what we hold too much of, then take over the rest."""
        held, before = self._handover.held, self._member.held
        target = self._named(wanted)
        # A topic that was deleted and made again has the same name: its partitions are others nevertheless.
        same = self._named({each: wanted[each] for each in wanted.keys() & before.keys()})
        revoked = held - (target & same)
        if revoked:
            patience = self._alerts.for_commits(deadline)
            await self._handover.commit(patience)
            await self._handover.revoke(revoked, patience)
        if self._member.beats and (added := target - self._handover.held) | (target ^ held):
            await self._handover.take(added)

    def _named(self, held: Held) -> frozenset[TopicPartition]:
        names = self._cluster.metadata.names
        return frozenset(TopicPartition(names[each], number) for each in held for number in held[each])

    # --- in the background ----------------------------------------------------------------------------------------

    async def _beat(self) -> float:
        member = self._member
        if not member.beats:
            return _IDLE_MS
        await self._check_application()
        if not member.beats:
            return _IDLE_MS
        pause_ms = await self._exchange()
        if member.target is not None:
            self._watch.learn(member.target.keys() - self._known(member.target).keys())
        self._wake_if_needed()
        if pause_ms is None:
            if member.has_news(self._wishes()):
                return 0.0
            pause_ms = member.heartbeat_interval_ms
        return max(_PAUSE_MS_MIN, self._alerts.next_ms(at_most=pause_ms))

    async def _exchange(self) -> float | None:
        """One heartbeat. Returns when to try again if it did not get through."""
        member = self._member
        try:
            node_id = await self._cluster.coordinator(GROUP, member.group_id)
            version = await self._cluster.version_of(node_id, ConsumerGroupHeartbeatRequest, COORDINATOR)
            request = member.request(self._wishes(), version)
            answer = await self._cluster.ask_coordinator(GROUP, member.group_id, request, version=version)
            outcome = member.answered(answer)
        except RetriableError as error:
            logger.debug("a heartbeat to the group %s: %s", member.group_id, error)
            self._cluster.forget_coordinator(GROUP, member.group_id)
            member.failed()
            return self._backoff.next_ms()
        except KafkaError as error:
            if isinstance(error, ClientError):  # nothing was answered: it was not even asked
                member.forget()
            self._alerts.fail(error)
            return self._backoff.next_ms()
        if outcome is Next.ELSEWHERE:
            self._cluster.forget_coordinator(GROUP, member.group_id)
        if outcome is not Next.GO_ON:
            return self._backoff.next_ms()
        self._backoff.reset()
        return None

    async def _check_application(self) -> None:
        """Does it still poll?"""
        if self._alerts.is_overdue:
            logger.warning(overdue(self._config))
            await self._say_goodbye(Deadline(self._config.request_timeout_ms))
            self._member.forget()
            self._wake_if_needed()

    async def _say_goodbye(self, deadline: Deadline) -> None:
        """Tell the group, if it knows us, and if it hears it in time."""
        if not self._member.says_goodbye:
            return
        request = self._member.leave_request()
        try:
            async with asyncio.timeout(deadline.left_seconds()):
                await self._cluster.ask_coordinator(GROUP, self._member.group_id, request)
        except (KafkaError, TimeoutError) as error:
            logger.info("the group %s was not told that this member left: %s", self._member.group_id, error)

    def _wake_if_needed(self) -> None:
        if self.needs_poll:
            self._alerts.wake()
