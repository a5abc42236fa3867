"""The record batch of magic 2, Kafka's format on the wire and on disk since 0.11.

    0 base offset 8 | 8 length 4 | 12 leader epoch 4 | 16 magic 1 | 17 CRC-32C 4 | 21 attributes 2
    | 23 last offset delta 4 | 27 base timestamp 8 | 35 max timestamp 8 | 43 producer id 8
    | 51 producer epoch 2 | 53 base sequence 4 | 57 count 4 | 61 records, compressed as one block

A broker judges a batch by its header and CRC and never looks at the records: the first 21 bytes lie outside
the CRC so that offsets and the leader epoch can be written in place. Only `records_of` and `walk` open the
record section.
"""

import struct
from collections.abc import Iterator
from itertools import chain
from typing import Any, NamedTuple

from ottla.core.types import Buffer
from ottla.records import section
from ottla.records.checksum import crc32c
from ottla.records.compression import OUTPUT_BYTES_MAX, Codec, codec_of, decompress
from ottla.records.errors import corrupt, invalid
from ottla.records.record import Record, Row

MAGIC = 2
HEADER = struct.Struct(">qiibIhiqqqhii")
CRC = struct.Struct(">I")
HEADER_SIZE = HEADER.size  # 61
LENGTH_OVERHEAD = 12
"""Bytes of a batch that its length field does not count: base offset and length."""

BASE_OFFSET_AT, LENGTH_AT, LEADER_EPOCH_AT, MAGIC_AT, CRC_AT, ATTRIBUTES_AT = 0, 8, 12, 16, 17, 21
LAST_OFFSET_DELTA_AT, BASE_TIMESTAMP_AT, MAX_TIMESTAMP_AT = 23, 27, 35
PRODUCER_ID_AT, PRODUCER_EPOCH_AT, BASE_SEQUENCE_AT, COUNT_AT, RECORDS_AT = 43, 51, 53, 57, 61

CODEC_BITS = 7
TIMESTAMP_TYPE_BIT, TRANSACTIONAL_BIT, CONTROL_BIT, DELETE_HORIZON_BIT = 1 << 3, 1 << 4, 1 << 5, 1 << 6
CREATE_TIME, LOG_APPEND_TIME = 0, 1
NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE, NO_LEADER_EPOCH = -1, -1, -1, -1

_CHUNK = 256  # records decoded at a time: enough to amortise the call, little enough to stay small
_OFFSET, _EPOCH = struct.Struct(">q"), struct.Struct(">i")
_OFFSET_MAX = (1 << 63) - 1
_SEQUENCES = 1 << 31


class BatchHeader(NamedTuple):
    """The fields of a batch's header as they stand in the bytes, and what follows from them."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody needs here

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return LENGTH_OVERHEAD + self.length

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> Codec:
        return codec_of(self.attributes)

    @property
    def timestamp_type(self) -> int:
        return LOG_APPEND_TIME if self.attributes & TIMESTAMP_TYPE_BIT else CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_BIT != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_BIT != 0

    @property
    def delete_horizon_ms(self) -> int | None:
        """When compaction may drop the tombstones in here (KIP-534); the base timestamp holds it."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id >= 0

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record; sequences run from 0 to 2^31 - 1 and start over."""
        if self.base_sequence < 0:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) % _SEQUENCES


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`, unchecked beyond there being enough bytes for it."""
    try:
        fields = HEADER.unpack_from(buffer, position)
    except struct.error:
        raise corrupt(f"no room for a batch header at byte {position} of {len(buffer)}") from None
    return tuple.__new__(BatchHeader, fields)


