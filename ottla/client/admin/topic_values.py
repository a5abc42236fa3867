"""Topics and their partitions as an admin client is asked for them, and describes them."""

import enum
import uuid
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ottla.client.admin.config_values import ConfigEntry
from ottla.client.admin.operations import AclOperation


class NewTopic(NamedTuple):
    """A topic to be made. -1 is the broker's default, or what follows from `replica_assignments`."""

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    replica_assignments: Mapping[int, Sequence[int]] | None = None
    """For each partition the brokers that are to have it; the first is to lead. Instead of the two numbers."""
    topic_configs: Mapping[str, object] | None = None


class CreatedTopic(NamedTuple):
    """A topic as it was made, or would have been. Old brokers (before 2.4) do not tell more than the name."""

    name: str
    topic_id: uuid.UUID
    num_partitions: int
    replication_factor: int
    configs: Mapping[str, ConfigEntry]


class NewPartitions(NamedTuple):
    """How many partitions a topic is to have in all, and where those that come are to be."""

    total_count: int
    new_assignments: Sequence[Sequence[int]] | None = None


class TopicListing(NamedTuple):
    """That there is such a topic."""

    name: str
    topic_id: uuid.UUID
    is_internal: bool


class PartitionDescription(NamedTuple):
    """A partition as the cluster sees it, by the ids of brokers. One without a leader is led by -1.

    Replicas that may lead though they are not in sync are named by brokers that keep them (KIP-966).
    """

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...] = ()
    eligible_leader_replicas: tuple[int, ...] | None = None
    last_known_eligible_leader_replicas: tuple[int, ...] | None = None


class TopicDescription(NamedTuple):
    """A topic with its partitions, by their number."""

    name: str
    topic_id: uuid.UUID
    is_internal: bool
    partitions: tuple[PartitionDescription, ...]
    authorized_operations: frozenset[AclOperation] | None = None
    """What the one who asks may do, if that was asked for."""


class ElectionType(enum.IntEnum):
    """Who is to lead: the first replica, if it is in sync; or any that lives, if none in sync does."""

    PREFERRED = 0
    UNCLEAN = 1


class PartitionReassignment(NamedTuple):
    """A partition on the move."""

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]
