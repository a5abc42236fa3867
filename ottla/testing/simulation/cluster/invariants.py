"""What must hold after every event. Only what an event has touched is looked at, and of logs only what is new.

Most of it is one sentence: whoever may be elected without losing anything (the true ISR and the eligible leader
replicas) has every record that any leader ever took for committed. A broker that has lost records in a power loss
counts again once the controller knows of its new life; until then nobody may rely on it.
"""

from collections.abc import Mapping, Sequence

from ottla.metadata.paths import PartitionStateNode
from ottla.metadata.tree import Change
from ottla.replication.partition import Partition
from ottla.replication.state import NO_LEADER
from ottla.testing.simulation.cluster.broker import SimBroker
from ottla.testing.simulation.cluster.object_log import ObjectLog
from ottla.testing.simulation.cluster.truth import TruePartition, Truth
from ottla.testing.simulation.world import World

PROMISED_UNCLEAN = 1
"""So many unclean shutdowns at a time lose nothing, with min.insync.replicas=2."""


class Invariants:
    """Looks on. Violations stop the run, unless it is one that may lose records and the promise does not cover it."""

    def __init__(self, world: World, truth: Truth, *, allows_losses: bool = False) -> None:
        self.truth = truth
        self.brokers: Mapping[int, SimBroker] = {}
        self.losses: list[str] = []
        """What was lost, and why that is allowed."""
        self._world = world
        self._allows_losses = allows_losses

    # --- a broker did something -----------------------------------------------------------------------------------

    def touched(self, broker: SimBroker, partition: Partition) -> None:
        true = self.truth.partitions.get(partition.topic_partition)
        if true is None or true.topic_id != partition.topic_id or partition.is_stopped:
            return
        log = broker.disk[partition.topic_partition].log
        watermark = partition.high_watermark.value
        self._check_offsets(broker, partition, log, watermark)
        if true.losses and true.state is not None and partition.leader_epoch < true.state.leader_epoch:
            return  # whoever has not heard of the loss yet knows records that do not count any more
        if partition.is_leader:
            self._check_leader(broker, partition, true, watermark)
            if watermark > len(true.committed):
                self._commit(broker, true, log, watermark)
        if not true.losses and (
            watermark > len(true.committed) or true.agreement(broker.id, log) < watermark
        ):
            self._world.violate(
                "what readers see is committed",
                f"{broker.name} shows {true.where} up to {watermark}, "
                f"of which {true.agreement(broker.id, log)} of {len(true.committed)} records are the committed ones",
            )
        if broker.id in true.members and true.agreement(broker.id, log) < len(true.committed):
            self._miss(broker, true, log, "was changed")

    def _check_offsets(self, broker: SimBroker, partition: Partition, log: ObjectLog, watermark: int) -> None:
        stable = log.last_stable_offset
        if not stable <= watermark <= log.end_offset or watermark != log.high_watermark:
            self._world.violate(
                "LSO <= HW <= LEO",
                f"{broker.name} has {partition.topic_partition} with {stable}, {watermark}, {log.end_offset} "
                f"(the log's own: {log.high_watermark})",
            )

    def _check_leader(
        self, broker: SimBroker, partition: Partition, true: TruePartition, watermark: int
    ) -> None:
        epoch = partition.leader_epoch
        leader = true.leaders.setdefault(epoch, broker.id)
        if leader != broker.id:
            sentence = f"{broker.name} and b{leader} both lead {true.where} in epoch {epoch}"
            self._world.violate("one leader in an epoch", sentence)
        reign = broker.id, self._world.life(broker.name), epoch
        before = true.watermarks.get(reign, 0)
        if watermark < before:
            sentence = f"{broker.name}, leader of {true.where} in epoch {epoch}: {before}, then {watermark}"
            self._world.violate("the high watermark of a leader never goes back", sentence)
        true.watermarks[reign] = watermark

    def _commit(self, broker: SimBroker, true: TruePartition, log: ObjectLog, watermark: int) -> None:
        if true.agreement(broker.id, log) < len(true.committed):
            sentence = f"{broker.name} leads {true.where} and lacks records that were committed before"
            self._world.violate("committed records are in every later leader", sentence)
        true.extend(log, watermark)
        true.checked[broker.id] = watermark
        self._check_members(true, "was not asked")

    # --- the store has changed ------------------------------------------------------------------------------------

    def written(self, changes: Sequence[Change]) -> None:
        before_epoch = self.truth.controller_epoch
        news = self.truth.follow(changes)
        if self.truth.controller_epoch < before_epoch:
            self._world.violate("epochs grow", "the controller epoch went back")
        for true, before in news:
            self._check_state(true, before)
            self._check_members(true, "was accepted")

    def _check_state(self, true: TruePartition, before: PartitionStateNode | None) -> None:
        state = true.state
        assert state is not None
        strangers = [id for id in true.members if id not in true.replicas]
        if strangers:
            self._world.violate(
                "the ISR is of the replicas", f"{strangers} of {true.where} are none of {true.replicas}"
            )
        if state.controller_epoch != self.truth.controller_epoch:
            self._world.violate(
                "a replaced controller writes nothing",
                f"{true.where} was written in controller epoch {state.controller_epoch}, "
                f"there is one with {self.truth.controller_epoch}",
            )
        if before is not None:
            self._compare(true, before, state)
        if true.is_whole:
            true.unclean = 0

    def _compare(self, true: TruePartition, before: PartitionStateNode, state: PartitionStateNode) -> None:
        world, where = self._world, true.where
        is_same_reign = (state.leader, state.leader_epoch) == (before.leader, before.leader_epoch)
        if not is_same_reign and state.leader_epoch <= before.leader_epoch:
            sentence = (
                f"{where}: {before.leader} in {before.leader_epoch}, {state.leader} in {state.leader_epoch}"
            )
            world.violate("epochs grow with every election", sentence)
        if len(state.isr) < len(before.isr):
            world.sometimes("an ISR shrinks")
        elif len(state.isr) > len(before.isr) and is_same_reign:
            world.sometimes("an ISR grows")
        if state.leader == NO_LEADER and before.leader != NO_LEADER:
            world.sometimes("nobody can lead")
        elif state.leader != before.leader and state.leader != NO_LEADER:
            self._note_election(before, state)

    def _note_election(self, before: PartitionStateNode, state: PartitionStateNode) -> None:
        if state.leader in before.isr:
            self._world.sometimes("an in-sync replica is elected")
        elif state.leader in before.elr:
            self._world.sometimes("an eligible replica is elected")
        elif state.leader == before.last_known_leader and not state.is_recovering:
            self._world.sometimes("the last known leader is elected")
        else:
            self._world.sometimes("an unclean election")

    # --- who must have everything ---------------------------------------------------------------------------------

    def _check_members(self, true: TruePartition, why: str) -> None:
        state = true.state
        if state is None:
            return
        for id in true.members:
            broker = self.brokers[id]
            if not self._counts(broker):
                continue
            found = broker.disk.get(true.where)
            if found is None or found.topic_id != true.topic_id:
                if true.committed:
                    self._miss(broker, true, None, why)
            elif true.agreement(id, found.log) < len(true.committed):
                self._miss(broker, true, found.log, why)

    def _counts(self, broker: SimBroker) -> bool:
        return self.truth.epochs.get(broker.id, -1) > broker.damaged_epoch or broker.damaged_epoch < 0

    def _miss(self, broker: SimBroker, true: TruePartition, log: ObjectLog | None, why: str) -> None:
        """A member does not have everything. Is that what the promise excludes?"""
        if not self._counts(broker):
            return
        state = true.state
        assert state is not None
        agreed = 0 if log is None else true.agreement(broker.id, log)
        sentence = (
            f"{broker.name} has {agreed} of the {len(true.committed)} committed records of {true.where}, "
            f"and {why} as a member of ISR {state.isr}, ELR {state.elr}; leader {state.leader} "
            f"in epoch {state.leader_epoch}"
        )
        is_promised = true.unclean <= PROMISED_UNCLEAN and not state.is_recovering
        if self._allows_losses and not is_promised:
            reason = "unclean election" if state.is_recovering else f"{true.unclean} unclean shutdowns"
            true.lose(agreed, f"{sentence} ({reason})")
            self.losses.append(reason)
            self._world.note(f"lost, as the promise says: {sentence} ({reason})")
            return
        self._world.violate("whoever may be elected has everything", sentence)

    # --- faults ---------------------------------------------------------------------------------------------------

    def unclean_shutdown(self, broker: SimBroker) -> None:
        """A broker has died without a marker."""
        for true in self.truth.partitions.values():
            if broker.id in true.replicas:
                true.unclean += 1

    def all_whole(self) -> bool:
        """Is every partition led, and every replica in sync, in the life in which its broker is?"""
        known = all(self.truth.epochs.get(id) == self.truth.registered.get(id) for id in self.brokers)
        return known and all(each.is_whole for each in self.truth.partitions.values())
