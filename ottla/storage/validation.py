"""What a batch must be before it may enter the log: judged by its header and checksum, never by its records.

Step 6 in the life of a produce. Offsets are written into the batches in place, so the bytes that arrived are the
bytes that are stored and later sent.
"""

from ottla.core.errors import ErrorCode, KafkaError
from ottla.records.batch import (
    HEADER_SIZE,
    MAGIC,
    MAGIC_AT,
    BatchHeader,
    assign_offsets,
    check,
    iter_batches,
    set_log_append_time,
)
from ottla.records.errors import RecordError
from ottla.storage.config import TopicConfig
from ottla.storage.segment import RELATIVE_OFFSET_MAX


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
    batches: list[BatchHeader] = []
    position, end = 0, len(data)
    stamp_time = config.message_timestamp_type == "LogAppendTime"
    while position < end:
        _check_format(data, position, end)
        assign_offsets(data, position, base_offset, leader_epoch)
        header = _checked(data, position)
        _check_rules(header, config, now_ms, client=client)
        if stamp_time:
            set_log_append_time(data, position, now_ms)
            header = _checked(data, position)
        batches.append(header)
        position += header.size
        base_offset += header.last_offset_delta + 1
    return batches


def accept(data: memoryview, end_offset: int) -> list[BatchHeader]:
    """The whole batches of a leader's answer to a follower: they keep their offsets, which must only grow.

    They go into one segment. What its indexes cannot number, because compaction left a wide gap, is fetched again.
    """
    batches: list[BatchHeader] = []
    try:
        for position, header in iter_batches(data, partial=True):
            check(data, position)
            if header.base_offset < end_offset:
                raise KafkaError(
                    ErrorCode.CORRUPT_MESSAGE,
                    f"batch at offset {header.base_offset} where {end_offset} comes next",
                )
            if batches and header.last_offset - batches[0].base_offset > RELATIVE_OFFSET_MAX:
                break
            batches.append(header)
            end_offset = header.next_offset
    except RecordError as error:
        raise KafkaError(error.code, error.detail) from error
    return batches


def _check_format(data: bytearray | memoryview, position: int, end: int) -> None:
    if end - position < HEADER_SIZE:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{end - position} bytes are too few for a batch")
    magic = data[position + MAGIC_AT]
    if magic != MAGIC:
        code = ErrorCode.INVALID_RECORD if magic < MAGIC else ErrorCode.CORRUPT_MESSAGE
        raise KafkaError(code, f"magic {magic} where 2 is expected")


def _checked(data: bytearray | memoryview, position: int) -> BatchHeader:
    try:
        return check(data, position)
    except RecordError as error:
        raise KafkaError(error.code, error.detail) from error


def _check_rules(header: BatchHeader, config: TopicConfig, now_ms: int, *, client: bool) -> None:
    if header.size > config.max_message_bytes:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"batch of {header.size} bytes, max.message.bytes is {config.max_message_bytes}",
        )
    if header.size > config.segment_bytes:
        raise KafkaError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"batch of {header.size} bytes, segment.bytes is {config.segment_bytes}",
        )
    if header.count != header.last_offset_delta + 1:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"{header.count} records, the last one at delta {header.last_offset_delta}",
        )
    if client:
        _check_client_rules(header, config, now_ms)


def _check_client_rules(header: BatchHeader, config: TopicConfig, now_ms: int) -> None:
    if header.is_control:
        raise KafkaError(ErrorCode.INVALID_RECORD, "clients may not write control batches")
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"producer {header.producer_id} sent no sequence number")
    if config.message_timestamp_type == "LogAppendTime":
        return
    if header.max_timestamp - now_ms > config.message_timestamp_after_max_ms:
        raise KafkaError(
            ErrorCode.INVALID_TIMESTAMP, f"timestamp {header.max_timestamp} lies too far in the future"
        )
    oldest = min(header.base_timestamp, header.max_timestamp)
    if oldest >= 0 and now_ms - oldest > config.message_timestamp_before_max_ms:
        raise KafkaError(ErrorCode.INVALID_TIMESTAMP, f"timestamp {oldest} lies too far in the past")
