"""Offsets: find them by time, and find where an epoch ended.

A leader answers, and to clients it speaks of nothing above the high watermark. What is found by a batch's header is
verified by its records; that may mean decompressing them, so all but the smallest are opened in a thread.
"""

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

from ottla.broker.authorizer import CLUSTER_NAME, Operation, ResourceType
from ottla.broker.call import Call
from ottla.broker.handlers.committed import offset_commit, offset_delete, offset_fetch
from ottla.broker.handlers.deletion import delete_records
from ottla.core.errors import ErrorCode, KafkaError
from ottla.protocol.messages.offsets import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from ottla.records import frames
from ottla.records.batch import CODEC_BITS
from ottla.records.errors import RecordError
from ottla.replication.partition import Partition
from ottla.storage.log import Log
from ottla.storage.reading import TimedOffset
from ottla.storage.scan import BatchAt
from ottla.storage.segment import Segment

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

__all__ = [
    "delete_records",
    "offset_commit",
    "offset_delete",
    "offset_fetch",
]  # served here, as their messages are

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = -1, -2, -3, -4, -5, -6
SUPPORTED_SINCE = {
    LATEST: 0,
    EARLIEST: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING: 11,
}
CONSUMER, DEBUGGER = -1, -2  # replica ids of those who are no replicas
EPOCHS_SINCE, NOT_AVAILABLE_SINCE = 4, 5
INLINE_BYTES_MAX = 4096  # a few hundred records at most
NOWHERE = TimedOffset(-1, -1, -1)

_Listed = ListOffsetsResponse.Topic.Partition
_Ended = OffsetForLeaderEpochResponse.Topic.Partition


# --- list offsets -------------------------------------------------------------------------------------------------


async def list_offsets(broker: "Broker", call: Call, request: ListOffsetsRequest) -> ListOffsetsResponse:
    counts = Counter(
        (topic.name, part.partition_index) for topic in request.topics for part in topic.partitions
    )
    topics = []
    for topic in request.topics:
        answers = [
            await _listed(broker, call, request, topic.name, part, counts[topic.name, part.partition_index])
            for part in topic.partitions
        ]
        topics.append(ListOffsetsResponse.Topic(name=topic.name, partitions=answers))
    return ListOffsetsResponse(topics=topics)


async def _listed(
    broker: "Broker",
    call: Call,
    request: ListOffsetsRequest,
    topic: str,
    asked: ListOffsetsRequest.Topic.Partition,
    count: int,
) -> _Listed:
    answer = _Listed(partition_index=asked.partition_index, error_code=ErrorCode.NONE)
    try:
        if count > 1:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{topic}-{asked.partition_index} is named twice")
        _check_permission(broker, call, Operation.DESCRIBE, topic)
        partition = broker.replicas.get(topic, asked.partition_index)
        if request.replica_id != DEBUGGER:
            partition.check_leader(asked.current_leader_epoch)
        if call.version == 0:
            answer.old_style_offsets = _segment_offsets(partition, request, asked, broker.clock.now_ms())
            return answer
        _check_supported(asked.timestamp, call.version)
        found = await _find(partition, request, asked.timestamp)
        answer.timestamp, answer.offset = found.timestamp, found.offset
        if call.version >= EPOCHS_SINCE:
            answer.leader_epoch = found.leader_epoch
    except (KafkaError, RecordError) as error:
        answer.error_code = error.code
        if error.code is ErrorCode.OFFSET_NOT_AVAILABLE and call.version < NOT_AVAILABLE_SINCE:
            answer.error_code = ErrorCode.LEADER_NOT_AVAILABLE
        _note_failure(broker, topic, asked.partition_index, error)
    return answer


def _check_supported(timestamp: int, version: int) -> None:
    if timestamp < 0 and version < SUPPORTED_SINCE.get(timestamp, version + 1):
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION, f"ListOffsets v{version} knows no timestamp {timestamp}"
        )


async def _find(partition: Partition, request: ListOffsetsRequest, timestamp: int) -> TimedOffset:
    log = partition.log
    end = _visible_end(partition, request)
    if timestamp == LATEST:
        _check_settled(partition, request)
        return TimedOffset(-1, end, partition.leader_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        epoch = log.epochs.epoch_at(log.log_start_offset)
        if epoch is None and log.log_start_offset == log.end_offset:
            epoch = partition.leader_epoch  # the file learns of it with the first batch
        return TimedOffset(-1, log.log_start_offset, -1 if epoch is None else epoch)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING):
        return NOWHERE  # nothing is ever moved to another tier
    if timestamp == MAX_TIMESTAMP:
        timestamp = log.newest_timestamp()
    found = await _first_since(log, timestamp) if timestamp >= 0 else None
    if found is not None and found.offset < end:
        return found
    _check_settled(partition, request)
    return NOWHERE


