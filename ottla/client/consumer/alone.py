"""A consumer that has no group, but topics: it reads all of their partitions.

Behind `Membership` as the groups are: new topics and partitions are taken over in `poll`, and the listener is told.
"""

from collections.abc import Callable

from ottla.client.cluster import Cluster
from ottla.client.consumer.config import ConsumerConfig
from ottla.client.consumer.handover import Handover
from ottla.client.consumer.subscription import Subscription
from ottla.client.deadline import Deadline
from ottla.client.records import GroupMetadata
from ottla.core.ids import TopicPartition


class Alone:
    """Reads what the metadata have of the topics. `refresh` asks for fresh ones, in the background."""

    def __init__(
        self,
        cluster: Cluster,
        config: ConsumerConfig,
        subscription: Subscription,
        refresh: Callable[[], None],
    ) -> None:
        self._cluster, self._config, self._subscription = cluster, config, subscription
        self._handover = Handover(subscription, _no_commit)
        self._refresh = refresh
        self._seen = -1

    @property
    def group_metadata(self) -> GroupMetadata:
        return GroupMetadata("")

    @property
    def needs_poll(self) -> bool:
        return self._subscription.uses_group and self._seen != self._cluster.metadata.version

    async def poll(self, deadline: Deadline) -> None:
        """Take over what is new, give up what is gone."""
        subscription, metadata = self._subscription, self._cluster.metadata
        if not subscription.uses_group or self._seen == metadata.version:
            return
        self._seen = metadata.version
        if subscription.pattern is not None:
            subscription.match(
                topic.name
                for topic in metadata.topics.values()
                if not (topic.is_internal and self._config.exclude_internal_topics)
            )
        if any(name not in metadata.topics for name in subscription.topics):
            self._refresh()
        found = [metadata.topics[name] for name in sorted(subscription.topics) if name in metadata.topics]
        wanted = [TopicPartition(topic.name, each.partition) for topic in found for each in topic.partitions]
        # The metadata of a moment may lack a topic that is there: only what is not wanted any more is given up.
        kept = [each for each in subscription.partitions if each.topic in subscription.topics]
        await self._move(list(dict.fromkeys([*kept, *wanted])))

    async def _move(self, wanted: list[TopicPartition]) -> None:
        held = self._handover.held
        removed, added = held.difference(wanted), frozenset(wanted) - held
        if removed:
            await self._handover.revoke(removed)
        if added:
            await self._handover.take(added)
        self._handover.raise_first()

    def subscription_changed(self) -> None:
        self._seen = -1
        self._refresh()

    def enforce_rebalance(self, reason: str) -> None:
        """There is nobody to share with."""

    def failed_commit(self, code: int) -> None:
        """Without a group nothing is committed."""

    async def leave(self, deadline: Deadline) -> None:
        held = self._handover.held
        if self._subscription.uses_group and held:
            await self._handover.revoke(held)
        self._handover.raise_first()

    async def close(self) -> None:
        """There is nothing in the background."""


async def _no_commit(deadline: Deadline) -> None:
    """Without a group nothing is committed."""
