"""The five codecs of Kafka, in one table, and the rule that keeps them safe: output never passes a cap.

A few kilobytes can claim to hold gigabytes. Before anything is decompressed the frame's own headers say how
much it could hold at most; a buffer of that size, or of the cap when that is smaller, is all the decoder is
given to write to. gzip, whose headers say nothing, is decoded piece by piece. So a bomb costs the cap and
then raises MESSAGE_TOO_LARGE.

Framings: gzip members (any number of them, as Java reads them), snappy raw or in xerial's blocks (Java writes
the latter), the LZ4 frame (see `lz4.py`), zstd frames with or without a content size.
"""

import enum
import zlib
from collections.abc import Callable
from typing import NamedTuple

from ottla.core.errors import ErrorCode
from ottla.core.types import Buffer
from ottla.records import lz4, xerial, zstd
from ottla.records.errors import RecordError, corrupt, too_large

OUTPUT_BYTES_MAX = 64 * 1024 * 1024
"""How much one batch may decompress to, unless a caller says otherwise."""
_PIECE_BYTES = 256 * 1024


class Codec(enum.IntEnum):
    """What the lowest three bits of a batch's attributes name."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class _Methods(NamedTuple):
    compress: Callable[[Buffer, int], bytes]
    decompress: Callable[[Buffer, int], bytes]
    level: int


def _copy(data: Buffer, limit: int) -> bytes:
    if len(data) > limit:
        raise too_large(f"{len(data)} bytes are more than the cap of {limit}")
    return bytes(data)


def _gzip(data: Buffer, level: int) -> bytes:
    stream = zlib.compressobj(level, zlib.DEFLATED, 31)
    return stream.compress(data) + stream.flush()


def _gunzip(data: Buffer, limit: int) -> bytes:
    view = memoryview(data)
    parts: list[bytes] = []
    position, room = _gunzip_member(view, 0, parts, limit, limit)
    # What follows a member and does not look like another is ignored, as Java does.
    while bytes(view[position : position + 2]) == b"\x1f\x8b":
        position, room = _gunzip_member(view, position, parts, room, limit)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _gunzip_member(
    view: memoryview, position: int, parts: list[bytes], room: int, limit: int
) -> tuple[int, int]:
    """Decode the member at `position` into `parts`; returns where it ends, and the room that it leaves.

    Input is handed over in slices, because zlib copies what it leaves: thousands of tiny members stay cheap
    that way.
    """
    stream = zlib.decompressobj(31)
    step = 1024 if position else _PIECE_BYTES
    while not stream.eof:
        piece = view[position : position + step]
        try:
            part = stream.decompress(piece, min(room + 1, _PIECE_BYTES))
        except zlib.error as error:
            raise corrupt(f"gzip: {error}") from None
        room -= len(part)
        if room < 0:
            raise too_large(f"gzip data decompresses to more than {limit} bytes")
        if not piece and not part and not stream.eof:
            raise corrupt("gzip data ends before its stream does")
        if part:
            parts.append(part)
        position += len(piece) - len(stream.unconsumed_tail) - len(stream.unused_data)
        step = min(step * 2, _PIECE_BYTES)
    return position, room


_TABLE = {
    Codec.NONE: _Methods(lambda data, level: bytes(data), _copy, 0),
    Codec.GZIP: _Methods(_gzip, _gunzip, 6),
    Codec.SNAPPY: _Methods(lambda data, level: xerial.compress(data), xerial.decompress, 0),
    Codec.LZ4: _Methods(lz4.compress, lz4.decompress, 1),
    Codec.ZSTD: _Methods(zstd.compress, zstd.decompress, 3),
}


def codec_of(attributes: int) -> Codec:
    """The codec that a batch's or message's attributes name."""
    number = attributes & 7
    if number > Codec.ZSTD:
        raise RecordError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"no codec has the number {number}")
    return Codec(number)


def compress(codec: Codec, data: Buffer, level: int | None = None) -> bytes:
    """`data`, compressed. Without a level: 6 for gzip, 1 for lz4, 3 for zstd, as Kafka's producers choose."""
    methods = _TABLE[codec]
    return methods.compress(data, methods.level if level is None else level)


def decompress(codec: Codec, data: Buffer, limit: int = OUTPUT_BYTES_MAX) -> bytes:
    """What `data` holds, if that is at most `limit` bytes; MESSAGE_TOO_LARGE if it is more."""
    return _TABLE[codec].decompress(data, limit)
