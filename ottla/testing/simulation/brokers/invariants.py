"""What must hold after every event, as the brokers' own partitions show it.

Committed is what lies below the high watermark of anybody who takes itself for the leader. Whoever leads later has it;
if not, it is a loss, and somebody must have died more often than the promise allows.
"""

import uuid
from collections.abc import Callable, Mapping, Sequence

from ottla.core.ids import TopicPartition
from ottla.records.batch import iter_batches, records_of
from ottla.replication.partition import Partition
from ottla.testing.simulation.brokers.clients import TOPIC, Told
from ottla.testing.simulation.brokers.node import SimBroker
from ottla.testing.simulation.brokers.truth import Truth
from ottla.testing.simulation.world import World

_READ_BYTES = 1 << 20
_Place = tuple[uuid.UUID, int]
"""A partition of a topic: one that is made again is another."""


class Invariants:
    """Looks at each broker that has done something. `allows_losses` lets records go where there is an excuse."""

    def __init__(
        self,
        world: World,
        brokers: Sequence[SimBroker],
        told: Told,
        truth: Truth,
        *,
        allows_losses: bool = False,
    ) -> None:
        self._world = world
        self._brokers = brokers
        self._told = told
        self._truth = truth
        self._allows_losses = allows_losses
        self.losses: list[str] = []
        """Why records could be lost."""
        self.leaders: dict[tuple[_Place, int], int] = {}
        """Who led in which epoch."""
        self._newest: dict[_Place, int] = {}
        self._committed: dict[_Place, int] = {}
        self._lost: set[_Place] = set()
        self._marks: dict[Partition, tuple[int, int]] = {}
        """High watermark and end, when we looked last."""
        self._ends: dict[tuple[int, _Place], int] = {}
        """The same for a broker, over all of its lives."""
        self.look_at: Callable[[Partition], str | None] = lambda partition: None
        """What else must hold of a leader whose log or high watermark has moved."""
        world.always("replicas", self.check)

    def check(self) -> str | None:
        for node in self._brokers:
            if node.broker is None:
                continue
            for where, partition in node.broker.replicas.partitions.items():
                sentence = self._check_marks(node, partition)
                if sentence is None and partition.is_leader:
                    sentence = self._check_leader(node, where, partition)
                if sentence is not None:
                    return f"{node} {where}: {sentence}"
        return None

    def _check_marks(self, node: SimBroker, partition: Partition) -> str | None:
        high, log = partition.high_watermark.value, partition.log
        end = log.end_offset
        known = self._marks.get(partition)
        if known == (high, end):
            return None
        self._marks[partition] = high, end
        place = partition.topic_id, partition.topic_partition.partition
        before, end_before = known or (-1, 0)
        self._note_end(node, place, end, end_before, is_new=known is None)
        if high < before and place not in self._lost:
            return f"the high watermark went back from {before} to {high}"
        if high > end:
            return f"the high watermark is {high}, but the log ends at {end}"
        if log.last_stable_offset > high:
            return f"the last stable offset {log.last_stable_offset} is above the high watermark {high}"
        is_late = place in self._lost and partition.leader_epoch < self._newest[place]
        if (
            partition.is_leader and not is_late
        ):  # who has not heard of a loss yet knows what does not count any more
            self._committed[place] = max(high, self._committed.get(place, 0))
            return self.look_at(partition)
        return None

    def _note_end(self, node: SimBroker, place: _Place, end: int, before: int, *, is_new: bool) -> None:
        if is_new and node.lost_power and end < self._ends.get((node.id, place), 0):
            self._world.sometimes("a power loss takes records along")
        if end < before:
            self._world.sometimes("a follower truncates its log")
        self._ends[node.id, place] = end

    def _check_leader(self, node: SimBroker, where: TopicPartition, partition: Partition) -> str | None:
        epoch, place = partition.leader_epoch, (partition.topic_id, where.partition)
        known = self.leaders.get((place, epoch))
        if known == node.id:
            return None
        if known is not None:
            return f"leads in epoch {epoch}, but so does b{known}"
        self.leaders[place, epoch] = node.id
        self._world.note(f"{node} leads {where} in epoch {epoch} from {partition.log.end_offset}")
        newest = self._newest.get(place, -1)
        self._newest[place] = max(newest, epoch)
        if epoch < newest or where.topic != TOPIC:
            return None
        return self._check_committed(where, place, partition)

    def _check_committed(self, where: TopicPartition, place: _Place, partition: Partition) -> str | None:
        acknowledged = self._told.acknowledged.get(where.partition, {})
        end, committed = partition.log.end_offset, self._committed.get(place, 0)
        sentence = missing(acknowledged, partition)
        if sentence is None and end < committed:
            sentence = f"the new leader has {end} records, but {committed} were committed"
        if sentence is None:
            return None
        excuse = self._truth.excuse(where)
        if not self._allows_losses or excuse is None:
            return f"{sentence} ({excuse or 'all within the promise'})"
        self._world.note(f"lost, as the promise says: {sentence} ({excuse})")
        self._world.sometimes("committed records are lost, which was allowed")
        self.losses.append(excuse)
        self._lost.add(place)
        self._committed[place] = min(end, committed)
        self._told.lost_ms[where.partition] = self._world.now_ms
        found = contents(partition)
        kept = {offset: value for offset, value in acknowledged.items() if found.get(offset) == value}
        self._told.acknowledged[where.partition] = kept
        return None

    def check_alike(self) -> str | None:
        """Below the high watermark, all replicas of a partition hold the same. To be looked at in the end."""
        first: dict[TopicPartition, tuple[SimBroker, dict[int, str]]] = {}
        for node in self._brokers:
            for partition in node.partitions:
                where, high = partition.topic_partition, partition.high_watermark.value
                if where.topic != TOPIC:
                    continue
                mine = {offset: value for offset, value in contents(partition).items() if offset < high}
                other, theirs = first.setdefault(where, (node, mine))
                for offset in mine.keys() & theirs.keys():
                    if mine[offset] != theirs[offset]:
                        return f"{where} at {offset}: {node} has {mine[offset]}, {other} has {theirs[offset]}"
        return None


def missing(acknowledged: Mapping[int, str], partition: Partition) -> str | None:
    """Which acknowledged record is not in this log?"""
    if not acknowledged:
        return None
    found = contents(partition)
    for offset, value in acknowledged.items():
        if found.get(offset) != value:
            return f"the new leader has {found.get(offset)} at {offset}, where {value} was acknowledged"
    return None


def contents(partition: Partition) -> dict[int, str]:
    """Everything in a log, by offset."""
    log, found = partition.log, dict[int, str]()
    offset = log.log_start_offset
    while offset < log.end_offset:
        data = log.read(offset, _READ_BYTES).read()
        for position, header in iter_batches(data, partial=True):
            for record in records_of(data, position):
                found[record.offset] = (record.value or b"").decode(errors="replace")
            offset = header.next_offset
    return found
