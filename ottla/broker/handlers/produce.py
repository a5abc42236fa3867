"""Produce: step 3 in the life of a produce.

Every batch is appended before anything is waited for, so requests of one connection append in the order they came in.
What has to be opened first (another codec, an old format) may take a thread; then those behind it wait their turn.
"""

import asyncio
from collections.abc import Coroutine
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from ottla.broker.authorizer import Operation, ResourceType
from ottla.broker.call import Call
from ottla.broker.handlers.leaders import HINTED, endpoints_of, leader_of
from ottla.broker.intake import InvalidRecords, Slow, prepare
from ottla.broker.waiting import reach
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.types import Buffer
from ottla.protocol.messages.produce import ProduceRequest, ProduceResponse
from ottla.replication.partition import ALL_REPLICAS, Partition

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

_Answer = ProduceResponse.Topic.Partition
TOPIC_IDS_SINCE, LEADER_HINTS_SINCE = 13, 10
_SAY_NOTHING_OF_THE_LOG = {
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.KAFKA_STORAGE_ERROR,
}
"""With any other error, Kafka tells where the log starts."""


class _Append:
    """One partition of a request on its way into the log."""

    __slots__ = ("answer", "end_offset", "partition", "records", "topic")

    def __init__(self, topic: str, index: int) -> None:
        self.topic = topic
        self.answer = _Answer(index=index, error_code=0, base_offset=-1)
        self.partition: Partition | None = None
        """Set while there is something to append, then while there is something to wait for."""
        self.records: Buffer | Slow = b""
        self.end_offset = 0

    def refuse(self, error: KafkaError, partition: Partition | None = None) -> None:
        """The `partition`, if its log has judged the records."""
        self.partition = None
        if partition is not None and error.code not in _SAY_NOTHING_OF_THE_LOG:
            self.answer.log_start_offset = partition.log.log_start_offset
        self.answer.error_code = error.code
        self.answer.error_message = error.detail
        self.answer.base_offset = -1
        if isinstance(error, InvalidRecords):
            self.answer.record_errors = [
                _Answer.RecordError(batch_index=at, batch_index_error_message=why)
                for at, why in error.record_errors
            ]


def produce(
    broker: "Broker", call: Call, request: ProduceRequest
) -> ProduceResponse | Coroutine[Any, Any, ProduceResponse | None] | None:
    if request.acks not in (0, 1, ALL_REPLICAS):
        raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks must be 0, 1 or -1, not {request.acks}")
    topics, appends, is_slow = [], [], call.connection.appending is not None
    for asked in request.topic_data:
        name = _name_of(broker, call, asked)
        parts = [_prepare(broker, call, name, part) for part in asked.partition_data]
        appends += parts
        answers = [append.answer for append in parts]
        topics.append(
            ProduceResponse.Topic(name=asked.name, topic_id=asked.topic_id, partition_responses=answers)
        )
        is_slow = is_slow or any(type(append.records) is Slow for append in parts)
    response = ProduceResponse(responses=topics)
    if is_slow:
        return _in_turn(broker, call, request, appends, response)
    _append_all(broker, appends, request.acks)
    return _settle(broker, call, request, appends, response)


def _name_of(broker: "Broker", call: Call, asked: ProduceRequest.Topic) -> str | None:
    if call.version < TOPIC_IDS_SINCE:
        return asked.name
    image = broker.metadata.topic_of_id.get(asked.topic_id)
    return None if image is None else image.name


def _prepare(
    broker: "Broker", call: Call, topic: str | None, part: ProduceRequest.Topic.Partition
) -> _Append:
    """May they write, is the partition here, and are the records in a form it takes?"""
    append = _Append(topic or "", part.index)
    partition = None
    try:
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "no topic has this id")
        if not broker.authorizer.allows(call, Operation.WRITE, ResourceType.TOPIC, topic):
            raise KafkaError(
                ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"{call.connection.principal} may not write"
            )
        partition = broker.replicas.get(topic, part.index)
        append.records = prepare(part.records or b"", call.version, partition.config)
        append.partition = partition
    except InvalidRecords as error:
        append.refuse(error, partition)
    except KafkaError as error:
        append.refuse(error)
    return append


async def _in_turn(
    broker: "Broker", call: Call, request: ProduceRequest, appends: list[_Append], response: ProduceResponse
) -> ProduceResponse | None:
    """Open what must be opened, then append when everything that came before has been appended."""
    before, connection = call.connection.appending, call.connection
    mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    connection.appending = mine
    try:
        for append in appends:
            if append.partition is not None and type(append.records) is Slow:
                await _open(broker, append, append.records)
        if before is not None:
            await before
        _append_all(broker, appends, request.acks)
    finally:
        if not mine.done():
            mine.set_result(None)
        if connection.appending is mine:
            connection.appending = None
    settled = _settle(broker, call, request, appends, response)
    return await settled if type(settled) is CoroutineType else settled  # type: ignore[return-value]  # one or the other


