"""How far groups have read: the committed offsets of one shard, and those that await the end of a transaction.

Only `put`, `remove` and `end` change anything, each for one record or marker of the log, in the log's order. That order
is counted here, for it decides what a transaction may still say: an offset that it wrote becomes the committed one only
if no later record has spoken of the partition since. So what is committed does not depend on when the marker came.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ottla.core.ids import TopicPartition
from ottla.protocol.messages.coordinator_records import OffsetCommitValue

NO_OFFSET = -1
NO_EXPIRY = -1

_NOTHING: Mapping[str, Mapping[int, "Committed"]] = {}


@dataclass(slots=True)
class Committed:
    """An offset that a group committed. There may be millions: no field more than needed."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: int
    expire_timestamp: int
    """Asked for by an old client; `NO_EXPIRY` leaves it to the broker."""
    order: int = field(compare=False)
    """Grows from record to record."""


class Offsets:
    """Offsets by group, topic and partition; pending ones by producer id as well."""

    def __init__(self) -> None:
        self._order = 0
        self._committed: dict[str, dict[str, dict[int, Committed]]] = {}
        self._pending: dict[int, dict[str, dict[TopicPartition, Committed]]] = {}
        self._waiting: dict[str, dict[TopicPartition, set[int]]] = {}
        """Which transactions have something to say about a partition of a group."""

    def put(
        self, group_id: str, topic: str, partition: int, value: OffsetCommitValue, producer_id: int | None
    ) -> None:
        """An offset was written: committed at once, or with the producer's transaction."""
        self._order += 1
        committed = Committed(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            self._order,
        )
        if producer_id is None:
            self._keep(group_id, topic, partition, committed)
        else:
            where = TopicPartition(topic, partition)
            self._pending.setdefault(producer_id, {}).setdefault(group_id, {})[where] = committed
            self._waiting.setdefault(group_id, {}).setdefault(where, set()).add(producer_id)

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        """A tombstone was written: it ends what was committed, and what any transaction had in mind until now."""
        self._order += 1
        topics = self._committed.get(group_id)
        if topics is not None and partition in topics.get(topic, ()):
            del topics[topic][partition]
            if not topics[topic]:
                del topics[topic]
            if not topics:
                del self._committed[group_id]
        where = TopicPartition(topic, partition)
        for producer_id in tuple(self._waiting.get(group_id, {}).get(where, ())):
            self._settle(producer_id, group_id, where)

    def end(self, producer_id: int, is_commit: bool) -> None:
        """The producer's transaction is over: its offsets show, or vanish."""
        for group_id, pending in list(self._pending.get(producer_id, {}).items()):
            for where, committed in list(pending.items()):
                self._settle(producer_id, group_id, where)
                current = self.get(group_id, *where)
                if is_commit and (current is None or current.order < committed.order):
                    self._keep(group_id, *where, committed)

    def get(self, group_id: str, topic: str, partition: int) -> Committed | None:
        """What is committed, or None."""
        return self._committed.get(group_id, _NOTHING).get(topic, {}).get(partition)

    def of_group(self, group_id: str) -> Mapping[str, Mapping[int, Committed]]:
        """All that is committed, by topic and partition."""
        return self._committed.get(group_id, _NOTHING)

    def pending_of_group(self, group_id: str) -> Iterator[TopicPartition]:
        """Where transactions have yet to say what is committed."""
        return iter(self._waiting.get(group_id, ()))

    def pending_of_producer(self, producer_id: int) -> Iterator[tuple[str, TopicPartition, int]]:
        """What its transaction will commit: group, partition, offset."""
        for group_id, pending in self._pending.get(producer_id, {}).items():
            for where, committed in pending.items():
                yield group_id, where, committed.offset

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether a transaction has yet to say what is committed here."""
        waiting = self._waiting.get(group_id)
        return waiting is not None and TopicPartition(topic, partition) in waiting

    def has_pending(self, group_id: str) -> bool:
        """Whether any transaction has yet to say something about the group."""
        return group_id in self._waiting

    def holds(self, group_id: str) -> bool:
        """Whether anything is committed or pending for the group."""
        return group_id in self._committed or group_id in self._waiting

    def topics(self) -> set[str]:
        """All of which something is committed or pending."""
        found = {topic for topics in self._committed.values() for topic in topics}
        return found | {where.topic for waiting in self._waiting.values() for where in waiting}

    def of_topic(self, topic: str) -> Iterator[tuple[str, int]]:
        """Group and partition of every offset of a topic, committed or pending; each once."""
        for group_id, topics in self._committed.items():
            for partition in topics.get(topic, ()):
                yield group_id, partition
        for group_id, waiting in self._waiting.items():
            for where in waiting:
                if where.topic == topic and self.get(group_id, *where) is None:
                    yield group_id, where.partition

    def __iter__(self) -> Iterator[tuple[str, TopicPartition, int]]:
        """Every committed offset: group, partition, offset."""
        for group_id, topics in self._committed.items():
            for topic, partitions in topics.items():
                for partition, committed in partitions.items():
                    yield group_id, TopicPartition(topic, partition), committed.offset

    def __eq__(self, other: object) -> bool:
        """Whether the same is committed and pending, whatever else came between."""
        if not isinstance(other, Offsets):
            return NotImplemented
        return self._committed == other._committed and self._pending == other._pending

    def _keep(self, group_id: str, topic: str, partition: int, committed: Committed) -> None:
        topics = self._committed.get(group_id)
        if topics is None:
            topics = self._committed[group_id] = {}
        partitions = topics.get(topic)
        if partitions is None:
            topics[topic] = {partition: committed}
        else:
            partitions[partition] = committed

    def _settle(self, producer_id: int, group_id: str, where: TopicPartition) -> None:
        """The transaction has nothing more to say about the partition. Leaves no empty shells behind."""
        groups = self._pending[producer_id]
        del groups[group_id][where]
        if not groups[group_id]:
            del groups[group_id]
        if not groups:
            del self._pending[producer_id]
        waiting = self._waiting[group_id]
        waiting[where].discard(producer_id)
        if not waiting[where]:
            del waiting[where]
        if not waiting:
            del self._waiting[group_id]
