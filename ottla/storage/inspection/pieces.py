"""A segment taken apart: whole batches, and the stretches between them that are not what was written.

Recovery stops where the chain of batches breaks, since it may cut there. Here nothing is cut, so the walk goes on with
the next whole batch, wherever it starts. Base offset, length and leader epoch of a batch lie outside its checksum: a
batch that agrees with it, but whose offset its neighbours contradict, is mended if they leave one place for it.

Memory is bounded by BATCH_BYTES_MAX, whatever the lengths in the file say.
"""

import re
import zlib
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from fastcrc.crc32 import iscsi

from ottla.records.batch import ATTRIBUTES_AT, HEADER_SIZE, MAGIC_AT, NO_LEADER_EPOCH
from ottla.storage.files import File, aligned_buffer
from ottla.storage.scan import (
    SCAN_BYTES,
    SEARCH_EFFORT,
    BatchAt,
    BrokenChain,
    is_intact,
    parse_header,
)

BATCH_BYTES_MAX = 64 << 20
ZEROS_TO_THE_END = "only zeros follow, up to the end of the file"
_ZEROS = bytes(SCAN_BYTES)
_LEGACY_SPAN = 1 << 20  # how far ahead old messages are searched: almost every byte could start one


class Piece(NamedTuple):
    """Bytes [start, end) of a segment. Without a `fault` they are one whole batch."""

    start: int
    end: int
    batch: BatchAt | None
    data: memoryview | None
    """The bytes of a whole batch, until the next piece; None if it is too large to be held."""
    fault: str | None = None
    mended_offset: int | None = None
    """The base offset that a batch with a fault must have had, where its neighbours leave no other."""
    overlaps: bool = False
    """Is it whole, in order, and in the range of the next segment? Then it is a name that is wrong, not a batch."""


class Window:
    """Reads a file through one buffer. A view is valid until the next call."""

    def __init__(self, file: File, size: int) -> None:
        self.path = file.path
        self.size = size
        self._file = file
        self._buffer = aligned_buffer(min(SCAN_BYTES, size))
        self._view = self._buffer[:0]
        self._start = 0

    def at(self, position: int, size: int) -> memoryview:
        """The bytes from `position` on: `size` of them, or as many as the file has."""
        size = min(size, self.size - position)
        at = position - self._start
        if at < 0 or at + size > len(self._view):
            wanted = max(size, min(SCAN_BYTES, self.size - position))
            buffer = self._buffer if wanted <= len(self._buffer) else aligned_buffer(wanted)
            got, most = 0, wanted
            while got < most and (count := self._file.read_into(position + got, buffer[got:most])):
                got += count
            self._view, self._start, at = buffer[:got], position, 0
        return self._view[at : at + size]

    def header(self, position: int) -> BatchAt:
        """The batch that starts at `position`, by its header. Raises BrokenChain if none can."""
        return parse_header(self.at(position, HEADER_SIZE), 0, position, self.size, self.path)

    def is_intact(self, batch: BatchAt) -> bool:
        """Do the bytes agree with their checksum?"""
        if batch.size <= BATCH_BYTES_MAX:
            data = self.at(batch.position, batch.size)
            return len(data) == batch.size and is_intact(batch, data)
        skipped = ATTRIBUTES_AT if batch.magic == 2 else MAGIC_AT
        total = 0
        for start in range(batch.position + skipped, batch.end, SCAN_BYTES):
            chunk = self.at(start, min(SCAN_BYTES, batch.end - start))
            total = iscsi(chunk, total) if batch.magic == 2 else zlib.crc32(chunk, total)
        return total == batch.crc

    def are_zeros(self, start: int) -> bool:
        """Is nothing but zeros left? Room that was allocated ahead, or that a crash never filled."""
        for position in range(start, self.size, SCAN_BYTES):
            chunk = bytes(self.at(position, SCAN_BYTES))  # bytes are compared far faster than views
            if chunk != _ZEROS[: len(chunk)]:
                return False
        return True


