"""What a batch must be before it may enter the log: judged by its header and checksum, never by its records.

Step 6 in the life of a produce. Offsets are written into the batches in place, so the bytes that arrived are the
bytes that are stored and later sent.
"""

import struct

from ottla.core.errors import ErrorCode, KafkaError
from ottla.records import legacy
from ottla.records.batch import (
    ATTRIBUTES_AT,
    CONTROL_BIT,
    HEADER,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    assign_offsets,
    check,
    set_log_append_time,
)
from ottla.records.checksum import crc32c
from ottla.records.compression import OUTPUT_BYTES_MAX
from ottla.records.errors import RecordError
from ottla.records.frames import Frame, iter_frames
from ottla.records.section import RECORD_SIZE_MIN
from ottla.storage.config import TopicConfig
from ottla.storage.epochs import ANY_EPOCH
from ottla.storage.segment import RELATIVE_OFFSET_MAX

_PLACE = struct.Struct(">qii")  # what comes first in a batch: offset, length, leader epoch


def place(
    data: bytearray | memoryview,
    base_offset: int,
    leader_epoch: int,
    config: TopicConfig,
    now_ms: int,
    *,
    client: bool,
) -> list[BatchHeader]:
    """Give the batches in `data` their offsets, in place, and judge them. `client` batches may not be control ones."""
    if (usual := _place_usual(data, base_offset, leader_epoch, config, now_ms)) is not None:
        return [usual]
    batches: list[BatchHeader] = []
    position, end = 0, len(data)
    stamp_time = config.message_timestamp_type == "LogAppendTime"
    try:
        while position < end:
            if end - position < HEADER_SIZE or data[position + MAGIC_AT] != MAGIC:
                raise _not_a_batch(data, position, end)
            assign_offsets(data, position, base_offset, leader_epoch)
            header = check(data, position)
            _check_rules(header, config, now_ms, client=client)
            if stamp_time:
                set_log_append_time(data, position, now_ms)
                header = check(data, position)
            batches.append(header)
            position += LENGTH_OVERHEAD + header.length
            base_offset += header.last_offset_delta + 1
    except RecordError as error:
        raise KafkaError(error.code, error.detail) from error
    return batches


def _place_usual(
    data: bytearray | memoryview, base_offset: int, leader_epoch: int, config: TopicConfig, now_ms: int
) -> BatchHeader | None:
    """One batch of which nothing at all is unusual, as nearly all are. For others `place` knows what to do, or to say;
    whatever is accepted here it would accept as well."""
    if len(data) < HEADER_SIZE:
        return None
    fields = HEADER.unpack_from(data)
    _, length, _, magic, crc, attributes, delta, oldest, newest, producer_id, epoch, sequence, count = fields
    size = LENGTH_OVERHEAD + length
    # Attributes up to 4 are a codec and nothing else.
    if size != len(data) or magic != MAGIC or not 0 <= attributes <= 4 or not 0 < count == delta + 1:
        return None
    if (
        size > config.max_message_bytes
        or size > config.segment_bytes
        or count > _count_max(length, attributes)
    ):
        return None
    if producer_id >= 0 and (sequence < 0 or epoch < 0):
        return None
    if (
        config.message_timestamp_type != "CreateTime"
        or newest - now_ms > config.message_timestamp_after_max_ms
    ):
        return None
    if now_ms - oldest > config.message_timestamp_before_max_ms or crc32c(data[ATTRIBUTES_AT:]) != crc:
        return None
    _PLACE.pack_into(data, 0, base_offset, length, leader_epoch)
    return tuple.__new__(BatchHeader, (base_offset, length, leader_epoch, *fields[3:]))


def accept(
    data: memoryview,
    end_offset: int,
    epoch: int | None = None,
    epoch_max: int = ANY_EPOCH,
    *,
    is_empty: bool = False,
) -> list[BatchHeader]:
    """The whole batches of a leader's answer to a follower: they keep their offsets and epochs, which must only grow:
    from the `epoch` of the last batch to that of the leader. A log that `is_empty` may begin inside the first of them.

    They go into one segment. What its indexes cannot number, because compaction left a wide gap, is fetched again.
    """
    batches: list[BatchHeader] = []
    try:
        for frame in iter_frames(data, partial=True):
            header = _check_frame(data, frame)
            begins_inside = is_empty and not batches and header.last_offset >= end_offset
            if header.base_offset < end_offset and not begins_inside:
                raise KafkaError(
                    ErrorCode.CORRUPT_MESSAGE,
                    f"batch at offset {header.base_offset} where {end_offset} comes next",
                )
            if batches and header.last_offset - batches[0].base_offset > RELATIVE_OFFSET_MAX:
                break
            epoch = _next_epoch(header, epoch, epoch_max)
            batches.append(header)
            end_offset = header.next_offset
    except RecordError as error:
        raise KafkaError(error.code, error.detail) from error
    return batches


