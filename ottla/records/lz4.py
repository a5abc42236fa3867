"""The LZ4 frame, as Kafka uses it.

    magic 4 | FLG 1 | BD 1 | content size 8? | dictionary id 4? | header checksum 1
    | blocks | end mark 4 | checksum 4?

Kafka's Java client reads only frames of independent blocks, so frames are assembled here from blocks rather
than taken from a library that links them. Its 0.9 releases computed the header checksum over the magic as
well; messages of magic 0 carry that value to this day, and readers of magic 0 expect it.

Reading walks the block sizes first: a block of n bytes holds at most 255 n and at most what BD says.
"""

import struct

from cramjam import lz4 as _lz4

from ottla.core.types import Buffer
from ottla.records.bounded import decompress_into
from ottla.records.errors import corrupt

MAGIC = b"\x04\x22\x4d\x18"
_DESCRIPTOR = b"\x60\x40"  # version 1, independent blocks, no checksums; blocks of 64 KiB
_HEADER = MAGIC + _DESCRIPTOR + b"\x82"
_HEADER_MAGIC_0 = MAGIC + _DESCRIPTOR + b"\x1a"
_END_MARK = bytes(4)
_BLOCK_BYTES = 64 * 1024
_STORED = 1 << 31
_EXPANSION_MAX = 255
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")

_DICTIONARY_ID, _CONTENT_CHECKSUM, _CONTENT_SIZE, _BLOCK_CHECKSUM = 1, 4, 8, 16  # bits of FLG
_LEVEL_DENSE_MIN = 3  # as in liblz4: from here on the search is slower and denser


def compress(data: Buffer, level: int = 1, *, broken_checksum: bool = False) -> bytes:
    """One frame. `broken_checksum` writes the header that messages of magic 0 need."""
    view = memoryview(data)
    parts = [_HEADER_MAGIC_0 if broken_checksum else _HEADER]
    for start in range(0, len(view), _BLOCK_BYTES):
        plain = view[start : start + _BLOCK_BYTES]
        block = _compress_block(plain, level)
        if len(block) < len(plain):
            parts += (_U32.pack(len(block)), block)
        else:
            parts += (_U32.pack(len(plain) | _STORED), bytes(plain))
    parts.append(_END_MARK)
    return b"".join(parts)


def _compress_block(plain: memoryview, level: int) -> bytes:
    if level < _LEVEL_DENSE_MIN:
        return bytes(_lz4.compress_block(plain, store_size=False))
    # The block function knows no levels; a frame of one block does, and its block depends on no other.
    frame = bytes(_lz4.compress(plain, level=level))
    (word,) = _U32.unpack_from(frame, len(_HEADER))
    start = len(_HEADER) + 4
    return frame[start : start + (word & ~_STORED)]


def decompress(data: Buffer, limit: int, *, broken_checksum: bool = False) -> bytes:
    """The content of the frame that `data` starts with; what lies behind it is ignored, as in Kafka."""
    view = memoryview(data)
    header_size = _header_size(view)
    bound, end = _measure(view, header_size)
    frame: Buffer = view[:end]
    if broken_checksum:
        # Whichever rule its writer followed: the message around it has a CRC of its own.
        fixed = bytearray(frame)
        fixed[header_size - 1] = xxh32(frame[4 : header_size - 1]) >> 8 & 0xFF
        frame = fixed
    return decompress_into(_lz4.decompress_into, "lz4", frame, bound, limit)


def _header_size(view: memoryview) -> int:
    if len(view) < 7 or view[:4] != MAGIC:
        raise corrupt("lz4: this is not a frame")
    flags = view[4]
    if flags >> 6 != 1:
        raise corrupt(f"lz4: unknown frame version {flags >> 6}")
    size = 7 + (8 if flags & _CONTENT_SIZE else 0) + (4 if flags & _DICTIONARY_ID else 0)
    if len(view) < size:
        raise corrupt("lz4: the bytes end inside the frame header")
    return size


def _measure(view: memoryview, position: int) -> tuple[int, int]:
    """The most that the blocks from `position` can hold, and where the frame ends."""
    flags, block_bytes = view[4], 1 << (8 + 2 * (view[5] >> 4 & 7))
    if block_bytes < _BLOCK_BYTES:
        raise corrupt("lz4: unknown block size")
    bound = 0
    while True:
        if position + 4 > len(view):
            raise corrupt("lz4: the bytes end before the frame does")
        (word,) = _U32.unpack_from(view, position)
        position += 4
        if word == 0:
            break
        size = word & ~_STORED
        if size > block_bytes or size > len(view) - position:
            raise corrupt("lz4: a block reaches past the end")
        bound += size if word & _STORED else min(size * _EXPANSION_MAX, block_bytes)
        position += size + (4 if flags & _BLOCK_CHECKSUM else 0)
    if flags & _CONTENT_CHECKSUM:
        position += 4
    if position > len(view):
        raise corrupt("lz4: the bytes end before the frame does")
    if flags & _CONTENT_SIZE:
        (stated,) = _U64.unpack_from(view, 6)
        if stated > bound:
            raise corrupt(f"lz4: {stated} bytes cannot be in blocks of at most {bound}")
        bound = stated
    return bound, position


_PRIME_1, _PRIME_2, _PRIME_3, _PRIME_4, _PRIME_5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393
_MASK = 0xFFFFFFFF


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & _MASK


def xxh32(data: Buffer) -> int:
    """XXH32 with seed 0, of the few bytes of a frame header."""
    view = memoryview(data)
    position = 0
    if len(view) >= 16:
        lanes = [(_PRIME_1 + _PRIME_2) & _MASK, _PRIME_2, 0, -_PRIME_1 & _MASK]
        while position + 16 <= len(view):
            for i, word in enumerate(struct.unpack_from("<4I", view, position)):
                lanes[i] = _rotate((lanes[i] + word * _PRIME_2) & _MASK, 13) * _PRIME_1 & _MASK
            position += 16
        total = sum(_rotate(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True))
    else:
        total = _PRIME_5
    total = (total + len(view)) & _MASK
    while position + 4 <= len(view):
        total = (
            _rotate((total + _U32.unpack_from(view, position)[0] * _PRIME_3) & _MASK, 17) * _PRIME_4 & _MASK
        )
        position += 4
    for byte in view[position:]:
        total = _rotate((total + byte * _PRIME_5) & _MASK, 11) * _PRIME_1 & _MASK
    total = (total ^ total >> 15) * _PRIME_2 & _MASK
    total = (total ^ total >> 13) * _PRIME_3 & _MASK
    return total ^ total >> 16
