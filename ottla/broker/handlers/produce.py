"""Produce: step 3 in the life of a produce.

Every batch is appended before anything is waited for, so requests of one connection append in the order they came in.
What has to be opened first (another codec, an old format) may take a thread; then those behind it wait their turn.
"""

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any
from uuid import UUID

from ottla.broker.authorizer import Operation, ResourceType
from ottla.broker.call import Call
from ottla.broker.handlers.leaders import HINTED, endpoints_of, leader_of
from ottla.broker.intake import InvalidRecords, Slow, is_transactional, prepare
from ottla.broker.verification import TransactionalBatch
from ottla.broker.waiting import reach
from ottla.controller.context import INTERNAL_TOPICS
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.types import Buffer
from ottla.protocol.messages.produce import ProduceRequest, ProduceResponse
from ottla.replication.machine import Producer
from ottla.replication.partition import ALL_REPLICAS, Partition
from ottla.storage.log import Appended

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

_Answer = ProduceResponse.Topic.Partition
TOPIC_IDS_SINCE, LEADER_HINTS_SINCE = 13, 10
ADMIN_CLIENT_ID = "__admin_client"
"""Who says that this is its name knows what it does, as in Kafka: it may write to internal topics."""
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

    __slots__ = ("answer", "end_offset", "leader_epoch", "partition", "records", "topic", "transactional")

    def __init__(self, topic: str, index: int) -> None:
        self.topic = topic
        self.answer = _Answer(index=index, error_code=0, base_offset=-1)
        self.partition: Partition | None = None
        """Set while there is something to append, then while there is something to wait for."""
        self.records: Buffer | Slow = b""
        self.transactional: TransactionalBatch | None = None
        """Set if it belongs to a transaction, which may end before it is appended."""
        self.end_offset = 0
        self.leader_epoch = -1
        """In which they were appended."""

    @property
    def takes_time(self) -> bool:
        is_due = self.transactional is not None and self.transactional.is_due
        return is_due or type(self.records) is Slow

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
    if request.transactional_id is not None:
        _check_transactional_id(broker, call, request.transactional_id)
    return _Producing(broker, call, request).run()


def _check_transactional_id(broker: "Broker", call: Call, transactional_id: str) -> None:
    if not broker.authorizer.allows(call, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "the id is not theirs to use")


