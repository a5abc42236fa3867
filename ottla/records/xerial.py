"""Snappy, raw or in the blocks of Java's snappy library (xerial), which is what Kafka's Java producer writes.

xerial: 8 bytes of magic, int32 version 1, int32 lowest compatible version 1, then blocks of int32 size and
raw snappy. Raw snappy opens with the length of what it holds, and can hold no more than 64 bytes for every 3
it is long.
"""

import struct

from cramjam import DecompressionError, snappy

from ottla.core.types import Buffer
from ottla.records.bounded import decompress_into
from ottla.records.errors import corrupt, too_large

MAGIC = b"\x82SNAPPY\x00"
HEADER = MAGIC + struct.pack(">ii", 1, 1)
BLOCK_BYTES = 32 * 1024
_EXPANSION_MAX = 22
_SIZE = struct.Struct(">i")


def compress(data: Buffer) -> bytes:
    """xerial framing, in blocks of 32 KiB as Java's."""
    view = memoryview(data)
    parts = [HEADER]
    for start in range(0, len(view), BLOCK_BYTES):
        block = bytes(snappy.compress_raw(view[start : start + BLOCK_BYTES]))
        parts += (_SIZE.pack(len(block)), block)
    return b"".join(parts)


def compress_raw(data: Buffer) -> bytes:
    """One raw block, as librdkafka and others write."""
    return bytes(snappy.compress_raw(data))


def decompress(data: Buffer, limit: int) -> bytes:
    """Either framing, told apart by xerial's magic: raw snappy cannot begin with it."""
    view = memoryview(data)
    if view[: len(MAGIC)] == MAGIC:
        return _blocks(view, limit)
    return _raw(view, limit)


def _raw(view: memoryview, limit: int) -> bytes:
    size = _stated_size(view)
    if size > limit:
        raise too_large(f"snappy data states {size} bytes where {limit} are left of the cap")
    return decompress_into(snappy.decompress_raw_into, "snappy", view, size, limit)


def _blocks(view: memoryview, limit: int) -> bytes:
    parts: list[bytes] = []
    room = limit
    position = len(HEADER)
    if len(view) < position:
        raise corrupt("snappy: the bytes end inside the header of the blocks")
    while position < len(view):
        if position + 4 > len(view):
            raise corrupt("snappy: the bytes end inside the size of a block")
        (size,) = _SIZE.unpack_from(view, position)
        position += 4
        if size < 0 or size > len(view) - position:
            raise corrupt("snappy: a block reaches past the end")
        parts.append(_raw(view[position : position + size], room))
        room -= len(parts[-1])
        position += size
    return b"".join(parts)


def _stated_size(view: memoryview) -> int:
    try:
        size: int = snappy.decompress_raw_len(view)
    except DecompressionError as error:
        raise corrupt(f"snappy: {error}") from None
    if size > len(view) * _EXPANSION_MAX:
        raise corrupt(f"snappy: {len(view)} bytes cannot hold the {size} they state")
    return size
