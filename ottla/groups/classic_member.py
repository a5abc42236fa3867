"""A member of a classic group, and what it brought along.

Metadata and assignments are the clients' own: the broker hands them on and does not read them, except to learn which
topics a consumer subscribes to. That is read with distrust: what cannot be read counts as a subscription to everything.
"""

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ottla.core.errors import ProtocolError
from ottla.core.timers import Timer
from ottla.protocol.codec import decode
from ottla.protocol.messages.coordinator_records import GroupMetadataValue
from ottla.protocol.messages.groups import DescribeGroupsResponse, JoinGroupRequest, JoinGroupResponse
from ottla.protocol.messages.subscription import ConsumerProtocolSubscription
from ottla.replication.machine import Alarm, Ticket

CONSUMER: Final = "consumer"
"""The protocol type of consumers. Others (Connect's workers) are none of the broker's business."""

_ID_PREFIX_MAX = 249  # characters, as many as clients allow an instance id
_VERSION_BYTES = 2  # in front of a subscription; version 0 is a prefix of every other


class Supported(NamedTuple):
    """An assignor that a member can work with, and what it has to say to it."""

    name: str
    metadata: bytes


@dataclass(slots=True)
class ClassicMember:
    """One member. What stands below the line lives in memory only."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: Sequence[Supported]
    """Its favourite first."""
    assignment: bytes = b""

    # ---
    is_new: bool = False
    """Its first join is under way: it does not know its id yet, so it cannot send heartbeats."""
    join_version: int = 0
    join_ticket: Ticket | None = field(default=None, repr=False)
    sync_ticket: Ticket | None = field(default=None, repr=False)
    session: Timer[Alarm] | None = field(default=None, repr=False)

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def waits(self) -> bool:
        """A request of it is held back, and that is as good as a heartbeat."""
        return self.join_ticket is not None or self.sync_ticket is not None

    def metadata(self, protocol_name: str | None) -> bytes:
        """What it says to this assignor; nothing if it never heard of it."""
        return next((one.metadata for one in self.protocols if one.name == protocol_name), b"")

    def topics(self) -> frozenset[str] | None:
        """What it subscribes to; None if that cannot be told."""
        if self.protocol_type != CONSUMER:
            return None
        found: set[str] = set()
        for one in self.protocols:
            topics = subscribed_topics(one.metadata)
            if topics is None:
                return None
            found |= topics
        return frozenset(found)


def new_member_id(client_id: str, instance_id: str | None, unique: uuid.UUID) -> str:
    """Begins with what people know the member by; not with all of it if that is longer than an id may be."""
    return f"{(client_id if instance_id is None else instance_id)[:_ID_PREFIX_MAX]}-{unique}"


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """The topics in a consumer's subscription, of whatever version; None if these bytes are none."""
    try:
        subscription, _ = decode(ConsumerProtocolSubscription, metadata, 0, _VERSION_BYTES)
    except ProtocolError:
        return None
    return frozenset(subscription.topics)


def protocols_of(request: JoinGroupRequest) -> tuple[Supported, ...]:
    """What a joining member supports. Of two with one name, the first counts."""
    named: dict[str, Supported] = {}
    for one in request.protocols:
        named.setdefault(one.name, Supported(one.name, bytes(one.metadata)))
    return tuple(named.values())


def rebalance_timeout_of(request: JoinGroupRequest) -> int:
    """Before v1 a client had a session timeout only."""
    return request.rebalance_timeout_ms if request.rebalance_timeout_ms >= 0 else request.session_timeout_ms


def from_record(value: GroupMetadataValue, member: GroupMetadataValue.Member) -> ClassicMember:
    """A member as the log remembers it: of its protocols, only the one that was chosen."""
    return ClassicMember(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout if member.rebalance_timeout >= 0 else member.session_timeout,
        member.session_timeout,
        value.protocol_type,
        (Supported(value.protocol or "", bytes(member.subscription)),),
        bytes(member.assignment),
    )


def to_record(member: ClassicMember, protocol_name: str, assignment: bytes) -> GroupMetadataValue.Member:
    """The member as it goes into the log."""
    return GroupMetadataValue.Member(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.session_timeout_ms,
        subscription=member.metadata(protocol_name),
        assignment=assignment,
    )


def for_leader(members: Iterable[ClassicMember], protocol_name: str | None) -> list[JoinGroupResponse.Member]:
    """What the leader has to know to assign partitions."""
    return [
        JoinGroupResponse.Member(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            metadata=member.metadata(protocol_name),
        )
        for member in members
    ]


def described(member: ClassicMember, protocol_name: str | None) -> DescribeGroupsResponse.Group.Member:
    """The member for people; without its metadata while no protocol is settled."""
    return DescribeGroupsResponse.Group.Member(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=b"" if protocol_name is None else member.metadata(protocol_name),
        member_assignment=member.assignment,
    )