def _visible_end(partition: Partition, request: ListOffsetsRequest) -> int:
    return partition.fetchable_end(request.isolation_level, is_follower=request.replica_id != CONSUMER)


def _check_settled(partition: Partition, request: ListOffsetsRequest) -> None:
    """A new leader does not know yet what its predecessor called committed. To answer with less would look as if
    the end had moved back (KIP-207)."""
    if request.replica_id != CONSUMER:
        return
    log, settled = partition.log, partition.high_watermark.value
    # The file learns of an epoch with its first batch; until then it begins where the log ends.
    begun = (
        log.epochs.entries[-1].start_offset if log.epochs.latest == partition.leader_epoch else log.end_offset
    )
    if begun > settled:
        raise KafkaError(
            ErrorCode.OFFSET_NOT_AVAILABLE,
            f"epoch {partition.leader_epoch} began at {begun}, and the high watermark is still {settled}",
        )


async def _first_since(log: Log, timestamp: int) -> TimedOffset | None:
    """The first record of `timestamp` or later. A header may promise one that is not there; then the next is tried."""
    offset_min = log.log_start_offset
    is_first = True
    while (batch := log.find_by_time(timestamp, offset_min)) is not None:
        # By its last offset: the first one inside a wrapper of an old format is not known before it is opened.
        data, start = log.read(batch.last_offset, batch.size).read(), log.log_start_offset
        if is_first and batch.size <= INLINE_BYTES_MAX and not batch.attributes & CODEC_BITS:
            found = _search(data, batch, timestamp, start)
        else:
            found = await asyncio.to_thread(_search, data, batch, timestamp, start)
        if found is not None:
            return found
        offset_min, is_first = batch.next_offset, False
    return None


def _search(data: bytes, batch: BatchAt, timestamp: int, offset_min: int) -> TimedOffset | None:
    for record in frames.records_of(data, frames.read_frame(data)):
        if record.timestamp >= timestamp and record.offset >= offset_min:
            return TimedOffset(record.timestamp, record.offset, batch.leader_epoch)
    return None


def _segment_offsets(
    partition: Partition,
    request: ListOffsetsRequest,
    asked: ListOffsetsRequest.Topic.Partition,
    now_ms: int,
) -> list[int]:
    """Version 0 knew no records' times: it tells where segments begin that are old enough, newest first.

    The log ends now, as in Kafka: who asks for a later time is told its end.
    """
    log, end = partition.log, _visible_end(partition, request)
    if asked.timestamp == EARLIEST:
        offsets = [log.log_start_offset]
    else:
        begins = {
            max(segment.base_offset, log.log_start_offset)
            for segment in log.segments
            if asked.timestamp == LATEST or 0 <= _first_ms(segment) <= asked.timestamp
        }
        if asked.timestamp == LATEST or asked.timestamp >= now_ms:
            begins.add(end)
        offsets = sorted((offset for offset in begins if offset <= end), reverse=True)
    return offsets[: max(0, asked.max_num_offsets)]


def _first_ms(segment: Segment) -> int:
    """When a segment began; one whose records have no times is as old as its file."""
    if segment.size and segment.first_timestamp < 0:
        return segment.newest_ms
    return segment.first_timestamp


# --- epochs -------------------------------------------------------------------------------------------------------


def offset_for_leader_epoch(
    broker: "Broker", call: Call, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    """Where the largest epoch up to the asked one ended: what lies beyond that in the asker's log is not ours."""
    is_broker = broker.authorizer.allows(call, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
    topics = []
    for topic in request.topics:
        answers = []
        for asked in topic.partitions:
            answer = _Ended(error_code=ErrorCode.NONE, partition=asked.partition)
            try:
                if not is_broker:
                    _check_permission(broker, call, Operation.DESCRIBE, topic.topic)
                partition = broker.replicas.get(topic.topic, asked.partition)
                partition.check_leader(asked.current_leader_epoch)
                answer.leader_epoch, answer.end_offset = partition.end_of_epoch(asked.leader_epoch)
            except KafkaError as error:
                answer.error_code = error.code
            answers.append(answer)
        topics.append(OffsetForLeaderEpochResponse.Topic(topic=topic.topic, partitions=answers))
    return OffsetForLeaderEpochResponse(topics=topics)


# --- all of them --------------------------------------------------------------------------------------------------


def _check_permission(broker: "Broker", call: Call, operation: Operation, topic: str) -> None:
    if not broker.authorizer.allows(call, operation, ResourceType.TOPIC, topic):
        raise KafkaError(
            ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"{operation.name} of {topic!r} is not allowed"
        )


def _note_failure(broker: "Broker", topic: str, index: int, error: KafkaError | RecordError) -> None:
    """A disk that failed under a request takes its directory out of service."""
    if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
        try:
            broker.replicas.note_failure(broker.replicas.get(topic, index))
        except KafkaError:
            return  # it is out of service already
