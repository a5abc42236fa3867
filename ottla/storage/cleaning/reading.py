"""The batches of a segment as a cleaning reads them: in large pieces, and each one checked before it is believed.

Compiled by the optional mypyc build. Most of a cleaning's time goes by per record, and so much of the rest per batch
that a header is read once, and the bytes of a batch stay where they are in their piece.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.records.batch import (
    ATTRIBUTES_AT,
    CODEC_BITS,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    RECORDS_AT,
    BatchHeader,
    read_header,
    records_of,
)
from ottla.records.checksum import crc32c
from ottla.records.compression import decompress
from ottla.records.control import ControlType, control_type
from ottla.records.errors import RecordError, corrupt, invalid
from ottla.records.section import RECORD_SIZE_MIN
from ottla.storage.scan import BrokenChain, is_intact, parse_header
from ottla.storage.segment import Segment

if TYPE_CHECKING:
    from mypy_extensions import i64  # only ever an annotation: nothing to install

PIECE_BYTES_MIN = 64 << 10


class Reader:
    """Steps over a segment from batch to batch. The one that it stands on is `data[start:end]`."""

    def __init__(self, segment: Segment, piece_bytes: int) -> None:
        self._file = segment.file
        self._path = segment.path
        self._size: i64 = segment.size
        self._piece_bytes = max(piece_bytes, PIECE_BYTES_MIN)
        self._piece_at: i64 = 0  # where in the file `data` lies
        self._view = memoryview(b"")
        self.data = b""
        self.start: i64 = 0
        self.end: i64 = 0
        self.header: BatchHeader | None = None
        """None if it is a message of magic 0 or 1."""

    def step(self) -> bool:
        """On to the next batch; False behind the last. Raises if there is none, or one that fails its checksum."""
        self.start = self.end
        left: i64 = self._size - self._piece_at - self.start
        if left <= 0:
            return False
        if self.start + HEADER_SIZE > len(self.data):
            self._read(min(HEADER_SIZE, left))
        if self.start + HEADER_SIZE > len(self.data) or self.data[self.start + MAGIC_AT] != MAGIC:
            self._step_on_message()
            return True
        header = read_header(self.data, self.start)
        offset, length, _, _, crc, _, delta, _, _, _, _, _, count = header
        size: i64 = LENGTH_OVERHEAD + length
        if offset < 0 or delta < 0 or count < 0 or size < HEADER_SIZE or size > left:
            self._step_on_message()  # which says what is wrong
            return True
        if self.start + size > len(self.data):
            self._read(size)
        self.end = self.start + size
        if crc32c(self._view[self.start + ATTRIBUTES_AT : self.end]) != crc:
            raise self._corrupt()
        self.header = header
        return True

    @property
    def is_last(self) -> bool:
        """Does the segment end with this batch?"""
        return self._piece_at + self.end == self._size

    @property
    def batch(self) -> memoryview:
        """The batch. Not for keeping: it holds on to the whole piece."""
        return self._view[self.start : self.end]

    def records(self, header: BatchHeader) -> tuple[bytes, i64, i64]:
        """Where its records lie, decompressed: in what, from where, to where."""
        _, _, _, _, _, attributes, _, _, _, _, _, _, count = header
        data, start, end = self.data, self.start + RECORDS_AT, self.end
        if attributes & CODEC_BITS and count:  # without records nothing was compressed
            data = decompress(header.codec, self._view[start:end])
            start, end = 0, len(data)
        if count > (end - start) // RECORD_SIZE_MIN:
            raise invalid(f"{count} records do not fit into {end - start} bytes")
        return data, start, end

    def kind(self) -> ControlType | None:
        """What a control batch announces; None if it was emptied by an earlier cleaning, or makes no sense."""
        try:
            first = next(records_of(self.batch), None)
            return None if first is None else control_type(first.key)
        except RecordError:
            return None

    def _step_on_message(self) -> None:
        position = self._piece_at + self.start
        message = parse_header(self.data, self.start, position, self._size, self._path)
        if self.start + message.size > len(self.data):
            self._read(message.size)
        self.end = self.start + message.size
        if not is_intact(message, self.batch):
            raise self._corrupt()
        self.header = None

    def _corrupt(self) -> RecordError:
        position = self._piece_at + self.start
        return corrupt(f"{self._path}: a batch fails its checksum at byte {position}")

    def _read(self, size: i64) -> None:
        """The piece that begins with this batch, with at least so many bytes of it."""
        position = self._piece_at + self.start
        self.data, self._view = b"", memoryview(b"")  # its memory is wanted for the next
        self.data = self._file.read_at(position, min(max(size, self._piece_bytes), self._size - position))
        self._view = memoryview(self.data)
        self._piece_at, self.start = position, 0
        if size > len(self.data):
            raise BrokenChain(self._path, position, "the file ends within a batch")
