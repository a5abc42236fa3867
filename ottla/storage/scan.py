"""Walking a segment from batch to batch, by their headers, without building anything from their records.

A batch names its own length, so a segment is a chain. `walk` follows it and stops with `BrokenChain` where the next
link cannot be: the file ends within a batch, a length that no batch has, a magic that does not exist. Whether the
bytes between are intact is the checksum's word: `is_intact`.
"""

import re
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain
from typing import NamedTuple

from ottla.core.errors import OttlaError
from ottla.core.types import Buffer
from ottla.records.batch import ATTRIBUTES_AT, HEADER, HEADER_SIZE, LENGTH_OVERHEAD, MAGIC_AT, BatchHeader
from ottla.records.checksum import crc32, crc32c
from ottla.storage.files import File, aligned_buffer

# Shared by all formats: offset, length of the rest, (leader epoch or checksum), magic.
_PREFIX = struct.Struct(">qiib")
# Magic 2 up to what tells where the batch ends and with which offset.
_GLANCE = struct.Struct(">qiibIhi")
_LEGACY_TIMESTAMP = struct.Struct(">q")
_INT_SIZE = 4
# A message behind the upper half of its offset: a length that one can have, a checksum, a magic, a codec of old.
_REST_OF_MESSAGE = rb".{4}(?!\0\0\0[\0-\x0d])[\0-\x7f].{7}[\0\x01][\0-\x03\x08-\x0b]"

PREFIX_SIZE = 17  # as much as every format has in common
LENGTH_MIN = {0: 14, 1: 22, 2: HEADER_SIZE - LENGTH_OVERHEAD}

LOOK_UP_BYTES = 8192  # a little more than the space between two index entries
SCAN_BYTES = 1 << 20
OFFSETS_AHEAD_MAX = 1 << 31  # as many as one segment can number
SEARCH_EFFORT = (
    8  # bytes checked for each byte searched: damaged batches cost one, only a crafted file costs more
)


Note = Callable[[int, int, int, int], None]
"""Hears of a batch: its last offset, where it starts, its size, its largest timestamp."""


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


def batch_at(position: int, header: BatchHeader) -> BatchAt:
    """A batch whose header is at hand."""
    (
        offset,
        length,
        epoch,
        magic,
        crc,
        attributes,
        delta,
        _,
        newest,
        producer,
        producer_epoch,
        sequence,
        count,
    ) = header
    place = position, LENGTH_OVERHEAD + length, offset, offset + delta
    return BatchAt(*place, epoch, magic, crc, attributes, newest, producer, producer_epoch, sequence, count)


def find_batch(file: File, start: int, end: int, offset: int) -> BatchAt | None:
    """The first batch from byte `start` on that reaches `offset`. Those before it cost one glance each."""
    position, view, view_start = start, b"", start
    while position < end:
        at = position - view_start
        if at + HEADER_SIZE > len(view) and view_start + len(view) < end:
            view, view_start, at = file.read_at(position, min(LOOK_UP_BYTES, end - position)), position, 0
        if at + HEADER_SIZE <= len(view) and view[at + MAGIC_AT] == 2:
            base, length, _, _, _, _, delta = _GLANCE.unpack_from(view, at)
            size = LENGTH_OVERHEAD + length
            if 0 <= base <= base + delta < offset and HEADER_SIZE <= size <= end - position:
                position += size
                continue
        batch = parse_header(view, at, position, end, file.path)
        if batch.last_offset >= offset:
            return batch
        position = batch.end
    return None


class Scanner:
    """Goes over a segment with the bytes of its batches at hand, for a recovery that looks at all of them.

    It reads into a buffer that is used again: fresh megabytes would cost a page fault for every 4 KiB. So a view is
    valid until the next call.
    """

    def __init__(self, file: File, end: int) -> None:
        self.position = 0
        self._file = file
        self._end = end
        self._buffer = aligned_buffer(min(SCAN_BYTES, end))
        self._view = self._buffer[:0]
        self._view_start = 0

    def peek(self) -> BatchAt | None:
        """The batch that comes next, by its header; None at the end. Raises BrokenChain where there can be none."""
        if self.position >= self._end:
            return None
        at = self._have(min(HEADER_SIZE, self._end - self.position))
        return parse_header(self._view, at, self.position, self._end, self._file.path)

    def next(self) -> tuple[BatchAt, memoryview] | None:
        """The batch that comes next and its bytes, and step behind it."""
        batch = self.peek()
        if batch is None:
            return None
        at = self._have(batch.size)
        self.position = batch.end
        return batch, self._view[at : at + batch.size]

    def skim(self, offset: int, limit: int, leader_epoch: int, note: Note) -> int:
        """Step over batches of the usual kind, and return the offset behind the last of them.

        Usual is: magic 2, of no producer that numbers its batches, of this epoch, right behind the one before, below
        `limit`, and intact. `note` hears of each; the first that is not usual is the caller's to judge.
        """
        unpack, crc_of = HEADER.unpack_from, crc32c
        while self.position < self._end:
            at = self._have(min(HEADER_SIZE, self._end - self.position))
            view, size = self._view, len(self._view)
            start = at
            while at + HEADER_SIZE <= size:
                base, length, epoch, magic, crc, _, delta, _, timestamp, producer, _, _, _ = unpack(view, at)
                stop = at + LENGTH_OVERHEAD + length
                last = offset + delta
                if base != offset or epoch != leader_epoch or magic != 2 or producer >= 0 or last >= limit:
                    self.position += at - start
                    return offset
                if stop > size or length < LENGTH_MIN[2] or delta < 0:
                    break
                if crc_of(view[at + ATTRIBUTES_AT : stop]) != crc:
                    self.position += at - start
                    return offset
                note(last, self._view_start + at, stop - at, timestamp)
                offset = last + 1
                at = stop
            self.position += at - start
            if at == start and not self._reads_further():
                return offset
        return offset

    def _reads_further(self) -> bool:
        """Is more of the file to be had behind what is in view, starting at the current position?"""
        if self._view_start == self.position:
            return False
        self._fill(min(SCAN_BYTES, self._end - self.position))
        return True

    def _have(self, size: int) -> int:
        """Make sure that `size` bytes from the current position on are in view; where they start in it."""
        at = self.position - self._view_start
        if at + size > len(self._view):
            self._fill(max(size, min(SCAN_BYTES, self._end - self.position)))
            at = 0
            if size > len(self._view):
                raise BrokenChain(self._file.path, self.position, "the file ends within a batch")
        return at

    def _fill(self, size: int) -> None:
        buffer = self._buffer if size <= len(self._buffer) else aligned_buffer(size)
        got = self._file.read_into(self.position, buffer[:size])
        self._view, self._view_start = buffer[:got], self.position


