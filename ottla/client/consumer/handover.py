"""Partitions change hands: offsets are committed, the listener is told, and the subscription follows, in this order.

A listener that fails does not keep a partition from moving: the first error waits until everything is in order again,
and is raised then. Also a caller that is cancelled while a listener runs leaves no partition between two owners.
"""

import logging
from collections.abc import Awaitable, Callable, Collection
from typing import Any

from ottla.client.consumer.subscription import Subscription
from ottla.client.deadline import Deadline
from ottla.core.ids import TopicPartition

logger = logging.getLogger(__name__)

Commit = Callable[[Deadline], Awaitable[None]]
Partitions = Collection[TopicPartition]


class Handover:
    """Of one member. After a round of changes call `raise_first`."""

    def __init__(self, subscription: Subscription, commit: Commit, settle: Commit | None = None) -> None:
        """`commit` commits what was handed out, if that is automatic; `settle` waits for commits that the application
        did not wait for. Behind a rebalance they would count no more, and their records be read again."""
        self._subscription = subscription
        self._commit, self._settle = commit, settle
        self._first: Exception | None = None

    @property
    def held(self) -> frozenset[TopicPartition]:
        return frozenset(self._subscription.partitions)

    async def commit(self, deadline: Deadline) -> None:
        try:
            await self._commit(deadline)
        except Exception as error:
            self._note(error)

    async def revoke(self, partitions: Partitions, deadline: Deadline | None = None) -> None:
        """Give up these. They are ours while the listener runs, and until its commits have arrived."""
        listener = self._subscription.listener
        try:
            if listener is not None:
                await self._tell(listener.on_partitions_revoked, partitions)
            if self._settle is not None and deadline is not None:
                await self._settle(deadline)
        finally:
            self._keep(self.held - frozenset(partitions))

    async def lose(self) -> None:
        """All are gone already."""
        if not self.held:
            return
        listener = self._subscription.listener
        logger.warning("%d partitions were lost: the group has given them to others", len(self.held))
        try:
            if listener is not None:
                await self._tell(listener.on_partitions_lost, sorted(self.held))
        finally:
            self._keep(())

    async def take(self, partitions: Partitions) -> None:
        """Take over these, besides what is held. The listener is told also when there are none: that is news too."""
        self._keep(self.held | frozenset(partitions))
        listener = self._subscription.listener
        if listener is not None:
            await self._tell(listener.on_partitions_assigned, partitions)

    def raise_first(self) -> None:
        """Raise what went wrong first since the last time, if anything did."""
        first, self._first = self._first, None
        if first is not None:
            raise first

    def _keep(self, partitions: Partitions) -> None:
        self._subscription.set_assignment(sorted(partitions))

    async def _tell(self, method: Callable[[Any], Any], partitions: Partitions) -> None:
        try:
            await self._subscription.tell(method, partitions)
        except Exception as error:
            self._note(error)

    def _note(self, error: Exception) -> None:
        if self._first is None:
            self._first = error
        else:
            logger.error("while partitions moved, a second error: %s", error, exc_info=error)