async def _open(broker: "Broker", append: _Append, records: Slow) -> None:
    try:
        opened = records.attempt()
    except KafkaError as error:
        append.refuse(error, append.partition)
        return
    if opened is not None:
        append.records = opened
    else:
        await asyncio.get_running_loop().run_in_executor(broker.openers, _open_in_thread, append, records)


def _open_in_thread(append: _Append, records: Slow) -> None:
    """What comes of it does not travel through the future: a future of a thread is part of a cycle, and keeps results,
    and with an error the frames that hold the decompressed records, until the collector comes by."""
    try:
        append.records = records.run()
    except KafkaError as error:
        append.refuse(error, append.partition)


def _append_all(broker: "Broker", appends: list[_Append], acks: int) -> None:
    now_ms = broker.clock.now_ms()
    for append in appends:
        if append.partition is not None:
            _append(broker, append, append.partition, append.records, acks, now_ms)  # type: ignore[arg-type]  # opened


def _append(
    broker: "Broker", append: _Append, partition: Partition, records: Buffer, acks: int, now_ms: int
) -> None:
    try:
        appended = partition.append(records, acks, now_ms)
    except KafkaError as error:
        append.refuse(error, partition)
        if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
            broker.replicas.note_failure(partition)
        return
    answer = append.answer
    answer.base_offset = appended.first_offset
    answer.log_append_time_ms = appended.log_append_time_ms
    answer.log_start_offset = partition.log.log_start_offset
    end_offset = append.end_offset = appended.last_offset + 1
    if not partition.log.is_flush_due(now_ms) and (
        acks != ALL_REPLICAS or partition.high_watermark.value >= end_offset
    ):
        append.partition = None  # nothing to wait for
    if appended.is_duplicate:
        return
    meter = broker.topic_meters[append.topic]
    meter.bytes_in.value += len(records)
    meter.records_in.value += end_offset - appended.first_offset
    for observer in broker.observers:
        observer.appended(partition.topic_partition, appended, len(records))


def _settle(
    broker: "Broker", call: Call, request: ProduceRequest, appends: list[_Append], response: ProduceResponse
) -> ProduceResponse | Coroutine[Any, Any, ProduceResponse | None] | None:
    """The response, as soon as disk and replicas have what they must have."""
    if request.acks == 0:
        _close_if_refused(call, appends)
        return None
    for append in appends:
        if append.partition is not None:
            return _wait(broker, call, request, appends, response)
    if call.version >= LEADER_HINTS_SINCE:
        _hint(broker, call, response, appends)
    return response


async def _wait(
    broker: "Broker", call: Call, request: ProduceRequest, appends: list[_Append], response: ProduceResponse
) -> ProduceResponse | None:
    deadline = broker.clock.monotonic_ms() + request.timeout_ms
    waits = [
        _wait_for(broker, append, append.partition, request, deadline)
        for append in appends
        if append.partition is not None
    ]
    # Disks and replicas work at the same time.
    await (waits[0] if len(waits) == 1 else asyncio.gather(*waits))
    if call.version >= LEADER_HINTS_SINCE:
        _hint(broker, call, response, appends)
    return response


async def _wait_for(
    broker: "Broker", append: _Append, partition: Partition, request: ProduceRequest, deadline_ms: int
) -> None:
    """Wait for the disk, if the topic's flush policy says so, and for the replicas, if the producer does."""
    try:
        await broker.replicas.commit_of(partition.log).settle(append.end_offset, broker.clock.now_ms())
        partition.check_leader()  # it may have gone while the disk worked
        if request.acks == ALL_REPLICAS:
            left_ms = max(0, deadline_ms - broker.clock.monotonic_ms())
            if not await reach(partition.high_watermark, append.end_offset, left_ms):
                detail = f"not replicated within {request.timeout_ms} ms"
                raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, detail)
            partition.check_in_sync(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
    except KafkaError as error:
        append.refuse(error)
        if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
            broker.replicas.note_failure(partition)


def _close_if_refused(call: Call, appends: list[_Append]) -> None:
    """Who asked for no answer learns of a failure by losing the connection."""
    for append in appends:
        if append.answer.error_code:
            error = ErrorCode(append.answer.error_code).name
            call.connection.close(
                f"a produce with acks=0 to {append.topic}-{append.answer.index} failed: {error}"
            )
            return


def _hint(broker: "Broker", call: Call, response: ProduceResponse, appends: list[_Append]) -> None:
    leaders = []
    for append in appends:
        if append.answer.error_code in HINTED:
            leader = leader_of(broker, append.topic, append.answer.index)
            if leader is not None:
                append.answer.current_leader = _Answer.Leader(leader_id=leader[0], leader_epoch=leader[1])
                leaders.append(leader[0])
    if leaders:
        response.node_endpoints = endpoints_of(broker, call, leaders, ProduceResponse.NodeEndpoint)
