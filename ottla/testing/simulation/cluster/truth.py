"""What is true, whatever brokers believe: the states in the metadata store, and the records that were ever committed.

A record is committed when a broker that takes itself for the leader has moved its high watermark past it: from then on
somebody may have been told so. The truth only grows; where a leader is elected without all of it, that is a loss.
"""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ottla.core.ids import TopicPartition
from ottla.metadata import paths
from ottla.metadata.paths import (
    BrokerEpochNode,
    ControllerEpochNode,
    ControllerNode,
    PartitionStateNode,
    TopicNode,
)
from ottla.metadata.tree import Change
from ottla.testing.simulation.cluster.object_log import ObjectLog, Record

_STATE = "/state"


@dataclass(slots=True, eq=False)
class TruePartition:
    """One partition of one topic (a topic that is made again is another)."""

    where: TopicPartition
    topic_id: uuid.UUID
    replicas: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    state: PartitionStateNode | None = None
    committed: list[Record] = field(default_factory=list)
    leaders: dict[int, int] = field(default_factory=dict)
    """Who leads in which epoch, as brokers believe it."""
    checked: dict[int, int] = field(default_factory=dict)
    """How much of each broker's log was found to be the truth."""
    watermarks: dict[tuple[int, int, int], int] = field(default_factory=dict)
    """The last high watermark of (broker, life, leader epoch)."""
    unclean: int = 0
    """Unclean shutdowns of replicas since all of them were in sync."""
    losses: list[str] = field(default_factory=list)

    def agreement(self, broker: int, log: ObjectLog) -> int:
        """How far the log is the truth. Only what is new since the last look is compared."""
        committed = self.committed
        at = min(self.checked.get(broker, 0), log.shortest, len(committed))
        log.shortest = log.end_offset
        end, records = min(log.end_offset, len(committed)), log.records
        while at < end and (records[at] is committed[at] or records[at] == committed[at]):
            at += 1
        self.checked[broker] = at
        return at

    def extend(self, log: ObjectLog, end: int) -> None:
        """The records up to `end` of this log are committed."""
        self.committed += log.records[len(self.committed) : end]

    def lose(self, end: int, sentence: str) -> None:
        """Whatever lay behind `end` is gone for good."""
        del self.committed[end:]
        self.checked = {broker: min(at, end) for broker, at in self.checked.items()}
        self.losses.append(sentence)

    @property
    def members(self) -> tuple[int, ...]:
        """Who may be elected without losing anything."""
        return () if self.state is None else (*self.state.isr, *self.state.elr)

    @property
    def is_whole(self) -> bool:
        return self.state is not None and sorted(self.state.isr) == sorted(self.replicas)


class Truth:
    """Follows the metadata store, write by write. `news` are the partitions whose state has changed."""

    def __init__(self, sometimes: Callable[[str], None] = lambda name: None) -> None:
        self._sometimes = sometimes
        self.partitions: dict[TopicPartition, TruePartition] = {}
        self.epochs: dict[int, int] = {}
        """The life of each broker that the controller knows of, as stored."""
        self.registered: dict[int, int] = {}
        """The life in which a broker is registered."""
        self.controller: int | None = None
        self.controller_epoch = 0
        self.controllers = 0
        self._topics: dict[str, uuid.UUID] = {}

    def follow(self, changes: Sequence[Change]) -> list[tuple[TruePartition, PartitionStateNode | None]]:
        """Take over what was written. Returns partitions with a new state, each with the one before."""
        news: list[tuple[TruePartition, PartitionStateNode | None]] = []
        for change in changes:
            path = change.path
            if path.startswith(paths.TOPICS + "/"):
                found = self._follow_topic(change)
                if found is not None:
                    news.append(found)
            elif path.startswith(paths.BROKER_EPOCHS + "/") and change.node is not None:
                self.epochs[_id(path)] = BrokerEpochNode.decode(path, change.node.data)
            elif path.startswith(paths.BROKERS + "/"):
                self._follow_broker(change)
            elif path == ControllerNode.path:
                self.controller = None if change.node is None else ControllerNode.decode(change.node.data)
                self.controllers += change.node is not None
            elif path == ControllerEpochNode.path and change.node is not None:
                self.controller_epoch = ControllerEpochNode.decode(change.node.data)
        return news

    def _follow_broker(self, change: Change) -> None:
        if change.node is None:
            self.registered.pop(_id(change.path), None)
        else:
            self.registered[_id(change.path)] = change.node.created

    def _follow_topic(self, change: Change) -> tuple[TruePartition, PartitionStateNode | None] | None:
        parts = change.path.removeprefix(paths.TOPICS + "/").split("/")
        topic = parts[0]
        if len(parts) == 1:
            self._follow_replicas(topic, change)
            return None
        if not change.path.endswith(_STATE) or change.node is None:
            return None
        partition = self.partitions[TopicPartition(topic, int(parts[2]))]
        before = partition.state
        partition.state = PartitionStateNode.decode(change.path, change.node.data)
        return partition, before

    def _follow_replicas(self, topic: str, change: Change) -> None:
        if change.node is None:
            self._topics.pop(topic, None)
            self._note_deletion(topic)
            self.partitions = {where: each for where, each in self.partitions.items() if where.topic != topic}
            return
        node = TopicNode.decode(change.path, change.node.data)
        self._topics[topic] = node.topic_id
        for index, replicas in enumerate(node.replicas):
            where = TopicPartition(topic, index)
            known = self.partitions.get(where)
            if known is None or known.topic_id != node.topic_id:
                known = self.partitions[where] = TruePartition(where, node.topic_id)
            self._note_move(known, replicas, node.adding.get(index, ()), node.removing.get(index, ()))

    def _note_deletion(self, topic: str) -> None:
        self._sometimes("a topic is deleted")
        replicas = [
            id for where, each in self.partitions.items() if where.topic == topic for id in each.replicas
        ]
        if not all(id in self.registered for id in replicas):
            self._sometimes("a topic is deleted with a broker down")

    def _note_move(
        self,
        true: TruePartition,
        replicas: tuple[int, ...],
        adding: tuple[int, ...],
        removing: tuple[int, ...],
    ) -> None:
        if (true.adding or true.removing) and not (adding or removing):
            wanted = [id for id in true.replicas if id not in true.removing]
            is_done = sorted(replicas) == sorted(wanted)
            self._sometimes("a replica was moved" if is_done else "a move was cancelled")
        true.replicas, true.adding, true.removing = replicas, adding, removing


def _id(path: str) -> int:
    return int(path[path.rindex("/") + 1 :])
