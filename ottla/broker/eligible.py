"""Eligible leader replicas on the wire: a tagged field of our own in what the controller tells of a partition.

Kafka's messages of this kind are older than eligible replicas and have no place for them. Whoever does not know the
tag passes it by. A leader must know: as long as somebody is eligible, it commits nothing, whatever it has heard of
min.insync.replicas.
"""

import struct
from typing import Any

from ottla.core.errors import ProtocolError
from ottla.protocol.schema import unknown_tags

TAG = 20_000
_ID_SIZE = 4


def put(message: Any, elr: tuple[int, ...]) -> None:
    """Let the message say who is eligible, if somebody is."""
    if elr:
        message.unknown_tags = {TAG: struct.pack(f">{len(elr)}i", *elr)}


def found_in(message: Any) -> tuple[int, ...]:
    """Who is eligible, as the message says."""
    data = unknown_tags(message).get(TAG, b"")
    if len(data) % _ID_SIZE:
        raise ProtocolError(f"{len(data)} bytes cannot be ids of eligible replicas")
    ids: tuple[int, ...] = struct.unpack(f">{len(data) // _ID_SIZE}i", data)
    return ids
