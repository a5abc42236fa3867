"""Walking a segment from batch to batch, by their headers, without building anything from their records.

A batch names its own length, so a segment is a chain. `walk` follows it and stops with `BrokenChain` where the next
link cannot be: the file ends within a batch, a length that no batch has, a magic that does not exist. Whether the
bytes between are intact is the checksum's word: `is_intact`.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from ottla.core.errors import OttlaError
from ottla.core.types import Buffer
from ottla.records.batch import ATTRIBUTES_AT, HEADER, HEADER_SIZE, LENGTH_OVERHEAD, MAGIC_AT
from ottla.records.checksum import crc32, crc32c
from ottla.storage.files import File

# Shared by all formats: offset, length of the rest, (leader epoch or checksum), magic.
_PREFIX = struct.Struct(">qiib")
_LEGACY_TIMESTAMP = struct.Struct(">q")

PREFIX_SIZE = 17  # as much as every format has in common
LENGTH_MIN = {0: 14, 1: 22, 2: HEADER_SIZE - LENGTH_OVERHEAD}

LOOK_UP_BYTES = 8192  # a little more than the space between two index entries
SCAN_BYTES = 1 << 20
SEARCH_BYTES = 4 << 20  # a few times the largest batch that a broker accepts by default


class BrokenChain(OttlaError):
    """No whole batch can start at `position`."""

    def __init__(self, path: str, position: int, reason: str) -> None:
        super().__init__(f"{path}: {reason} at byte {position}")
        self.path, self.position, self.reason = path, position, reason


class BatchAt(NamedTuple):
    """One batch (or old-format message) in a file, as its header tells it."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records: int

    @property
    def end(self) -> int:
        return self.position + self.size

    @property
    def next_offset(self) -> int:
        return self.last_offset + 1

    @property
    def is_control(self) -> bool:
        return self.magic == 2 and bool(self.attributes & 0x20)

    @property
    def is_transactional(self) -> bool:
        return self.magic == 2 and bool(self.attributes & 0x10)


def walk(file: File, start: int, end: int, chunk_bytes: int = LOOK_UP_BYTES) -> Iterator[BatchAt]:
    """The batches in [start, end), headers only: what lies between them is not read if it exceeds a chunk."""
    position, view, view_start, view_end = start, b"", start, start
    while position < end:
        if position + HEADER_SIZE > view_end < end:
            view = file.read_at(position, min(chunk_bytes, end - position))
            view_start, view_end = position, position + len(view)
        batch = parse_header(view, position - view_start, position, end, file.path)
        yield batch
        position += batch.size


def walk_whole(file: File, start: int, end: int) -> Iterator[tuple[BatchAt, memoryview]]:
    """The batches in [start, end) with their bytes. A view stays valid for two steps: two buffers take turns."""
    buffers = [memoryview(bytearray(SCAN_BYTES)), memoryview(bytearray(SCAN_BYTES))]
    position, view, view_start, view_end = start, buffers[0][:0], start, start
    while position < end:
        if position + HEADER_SIZE > view_end < end:
            buffers.reverse()
            view, view_start, view_end = _fill(file, position, end, buffers[0])
        batch = parse_header(view, position - view_start, position, end, file.path)
        if batch.end > view_end:
            if batch.size > SCAN_BYTES:
                big = memoryview(bytearray(batch.size))
                view, view_start, view_end = _fill(file, position, end, big)
            else:
                buffers.reverse()
                view, view_start, view_end = _fill(file, position, end, buffers[0])
            if batch.end > view_end:
                raise BrokenChain(file.path, position, "the file ends within a batch")
        at = position - view_start
        yield batch, view[at : at + batch.size]
        position += batch.size


def _fill(file: File, position: int, end: int, buffer: memoryview) -> tuple[memoryview, int, int]:
    """Read into a buffer that is used again: fresh megabytes would cost a page fault for every 4 KiB."""
    got = file.read_into(position, buffer[: end - position])
    return buffer[:got], position, position + got


def find_intact(file: File, start: int, end: int, offset_min: int) -> BatchAt | None:
    """The first whole batch that starts anywhere in [start, end), within reach: is anything alive behind damage?"""
    data = file.read_at(start, min(end - start, SEARCH_BYTES))
    at = data.find(b"\x02", MAGIC_AT)
    while at >= 0:
        candidate = at - MAGIC_AT
        try:
            batch = parse_header(data, candidate, start + candidate, end, file.path)
        except BrokenChain:
            batch = None
        if batch is not None and batch.base_offset >= offset_min:
            view = data[candidate : candidate + batch.size]
            if len(view) == batch.size and is_intact(batch, view):
                return batch
        at = data.find(b"\x02", at + 1)
    return None


def parse_header(view: Buffer, at: int, position: int, end: int, path: str) -> BatchAt:
    """The batch whose header lies at `at` in `view` and at `position` in the file, or BrokenChain."""
    if len(view) - at < PREFIX_SIZE:
        raise BrokenChain(path, position, "the file ends within a header")
    base_offset, length, leader_epoch, magic = _PREFIX.unpack_from(view, at)
    if (least := LENGTH_MIN.get(magic)) is None or length < least or base_offset < 0:
        raise BrokenChain(path, position, "no batch starts here")
    if position + LENGTH_OVERHEAD + length > end:
        raise BrokenChain(path, position, "the file ends within a batch")
    if magic < 2:
        return _parse_legacy(view, at, position, path)
    if len(view) - at < HEADER_SIZE:
        raise BrokenChain(path, position, "the file ends within a header")
    header = HEADER.unpack_from(view, at)
    delta, count = header[6], header[12]
    if delta < 0 or count < 0:
        raise BrokenChain(path, position, "no batch starts here")
    return BatchAt(
        position, LENGTH_OVERHEAD + length, base_offset, base_offset + delta, leader_epoch, magic,
        header[4], header[5], header[8], header[9], header[10], header[11], count,
    )  # fmt: skip


def _parse_legacy(view: Buffer, at: int, position: int, path: str) -> BatchAt:
    """A message of magic 0 or 1: its offset is the last one inside if it wraps compressed messages."""
    offset, length, crc, magic = _PREFIX.unpack_from(view, at)
    if len(view) - at < LENGTH_OVERHEAD + LENGTH_MIN[magic]:
        raise BrokenChain(path, position, "the file ends within a header")
    timestamp = _LEGACY_TIMESTAMP.unpack_from(view, at + 18)[0] if magic == 1 else -1
    size = LENGTH_OVERHEAD + length
    return BatchAt(
        position, size, offset, offset, -1, magic, crc & 0xFFFFFFFF, view[at + 17], timestamp, -1, -1, -1, 1
    )


def is_intact(batch: BatchAt, view: Buffer) -> bool:
    """Do the bytes agree with their checksum? Offset, length and leader epoch lie outside it."""
    if batch.magic == 2:
        return crc32c(memoryview(view)[ATTRIBUTES_AT:]) == batch.crc
    return crc32(memoryview(view)[MAGIC_AT:]) == batch.crc
