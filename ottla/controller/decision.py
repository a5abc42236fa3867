"""What a decision of the controller consists of: writes, changes and effects, in this order.

`writes` go to the metadata store, cut into multis of a bearable size where they are many; each carries a check of the
controller epoch, so that a controller that was replaced changes nothing any more. They are ordered so that whatever
of them has happened when the lights go out, the next controller can finish. When they last, `changes` bring the
controller's own memory up to date, and `effects` are what the brokers are told then.
"""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.controller.commands import ConfigResource
from ottla.core.ids import TopicPartition
from ottla.metadata.store import Op
from ottla.replication.state import BrokerImage, PartitionState, TopicImage


class TopicChanged(NamedTuple):
    """A topic is new, or looks different now. `version` is that of its node in the store."""

    topic: TopicImage
    version: int


class TopicDoomed(NamedTuple):
    """A topic was marked to be deleted: nobody sees it any more, but its name is taken until nothing is left."""

    name: str


class TopicBuried(NamedTuple):
    """Nothing is left of a topic."""

    name: str


class BrokersChanged(NamedTuple):
    """These brokers live, and no others."""

    brokers: tuple[BrokerImage, ...]


class EpochStored(NamedTuple):
    """This is the last life of a broker that we know of. `version` is that of its node."""

    broker: int
    epoch: int
    version: int


class ShutdownBegun(NamedTuple):
    """A broker is about to stop: it is not to lead, nor to join an ISR, until its next life."""

    broker: int


class ConfigStored(NamedTuple):
    """The settings of a resource are these now. `version` is that of its node."""

    resource: ConfigResource
    values: Mapping[str, str]
    version: int


class ConfigDropped(NamedTuple):
    """There are no settings of that resource any more."""

    resource: ConfigResource


class DeletionStored(NamedTuple):
    """A broker has to delete these replicas of a topic, which it has lost; none, when it has. `version` is that of the
    node."""

    broker: int
    topic_id: uuid.UUID
    topic: str
    partitions: tuple[int, ...]
    version: int


class ReplicasDeleted(NamedTuple):
    """A broker says that it has deleted these replicas of doomed topics."""

    broker: int
    partitions: frozenset[TopicPartition]


Change = (
    TopicChanged
    | TopicDoomed
    | TopicBuried
    | BrokersChanged
    | EpochStored
    | ShutdownBegun
    | DeletionStored
    | ReplicasDeleted
    | ConfigStored
    | ConfigDropped
)


class LeaderAndIsr(NamedTuple):
    """Tell a broker which partitions to lead, and which to follow."""

    broker: int
    states: tuple[PartitionState, ...]


class StopReplicas(NamedTuple):
    """Tell a broker to stop serving partitions; True deletes the log as well."""

    broker: int
    partitions: Mapping[TopicPartition, bool]


class UpdateMetadata(NamedTuple):
    """Tell a broker how the cluster looks. `brokers` are all that live, or None if that has not changed."""

    broker: int
    topics: tuple[TopicImage, ...] = ()
    deleted: tuple[str, ...] = ()
    brokers: tuple[BrokerImage, ...] | None = None


class ConfigChange(NamedTuple):
    """Tell all brokers what is configured for a resource now; None when the resource is gone."""

    resource: ConfigResource
    values: Mapping[str, str] | None


Effect = LeaderAndIsr | StopReplicas | UpdateMetadata | ConfigChange


@dataclass(slots=True)
class Decision:
    """See above. An empty one is a decision, too."""

    writes: list[Op] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)

    def add(self, other: "Decision") -> None:
        """Decide that as well, after this."""
        self.writes += other.writes
        self.changes += other.changes
        self.effects += other.effects