def find_intact(file: File, start: int, end: int, offset_min: int) -> BatchAt | None:
    """A whole batch that starts anywhere in [start, end): is anything alive behind damage?

    Messages of the old formats are looked for, and first, in a segment that does not begin with magic 2. Raises
    BrokenChain where so much looks like a batch and is none that the search would not end in time.
    """
    effort = SEARCH_EFFORT * (end - start)
    candidates = _candidates(file, start, end)
    if file.read_at(MAGIC_AT, 1) != b"\x02":
        candidates = chain(_message_candidates(file, start, end, offset_min), candidates)
    for batch in candidates:
        if not offset_min <= batch.base_offset < offset_min + OFFSETS_AHEAD_MAX:
            continue
        effort -= batch.size
        if effort < 0:
            raise BrokenChain(file.path, start, "too many false batches to search behind the damage")
        data = file.read_at(batch.position, batch.size)
        if len(data) == batch.size and is_intact(batch, data):
            return batch
    return None


def _candidates(file: File, start: int, end: int) -> Iterator[BatchAt]:
    """Whatever in [start, end) has the header of a batch of magic 2, at any byte."""
    while end - start >= HEADER_SIZE:
        window = file.read_at(start, min(end - start, SCAN_BYTES))
        at = window.find(b"\x02", MAGIC_AT) - MAGIC_AT
        while 0 <= at <= len(window) - HEADER_SIZE:
            with suppress(BrokenChain):
                yield parse_header(window, at, start + at, end, file.path)
            at = window.find(b"\x02", at + MAGIC_AT + 1) - MAGIC_AT
        start += max(1, len(window) - HEADER_SIZE + 1)  # a header may lie across two windows


def _message_candidates(file: File, start: int, end: int, offset_min: int) -> Iterator[BatchAt]:
    """Whatever in [start, end) looks like a message of magic 0 or 1 whose key and value fill it, at any byte."""
    highs = {(offset + offset_min) >> 32 for offset in (0, OFFSETS_AHEAD_MAX - 1)}
    starts = b"|".join(re.escape(high.to_bytes(4, "big")) for high in sorted(highs))
    pattern = re.compile((b"%s" if len(highs) == 1 else b"(?:%s)") % starts + _REST_OF_MESSAGE, re.DOTALL)
    while end - start >= LENGTH_OVERHEAD + LENGTH_MIN[0]:
        window = file.read_at(start, min(end - start, SCAN_BYTES))
        found = (
            pattern.search(window) if window.strip(b"\0") else None
        )  # a tail that was never filled is quick
        while found is not None:
            at = found.start()
            with suppress(BrokenChain):
                message = parse_header(window, at, start + at, end, file.path)
                if _is_filled(file, message):
                    yield message
            found = pattern.search(window, at + 1)
        start += max(1, len(window) - HEADER_SIZE + 1)


def _is_filled(file: File, message: BatchAt) -> bool:
    """Do the lengths of key and value add up to the message's? Next to nothing does that is none."""
    least = LENGTH_MIN[message.magic]
    body = message.size - LENGTH_OVERHEAD - least
    key_at = message.position + LENGTH_OVERHEAD + least - 2 * _INT_SIZE
    key_size = _read_int(file, key_at)
    if not -1 <= key_size <= body:
        return False
    value_size = _read_int(file, key_at + _INT_SIZE + max(0, key_size))
    return value_size >= -1 and max(0, key_size) + max(0, value_size) == body


def _read_int(file: File, position: int) -> int:
    return int.from_bytes(file.read_at(position, _INT_SIZE), "big", signed=True)


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