class _Producing:
    """One request: look at it, append, wait for whom the producer wants to have it, answer."""

    def __init__(self, broker: "Broker", call: Call, request: ProduceRequest) -> None:
        self._broker = broker
        self._call = call
        self._request = request
        self._acks: int = request.acks
        self._appends: list[_Append] = []
        self._lacks_id = False
        """Does it hold records of a transaction, and not say of which?"""
        self._response = ProduceResponse(responses=[self._look_at(topic) for topic in request.topic_data])

    def run(self) -> ProduceResponse | Coroutine[Any, Any, ProduceResponse | None] | None:
        """The response, if there is nothing to wait for."""
        if self._lacks_id:
            detail = "records of a transaction without a transactional id"
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, detail)
        if self._call.connection.appending is not None or any(a.takes_time for a in self._appends):
            return self._run_in_turn()
        try:
            self._append_all()
        finally:
            self._release()
        return self._wait() if self._must_wait else self._answer()

    async def _run_in_turn(self) -> ProduceResponse | None:
        """Open what must be opened, then append when everything that came before has been appended."""
        connection = self._call.connection
        before, mine = connection.appending, asyncio.get_running_loop().create_future()
        connection.appending = mine
        try:
            for append in self._appends:
                if append.partition is not None and type(append.records) is Slow:
                    await self._open(append, append.records)
            await self._verify()
            if before is not None:
                await before
            self._append_all()
        finally:
            self._release()
            if not mine.done():
                mine.set_result(None)
            if connection.appending is mine:
                connection.appending = None
        return await self._wait() if self._must_wait else self._answer()

    # --- looking at it ------------------------------------------------------------------------------------------

    def _look_at(self, topic: ProduceRequest.Topic) -> ProduceResponse.Topic:
        name: str | None = topic.name
        topic_id: UUID | None = None
        if self._call.version >= TOPIC_IDS_SINCE:
            topic_id = topic.topic_id
            image = self._broker.metadata.topic_of_id.get(topic.topic_id)
            name = None if image is None else image.name
        appends = [self._prepare(name, topic_id, part) for part in topic.partition_data]
        self._appends += appends
        answers = [append.answer for append in appends]
        return ProduceResponse.Topic(name=topic.name, topic_id=topic.topic_id, partition_responses=answers)

    def _prepare(
        self, topic: str | None, topic_id: UUID | None, part: ProduceRequest.Topic.Partition
    ) -> _Append:
        """May they write, is the partition here, and are the records in a form it takes?"""
        broker, call = self._broker, self._call
        append, partition = _Append(topic or "", part.index), None
        try:
            if topic is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "no topic has this id")
            if not broker.authorizer.allows(call, Operation.WRITE, ResourceType.TOPIC, topic):
                detail = f"{call.connection.principal} may not write"
                raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, detail)
            partition = broker.replicas.get(topic, part.index)
            if topic_id is not None and partition.topic_id != topic_id:
                detail = f"{topic} was deleted and created again: it is {partition.topic_id} here"
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, detail)
            if topic in INTERNAL_TOPICS and call.client_id != ADMIN_CLIENT_ID:
                raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic} belongs to the brokers")
            records = part.records or b""
            if is_transactional(records):
                self._look_at_transaction(append, partition, records)
            append.records = prepare(records, call.version, partition.config)
            append.partition = partition
        except InvalidRecords as error:
            append.refuse(error, partition)
        except KafkaError as error:
            append.refuse(error)
        return append

    # --- vouching -----------------------------------------------------------------------------------------------

    def _look_at_transaction(self, append: _Append, partition: Partition, records: Buffer) -> None:
        """The first batch of a transaction in a partition is written when its coordinator knows of it."""
        if self._request.transactional_id is None:
            self._lacks_id = True
            return
        batch, verifier = TransactionalBatch.of(records), self._broker.verifier
        verifier.check_sequence(partition, batch, self._call.version)
        batch.is_due = verifier.is_due(partition, batch, self._call.version)
        batch.guard = verifier.guards.hold(partition.topic_partition, batch.producer)
        append.transactional = batch

    async def _verify(self) -> None:
        """Ask for all partitions of a producer at once."""
        asked: dict[Producer, list[_Append]] = {}
        for append in self._appends:
            if (
                append.partition is not None
                and append.transactional is not None
                and append.transactional.is_due
            ):
                asked.setdefault(append.transactional.producer, []).append(append)
        for producer, appends in asked.items():
            places = [a.partition.topic_partition for a in appends if a.partition is not None]
            refused = await self._broker.verifier.verify(
                self._request.transactional_id or "", producer, places, self._call.version
            )
            for append, place in zip(appends, places, strict=True):
                if place in refused:
                    append.refuse(refused[place])

    def _release(self) -> None:
        for append in self._appends:
            if append.transactional is not None and append.transactional.guard is not None:
                self._broker.verifier.guards.release(append.transactional.guard)

    # --- opening ------------------------------------------------------------------------------------------------

    async def _open(self, append: _Append, records: Slow) -> None:
        try:
            opened = records.attempt()
        except KafkaError as error:
            append.refuse(error, append.partition)
            return
        if opened is not None:
            append.records = opened
        else:
            run = asyncio.get_running_loop().run_in_executor
            await run(self._broker.openers, _open_in_thread, append, records)

    # --- appending ----------------------------------------------------------------------------------------------

    def _append_all(self) -> None:
        now_ms = self._broker.clock.now_ms()
        for append in self._appends:
            if append.partition is not None:
                self._append(append, append.partition, append.records, now_ms)  # type: ignore[arg-type]  # opened

    def _append(self, append: _Append, partition: Partition, records: Buffer, now_ms: int) -> None:
        try:
            if append.transactional is not None:
                append.transactional.check()
            if self._acks != ALL_REPLICAS and not self._broker.may_lead():
                self._check_sole(partition)
            appended = partition.append(records, self._acks, now_ms)
        except KafkaError as error:
            append.refuse(error, partition)
            self._note_failure(partition, error)
            return
        answer = append.answer
        answer.base_offset = appended.first_offset
        answer.log_append_time_ms = appended.log_append_time_ms
        answer.log_start_offset = partition.log.log_start_offset
        append.end_offset, append.leader_epoch = appended.last_offset + 1, partition.leader_epoch
        is_replicated = self._acks != ALL_REPLICAS or partition.high_watermark.value >= append.end_offset
        if is_replicated and not partition.log.is_flush_due(now_ms):
            append.partition = None  # nothing to wait for
        if not appended.is_duplicate:
            self._account(append.topic, partition, appended, len(records))

    def _check_sole(self, partition: Partition) -> None:
        """Cut off from the cluster for so long, we may have been replaced: what nobody else has would be lost. With
        acks=all followers have a say, and they may go on."""
        if (
            self._broker.config.replication_session_lost_refuse
            and partition.leading is not None
            and partition.leading.followers
        ):
            detail = (
                f"another broker may lead {partition.topic_partition} by now: the metadata session is lost"
            )
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, detail)

    def _account(self, topic: str, partition: Partition, appended: Appended, size: int) -> None:
        """Count what came, and tell who wants to know."""
        meter = self._broker.topic_meters[topic]
        meter.bytes_in.value += size
        meter.records_in.value += appended.last_offset + 1 - appended.first_offset
        for observer in self._broker.observers:
            observer.appended(partition.topic_partition, appended, size)

    def _note_failure(self, partition: Partition, error: KafkaError) -> None:
        if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
            self._broker.replicas.note_failure(partition)

    # --- waiting ------------------------------------------------------------------------------------------------

    @property
    def _must_wait(self) -> bool:
        return self._acks != 0 and any(append.partition is not None for append in self._appends)

    async def _wait(self) -> ProduceResponse | None:
        """For disks and replicas, which work at the same time."""
        deadline = self._broker.clock.monotonic_ms() + self._request.timeout_ms
        waits = [self._wait_for(a, a.partition, deadline) for a in self._appends if a.partition is not None]
        await (waits[0] if len(waits) == 1 else asyncio.gather(*waits))
        return self._answer()

    async def _wait_for(self, append: _Append, partition: Partition, deadline_ms: int) -> None:
        """Wait for the disk, if the topic's flush policy says so, and for the replicas, if the producer does."""
        broker, clock = self._broker, self._broker.clock
        try:
            await broker.replicas.commit_of(partition.log).settle(append.end_offset, clock.now_ms())
            self._check_reign(append, partition)
            if self._acks == ALL_REPLICAS:
                partition.check_in_sync(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
                left_ms = max(0, deadline_ms - clock.monotonic_ms())
                if not await reach(partition.high_watermark, append.end_offset, left_ms):
                    detail = f"not replicated within {self._request.timeout_ms} ms"
                    raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, detail)
                partition.check_in_sync(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        except KafkaError as error:
            append.refuse(error)
            self._note_failure(partition, error)

    def _check_reign(self, append: _Append, partition: Partition) -> None:
        """Leadership may have gone while the disk worked, and come back: then others may have written there."""
        if not partition.is_leader or partition.leader_epoch != append.leader_epoch:
            detail = f"the leader of {partition.topic_partition} has changed"
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, detail)

    # --- answering ----------------------------------------------------------------------------------------------

    def _answer(self) -> ProduceResponse | None:
        if self._acks == 0:
            self._close_if_refused()
            return None
        if self._call.version >= LEADER_HINTS_SINCE:
            self._hint()
        return self._response

    def _close_if_refused(self) -> None:
        """Who asked for no answer learns of a failure by losing the connection."""
        for append in self._appends:
            if append.answer.error_code:
                error, place = (
                    ErrorCode(append.answer.error_code).name,
                    f"{append.topic}-{append.answer.index}",
                )
                self._call.connection.close(f"a produce with acks=0 to {place} failed: {error}")
                return

    def _hint(self) -> None:
        leaders = []
        for append in self._appends:
            if append.answer.error_code in HINTED:
                leader = leader_of(self._broker, append.topic, append.answer.index)
                if leader is not None:
                    append.answer.current_leader = _Answer.Leader(leader_id=leader[0], leader_epoch=leader[1])
                    leaders.append(leader[0])
        if leaders:
            make = ProduceResponse.NodeEndpoint
            self._response.node_endpoints = endpoints_of(self._broker, self._call, leaders, make)


def _open_in_thread(append: _Append, records: Slow) -> None:
    """What comes of it does not travel through the future: a future of a thread is part of a cycle, and keeps results,
    and with an error the frames that hold the decompressed records, until the collector comes by."""
    try:
        append.records = records.run()
    except KafkaError as error:
        append.refuse(error, append.partition)
