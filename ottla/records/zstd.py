"""zstd frames, measured before they are decoded.

A frame names its window and perhaps its content size; its blocks name their sizes. A raw block holds what it
is long, a run-length block what it says, a compressed block at most 128 KiB. The sum bounds the output,
whatever the frame claims.

The decoder keeps a window of its own besides: a frame that declares a large one may cost the cap twice.
"""

import struct

from cramjam import zstd as _zstd

from ottla.core.types import Buffer
from ottla.records.bounded import decompress_into
from ottla.records.errors import corrupt, too_large

MAGIC = 0xFD2FB528
_BLOCK_BYTES_MAX = 128 * 1024
_SKIPPABLE_MAGIC, _SKIPPABLE_MASK = 0x184D2A50, 0xFFFFFFF0
_RAW, _RUN_LENGTH, _COMPRESSED = 0, 1, 2
_U32 = struct.Struct("<I")


def compress(data: Buffer, level: int) -> bytes:
    """One frame."""
    return bytes(_zstd.compress(data, level=level))


def decompress(data: Buffer, limit: int) -> bytes:
    """What the frames of `data` hold, one after the other."""
    view = memoryview(data)
    least = bound = position = 0
    while position < len(view):
        certain, possible, position = _measure(view, position)
        least += certain
        bound += possible
    if position == 0:
        raise corrupt("zstd data is empty")
    if least > limit:
        raise too_large(f"zstd data decompresses to {least} bytes or more, the cap is {limit}")
    return decompress_into(_zstd.decompress_into, "zstd", view, bound, limit)


def _measure(view: memoryview, position: int) -> tuple[int, int, int]:
    """The least and the most that the frame at `position` can hold, and where it ends."""
    if position + 8 > len(view):
        raise corrupt("zstd: the bytes end inside a frame")
    magic, size = struct.unpack_from("<II", view, position)
    if magic & _SKIPPABLE_MASK == _SKIPPABLE_MAGIC:
        if size > len(view) - position - 8:
            raise corrupt("zstd: the bytes end inside a frame")
        return 0, 0, position + 8 + size
    if magic != MAGIC:
        raise corrupt("zstd: this is not a frame")
    has_checksum, content_size, position = _frame_header(view, position + 4)
    least = bound = last = 0
    while not last:
        if position + 3 > len(view):
            raise corrupt("zstd: the bytes end inside a frame")
        word = view[position] | view[position + 1] << 8 | view[position + 2] << 16
        last, kind, size = word & 1, word >> 1 & 3, word >> 3
        if size > _BLOCK_BYTES_MAX:
            raise corrupt("zstd: a block is larger than blocks may be")
        least += 0 if kind == _COMPRESSED else size
        bound += _BLOCK_BYTES_MAX if kind == _COMPRESSED else size
        position += 3 + (1 if kind == _RUN_LENGTH else size)
    position += 4 if has_checksum else 0
    if position > len(view):
        raise corrupt("zstd: the bytes end inside a frame")
    if content_size is None:
        return least, bound, position
    if not least <= content_size <= bound:
        raise corrupt(f"zstd: {content_size} bytes cannot be in a frame of {least} to {bound}")
    return content_size, content_size, position


def _frame_header(view: memoryview, position: int) -> tuple[bool, int | None, int]:
    """Whether a checksum follows the blocks, the content size if stated, and where the blocks start."""
    descriptor = view[position]
    single_segment = descriptor >> 5 & 1
    position += 1 + (0 if single_segment else 1) + (0, 1, 2, 4)[descriptor & 3]
    width = (single_segment, 2, 4, 8)[descriptor >> 6]
    if position + width > len(view):
        raise corrupt("zstd: the bytes end inside a frame header")
    content_size: int | None = None
    if width:
        content_size = int.from_bytes(view[position : position + width], "little") + (
            256 if width == 2 else 0
        )
    return bool(descriptor & 4), content_size, position + width