def _next_epoch(header: BatchHeader, epoch: int | None, epoch_max: int) -> int | None:
    """The epoch that rules behind this batch. No checksum covers it: one that cannot be is damage, and written down it
    would make our log look newer than any leader's."""
    if header.leader_epoch == NO_LEADER_EPOCH:
        return epoch
    if not (NO_LEADER_EPOCH if epoch is None else epoch) <= header.leader_epoch <= epoch_max:
        detail = f"batch of epoch {header.leader_epoch} behind {epoch}, from a leader in epoch {epoch_max}"
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, detail)
    return header.leader_epoch


def _check_frame(data: memoryview, frame: Frame) -> BatchHeader:
    """The header of a batch; of a message of an old format, what a batch of it alone would have."""
    if frame.magic == MAGIC:
        return check(data, frame.position)
    old = legacy.check(data, frame.position)
    times = old.timestamp, old.timestamp
    producer = NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE
    return BatchHeader(
        old.offset, old.length, NO_LEADER_EPOCH, old.magic, old.crc, old.attributes, 0, *times, *producer, 1
    )


def _not_a_batch(data: bytearray | memoryview, position: int, end: int) -> KafkaError:
    if end - position < HEADER_SIZE:
        return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{end - position} bytes are too few for a batch")
    magic = data[position + MAGIC_AT]
    code = ErrorCode.INVALID_RECORD if magic < MAGIC else ErrorCode.CORRUPT_MESSAGE
    return KafkaError(code, f"magic {magic} where 2 is expected")


def _check_rules(header: BatchHeader, config: TopicConfig, now_ms: int, *, client: bool) -> None:
    """What the topic's settings, and being a client, ask of a batch."""
    _, length, _, _, _, attributes, last_delta, oldest, newest, producer_id, epoch, sequence, count = header
    size = LENGTH_OVERHEAD + length
    if size > config.max_message_bytes or size > config.segment_bytes:
        raise _too_large(size, config)
    if count != last_delta + 1:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"{count} records, the last one at delta {last_delta}")
    if count > _count_max(length, attributes):
        raise KafkaError(ErrorCode.INVALID_RECORD, f"{count} records do not fit into {length} bytes")
    if not client:
        return
    if attributes & CONTROL_BIT:
        raise KafkaError(ErrorCode.INVALID_RECORD, "clients may not write control batches")
    if producer_id >= 0 and (sequence < 0 or epoch < 0):
        detail = f"producer {producer_id} sent sequence number {sequence} of epoch {epoch}"
        raise KafkaError(ErrorCode.INVALID_RECORD, detail)
    if config.message_timestamp_type == "CreateTime":
        _check_timestamps(attributes, oldest, newest, config, now_ms)


def _check_timestamps(attributes: int, oldest: int, newest: int, config: TopicConfig, now_ms: int) -> None:
    if attributes & TIMESTAMP_TYPE_BIT:
        raise KafkaError(ErrorCode.INVALID_TIMESTAMP, "clients may not claim the broker's time")
    too_new = newest - now_ms > config.message_timestamp_after_max_ms
    too_old = now_ms - oldest > config.message_timestamp_before_max_ms and oldest >= 0
    if too_new or too_old:
        raise KafkaError(
            ErrorCode.INVALID_TIMESTAMP, f"timestamps {oldest} to {newest} lie too far from {now_ms}"
        )


def _count_max(length: int, attributes: int) -> int:
    """How many records there can be, so that no header eats offsets that its records do not fill."""
    body = OUTPUT_BYTES_MAX if attributes & 7 else length - (HEADER_SIZE - LENGTH_OVERHEAD)
    return body // RECORD_SIZE_MIN


def _too_large(size: int, config: TopicConfig) -> KafkaError:
    if size > config.max_message_bytes:
        return KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"batch of {size} bytes, max.message.bytes is {config.max_message_bytes}",
        )
    return KafkaError(
        ErrorCode.RECORD_LIST_TOO_LARGE, f"batch of {size} bytes, segment.bytes is {config.segment_bytes}"
    )
