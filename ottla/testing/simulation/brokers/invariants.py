"""What must hold after every event, as the brokers' own partitions show it."""

from collections.abc import Mapping, Sequence

from ottla.core.ids import TopicPartition
from ottla.records.batch import iter_batches, records_of
from ottla.replication.partition import Partition
from ottla.testing.simulation.brokers.clients import TOPIC, Told
from ottla.testing.simulation.brokers.node import SimBroker
from ottla.testing.simulation.world import World

_READ_BYTES = 1 << 20
_Life = tuple[int, int, TopicPartition]
"""A broker, how often it was started, and one of its partitions."""


class Invariants:
    """Looks at each broker that has done something. `allows_losses` lets acknowledged records go."""

    def __init__(
        self, world: World, brokers: Sequence[SimBroker], told: Told, *, allows_losses: bool = False
    ) -> None:
        self._world = world
        self._brokers = brokers
        self._told = told
        self._allows_losses = allows_losses
        self.leaders: dict[tuple[TopicPartition, int], int] = {}
        """Who led in which epoch."""
        self._newest: dict[TopicPartition, int] = {}
        self._watermarks: dict[_Life, int] = {}
        self._ends: dict[_Life, int] = {}
        world.always("replicas", self.check)

    def check(self) -> str | None:
        for node in self._brokers:
            if node.broker is None:
                continue
            for where, partition in node.broker.replicas.partitions.items():
                sentence = self._check_marks(node, where, partition)
                if sentence is None and partition.is_leader:
                    sentence = self._check_leader(node, where, partition)
                if sentence is not None:
                    return f"{node} {where}: {sentence}"
        return None

    def _check_marks(self, node: SimBroker, where: TopicPartition, partition: Partition) -> str | None:
        high, log = partition.high_watermark.value, partition.log
        life = (node.id, node.starts, where)
        end, self._ends[life] = self._ends.get(life, 0), log.end_offset
        if log.end_offset < end:
            self._world.sometimes("a follower truncates its log")
        before = self._watermarks.get(life, -1)
        if high == before:
            return None
        self._watermarks[life] = high
        if high < before and not self._allows_losses:
            return f"the high watermark went back from {before} to {high}"
        if high > log.end_offset:
            return f"the high watermark is {high}, but the log ends at {log.end_offset}"
        if log.last_stable_offset > high:
            return f"the last stable offset {log.last_stable_offset} is above the high watermark {high}"
        return None

    def _check_leader(self, node: SimBroker, where: TopicPartition, partition: Partition) -> str | None:
        epoch = partition.leader_epoch
        known = self.leaders.get((where, epoch))
        if known == node.id:
            return None
        if known is not None:
            return f"leads in epoch {epoch}, but so does b{known}"
        self.leaders[where, epoch] = node.id
        self._world.note(f"{node} leads {where} in epoch {epoch} from {partition.log.end_offset}")
        newest = self._newest.get(where, -1)
        self._newest[where] = max(newest, epoch)
        if epoch < newest or where.topic != TOPIC or self._allows_losses:
            return None
        return missing(self._told.acknowledged.get(where.partition, {}), partition)

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
