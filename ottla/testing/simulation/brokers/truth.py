"""What is so, whatever brokers believe: read from the metadata store itself."""

from collections.abc import Collection, Sequence

from ottla.metadata.paths import BrokerEpochNode, BrokerNode, ControllerNode, PartitionStateNode
from ottla.metadata.tree import Change
from ottla.testing.simulation.brokers.clients import TOPIC
from ottla.testing.simulation.brokers.node import SimBroker, name_of
from ottla.testing.simulation.store import SimStore
from ottla.testing.simulation.world import World


class Witness:
    """Looks on while the store is written, and counts what is rare."""

    def __init__(self, world: World, store: SimStore) -> None:
        self._world = world
        self._states: dict[str, PartitionStateNode] = {}
        self._has_controller = False
        store.on_write = self.follow

    def follow(self, changes: Sequence[Change]) -> None:
        for change in changes:
            if change.node is None:
                continue
            if change.path.endswith("/state"):
                state = PartitionStateNode.decode(change.path, change.node.data)
                before = self._states.get(change.path)
                self._states[change.path] = state
                if before is not None:
                    self._note(before, state)
            elif change.path == ControllerNode.path:
                if self._has_controller:
                    self._world.sometimes("another controller is elected")
                self._has_controller = True

    def _note(self, before: PartitionStateNode, now: PartitionStateNode) -> None:
        sometimes = self._world.sometimes
        if {*now.isr} < {*before.isr}:
            sometimes("an ISR shrinks")
        if {*now.isr} > {*before.isr} and now.leader_epoch == before.leader_epoch:
            sometimes("an ISR grows")
        if now.leader < 0:
            sometimes("nobody can lead")
        elif now.leader != before.leader:
            sometimes(_how(before, now.leader))


def _how(before: PartitionStateNode, leader: int) -> str:
    """Why this one could be elected."""
    if leader in before.isr:
        return "an in-sync replica is elected"
    if leader in before.elr:
        return "an eligible replica is elected"
    return "the last known leader is elected" if leader == before.last_known_leader else "an unclean election"


class Truth:
    """The state of the topic that everybody writes to."""

    def __init__(
        self, store: SimStore, brokers: Sequence[SimBroker], *, partitions: int, replicas: int
    ) -> None:
        self._tree = store.tree
        self._brokers = brokers
        self._partitions = partitions
        self._replicas = replicas

    @property
    def states(self) -> list[PartitionStateNode]:
        """Of the partitions that there are so far."""
        paths = [PartitionStateNode.path(TOPIC, partition) for partition in range(self._partitions)]
        found = [(path, self._tree.get(path)) for path in paths]
        return [PartitionStateNode.decode(path, node.data) for path, node in found if node is not None]

    @property
    def is_in_sync(self) -> bool:
        """Has every partition a leader, and all replicas in sync?"""
        states = self.states
        is_full = all(state.leader >= 0 and len(state.isr) == self._replicas for state in states)
        return is_full and len(states) == self._partitions

    @property
    def is_whole(self) -> bool:
        """Does every broker serve, in the life in which the controller knows it, with all replicas in sync?"""
        return self.is_in_sync and all(map(self._is_known, self._brokers))

    def _is_known(self, node: SimBroker) -> bool:
        broker = node.broker
        if broker is None or not node.is_ready or node.is_stopping:
            return False
        registered = self._tree.get(BrokerNode.path(node.id))
        known = self._tree.get(path := BrokerEpochNode.path(node.id))
        if registered is None or known is None:
            return False
        epoch = broker.controller.broker_epoch
        return registered.created == epoch == BrokerEpochNode.decode(path, known.data)

    def is_hopeless(self, partition: int, away: Collection[int]) -> bool:
        """Could only those lead it who are away?"""
        path = PartitionStateNode.path(TOPIC, partition)
        node = self._tree.get(path)
        if node is None:
            return False
        state = PartitionStateNode.decode(path, node.data)
        able = {*state.isr, *state.elr} or {state.last_known_leader}
        return state.leader < 0 and able <= {*away}

    def who(self, role: str) -> str | None:
        """The name of the broker in that role."""
        if role == "controller":
            node = self._tree.get(ControllerNode.path)
            return None if node is None else name_of(ControllerNode.decode(node.data))
        leaders = [state.leader for state in self.states if state.leader >= 0]
        return name_of(leaders[0]) if leaders else None
