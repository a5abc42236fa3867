"""The cluster as the controller knows it. Decisions read it; only `apply` changes it, after the store has."""

import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.controller.commands import ConfigResource, ResourceType
from ottla.controller.decision import (
    BrokersChanged,
    Change,
    ConfigDropped,
    ConfigStored,
    DeletionStored,
    EpochStored,
    ReplicasDeleted,
    ShutdownBegun,
    TopicBuried,
    TopicChanged,
    TopicDoomed,
)
from ottla.core.ids import TopicPartition, collision_key
from ottla.replication.state import BrokerImage, PartitionState, TopicImage

NO_STATE = -1
"""The partition epoch of a partition that has no state in the store yet: nobody has ever led it."""
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
METADATA_TOPIC = "__cluster_metadata"
"""Kafka's own log of the cluster. Nobody may create it: we would take its directory for what Kafka left, and refuse to
start."""


class StoredConfig(NamedTuple):
    """What the store holds for a resource."""

    values: Mapping[str, str]
    version: int


class StoredTopic(NamedTuple):
    """A topic and the version of its node."""

    image: TopicImage
    version: int


class StoredEpoch(NamedTuple):
    """The last life of a broker that a controller knew of, and the version of its node."""

    epoch: int
    version: int


class StoredDeletion(NamedTuple):
    """Replicas that a broker has lost and still has to delete, and the version of the node that says so."""

    topic: str
    partitions: tuple[int, ...]
    version: int


class Policy(NamedTuple):
    """What a topic's settings say about electing its leaders."""

    min_insync_replicas: int = 1
    allows_unclean: bool = False


@dataclass(slots=True)
class Context:
    """`epoch` is ours as controller, `epoch_version` the version of its node: every write checks it."""

    controller_id: int
    epoch: int
    epoch_version: int
    brokers: dict[int, BrokerImage] = field(default_factory=dict)
    topics: dict[str, StoredTopic] = field(default_factory=dict)
    doomed: dict[str, StoredTopic | None] = field(default_factory=dict)
    configs: dict[ConfigResource, StoredConfig] = field(default_factory=dict)
    epochs: dict[int, StoredEpoch] = field(default_factory=dict)
    """Every broker that has ever been here. One that lives in another epoch than this has died since."""
    shutting_down: set[int] = field(default_factory=set)
    """Brokers that have asked for a controlled shutdown: they lead nothing, and join no ISR."""
    deletions: dict[tuple[int, uuid.UUID], StoredDeletion] = field(default_factory=dict)
    """What brokers have not deleted yet, by broker and topic id."""
    deleted: dict[int, frozenset[TopicPartition]] = field(default_factory=dict)
    """Replicas of doomed topics that brokers have deleted."""
    policy: Callable[[str], Policy] = lambda topic: Policy()
    skeletons: frozenset[str] = frozenset()
    """Nodes that are there already above states that are not: a controller died while it created a topic."""
    _names: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._names = {collision_key(name): name for name in (*self.topics, *self.doomed)}

    def similar_topic(self, name: str) -> str | None:
        """The topic, living or doomed, that has this name, or one that metrics could not tell from it."""
        if name in self.topics or name in self.doomed:
            return name
        return self._names.get(collision_key(name))

    def states(self) -> Iterator[PartitionState]:
        for topic in self.topics.values():
            yield from topic.image.partitions

    def apply(self, change: Change) -> None:
        match change:
            case TopicChanged(topic, version):
                self.topics[topic.name] = StoredTopic(topic, version)
                self._names.setdefault(collision_key(topic.name), topic.name)
            case TopicDoomed(name):
                self.doomed[name] = self.topics.pop(name)
            case TopicBuried(name):
                del self.doomed[name]
                self.deleted = {
                    id: frozenset(tp for tp in gone if tp.topic != name) for id, gone in self.deleted.items()
                }
                self.configs.pop(ConfigResource(ResourceType.TOPIC, name), None)
                if self._names.get(collision_key(name)) == name:
                    del self._names[collision_key(name)]
            case BrokersChanged(brokers):
                lives = {broker.node_id: broker.epoch for broker in brokers}
                # Who has asked to stop and is gone, or back in another life, has stopped.
                self.shutting_down = {
                    id for id in self.shutting_down if lives.get(id) == self.brokers[id].epoch
                }
                self.brokers = {broker.node_id: broker for broker in brokers}
            case EpochStored(broker, epoch, version):
                self.epochs[broker] = StoredEpoch(epoch, version)
            case ShutdownBegun(broker):
                self.shutting_down.add(broker)
            case DeletionStored(broker, topic_id, name, partitions, version):
                self.deletions.pop((broker, topic_id), None)
                if partitions:
                    self.deletions[broker, topic_id] = StoredDeletion(name, partitions, version)
            case ReplicasDeleted(broker, gone):
                self.deleted[broker] = self.deleted.get(broker, frozenset()) | gone
            case ConfigStored(resource, values, version):
                self.configs[resource] = StoredConfig(values, version)
            case ConfigDropped(resource):
                self.configs.pop(resource, None)
