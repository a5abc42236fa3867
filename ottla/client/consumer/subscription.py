"""What a consumer reads, and where it is: the one place that knows, shared by fetching, offsets and the group.

Topics are chosen by name or pattern, and then the group says which partitions of them; or partitions are chosen by
hand. A partition is read once it has a position. Every change that makes answers under way worthless (a seek, a new
assignment) gives the partition another `life`, which whoever asked compares when the answer comes.
"""

import itertools
import re
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from ottla.client.consumer.subscription_pattern import SubscriptionPattern
from ottla.client.errors import IllegalStateError
from ottla.client.listener import RebalanceListener, tell
from ottla.core.ids import TopicPartition

_lives = itertools.count(1)

EARLIEST, LATEST, NONE = "earliest", "latest", "none"


class Position(NamedTuple):
    """The next record to hand out. `offset_epoch` is the leader epoch of the record before it, -1 if not known."""

    offset: int
    offset_epoch: int = -1


class PartitionState:
    """One partition that is read."""

    __slots__ = (
        "high_watermark",
        "is_paused",
        "last_stable_offset",
        "leader_epoch",
        "life",
        "log_start_offset",
        "needs_reset",
        "needs_validation",
        "partition",
        "position",
        "preferred_replica",
        "preferred_until",
        "retry_at",
        "topic_id",
    )

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.life = next(_lives)
        self.position: Position | None = None
        """None until it is known: from what was committed, or from a reset."""
        self.needs_reset: str | None = None
        """`earliest` or `latest` (or what `auto_offset_reset` allows) while a place in the log is to be looked up."""
        self.needs_validation = False
        """The leader has changed: does its log still have what was read (KIP-320)?"""
        self.leader_epoch = -1
        """The leader for whom the position is known to be right."""
        self.topic_id: uuid.UUID | None = None
        """The topic that the position is a place in, once a broker has answered for it. One that was deleted and made
        again has the same name, but another id, and none of the old offsets means anything in it."""
        self.is_paused = False
        self.high_watermark = self.last_stable_offset = self.log_start_offset = -1
        self.preferred_replica = -1
        self.preferred_until = 0.0
        self.retry_at = 0.0
        """When to ask for it again after an error, on the loop's clock."""

    @property
    def is_fetchable(self) -> bool:
        return not self.is_paused and self.position is not None and not self.needs_validation

    def is_in_another(self, topic_id: uuid.UUID) -> bool:
        """Whether the position is a place in a topic that had this one's name before it."""
        return self.topic_id is not None and topic_id.int != 0 and topic_id != self.topic_id

    def seek(self, position: Position) -> None:
        """Go on from there. Answers under way are worthless."""
        self.position, self.needs_reset, self.needs_validation = position, None, False
        self.leader_epoch, self.topic_id = -1, None
        self.life = next(_lives)

    def reset(self, where: str) -> None:
        """Go on from a place that must be looked up."""
        self.position, self.needs_reset, self.needs_validation = None, where, False
        self.leader_epoch, self.topic_id = -1, None
        self.life = next(_lives)


class Subscription:
    """Of one consumer."""

    def __init__(self) -> None:
        self.topics: frozenset[str] = frozenset()
        """Chosen by name, or what the pattern matches now. Read by the group."""
        self.pattern: re.Pattern[str] | SubscriptionPattern | None = None
        self.is_manual = False
        self.listener: RebalanceListener | None = None
        self.partitions: dict[TopicPartition, PartitionState] = {}
        self.tells = 0
        """How many calls of the listener are under way."""
        self.on_change: list[Callable[[], None]] = []
        """Called when topics or partitions have changed."""

    @property
    def is_empty(self) -> bool:
        return not self.topics and self.pattern is None and not self.is_manual

    @property
    def uses_group(self) -> bool:
        """Whether the group says what is read."""
        return bool(self.topics) or self.pattern is not None

    def subscribe(
        self,
        topics: Iterable[str],
        pattern: re.Pattern[str] | SubscriptionPattern | None,
        listener: RebalanceListener | None,
    ) -> None:
        if self.is_manual:
            raise IllegalStateError("partitions were assigned by hand: unsubscribe() first")
        self.topics, self.pattern, self.listener = frozenset(topics), pattern, listener
        self._changed()

    def match(self, topics: Iterable[str]) -> bool:
        """Look which topics the pattern matches now; whether that is news. Not one that the brokers match."""
        pattern = self.pattern
        assert pattern is not None, "only for subscriptions by pattern"
        if isinstance(pattern, SubscriptionPattern):
            return False
        found = frozenset(topic for topic in topics if pattern.fullmatch(topic))
        if found == self.topics:
            return False
        self.topics = found
        self._changed()
        return True

    def assign_manually(self, partitions: Iterable[TopicPartition]) -> None:
        if self.uses_group:
            raise IllegalStateError("topics were subscribed to: unsubscribe() first")
        wanted = list(partitions)
        self.is_manual = bool(wanted)
        self.set_assignment(wanted)

    def set_assignment(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these. Partitions that stay keep their place."""
        before = self.partitions
        self.partitions = {each: before.get(each) or PartitionState(each) for each in partitions}
        self._changed()

    def unsubscribe(self) -> None:
        self.topics, self.pattern, self.listener, self.is_manual = frozenset(), None, None, False
        self.partitions = {}
        self._changed()

    async def tell(
        self, method: Callable[[list[TopicPartition]], Any], partitions: Iterable[TopicPartition]
    ) -> None:
        """Call a method of the listener, and wait for it."""
        self.tells += 1
        try:
            await tell(method(sorted(partitions)))
        finally:
            self.tells -= 1

    def state(self, partition: TopicPartition) -> PartitionState:
        """Raises IllegalStateError for a partition that is not assigned."""
        state = self.partitions.get(partition)
        if state is None:
            raise IllegalStateError(f"{partition} is not assigned to this consumer")
        return state

    def positions(self) -> Mapping[TopicPartition, Position]:
        """Everything that could be committed: partitions whose position is known."""
        return {key: state.position for key, state in self.partitions.items() if state.position is not None}

    def _changed(self) -> None:
        for fn in self.on_change:
            fn()
