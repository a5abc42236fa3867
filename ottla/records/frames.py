"""Bytes of records whatever their magic: a log that has seen old clients holds all three.

Every format starts with offset 8, length 4, and has its magic at byte 16; that is enough to tell them apart
and to step over them.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from ottla.core.types import Buffer
from ottla.records import batch, legacy
from ottla.records.batch import HEADER_SIZE
from ottla.records.compression import OUTPUT_BYTES_MAX
from ottla.records.errors import corrupt
from ottla.records.legacy import MESSAGE_SIZE_MIN
from ottla.records.record import Record

OVERHEAD = 12
_START = struct.Struct(">qiib")
_LENGTH_MIN = {0: MESSAGE_SIZE_MIN[0], 1: MESSAGE_SIZE_MIN[1], 2: HEADER_SIZE - OVERHEAD}


class Frame(NamedTuple):
    """Where a batch or message lies. `offset` is a batch's first; a message's own, a wrapper's last."""

    position: int
    size: int
    magic: int
    offset: int


def read_frame(buffer: Buffer, position: int = 0) -> Frame:
    """The frame at `position`, which may reach past the buffer. Only length and magic are checked."""
    if len(buffer) - position < _START.size:
        raise corrupt(f"no room for records at byte {position} of {len(buffer)}")
    offset, length, _, magic = _START.unpack_from(buffer, position)
    if magic not in _LENGTH_MIN:
        raise corrupt(f"no format of records has magic {magic}")
    if length < _LENGTH_MIN[magic]:
        raise corrupt(f"records of magic {magic} cannot be {length} bytes long")
    return Frame(position, OVERHEAD + length, magic, offset)


def iter_frames(buffer: Buffer, position: int = 0, *, partial: bool = False) -> Iterator[Frame]:
    """The frames of `buffer`; with `partial`, as in a fetch response, one that is cut off is left out."""
    while position < len(buffer):
        if partial and len(buffer) - position < _START.size:
            return
        frame = read_frame(buffer, position)
        if frame.size > len(buffer) - position:
            if partial:
                return
            raise corrupt(f"records of {frame.size} bytes do not fit at byte {position} of {len(buffer)}")
        yield frame
        position += frame.size


def check_frame(buffer: Buffer, frame: Frame) -> None:
    """Checksum and header of the frame, by its own format's rules."""
    if frame.magic == batch.MAGIC:
        batch.check(buffer, frame.position)
    else:
        legacy.check(buffer, frame.position)


def records_of(buffer: Buffer, frame: Frame, *, limit: int = OUTPUT_BYTES_MAX) -> Iterator[Record]:
    """The records of a frame. Those of magic 2 do not have their CRC checked here; messages do."""
    if frame.magic == batch.MAGIC:
        return batch.records_of(buffer, frame.position, limit=limit)
    return legacy.records_of(buffer, frame.position, limit=limit)
