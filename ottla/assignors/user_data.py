"""What the sticky assignors say about themselves in a subscription: the partitions a member had, and since when.

Neither form carries a version. Sticky's old form has no generation; like Kafka, we try the new form first. Whatever
else the bytes are, the member is taken for one that had nothing: they may come from a client with an assignor of its
own under the same name.
"""

import struct
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla.core.errors import ProtocolError
from ottla.core.types import Buffer
from ottla.protocol.codec import decode, encode_bytes
from ottla.protocol.messages.subscription import TopicPartitions
from ottla.protocol.schema import Int32, field, message

NO_GENERATION = -1
_GENERATION = struct.Struct(">i")


class Claim(NamedTuple):
    """What a member says it had, and in which generation it was given it."""

    partitions: Mapping[str, frozenset[int]]
    generation_id: int = NO_GENERATION


@message(versions="0-1")
class StickyUserData:
    """The user data of `sticky`; v1 added the generation."""

    previous_assignment: list[TopicPartitions]
    generation: Int32 = field("1+", default=NO_GENERATION, ignorable=True)


def encode_sticky(claim: Claim, version: int = 1) -> bytes:
    data = StickyUserData(previous_assignment=as_list(claim.partitions), generation=claim.generation_id)
    return encode_bytes(data, version)


def decode_sticky(data: Buffer | None) -> Claim:
    """The claim in a member's user data; one to nothing if there is none that can be read."""
    for version in (1, 0):
        try:
            found, _ = decode(StickyUserData, data or b"", version)
        except ProtocolError:
            continue
        return Claim(as_mapping(found.previous_assignment), found.generation)
    return Claim({})


def encode_cooperative(generation_id: int) -> bytes:
    """The user data of `cooperative-sticky`: what a member owns is in the subscription itself."""
    return _GENERATION.pack(generation_id)


def decode_cooperative(data: Buffer | None) -> int:
    """The generation; -1 if there is none that can be read."""
    if data is None or len(data) < _GENERATION.size:
        return NO_GENERATION
    generation_id: int = _GENERATION.unpack_from(data)[0]
    return generation_id


def as_list(partitions: Mapping[str, Iterable[int]]) -> list[TopicPartitions]:
    """As messages list partitions, sorted."""
    return [
        TopicPartitions(topic=topic, partitions=sorted(partitions[topic])) for topic in sorted(partitions)
    ]


def as_mapping(listed: Iterable[TopicPartitions]) -> dict[str, frozenset[int]]:
    """By topic. A topic that is listed twice counts with all its partitions."""
    found: dict[str, set[int]] = {}
    for each in listed:
        found.setdefault(each.topic, set()).update(each.partitions)
    return {topic: frozenset(partitions) for topic, partitions in found.items()}