def check(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header of the batch at `position`, once length, magic, CRC, codec and counts have been found sound.

    Damage is CORRUPT_MESSAGE; a header that contradicts itself under a good CRC is INVALID_RECORD.
    """
    header = read_header(buffer, position)
    base_offset, length, _, magic, crc, attributes, last_offset_delta, _, _, _, _, _, count = header
    end = position + LENGTH_OVERHEAD + length
    if length < HEADER_SIZE - LENGTH_OVERHEAD or end > len(buffer):
        raise corrupt(f"a batch of {length} bytes does not fit at byte {position} of {len(buffer)}")
    if magic != MAGIC:
        raise corrupt(f"magic {magic} where a batch of magic 2 was expected")
    if crc32c(memoryview(buffer)[position + ATTRIBUTES_AT : end]) != crc:
        raise corrupt(f"the batch at offset {base_offset} fails its CRC")
    if attributes & CODEC_BITS > Codec.ZSTD:
        codec_of(attributes)  # says that there is no such codec
    if last_offset_delta < 0 or not 0 <= count <= last_offset_delta + 1:
        raise invalid(f"{count} records do not fit offsets 0 to {last_offset_delta} of their batch")
    return header


def iter_batches(
    buffer: Buffer, position: int = 0, *, partial: bool = False
) -> Iterator[tuple[int, BatchHeader]]:
    """Positions and headers of the batches in `buffer`; magic and lengths are checked, CRCs are not.

    `partial` says that the last batch may be cut off, as in a fetch response: it is then left out in silence.
    """
    end = len(buffer)
    while position < end:
        if partial and end - position < HEADER_SIZE:
            return
        header = read_header(buffer, position)
        if header.magic != MAGIC:
            raise corrupt(f"magic {header.magic} where a batch of magic 2 was expected")
        if header.length < HEADER_SIZE - LENGTH_OVERHEAD:
            raise corrupt(f"a batch cannot be {header.length} bytes long")
        if header.size > end - position:
            if partial:
                return
            raise corrupt(f"a batch of {header.length} bytes does not fit at byte {position} of {end}")
        yield position, header
        position += header.size


def records_of(buffer: Buffer, position: int = 0, *, limit: int = OUTPUT_BYTES_MAX) -> Iterator[Record]:
    """The records of the batch at `position`, decoded a chunk at a time. The CRC is the caller's to check.

    Decompressed, they may be at most `limit` bytes.
    """
    return chain.from_iterable(_chunks(*opened(buffer, position, limit), as_rows=False))


def rows_of(buffer: Buffer, position: int = 0, *, limit: int = OUTPUT_BYTES_MAX) -> Iterator[Row]:
    """As `records_of`, each a plain tuple of offset, timestamp, key, value, headers: for bulk readers."""
    return chain.from_iterable(_chunks(*opened(buffer, position, limit), as_rows=True))


def _chunks(header: BatchHeader, data: bytes, start: int, end: int, *, as_rows: bool) -> Iterator[list[Any]]:
    is_append_time = header.timestamp_type == LOG_APPEND_TIME
    base_timestamp = header.max_timestamp if is_append_time else header.base_timestamp
    remaining = header.count
    while remaining > 0:
        count = min(remaining, _CHUNK)
        decoded, start = section.decode(
            data, start, end, count, header.base_offset, base_timestamp, is_append_time, as_rows
        )
        remaining -= len(decoded)
        yield decoded
    if start != end:
        raise invalid(f"{end - start} bytes follow the last record of a batch")


def walk(
    buffer: Buffer, position: int = 0, *, consecutive: bool = False, limit: int = OUTPUT_BYTES_MAX
) -> BatchHeader:
    """Verify the record section of the batch at `position`, building no values: lengths, count, deltas.

    Deltas must rise and end at most at the header's last; with `consecutive`, as a producer writes them, they
    are 0, 1, 2... up to exactly the last.
    """
    header, data, start, end = opened(buffer, position, limit)
    if consecutive and header.count != header.last_offset_delta + 1:
        raise invalid(f"{header.count} records cannot end at offset delta {header.last_offset_delta}")
    section.walk(data, start, end, header.count, header.last_offset_delta, consecutive)
    return header


def opened(
    buffer: Buffer, position: int = 0, limit: int = OUTPUT_BYTES_MAX
) -> tuple[BatchHeader, bytes, int, int]:
    """The header, and where its records lie once decompressed, for `section.decode`. What is already `bytes` is not
    copied. The CRC is the caller's to check."""
    header = read_header(buffer, position)
    end = position + header.size
    if header.magic != MAGIC or header.length < HEADER_SIZE - LENGTH_OVERHEAD or end > len(buffer):
        raise corrupt(f"no batch of magic 2 at byte {position} of {len(buffer)}")
    if not 0 <= header.base_offset <= _OFFSET_MAX - _SEQUENCES:
        raise invalid(f"a batch cannot start at offset {header.base_offset}")
    start = position + RECORDS_AT
    codec = header.codec
    if codec is not Codec.NONE and start < end:  # without records nothing was compressed
        data = decompress(codec, memoryview(buffer)[start:end], limit)
        start, end = 0, len(data)
    elif isinstance(buffer, bytes):
        data = buffer
    else:
        data = bytes(memoryview(buffer)[start:end])
        start, end = 0, len(data)
    if not 0 <= header.count <= (end - start) // section.RECORD_SIZE_MIN:
        raise invalid(f"{header.count} records do not fit into {end - start} bytes")
    return header, data, start, end


def assign_offsets(
    buffer: bytearray | memoryview, position: int, base_offset: int, leader_epoch: int
) -> None:
    """Write where the batch stands in its log, in place. Both fields lie outside the CRC."""
    _OFFSET.pack_into(buffer, position, base_offset)
    _EPOCH.pack_into(buffer, position + LEADER_EPOCH_AT, leader_epoch)


def set_log_append_time(buffer: bytearray | memoryview, position: int, timestamp_ms: int) -> None:
    """Stamp the batch with the broker's time, in place: timestamp type, max timestamp, and so the CRC."""
    header = read_header(buffer, position)
    struct.pack_into(">h", buffer, position + ATTRIBUTES_AT, header.attributes | TIMESTAMP_TYPE_BIT)
    struct.pack_into(">q", buffer, position + MAX_TIMESTAMP_AT, timestamp_ms)
    crc = crc32c(buffer, position + ATTRIBUTES_AT, position + header.size)
    CRC.pack_into(buffer, position + CRC_AT, crc)


def set_producer(
    buffer: bytearray | memoryview,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    is_transactional: bool,
) -> None:
    """Say in the batch at the beginning of `buffer`, in place, whose it is and which of theirs; and so the CRC."""
    header = read_header(buffer)
    attributes = header.attributes & ~TRANSACTIONAL_BIT | (TRANSACTIONAL_BIT if is_transactional else 0)
    struct.pack_into(">h", buffer, ATTRIBUTES_AT, attributes)
    struct.pack_into(">qhi", buffer, PRODUCER_ID_AT, producer_id, producer_epoch, base_sequence)
    CRC.pack_into(buffer, CRC_AT, crc32c(buffer, ATTRIBUTES_AT, header.size))
