"""A member of a KIP-848 group as the log holds it: a value, made from its two records and never changed.

What it said of itself (subscription, client, timeouts) is one record, what it has and in which epoch is the other.
Either may come first when a compacted log is read.
"""

import uuid
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, NamedTuple

from ottla.protocol.messages.coordinator_records import (
    AssignedTopic,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
)

Partitions = Mapping[uuid.UUID, frozenset[int]]
"""Partitions by topic id. A topic without any is left out, so equal means equal."""

NOTHING: Partitions = {}
LEAVES = -1
LEAVES_FOR_A_WHILE = -2
"""Epochs: of a member that leaves, and of a static one that means to come back."""


class MemberState(IntEnum):
    """How far a member is on its way to its target; the numbers are those of the record."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    """It must give something back before it moves on to the next epoch."""
    UNRELEASED_PARTITIONS = 2
    """It is in its epoch, but others still hold some of what it shall have."""
    UNKNOWN = 127
    """Written by a newer coordinator."""


class ClassicClient(NamedTuple):
    """What is kept of a member that speaks the classic protocol."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    """Name and subscription, the ones it likes best first."""


class Member(NamedTuple):
    """One member. `topic_names` and `topic_regex` together are its subscription."""

    id: str
    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    topic_regex: str | None = None
    assignor: str | None = None
    assigned: Partitions = NOTHING
    to_revoke: Partitions = NOTHING
    """It was told to give them back, and has not yet done so."""
    classic: ClassicClient | None = None

    @property
    def has_left_for_a_while(self) -> bool:
        return self.epoch == LEAVES_FOR_A_WHILE

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == epoch

    def moved_to(self, epoch: int) -> "Member":
        """In another epoch. Staying in the same one ends the patience with the one before: see `check_epoch`."""
        return self._replace(epoch=epoch, previous_epoch=self.epoch)

    def has_same_metadata(self, other: "Member") -> bool:
        """Whether both would leave the same record of what they said of themselves."""
        return self._metadata() == other._metadata()

    def _metadata(self) -> tuple[object, ...]:
        return (
            self.instance_id,
            self.rack_id,
            self.rebalance_timeout_ms,
            self.client_id,
            self.client_host,
            self.topic_names,
            self.topic_regex,
            self.assignor,
            self.classic,
        )


def partitions_of(topics: Iterable[Any]) -> Partitions:
    """From any message's list of topics with an id and partitions. What is named twice is united."""
    found: dict[uuid.UUID, frozenset[int]] = {}
    for topic in topics:
        if topic.partitions:
            found[topic.topic_id] = found.get(topic.topic_id, frozenset()) | frozenset(topic.partitions)
    return found


def listed(partitions: Partitions) -> list[tuple[uuid.UUID, list[int]]]:
    """In an order that does not depend on history."""
    return [(topic_id, sorted(partitions[topic_id])) for topic_id in sorted(partitions)]


def is_within(few: Partitions, many: Partitions) -> bool:
    return all(indexes <= many.get(topic_id, frozenset()) for topic_id, indexes in few.items())


def metadata_value(member: Member) -> ConsumerGroupMemberMetadataValue:
    """What it said of itself, as a record."""
    classic = None
    if member.classic is not None:
        shape = ConsumerGroupMemberMetadataValue.ClassicMember
        classic = shape(
            session_timeout_ms=member.classic.session_timeout_ms,
            supported_protocols=[
                shape.Protocol(name=name, metadata=metadata) for name, metadata in member.classic.protocols
            ],
        )
    return ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        subscribed_topic_regex=member.topic_regex or "",
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.assignor,
        classic_member_metadata=classic,
    )


def with_metadata(member: Member, value: ConsumerGroupMemberMetadataValue) -> Member:
    """The member after this record. One that names no protocol cannot speak the classic one, whatever it says."""
    classic = value.classic_member_metadata
    return member._replace(
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        client_id=value.client_id,
        client_host=value.client_host,
        topic_names=frozenset(value.subscribed_topic_names),
        topic_regex=value.subscribed_topic_regex or None,
        assignor=value.server_assignor,
        classic=None
        if classic is None or not classic.supported_protocols
        else ClassicClient(
            classic.session_timeout_ms,
            tuple((protocol.name, bytes(protocol.metadata)) for protocol in classic.supported_protocols),
        ),
    )


def current_value(member: Member) -> ConsumerGroupCurrentMemberAssignmentValue:
    """What it has, as a record."""
    return ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=int(member.state),
        assigned_partitions=_topics(member.assigned),
        partitions_pending_revocation=_topics(member.to_revoke),
    )


def with_current(member: Member, value: ConsumerGroupCurrentMemberAssignmentValue) -> Member:
    """The member after this record."""
    try:
        state = MemberState(value.state)
    except ValueError:
        state = MemberState.UNKNOWN
    return member._replace(
        epoch=value.member_epoch,
        previous_epoch=value.previous_member_epoch,
        state=state,
        assigned=partitions_of(value.assigned_partitions),
        to_revoke=partitions_of(value.partitions_pending_revocation),
    )


def _topics(partitions: Partitions) -> list[AssignedTopic]:
    return [AssignedTopic(topic_id=topic_id, partitions=indexes) for topic_id, indexes in listed(partitions)]
