"""What a client knows of the cluster: who its brokers are, which partitions a topic has, who leads them.

Brokers may be behind: an answer with an older leader epoch than one that was seen before does not count (KIP-320),
unless the topic is another one by now.
"""

import uuid
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla.client.errors import ProtocolMismatch
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.hosts import Address
from ottla.core.ids import NULL_ID, TopicPartition
from ottla.protocol.messages.metadata import MetadataResponse

NO_LEADER = -1
PARTITIONS_MAX = 200_000  # of a topic: as many as one answer can name, and far above what brokers can hold


class Node(NamedTuple):
    """A broker that lives."""

    node_id: int
    host: str
    port: int
    rack: str | None = None

    @property
    def address(self) -> Address:
        return Address(self.host, self.port)


class PartitionInfo(NamedTuple):
    """A partition as the cluster sees it. One without a leader is led by -1."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    offline_replicas: tuple[int, ...] = ()


class TopicInfo(NamedTuple):
    """A topic and its partitions, by their number."""

    name: str
    topic_id: uuid.UUID
    partitions: tuple[PartitionInfo, ...]
    is_internal: bool = False
    authorized_operations: int = -(1 << 31)

    @property
    def available(self) -> list[int]:
        """The partitions that have a leader."""
        return [each.partition for each in self.partitions if each.leader != NO_LEADER]


class Metadata:
    """Grows by answers. `topics` has those that exist, `errors` why others are not there."""

    def __init__(self) -> None:
        self.brokers: dict[int, Node] = {}
        self.topics: dict[str, TopicInfo] = {}
        self.errors: dict[str, KafkaError] = {}
        self.names: dict[uuid.UUID, str] = {}
        self.controller_id = NO_LEADER
        self.cluster_id: str | None = None
        self.version = 0
        """Counts the answers."""

    def leader(self, partition: TopicPartition) -> Node | None:
        """The broker that leads it, as far as is known."""
        info = self.partition(partition)
        return None if info is None else self.brokers.get(info.leader)

    def partition(self, partition: TopicPartition) -> PartitionInfo | None:
        topic = self.topics.get(partition.topic)
        if topic is None or not 0 <= partition.partition < len(topic.partitions):
            return None
        return topic.partitions[partition.partition]

    def topic_id(self, name: str) -> uuid.UUID:
        topic = self.topics.get(name)
        return NULL_ID if topic is None else topic.topic_id

    def update(self, answer: MetadataResponse, asked: Iterable[str] | None) -> None:
        """Learn from an answer to a question about the topics `asked`, or about all."""
        self.version += 1
        self.brokers = {
            row.node_id: Node(row.node_id, row.host, row.port, row.rack) for row in answer.brokers
        }
        self.controller_id, self.cluster_id = answer.controller_id, answer.cluster_id or self.cluster_id
        found = {row.name: row for row in answer.topics if row.name is not None}
        if asked is None:
            for name in self.topics.keys() - found.keys():
                self._forget(name)
            self.errors.clear()
        for name, row in found.items():
            if row.error_code and row.error_code != ErrorCode.LEADER_NOT_AVAILABLE:
                self._forget(name)
                self.errors[name] = KafkaError.of(row.error_code, f"topic {name}")
            else:
                self.errors.pop(name, None)
                self._learn(name, row)

    def learn_leader(self, partition: TopicPartition, leader: int, leader_epoch: int) -> bool:
        """A broker's answer named a newer leader (KIP-951). Whether that is news, and of somebody known."""
        known = self.partition(partition)
        if known is None or leader not in self.brokers or leader_epoch <= known.leader_epoch:
            return False
        topic = self.topics[partition.topic]
        partitions = list(topic.partitions)
        partitions[partition.partition] = known._replace(leader=leader, leader_epoch=leader_epoch)
        self.topics[partition.topic] = topic._replace(partitions=tuple(partitions))
        return True

    def learn_brokers(self, nodes: Iterable[Node]) -> None:
        self.brokers |= {node.node_id: node for node in nodes}

    def _learn(self, name: str, row: MetadataResponse.Topic) -> None:
        known = self.topics.get(name)
        if known is not None and known.topic_id != row.topic_id:
            self.names.pop(known.topic_id, None)
            known = None
        before = {each.partition: each for each in known.partitions} if known else {}
        rows = {each.partition_index: each for each in row.partitions}
        if (last := max(rows, default=-1)) >= PARTITIONS_MAX:
            raise ProtocolMismatch(f"a broker said that topic {name} has a partition {last}")
        # Numbers without a gap: a broker that is behind may leave some out.
        partitions = tuple(_partition(name, number, rows.get(number), before) for number in range(last + 1))
        if known is not None and len(partitions) < len(known.partitions):
            partitions += known.partitions[len(partitions) :]
        self.topics[name] = TopicInfo(
            name, row.topic_id, partitions, row.is_internal, row.topic_authorized_operations
        )
        if row.topic_id != NULL_ID:
            self.names[row.topic_id] = name

    def _forget(self, name: str) -> None:
        known = self.topics.pop(name, None)
        if known is not None:
            self.names.pop(known.topic_id, None)


def _partition(
    topic: str,
    number: int,
    row: MetadataResponse.Topic.Partition | None,
    before: Mapping[int, PartitionInfo],
) -> PartitionInfo:
    known = before.get(number)
    if row is None:
        return known or PartitionInfo(topic, number, NO_LEADER, -1)
    if known is not None and 0 <= row.leader_epoch < known.leader_epoch:
        return known
    return PartitionInfo(
        topic,
        number,
        row.leader_id,
        row.leader_epoch,
        tuple(row.replica_nodes),
        tuple(row.isr_nodes),
        tuple(row.offline_replicas),
    )
