"""Building batches of magic 2: all at once with `build`, or record by record with `BatchBuilder`.

The builder keeps records encoded as they arrive, so its size is known at any time and `build` only
compresses, prepends the header and computes the CRC. Timestamps are deltas to the first record's, or to the
delete horizon where there is one.
"""

from collections.abc import Iterable, Sequence

from ottla.records import section
from ottla.records.batch import (
    ATTRIBUTES_AT,
    CODEC_BITS,
    CONTROL_BIT,
    CRC,
    CRC_AT,
    CREATE_TIME,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
)
from ottla.records.checksum import crc32c
from ottla.records.compression import Codec, compress
from ottla.records.record import NO_TIMESTAMP, Header, Record
from ottla.records.varint import wrapping_sum

_BLANK = bytes(HEADER_SIZE)


class BatchBuilder:
    """A batch that grows by one record at a time. `size` is what it would take up uncompressed."""

    def __init__(
        self,
        *,
        base_offset: int = 0,
        codec: Codec = Codec.NONE,
        level: int | None = None,
        timestamp_type: int = CREATE_TIME,
        log_append_time: int = NO_TIMESTAMP,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        is_transactional: bool = False,
        is_control: bool = False,
        leader_epoch: int = NO_LEADER_EPOCH,
        delete_horizon_ms: int | None = None,
    ) -> None:
        self.base_offset = base_offset
        self.count = 0
        self.last_offset = base_offset - 1
        self.max_timestamp = NO_TIMESTAMP
        self._codec = codec
        self._level = level
        self._attributes = (
            codec
            | (TIMESTAMP_TYPE_BIT if timestamp_type == LOG_APPEND_TIME else 0)
            | (TRANSACTIONAL_BIT if is_transactional else 0)
            | (CONTROL_BIT if is_control else 0)
            | (DELETE_HORIZON_BIT if delete_horizon_ms is not None else 0)
        )
        self._log_append_time = log_append_time
        self._base_timestamp = delete_horizon_ms
        self._producer = (producer_id, producer_epoch, base_sequence)
        self._leader_epoch = leader_epoch
        self._section = bytearray()

    @property
    def size(self) -> int:
        """Bytes of the batch if it were built now without compression."""
        return HEADER_SIZE + len(self._section)

    def append(
        self,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header] = (),
        offset: int | None = None,
    ) -> int:
        """Add a record behind the last one, or at a later `offset`; returns the offset it got."""
        if offset is None:
            offset = self.last_offset + 1
        assert self.last_offset < offset < self.base_offset + (1 << 31), (
            "offsets of a batch rise, by 2^31 at most"
        )
        if self._base_timestamp is None:
            self._base_timestamp = timestamp
        delta = timestamp - self._base_timestamp
        if not -section.SUM_SAFE < delta < section.SUM_SAFE:
            delta = wrapping_sum(timestamp, -self._base_timestamp)
        section.encode(self._section, offset - self.base_offset, delta, key, value, headers)
        self.last_offset = offset
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
        self.count += 1
        return offset

    def build(self, *, last_offset: int | None = None) -> bytes:
        """The finished batch. `last_offset` keeps the end of one whose last records compaction removed."""
        if last_offset is None:
            last_offset = self.last_offset
        assert last_offset >= max(self.last_offset, self.base_offset), (
            "a batch ends at or behind its last record"
        )
        records = compress(self._codec, self._section, self._level) if self.count else b""
        append_time = self._attributes & TIMESTAMP_TYPE_BIT
        batch = bytearray(HEADER_SIZE)
        batch += records
        fields = (
            self.base_offset,
            len(batch) - LENGTH_OVERHEAD,
            self._leader_epoch,
            MAGIC,
            0,
            self._attributes if self.count else self._attributes & ~CODEC_BITS,
            last_offset - self.base_offset,
            NO_TIMESTAMP if self._base_timestamp is None else self._base_timestamp,
            self._log_append_time if append_time else self.max_timestamp,
            *self._producer,
            self.count,
        )
        HEADER.pack_into(batch, 0, *fields)
        CRC.pack_into(batch, CRC_AT, crc32c(batch, ATTRIBUTES_AT))
        return bytes(batch)


def build_rows(
    rows: list[tuple[int, bytes | None, bytes | None, Sequence[Header]]],
    codec: Codec = Codec.NONE,
    level: int | None = None,
) -> bytearray:
    """A batch as producers send it, at offset 0 and of nobody: `batch.set_producer` says whose it is.

    Rows are timestamp, key, value, headers. There must be one at least.
    """
    base_timestamp = rows[0][0]
    if codec is Codec.NONE:
        batch, max_timestamp = section.encode_rows(rows, base_timestamp, _BLANK)
    else:
        records, max_timestamp = section.encode_rows(rows, base_timestamp, b"")
        batch = bytearray(_BLANK)
        batch += compress(codec, records, level)
    fields = (
        *(0, len(batch) - LENGTH_OVERHEAD, NO_LEADER_EPOCH, MAGIC, 0, int(codec), len(rows) - 1),
        *(base_timestamp, max(NO_TIMESTAMP, max_timestamp)),
        *(NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE, len(rows)),
    )
    HEADER.pack_into(batch, 0, *fields)
    CRC.pack_into(batch, CRC_AT, crc32c(batch, ATTRIBUTES_AT))
    return batch


def build(
    records: Iterable[Record],
    *,
    base_offset: int | None = None,
    last_offset: int | None = None,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    timestamp_type: int = CREATE_TIME,
    log_append_time: int = NO_TIMESTAMP,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    is_control: bool = False,
    leader_epoch: int = NO_LEADER_EPOCH,
    delete_horizon_ms: int | None = None,
) -> bytes:
    """One batch of `records` at their own offsets; it starts at the first unless `base_offset` is earlier."""
    records = list(records)
    if base_offset is None:
        base_offset = records[0].offset if records else 0
    builder = BatchBuilder(
        base_offset=base_offset,
        codec=codec,
        level=level,
        timestamp_type=timestamp_type,
        log_append_time=log_append_time,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        is_transactional=is_transactional,
        is_control=is_control,
        leader_epoch=leader_epoch,
        delete_horizon_ms=delete_horizon_ms,
    )
    for record in records:
        builder.append(record.timestamp, record.key, record.value, record.headers, record.offset)
    return builder.build(last_offset=last_offset)
