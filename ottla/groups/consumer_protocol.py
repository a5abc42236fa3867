"""The blobs of classic consumers, which a KIP-848 group must read and write in place of a leader.

A version newer than ours is read as our newest, as Kafka's clients do: new fields come last. Topics that this broker
does not know are left out.
"""

import struct
import uuid
from typing import NamedTuple, TypeVar

from ottla.core.errors import ProtocolError
from ottla.groups.consumer_member import Partitions, listed
from ottla.groups.group import Topics
from ottla.protocol.codec import decode, encode_versioned
from ottla.protocol.messages.subscription import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
)

_VERSION = struct.Struct(">h")
_VERSION_MAX = 3
_M = TypeVar("_M")


class Subscription(NamedTuple):
    """What a classic consumer says when it joins."""

    topic_names: frozenset[str]
    owned: Partitions
    rack_id: str | None


def read_subscription(blob: bytes, topics: Topics) -> Subscription:
    """Raises ProtocolError."""
    read = _read(ConsumerProtocolSubscription, blob)
    owned = _by_id(read.owned_partitions, topics)
    return Subscription(frozenset(read.topics), owned, read.rack_id or None)


def read_assignment(blob: bytes, topics: Topics) -> Partitions:
    """What a leader has assigned; nothing if it has not. Raises ProtocolError."""
    return _by_id(_read(ConsumerProtocolAssignment, blob).assigned_partitions, topics) if blob else {}


def write_assignment(partitions: Partitions, subscription: bytes, topics: Topics) -> bytes:
    """As the member can read it: in the version of its subscription; in the first one, if the log lost that."""
    named = [
        TopicPartitions(topic=image.name, partitions=indexes)
        for topic_id, indexes in listed(partitions)
        if (image := topics.topic_of_id.get(topic_id)) is not None
    ]
    try:
        version = _version(subscription)
    except ProtocolError:
        version = 0
    return encode_versioned(ConsumerProtocolAssignment(assigned_partitions=named), version)


def _version(blob: bytes) -> int:
    if len(blob) < _VERSION.size:
        raise ProtocolError(f"{len(blob)} bytes cannot hold a version")
    version: int = _VERSION.unpack_from(blob)[0]
    if version < 0:
        raise ProtocolError(f"there is no version {version}")
    return min(version, _VERSION_MAX)


def _read(cls: type[_M], blob: bytes) -> _M:
    return decode(cls, blob, _version(blob), _VERSION.size)[0]


def _by_id(named: list[TopicPartitions], topics: Topics) -> Partitions:
    found: dict[uuid.UUID, frozenset[int]] = {}
    for one in named:
        image = topics.topics.get(one.topic)
        if image is not None and one.partitions:
            partitions = frozenset(one.partitions)
            found[image.topic_id] = found.get(image.topic_id, frozenset()) | partitions
    return found
