"""Exchange: what consumers of a classic group tell each other, as specs for an assignor and back to bytes.

The leader gets the subscriptions of all members and hands in their assignments; the broker reads neither. The bytes
come from clients of any make and age. A version that is newer than ours is read as far as we know it, as Kafka does.
A member whose subscription cannot be read at all is taken for one that wants nothing: it gets an empty assignment, and
the others get theirs.
"""

import struct
from collections.abc import Iterable, Mapping
from typing import TypeVar

from ottla.assignors.registry import Assignor
from ottla.assignors.spec import MemberSpec
from ottla.assignors.user_data import Claim, as_list, as_mapping
from ottla.core.errors import ProtocolError
from ottla.core.types import Buffer
from ottla.protocol.codec import decode, encode_versioned
from ottla.protocol.messages.groups import JoinGroupResponse, SyncGroupRequest
from ottla.protocol.messages.subscription import ConsumerProtocolAssignment, ConsumerProtocolSubscription

BLOB_SIZE_MAX = 16 * 1024 * 1024
"""Of one subscription or assignment. A member with a million partitions needs a quarter of it."""

_SUBSCRIPTION_VERSION = 3
_ASSIGNMENT_VERSION = 0  # all versions look the same, and every client can read this one
_VERSION = struct.Struct(">h")
_Blob = TypeVar("_Blob", ConsumerProtocolSubscription, ConsumerProtocolAssignment)


def subscription_of(
    assignor: Assignor, topics: Iterable[str], claim: Claim, rack_id: str | None = None
) -> bytes:
    """What a member says when it joins. `claim` is what it has, and the generation in which it was given it."""
    subscription = ConsumerProtocolSubscription(
        topics=sorted(set(topics)),
        user_data=assignor.user_data(claim),
        owned_partitions=as_list(claim.partitions) if assignor.is_cooperative else [],
        generation_id=claim.generation_id,
        rack_id=rack_id,
    )
    return encode_versioned(subscription, _SUBSCRIPTION_VERSION)


def assign_group(
    assignor: Assignor, joined: Iterable[JoinGroupResponse.Member], partition_counts: Mapping[str, int]
) -> list[SyncGroupRequest.Assignment]:
    """The leader's work: from the members in its JoinGroup response to the assignments in its SyncGroup request.

    `partition_counts` must have the topics that `topics_of` names, as far as they exist.
    """
    assignment = assignor.assign(specs(assignor, joined), partition_counts)
    return [
        SyncGroupRequest.Assignment(member_id=member_id, assignment=encode_assignment(share))
        for member_id, share in assignment.items()
    ]


def topics_of(joined: Iterable[JoinGroupResponse.Member]) -> set[str]:
    """All topics that any member wants: the leader must know them before it assigns."""
    found: set[str] = set()
    for member in joined:
        if subscription := _subscription(member.metadata):
            found.update(subscription.topics)
    return found


def specs(assignor: Assignor, joined: Iterable[JoinGroupResponse.Member]) -> dict[str, MemberSpec[str]]:
    """The members as the assignor wants them."""
    return {
        member.member_id: _spec(assignor, _subscription(member.metadata), member.group_instance_id)
        for member in joined
    }


def _spec(
    assignor: Assignor, subscription: ConsumerProtocolSubscription | None, instance_id: str | None
) -> MemberSpec[str]:
    if subscription is None:
        return MemberSpec(frozenset(), {}, instance_id)
    claim = assignor.claim(subscription)
    return MemberSpec(
        subscribed=frozenset(subscription.topics),
        current=claim.partitions,
        instance_id=instance_id,
        rack_id=subscription.rack_id or None,
        generation_id=claim.generation_id,
    )


def _subscription(data: Buffer) -> ConsumerProtocolSubscription | None:
    try:
        return decode_subscription(data)
    except ProtocolError:
        return None


def decode_subscription(data: Buffer) -> ConsumerProtocolSubscription:
    """Raises ProtocolError if the bytes are none, or too many."""
    return _decode(ConsumerProtocolSubscription, data, _SUBSCRIPTION_VERSION)


def encode_assignment(partitions: Mapping[str, Iterable[int]], user_data: bytes | None = None) -> bytes:
    assignment = ConsumerProtocolAssignment(assigned_partitions=as_list(partitions), user_data=user_data)
    return encode_versioned(assignment, _ASSIGNMENT_VERSION)


def decode_assignment(data: Buffer) -> dict[str, frozenset[int]]:
    """What a member was given. No bytes at all are an assignment of nothing: the leader did not know the member."""
    if not data:
        return {}
    return as_mapping(_decode(ConsumerProtocolAssignment, data, 3).assigned_partitions)


def _decode(cls: type[_Blob], data: Buffer, version_max: int) -> _Blob:
    if not _VERSION.size <= len(data) <= BLOB_SIZE_MAX:
        raise ProtocolError(f"{cls.__name__} has {len(data)} bytes, but 2 to {BLOB_SIZE_MAX} are possible")
    (version,) = _VERSION.unpack_from(data)
    if version < 0:
        raise ProtocolError(f"{cls.__name__} has no version {version}")
    blob, _ = decode(cls, data, min(version, version_max), _VERSION.size)
    return blob
