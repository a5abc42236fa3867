"""What is so, whatever brokers believe: the metadata store write by write, and who died without having shut down."""

from collections.abc import Collection, Mapping, Sequence

from ottla.core.ids import TopicPartition
from ottla.metadata import paths
from ottla.metadata.paths import PartitionStateNode
from ottla.metadata.tree import Change
from ottla.testing.simulation.brokers.clients import TOPIC
from ottla.testing.simulation.brokers.node import SimBroker, name_of
from ottla.testing.simulation.cluster.truth import TruePartition
from ottla.testing.simulation.cluster.truth import Truth as Stored
from ottla.testing.simulation.store import SimStore
from ottla.testing.simulation.world import World

PROMISED_UNCLEAN = 1
"""So many unclean shutdowns at a time lose nothing, with min.insync.replicas=2."""


class Truth:
    """Looks on while the store is written, counts what is rare, and says how the cluster is."""

    def __init__(
        self, world: World, store: SimStore, brokers: Mapping[int, SimBroker], partitions: int
    ) -> None:
        self.stored = Stored(world.sometimes)
        self._world = world
        self._brokers = brokers
        self._partitions = partitions
        self._lives: dict[int, int] = {}
        """In which life of the process a broker has registered last."""
        self._controllers = 0
        self._recovering: set[TopicPartition] = set()
        """Where somebody was elected who may lack something, and not all are in sync again."""
        store.on_write = self.follow

    # --- writes ---------------------------------------------------------------------------------------------------

    def follow(self, changes: Sequence[Change]) -> None:
        news = self.stored.follow(changes)
        for change in changes:
            directory, _, name = change.path.rpartition("/")
            if directory == paths.BROKERS and change.node is not None:
                self._note_registration(int(name))
        if self.stored.controllers > max(1, self._controllers):
            self._world.sometimes("another controller is elected")
        self._controllers = self.stored.controllers
        for true, before in news:
            assert true.state is not None
            if true.state.is_recovering:
                self._recovering.add(true.where)
            self._forgive(true)
            if before is not None:
                self._note(before, true.state)

    def _note_registration(self, id: int) -> None:
        life = self._world.life(name_of(id))
        if self._lives.get(id) == life:
            self._world.sometimes("a broker registers again in the same life")
        self._lives[id] = life

    def _note(self, before: PartitionStateNode, now: PartitionStateNode) -> None:
        sometimes = self._world.sometimes
        if {*now.isr} < {*before.isr}:
            sometimes("an ISR shrinks")
        if {*now.isr} > {*before.isr} and now.leader_epoch == before.leader_epoch:
            sometimes("an ISR grows")
        if now.leader < 0:
            sometimes("nobody can lead")
        elif now.leader != before.leader:
            sometimes(_how(before, now))

    # --- unclean shutdowns ----------------------------------------------------------------------------------------

    def unclean_shutdown(self, id: int) -> None:
        """A broker is about to die without a marker."""
        for true in self.stored.partitions.values():
            if id in true.replicas:
                self._forgive(true)
                true.unclean += 1

    def _forgive(self, true: TruePartition) -> None:
        """When all replicas are in sync, in the lives in which they are, what was before does not count any more."""
        if true.is_whole and all(self._is_known(self._brokers[id]) for id in true.replicas):
            true.unclean = 0
            self._recovering.discard(true.where)

    def excuse(self, where: TopicPartition) -> str | None:
        """Why committed records may be lost there; None if the promise covers them."""
        true = self.stored.partitions[where]
        if where in self._recovering:
            return "unclean election"
        return f"{true.unclean} unclean shutdowns" if true.unclean > PROMISED_UNCLEAN else None

    # --- how the cluster is ---------------------------------------------------------------------------------------

    @property
    def is_whole(self) -> bool:
        return self.trouble() is None

    def trouble(self) -> str | None:
        """What keeps the cluster from being whole: every broker serves, in the life in which the controller knows it,
        and all replicas of all partitions are where they are to be, and in sync."""
        found = self.stored.partitions
        if any(TopicPartition(TOPIC, index) not in found for index in range(self._partitions)):
            return f"{TOPIC} is not there"
        for node in self._brokers.values():
            if not self._is_known(node):
                return f"{node} does not serve, or the controller does not know of it"
        for true in found.values():
            if true.state is None or true.state.leader < 0 or not true.is_whole:
                return f"{true.where} has replicas {true.replicas}, and {true.state}"
            if true.adding or true.removing:
                return f"{true.where} is on the move: {true.adding} come, {true.removing} go"
        return None

    def _is_known(self, node: SimBroker) -> bool:
        broker = node.broker
        if broker is None or not node.is_ready or node.is_stopping:
            return False
        epoch = broker.controller.broker_epoch
        return self.stored.registered.get(node.id) == epoch == self.stored.epochs.get(node.id)

    def is_known_to_all(self) -> bool:
        """Do all brokers tell their clients of the topics that there are, and of no others?"""
        topics = {where.topic for where in self.stored.partitions}
        nodes = [node.broker for node in self._brokers.values() if node.broker is not None]
        return all(broker.metadata.topics.keys() == topics for broker in nodes)

    def litter(self, node: SimBroker) -> list[str]:
        """Directories of partitions on its disk that are no replica there, and replicas that have none."""
        wanted = {
            f"{where.topic}-{where.partition}"
            for where, true in self.stored.partitions.items()
            if node.id in true.replicas
        }
        return sorted(wanted ^ set(node.directories()))

    def is_hopeless(self, partition: int, away: Collection[int]) -> bool:
        """Could only those lead it who are away?"""
        return self._is_hopeless(self.stored.partitions.get(TopicPartition(TOPIC, partition)), away)

    def has_hopeless(self, away: Collection[int]) -> bool:
        """Is that so of any partition?"""
        return any(self._is_hopeless(true, away) for true in self.stored.partitions.values())

    @staticmethod
    def _is_hopeless(true: TruePartition | None, away: Collection[int]) -> bool:
        if true is None or true.state is None:
            return False
        able = {*true.members} or {true.state.last_known_leader}
        return true.state.leader < 0 and able <= {*away}

    def who(self, role: str) -> str | None:
        """The name of the broker in that role."""
        if role == "controller":
            return None if self.stored.controller is None else name_of(self.stored.controller)
        for index in range(self._partitions):
            true = self.stored.partitions.get(TopicPartition(TOPIC, index))
            if true is not None and true.state is not None and true.state.leader >= 0:
                return name_of(true.state.leader)
        return None


def _how(before: PartitionStateNode, now: PartitionStateNode) -> str:
    """Why this one could be elected."""
    if now.leader in before.isr:
        return "an in-sync replica is elected"
    if now.leader in before.elr:
        return "an eligible replica is elected"
    is_last = now.leader == before.last_known_leader and not now.is_recovering
    return "the last known leader is elected" if is_last else "an unclean election"
