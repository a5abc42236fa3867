"""After everything was healed: does the cluster settle, and is what clients saw what they were promised?"""

from collections.abc import Mapping, Sequence

from ottla.replication.state import NO_LEADER
from ottla.testing.checker import check
from ottla.testing.history import History
from ottla.testing.simulation.cluster.broker import SimBroker
from ottla.testing.simulation.cluster.clients import Cluster, Producer, Transactions
from ottla.testing.simulation.cluster.invariants import Invariants
from ottla.testing.simulation.cluster.readers import Reader
from ottla.testing.simulation.cluster.schedule import Work
from ottla.testing.simulation.cluster.settings import TOPIC
from ottla.testing.simulation.cluster.truth import TruePartition
from ottla.testing.simulation.world import World

SETTLED_MS = 30_000
"""How long it may take until everything is as it should be."""
_AWAY = frozenset({"crash", "pause", "store-cut"})
"""Whoever is held by one of these for ever is no member any more."""


class Ending:
    """The end of one run."""

    def __init__(
        self,
        world: World,
        brokers: Mapping[int, SimBroker],
        invariants: Invariants,
        writers: Sequence[Producer | Transactions],
        lasting: Mapping[str, str],
    ) -> None:
        self._world = world
        self._brokers = brokers
        self._invariants = invariants
        self._writers = writers
        self._away = {id for id, broker in brokers.items() if lasting.get(broker.name) in _AWAY}

    def settle(self) -> None:
        """Wait until leaders lead, everybody is in sync, and everything is committed and stable."""
        if not self._world.run_until(lambda: self.trouble() is None, self._world.now_ms + SETTLED_MS):
            self._world.violate("everything settles", self.trouble() or "it just did")

    def trouble(self) -> str | None:
        """What is not as it should be yet."""
        truth = self._invariants.truth
        held_up = [true for true in truth.partitions.values() if self.is_held_up(true)]
        for writer in self._writers:
            if not writer.is_idle and not held_up:
                return f"{writer.name} waits"
        for id in self._brokers:
            if id not in self._away and truth.epochs.get(id) != truth.registered.get(id, -1):
                return f"b{id} is not registered, or the controller does not know of it"
        for true in truth.partitions.values():
            sentence = None if true in held_up else self._partition_trouble(true)
            if sentence is not None:
                return sentence
        return None

    def is_held_up(self, true: TruePartition) -> bool:
        """Only who is away for ever could lead it without losing anything: then nobody may."""
        state = true.state
        if state is None or state.leader != NO_LEADER:
            return False
        able = true.members or (state.last_known_leader,)
        return all(id in self._away for id in able)

    def _partition_trouble(self, true: TruePartition) -> str | None:
        state = true.state
        if state is None or state.leader == NO_LEADER:
            return f"{true.where} has no leader: {state}"
        wanted = sorted(id for id in true.replicas if id not in self._away)
        if sorted(id for id in state.isr if id not in self._away) != wanted or len(state.isr) > len(wanted):
            return f"{true.where}: ISR {state.isr}, not {wanted}"
        leader = self._brokers[state.leader].partition(true.where)
        if leader is None or not leader.is_leader or leader.leader_epoch != state.leader_epoch:
            return f"b{state.leader} does not lead {true.where} in epoch {state.leader_epoch}"
        end, watermark = leader.log.end_offset, leader.high_watermark.value
        stable = leader.log.last_stable_offset
        if not (end == watermark and (end == stable or true.losses)):  # a marker may be among what was lost
            return f"{true.where}: LEO {end}, HW {watermark}, LSO {stable}"
        for id in wanted:
            follower = self._brokers[id].partition(true.where)
            if follower is None or follower.high_watermark.value != end:
                return f"b{id} does not follow {true.where} to its end"
        return None

    def judge(self, cluster: Cluster, history: History) -> str | None:
        """Read everything once more, and judge what was written down. Returns what is wrong."""
        readers = []
        partitions = list(self._invariants.truth.partitions.values())
        held_up = [true for true in partitions if self.is_held_up(true)]
        if held_up:
            self._world.sometimes("only a broker that is away for ever could lead")
        for true in partitions:
            if true.where.topic == TOPIC and true not in held_up and not true.losses:
                work = Work("reader", partition=true.where.partition, read_committed=True)
                reader = Reader(cluster, f"last reader of {true.where}", work, history.client())
                readers.append((reader, len(true.committed)))
        until_ms = self._world.now_ms + SETTLED_MS
        if not self._world.run_until(lambda: all(r.offset >= end for r, end in readers), until_ms):
            self._world.violate("everything can be read", "somebody does not get to the end")
        report = check(history, is_complete=not held_up)
        return None if report.is_valid else str(report)
