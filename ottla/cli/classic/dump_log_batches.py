"""The batches of a segment as Apache's `FileRecords` finds them, and its complaints where they stop making sense."""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from ottla.cli.classic.java import Illegal
from ottla.records import batch as batches
from ottla.records import legacy, lz4
from ottla.records.checksum import crc32, crc32c
from ottla.records.compression import OUTPUT_BYTES_MAX, Codec, decompress
from ottla.records.errors import RecordError
from ottla.records.record import NO_TIMESTAMP, Record
from ottla.storage.files import File

INT_MAX = 2**31 - 1
_HEAD = struct.Struct(">qiib")  # offset, length, leader epoch or CRC, magic
_LENGTH_MIN = 14  # of a message of magic 0 without key and value
_OVERHEAD = batches.LENGTH_OVERHEAD
_STAMPED = batches.TIMESTAMP_TYPE_BIT
_CRC_FROM = 16  # of a message of magic 0 or 1: behind the checksum
_KEY_AT = {0: 18, 1: 26}
_INT32 = struct.Struct(">i")


class Batch(NamedTuple):
    """A batch, or a message of the old formats, which is one by itself."""

    position: int
    data: bytes
    magic: int

    @property
    def is_old(self) -> bool:
        return self.magic < batches.MAGIC

    @property
    def header(self) -> batches.BatchHeader:
        """Of a batch that is not old."""
        return batches.read_header(self.data)

    @property
    def message(self) -> legacy.MessageHeader:
        """Of one that is."""
        return legacy.read_header(self.data)

    @property
    def last_offset(self) -> int:
        return self.message.offset if self.is_old else self.header.last_offset

    @property
    def max_timestamp(self) -> int:
        return self.message.timestamp if self.is_old else self.header.max_timestamp

    @property
    def is_valid(self) -> bool:
        if self.is_old:
            return crc32(self.data, _CRC_FROM, len(self.data)) == self.message.crc
        return crc32c(self.data, batches.ATTRIBUTES_AT) == self.header.crc


class OldRecord(NamedTuple):
    """A message of magic 0 or 1, perhaps out of a compressed one, with its own checksum."""

    record: Record
    crc: int
    is_valid: bool


def walk(file: File, start: int = 0, bytes_max: int = INT_MAX) -> Iterator[Batch]:
    """The batches from `start` on that lie whole within `bytes_max`. Raises Illegal."""
    if bytes_max < 0:
        raise Illegal(
            f"java.lang.IllegalArgumentException: Invalid size: {bytes_max} in read from {_told(file)}"
        )
    if start > file.size():
        raise Illegal(
            f"java.lang.IllegalArgumentException: Slice from position {start} exceeds end position of {_told(file)}"
        )
    end = min(file.size(), start + bytes_max)
    position = start
    while position < end - _HEAD.size:
        _, length, _, magic = _HEAD.unpack(file.read_at(position, _HEAD.size))
        if length < _LENGTH_MIN:
            raise Illegal(
                "org.apache.kafka.common.errors.CorruptRecordException: Found record size"
                f" {length} smaller than minimum record overhead ({_LENGTH_MIN}) in file {file.path}."
            )
        size = _OVERHEAD + length
        if position > end - size:
            return
        if size > OUTPUT_BYTES_MAX:
            raise Illegal(
                f"{file.path}: a batch of {size} bytes at byte {position} is too large to be read here"
            )
        if magic >= batches.MAGIC and size < batches.HEADER_SIZE:
            raise Illegal(
                f"{file.path}: a batch of {size} bytes at byte {position} is shorter than its header"
            )
        yield Batch(position, file.read_at(position, size), magic)
        position += size


def _told(file: File) -> str:
    return f"FileRecords(size={file.size()}, file={file.path}, start=0, end={INT_MAX})"


def records_of(batch: Batch) -> Iterator[Record]:
    """Of a batch that is not old; also of one that fails its checksum. Raises Illegal where they make no sense."""
    data = batch.data
    if batch.magic > batches.MAGIC:  # to Apache, whatever comes after magic 2 looks like it
        data = data[: batches.MAGIC_AT] + bytes([batches.MAGIC]) + data[batches.MAGIC_AT + 1 :]
    try:
        yield from batches.records_of(data)
    except RecordError as error:
        raise _invalid(batch, error.detail) from None


def old_records_of(batch: Batch) -> Iterator[OldRecord]:
    """Of a message of magic 0 or 1: itself, or those inside."""
    wrapper = batch.message
    record = _old_record(batch, batch.data, 0, wrapper)
    if wrapper.codec is Codec.NONE:
        yield OldRecord(record, wrapper.crc, batch.is_valid)
        return
    try:
        inner = _unwrapped(wrapper, record.value or b"")
        found = list(legacy.iter_messages(inner))
    except RecordError as error:
        raise _invalid(batch, error.detail) from None
    # Magic 1 counts from 0 inside, and the wrapper bears the offset of the last.
    base = wrapper.offset - found[-1][1].offset if found and wrapper.magic else 0
    for at, header in found:
        one = _old_record(batch, inner, at, header)
        stamp = wrapper.timestamp if wrapper.magic and wrapper.attributes & _STAMPED else one.timestamp
        is_valid = crc32(inner, at + _CRC_FROM, at + header.size) == header.crc
        yield OldRecord(Record(base + one.offset, stamp, one.key, one.value), header.crc, is_valid)


def _unwrapped(wrapper: legacy.MessageHeader, value: bytes) -> bytes:
    if wrapper.codec is Codec.LZ4:
        return lz4.decompress(value, OUTPUT_BYTES_MAX, broken_checksum=wrapper.magic == 0)
    return decompress(wrapper.codec, value)


def _old_record(batch: Batch, data: bytes, at: int, header: legacy.MessageHeader) -> Record:
    parts: list[bytes | None] = []
    end, place = at + header.size, at + _KEY_AT[header.magic]
    for _ in ("key", "value"):
        size = _INT32.unpack_from(data, place)[0] if place + _INT32.size <= end else end
        place += _INT32.size
        if size > end - place:
            raise _invalid(batch, "a key or a value reaches past its message")
        parts.append(data[place : place + size] if size >= 0 else None)
        place += max(0, size)
    key, value = parts
    return Record(header.offset, header.timestamp if header.magic else NO_TIMESTAMP, key, value)


def _invalid(batch: Batch, reason: str) -> Illegal:
    return Illegal(
        f"org.apache.kafka.common.InvalidRecordException: {reason}\n"
        f"The records of the batch at byte {batch.position} cannot be read"
    )
