"""Between the formats: up when an old client produces, down when an old client fetches.

Up: all messages of a set become one batch of magic 2 with consecutive offsets, as a broker assigns them.
Down: each batch becomes messages, in a wrapper if it was compressed; headers are lost, control batches are
dropped, and zstd, which the old formats do not know, is an error.
"""

from ottla.core.errors import ErrorCode
from ottla.core.types import Buffer
from ottla.records import batch, builder, legacy
from ottla.records.batch import CREATE_TIME, NO_LEADER_EPOCH
from ottla.records.compression import OUTPUT_BYTES_MAX, Codec
from ottla.records.errors import RecordError, invalid, too_large
from ottla.records.frames import Frame, iter_frames
from ottla.records.record import NO_TIMESTAMP


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
