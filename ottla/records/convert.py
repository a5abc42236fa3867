"""Between the formats: up when an old client produces or an old segment is compacted, down when an old client fetches.

Up: all messages of a set become one batch of magic 2 with consecutive offsets, as a broker assigns them; in a log,
where others know them by their offsets, they keep what they have.
Down: each batch becomes messages, in a wrapper if it was compressed; headers are lost, control batches are
dropped, and zstd, which the old formats do not know, is an error.
"""

from collections.abc import Sequence
from itertools import pairwise

from ottla.core.errors import ErrorCode
from ottla.core.types import Buffer
from ottla.records import batch, builder, legacy
from ottla.records.batch import CREATE_TIME, NO_LEADER_EPOCH
from ottla.records.compression import OUTPUT_BYTES_MAX, Codec
from ottla.records.errors import RecordError, invalid, too_large
from ottla.records.frames import Frame, iter_frames
from ottla.records.record import NO_TIMESTAMP, Record

_OFFSETS_MAX = 1 << 31
"""How many offsets one batch can number."""


def up_convert(
    buffer: Buffer,
    *,
    base_offset: int = 0,
    codec: Codec | None = None,
    timestamp_type: int = CREATE_TIME,
    log_append_time: int = NO_TIMESTAMP,
    leader_epoch: int = NO_LEADER_EPOCH,
    limit: int = OUTPUT_BYTES_MAX,
) -> bytes:
    """One batch of magic 2 with the messages of a set, compressed as they were unless a `codec` is named."""
    if codec is None:
        codec = next((h.codec for _, h in legacy.iter_messages(buffer) if h.codec), Codec.NONE)
    converted = builder.BatchBuilder(
        base_offset=base_offset,
        codec=codec,
        timestamp_type=timestamp_type,
        log_append_time=log_append_time,
        leader_epoch=leader_epoch,
    )
    for position, _ in legacy.iter_messages(buffer):
        for record in legacy.records_of(buffer, position, limit=limit):
            converted.append(record.timestamp, record.key, record.value)
            if converted.size > limit:
                raise too_large(f"a message set holds more than {limit} bytes")
    if not converted.count:
        raise invalid("a message set without messages")
    return converted.build()


def modernised(
    records: Sequence[Record],
    *,
    codec: Codec,
    timestamp_type: int,
    log_append_time: int,
    delete_horizon_ms: int | None = None,
) -> bytes:
    """One batch of magic 2 with these records of an old segment, each at its own offset and with its own time.

    It starts at the first record and is of no producer and no leader's epoch, as messages are. `log_append_time` counts
    where the `timestamp_type` says that it was the broker who stamped them. Offsets that do not rise, or that one batch
    cannot number, are INVALID_RECORD: an old wrapper may hold anything.
    """
    if not records:
        raise invalid("a batch without records has no place in a log")
    first, last = records[0].offset, records[-1].offset
    if first < 0 or last - first >= _OFFSETS_MAX or any(a.offset >= b.offset for a, b in pairwise(records)):
        raise invalid(f"offsets {first} to {last} do not rise within one batch")
    return builder.build(
        records,
        codec=codec,
        timestamp_type=timestamp_type,
        log_append_time=log_append_time,
        delete_horizon_ms=delete_horizon_ms,
    )


def down_convert(
    buffer: Buffer, magic: int, *, first_offset: int = 0, limit: int = OUTPUT_BYTES_MAX
) -> bytes:
    """The records of `buffer` as a message set of at most `magic`; what is old enough is left alone.

    Records before `first_offset` are left out of what is converted: a fetch starts where it starts, not at
    the beginning of a batch. A batch that is cut off at the end of the buffer is left out too.
    """
    assert magic in (0, 1), "there is no other format to convert down to"
    parts: list[bytes] = []
    for frame in iter_frames(buffer, partial=True):
        if frame.magic <= magic:
            parts.append(bytes(buffer[frame.position : frame.position + frame.size]))
        else:
            parts.append(_downgraded(buffer, frame, magic, first_offset, limit))
    return b"".join(parts)


def _downgraded(buffer: Buffer, frame: Frame, magic: int, first_offset: int, limit: int) -> bytes:
    header: batch.BatchHeader | legacy.MessageHeader
    if frame.magic == batch.MAGIC:
        header = batch.check(buffer, frame.position)
        if header.is_control:
            return b""
        if header.codec is Codec.ZSTD:
            raise RecordError(
                ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
                f"the batch at offset {header.base_offset} is compressed with zstd, which needs magic 2",
            )
        records = batch.records_of(buffer, frame.position, limit=limit)
        append_time = header.max_timestamp
    else:
        header = legacy.check(buffer, frame.position)
        records = legacy.records_of(buffer, frame.position, limit=limit)
        append_time = header.timestamp
    return legacy.build(
        (record for record in records if record.offset >= first_offset),
        magic,
        codec=header.codec,
        timestamp_type=header.timestamp_type,
        log_append_time=append_time,
        limit=limit,
    )
