"""Groups of all kinds in one shape."""

import enum
from typing import NamedTuple

from ottla.client.admin.operations import AclOperation
from ottla.core.ids import TopicPartition


class GroupType(enum.StrEnum):
    """Which protocol its members speak."""

    UNKNOWN = "Unknown"
    CLASSIC = "Classic"
    CONSUMER = "Consumer"
    SHARE = "Share"
    STREAMS = "Streams"

    @classmethod
    def parse(cls, text: str) -> "GroupType":
        """Brokers differ in how they spell it."""
        return next((each for each in cls if each.value.lower() == text.lower()), cls.UNKNOWN)


class GroupListing(NamedTuple):
    """That there is such a group. Old brokers tell neither state (before 2.6) nor type (before 4.0)."""

    group_id: str
    type: GroupType
    protocol_type: str
    """`consumer` for consumers, `connect` and others for those who use groups for something else."""
    state: str
    """As Kafka spells it: Stable, Empty, PreparingRebalance, CompletingRebalance, Assigning, Reconciling, Dead."""


class MemberDescription(NamedTuple):
    """A member of a group. What its kind of group does not have is None."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    assignment: frozenset[TopicPartition]
    subscribed_topics: frozenset[str] = frozenset()
    subscribed_topic_regex: str | None = None
    rack_id: str | None = None
    member_epoch: int | None = None
    target_assignment: frozenset[TopicPartition] | None = None
    """What it will have when the group has settled."""
    is_classic: bool | None = None
    """Whether it speaks the classic protocol, also in a group of the new one."""
    metadata: bytes = b""
    """What a classic member said when it joined, as it said it: others than consumers have their own language."""
    assignment_bytes: bytes = b""


class GroupDescription(NamedTuple):
    """A group and its members."""

    group_id: str
    type: GroupType
    protocol_type: str
    state: str
    assignor: str
    """Who divides the partitions: the name of the classic protocol, or of the coordinator's assignor."""
    members: tuple[MemberDescription, ...]
    coordinator: int
    group_epoch: int | None = None
    assignment_epoch: int | None = None
    authorized_operations: frozenset[AclOperation] | None = None