class Pieces:
    """Takes one segment apart. `next_offset` is where the whole batches seen so far end."""

    def __init__(
        self,
        file: File,
        size: int,
        base_offset: int,
        expected: int,
        limit: int,
        ends: frozenset[int] = frozenset(),
    ) -> None:
        """`expected` is where the segment before ended, `limit` where the next one starts; `ends` are offsets at which
        the log is known to have ended once, if this is its last segment."""
        self._ends = ends
        self._window = Window(file, size)
        self._size = size
        self._limit = limit
        self._has_legacy = False
        self.next_offset = max(base_offset, expected)

    def __iter__(self) -> Iterator[Piece]:
        position = 0
        while position < self._size:
            piece = self._piece(position)
            yield piece
            position = piece.end

    def _piece(self, position: int) -> Piece:
        window = self._window
        try:
            batch = window.header(position)
        except BrokenChain as broken:
            if window.are_zeros(position):
                return Piece(position, self._size, None, None, ZEROS_TO_THE_END)
            return self._lost(position, broken.reason)
        if not window.is_intact(batch):
            return self._without_checksum(batch)
        following = self._following(batch)
        if (fault := self._order_fault(batch, following)) is not None:
            overlaps = batch.base_offset == self.next_offset
            return Piece(position, batch.end, batch, None, fault, self._place_of(batch, following), overlaps)
        self._has_legacy |= batch.magic < 2
        self.next_offset = batch.next_offset
        if batch.magic == 2 and batch.leader_epoch < NO_LEADER_EPOCH:
            fault = f"leader epoch {batch.leader_epoch} cannot be"
            return Piece(position, batch.end, batch, None, fault, batch.base_offset)
        is_small = batch.size <= BATCH_BYTES_MAX
        return Piece(position, batch.end, batch, window.at(position, batch.size) if is_small else None)

    def _following(self, batch: BatchAt) -> BatchAt | None:
        with suppress(BrokenChain):
            return self._window.header(batch.end) if batch.end < self._size else None
        return None

    def _order_fault(self, batch: BatchAt, following: BatchAt | None) -> str | None:
        """Offsets grow. A batch behind a gap is believed unless the next one starts before its end."""
        expected = self.next_offset
        if batch.base_offset < expected:
            return f"offset {batch.base_offset} stands where {expected} was expected"
        if batch.last_offset >= self._limit:
            return (
                f"offset {batch.last_offset} does not belong here: the next segment begins with {self._limit}"
            )
        is_behind_gap = batch.base_offset > expected
        if is_behind_gap and following is not None and following.base_offset < batch.next_offset:
            return (
                f"offset {batch.base_offset} stands where {expected} was expected,"
                f" and {following.base_offset} follows"
            )
        if is_behind_gap and batch.end == self._size and self._once_ended_with(batch):
            return f"offset {batch.base_offset} stands where {expected} was expected, and a snapshot agrees"
        return None

    def _once_ended_with(self, batch: BatchAt) -> bool:
        """Did the log once end where it would if there were no gap before this batch, its last one?"""
        count = batch.next_offset - batch.base_offset
        return self.next_offset + count in self._ends and batch.next_offset not in self._ends

    def _place_of(self, batch: BatchAt, following: BatchAt | None) -> int | None:
        """The base offset of a batch whose own is wrong: the room between its neighbours, if that fits exactly."""
        if batch.magic < 2:
            return None
        count = batch.next_offset - batch.base_offset
        expected = self.next_offset
        is_between = (
            batch.end == self._size if following is None else following.base_offset == expected + count
        )
        if is_between and expected + count <= self._limit:
            self.next_offset = expected + count
            return expected
        return None

    # --- behind damage ------------------------------------------------------------------------------------------

    def _without_checksum(self, batch: BatchAt) -> Piece:
        """A batch that fails its checksum: is its length to be believed, or does it reach over whole ones?"""
        fault = "the batch fails its checksum"
        following = self._following(batch)
        if following is not None and following.base_offset == batch.next_offset >= self.next_offset:
            self.next_offset = batch.next_offset
            return Piece(batch.position, batch.end, batch, None, fault)
        if following is None and batch.end < self._size:
            return self._lost(batch.position, fault)
        inside = self._chain_to(batch.position + 1, batch.end)
        if inside is None:
            if self.next_offset <= batch.base_offset and (
                following is None or batch.next_offset <= following.base_offset
            ):
                self.next_offset = min(batch.next_offset, self._limit)
            return Piece(batch.position, batch.end, batch, None, fault)
        return Piece(batch.position, inside.position, None, None, f"{fault}, and its length is wrong")

    def _chain_to(self, start: int, end: int) -> BatchAt | None:
        """The first whole batch in [start, end) from which headers lead exactly to `end`."""
        with suppress(BrokenChain):
            for found in self._whole_from(start, end):
                if self._leads_to(found, end):
                    return found
        return None

    def _leads_to(self, batch: BatchAt, end: int) -> bool:
        position = batch.end
        with suppress(BrokenChain):
            while position < end:
                position = self._window.header(position).end
        return position == end

    def _lost(self, position: int, reason: str) -> Piece:
        """From `position` on no batch can be told; up to the next whole one."""
        try:
            found = next(self._whole_from(position + 1, self._size), None)
        except BrokenChain as broken:
            return Piece(position, self._size, None, None, f"{reason}; {broken.reason}")
        return Piece(position, self._size if found is None else found.position, None, None, reason)

    def _whole_from(self, start: int, end: int) -> Iterator[BatchAt]:
        """Whole batches that start anywhere in [start, end) and belong here by their offsets.

        Raises BrokenChain where so much looks like a batch and is none that the search would not end in time.
        """
        effort = SEARCH_EFFORT * (end - start) + SCAN_BYTES
        for batch in self._candidates(start, end):
            if not self.next_offset <= batch.base_offset or not batch.last_offset < self._limit:
                continue
            effort -= batch.size
            if effort < 0:
                raise BrokenChain(self._window.path, start, "too many false batches to search behind it")
            if batch.end <= end and self._window.is_intact(batch):
                yield batch

    def _candidates(self, start: int, end: int) -> Iterator[BatchAt]:
        """Whatever has the header of a batch, at any byte. Old messages only where there were some, and not far."""
        near = _pattern(self.next_offset, self._limit, b"\x00\x01\x02" if self._has_legacy else b"\x02")
        far = _pattern(self.next_offset, self._limit, b"\x02")
        legacy_end = min(end, start + _LEGACY_SPAN)
        step = SCAN_BYTES - HEADER_SIZE
        for position in range(start, end, step):
            window = bytes(self._window.at(position, min(SCAN_BYTES, end - position)))
            for match in (near if position < legacy_end else far).finditer(window, 0):
                if (at := match.start()) >= step:
                    break  # the next window has it
                with suppress(BrokenChain):
                    yield parse_header(window, at, position + at, self._size, self._window.path)


def _pattern(offset_min: int, limit: int, magics: bytes) -> re.Pattern[bytes]:
    """Finds bytes that could start a batch: an offset in the range by its upper half, a length, a magic.

    The offsets of a segment span 2^31, so that their upper halves are at most two numbers.
    """
    first, last = offset_min >> 32, (limit - 1) >> 32
    uppers = b"|".join(
        re.escape(upper.to_bytes(4, "big")) for upper in range(first, min(last, first + 1) + 1)
    )
    length = rb"(?!\x00{3}[\x00-\x0d])[\x00-\x7f].{3}"
    return re.compile(rb"(?s)(?=(?:%b).{4}%b.{4}[%b])" % (uppers, length, magics))
