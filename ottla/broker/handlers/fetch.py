"""Fetch: which stretches of which files answer a reader, now or when there is enough of them.

Nothing is read here. A stretch is a place in a file; the connection reads it when the socket has room. Fewer bytes than
the reader wants at least means waiting for the first watermark that moves, or until its patience ends.

Followers read like consumers, but further, and by what they ask for they tell what they have. Consumers may read from
followers too, up to the high watermark that these know of (KIP-392).
"""

import asyncio
import itertools
from collections.abc import Coroutine, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ottla.broker.authorizer import Operation, ResourceType
from ottla.broker.call import Call
from ottla.broker.fetch_sessions import TOPIC_IDS_SINCE, FetchContext, Wanted
from ottla.broker.handlers.leaders import HINTED, endpoints_of, leader_of
from ottla.broker.handlers.quiet import Quiet
from ottla.broker.waiting import any_moves
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.core.watermark import Watermark
from ottla.protocol.messages.fetch import FetchRequest, FetchResponse
from ottla.protocol.primitives import RECORDS_INLINE_MAX, part_size
from ottla.records.convert import down_convert
from ottla.records.errors import RecordError
from ottla.replication.exchange import BrokerLife, FetchQuestion
from ottla.replication.partition import Partition
from ottla.storage.epochs import EpochEnd
from ottla.storage.log import Log
from ottla.storage.reading import Slice

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

_Answer = FetchResponse.Topic.Partition
_Asked = FetchRequest.Topic.Partition
BATCHES_SINCE, AT_LEAST_ONE_SINCE, ZSTD_SINCE, RACKS_SINCE, LEADER_HINTS_SINCE = 4, 3, 10, 11, 16
MAGIC_OF_VERSION = {0: 0, 1: 0, 2: 1, 3: 1}
MAX_WAIT_MS_MAX = 300_000
_WITHOUT_A_LOG = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
}
CONSUMER = -1


def fetch(
    broker: "Broker", call: Call, request: FetchRequest
) -> FetchResponse | Coroutine[Any, Any, FetchResponse]:
    context = broker.fetch_sessions.resolve(request, call.version, broker.clock.monotonic_ms())
    if context.error:
        return context.answer([])
    reading = _Reading(broker, call, request, context)
    reading.read()
    if reading.must_wait or call.version < BATCHES_SINCE:
        return _fetch_later(broker, call, reading, context)
    return _answer(broker, call, reading, context)


async def _fetch_later(
    broker: "Broker", call: Call, reading: "_Reading", context: FetchContext
) -> FetchResponse:
    """When there is enough, or something to be told; in the format that the reader knows."""
    if reading.must_wait:
        await _wait(broker, reading)
    if call.version < BATCHES_SINCE:
        await reading.down_convert()
    return _answer(broker, call, reading, context)


def _answer(broker: "Broker", call: Call, reading: "_Reading", context: FetchContext) -> FetchResponse:
    reading.account()
    response = context.answer(reading.answers)
    if call.version >= LEADER_HINTS_SINCE:
        _hint(broker, call, response)
    return response


async def _wait(broker: "Broker", reading: "_Reading") -> None:
    deadline = broker.clock.monotonic_ms() + min(reading.request.max_wait_ms, MAX_WAIT_MS_MAX)
    while reading.must_wait and not broker.stopping.value:
        left_ms = deadline - broker.clock.monotonic_ms()
        if left_ms <= 0:
            return
        await any_moves(reading.marks(), left_ms)
        reading.read()  # when the time is up, too: what was found before may be deleted by now


class _Reading:
    """One fetch, read as often as it takes."""

    def __init__(self, broker: "Broker", call: Call, request: FetchRequest, context: FetchContext) -> None:
        self._broker = broker
        self._call = call
        self._wanted = context.partitions
        self._context = context
        self.request = request
        state = request.replica_state
        self._replica: int = request.replica_id if state is None else state.replica_id
        self._is_usual = self._replica < 0 and not request.rack_id
        """Is this a consumer that reads from leaders?"""
        self._life = BrokerLife(self._replica, -1 if state is None else state.replica_epoch)
        self._is_first_look = True
        self._quiet: list[Quiet | None] = []
        """Where a follower is at the end; in the order of the partitions."""
        self._bytes_max = min(request.max_bytes, broker.config.fetch_max_bytes)
        self.answers: list[_Answer] = []
        self._found: Quiet | None = None
        self._may_follow = False
        self._size = 0
        self._is_urgent = False

    @property
    def must_wait(self) -> bool:
        """Is there too little to answer, and nothing that the reader must be told at once?"""
        if self._is_urgent or not self._wanted:
            return False
        return self._size < self.request.min_bytes and self.request.max_wait_ms > 0

    def read(self) -> None:
        """Find what each partition has, up to the limits."""
        self._size, self._is_urgent = 0, False
        if self._replica >= 0:
            self._read_for_follower()
        else:
            self.answers = [self._read_partition(wanted) for wanted in self._wanted]
        self._is_first_look = False

    def _read_for_follower(self) -> None:
        """Look only at partitions in which something has moved."""
        now_ms, is_first = self._broker.clock.monotonic_ms(), self._is_first_look
        known = self._context.notes() if is_first else self._quiet
        self._may_follow = self._broker.authorizer.allows(
            self._call, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, "kafka-cluster"
        )
        self.answers, self._quiet = [], []
        for wanted, quiet in zip(self._wanted, known, strict=True):
            if (
                quiet is None
                or not self._may_follow
                or not quiet.is_still_so(wanted[2])
                or (is_first and not quiet.note(self._life, now_ms))
            ):
                self._found = None
                answer, quiet = self._read_partition(wanted), self._found
            else:
                answer = quiet.answer
            self.answers.append(answer)
            self._quiet.append(quiet)
        self._context.keep(self._quiet)

    def _read_partition(self, wanted: Wanted) -> _Answer:
        topic, asked = self._name_of(wanted), wanted[2]
        try:
            return self._read_log(self._find(topic, wanted), asked)
        except KafkaError as error:
            self._is_urgent = True
            return _Answer(
                partition_index=asked.partition,
                error_code=error.code,
                high_watermark=-1,
                # As in Kafka: null if a log was asked.
                aborted_transactions=[] if error.code in _WITHOUT_A_LOG else None,
                records=b"",
            )

    def _name_of(self, wanted: Wanted) -> str | None:
        if self._call.version < TOPIC_IDS_SINCE:
            return wanted[0]
        image = self._broker.metadata.topic_of_id.get(wanted[1])
        return None if image is None else image.name

    def _find(self, topic: str | None, wanted: Wanted) -> Partition:
        """May they read, and from this broker, in the epoch that they know of?"""
        broker, call, asked = self._broker, self._call, wanted[2]
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "no topic has this id")
        if self._replica >= 0:
            if not self._may_follow:
                raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "only brokers fetch as followers")
        elif not broker.authorizer.allows(call, Operation.READ, ResourceType.TOPIC, topic):
            raise KafkaError(
                ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"{call.connection.principal} may not read"
            )
        partition = broker.replicas.get(topic, asked.partition)
        if call.version >= TOPIC_IDS_SINCE and partition.topic_id != wanted[1]:
            detail = f"{topic} was deleted and created again: it is {partition.topic_id} here"
            raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID, detail)
        if self._replica < 0 and not partition.is_leader and call.version >= RACKS_SINCE:
            partition.check_epoch(asked.current_leader_epoch)
        else:
            partition.check_leader(asked.current_leader_epoch)
        if self._call.version < ZSTD_SINCE and partition.config.compression_type == "zstd":
            raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Fetch v10")
        return partition

    def _read_log(self, partition: Partition, asked: _Asked) -> _Answer:
        log, offset, request = partition.log, asked.fetch_offset, self.request
        answer = _Answer(
            partition_index=asked.partition,
            error_code=0,
            high_watermark=partition.high_watermark.value,
            last_stable_offset=log.last_stable_offset,
            log_start_offset=log.log_start_offset,
            aborted_transactions=[] if request.isolation_level else None,
            records=b"",
        )
        is_usual = self._is_usual and asked.last_fetched_epoch < 0 and partition.is_leader
        if not is_usual and self._is_elsewhere(partition, asked, answer):
            self._is_urgent = True
            return answer
        end = partition.fetchable_end(request.isolation_level, is_follower=self._replica >= 0)
        room = max(0, min(asked.partition_max_bytes, self._bytes_max - self._size))
        is_first = self._size == 0 and self._call.version >= AT_LEAST_ONE_SINCE
        if offset == end or (room == 0 and not is_first) or not (is_usual or self._may_send(partition)):
            if offset == end and self._replica >= 0 and partition.leading is not None:
                self._found = Quiet(partition, partition.leading, asked, answer)
            return answer
        found = self._find_batches(partition, offset, room, end, is_first=is_first)
        if found.size:
            # A few bytes are read at once: that costs less than to carry the place where they lie to the socket.
            answer.records = log.load(found) if found.size <= RECORDS_INLINE_MAX else found
            self._size += found.size
            if found.offset < log.segments.active.base_offset < end:
                self._is_urgent = True  # a slice ends with its segment: there is more, but not in this answer
            if request.isolation_level:
                answer.aborted_transactions = _aborted(log, offset, found, end)
        return answer

    def _find_batches(
        self, partition: Partition, offset: int, room: int, end: int, *, is_first: bool
    ) -> Slice:
        try:
            found = partition.read(offset, room, end, at_least_one=is_first)
            if found.size == room and not is_first and self._call.version >= AT_LEAST_ONE_SINCE:
                # Half a batch is of no use to a reader that gets whole ones in the end.
                whole = partition.read(offset, 0, end, at_least_one=True)
                return found if whole.size <= found.size else Slice(offset, None, 0, 0)
            return found
        except KafkaError as error:
            if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
                self._broker.replicas.note_failure(partition)
            raise

    # --- where to read ------------------------------------------------------------------------------------------

    def _is_elsewhere(self, partition: Partition, asked: _Asked, answer: _Answer) -> bool:
        """Is the reader to be told something instead of records: where its log is not ours, or who to read from?"""
        offset = asked.fetch_offset
        if self._replica >= 0:
            parted = self._note_follower(partition, asked) if self._is_first_look else None
            answer.high_watermark = partition.high_watermark.value  # it may have moved by this
            self._hurry(asked, answer.high_watermark)
        else:
            self._check_known(partition, offset)
            parted = partition.divergence(asked.last_fetched_epoch, offset)
            if parted is None:
                return self._is_better_read_elsewhere(partition, offset, answer)
        if parted is None:
            return False
        answer.diverging_epoch = _Answer.EpochEndOffset(epoch=parted.epoch, end_offset=parted.end_offset)
        return True

    def _note_follower(self, partition: Partition, asked: _Asked) -> EpochEnd | None:
        """A follower has everything below the offset it asks for, or is told where its log parts from ours. That is
        noted once: a fetch that waits says nothing new."""
        now_ms = self._broker.clock.monotonic_ms()
        question = FetchQuestion(
            asked.fetch_offset, asked.last_fetched_epoch, asked.current_leader_epoch, asked.log_start_offset
        )
        parted = partition.follower_fetch(self._life, question, now_ms)
        self._broker.replication.fetched(partition, now_ms)
        return parted

    def _hurry(self, asked: _Asked, high_watermark: int) -> None:
        """Whoever lets consumers read from followers wants these to know what they may show, also those that wait."""
        if (
            self._broker.replication.has_selector
            and asked.high_watermark < high_watermark <= asked.fetch_offset
        ):
            self._is_urgent = True

    def _check_known(self, partition: Partition, offset: int) -> None:
        """A follower is behind: what lies beyond may well be there, and be committed."""
        if not partition.is_leader and offset > partition.high_watermark.value:
            detail = f"offset {offset} is not known to be committed yet by this follower"
            raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE, detail)

    def _is_better_read_elsewhere(self, partition: Partition, offset: int, answer: _Answer) -> bool:
        if not partition.is_leader:
            return False
        if not self.request.rack_id or partition.leading is None or not partition.leading.followers:
            return False
        listener, now_ms = self._call.connection.listener, self._broker.clock.monotonic_ms()
        chosen = self._broker.replication.preferred(partition, self.request.rack_id, offset, listener, now_ms)
        if chosen is None:
            return False
        answer.preferred_read_replica = chosen
        return True

    def _may_send(self, partition: Partition) -> bool:
        if self._replica < 0:
            return True
        now_ms = self._broker.clock.monotonic_ms()
        return self._broker.replication.may_send(partition, self._replica, now_ms)

    # --- what is sent -------------------------------------------------------------------------------------------

    async def down_convert(self) -> None:
        """For readers from before batches. What they cannot be told (headers, sequences) is left out."""
        magic, run = MAGIC_OF_VERSION[self._call.version], asyncio.get_running_loop().run_in_executor
        for wanted, answer in zip(self._wanted, self.answers, strict=True):
            if answer.records:
                try:
                    data = answer.records.read() if isinstance(answer.records, Slice) else answer.records
                    answer.records = await run(
                        self._broker.openers, _down_converted, data, magic, wanted[2].fetch_offset
                    )
                except KafkaError as error:
                    answer.error_code, answer.records = error.code, b""

    def marks(self) -> Iterator[Watermark]:
        """What has to move for a second look to be worth it."""
        yield self._broker.stopping
        is_follower = self._replica >= 0
        shows_marks = is_follower and self._broker.replication.has_selector
        for partition in self._partitions():
            yield partition.log_end if is_follower else partition.high_watermark
            if shows_marks:
                yield partition.high_watermark

    def _partitions(self) -> Iterator[Partition]:
        quiet: Iterable[Quiet | None] = self._quiet or itertools.repeat(None)
        for wanted, known in zip(self._wanted, quiet):  # noqa: B905  # for consumers there is no end to it
            if known is not None:
                yield known.partition
            elif (topic := self._name_of(wanted)) is not None:
                yield self._broker.replicas.get(topic, wanted[2].partition)

    def account(self) -> None:
        """Count what leaves, and tell who wants to know."""
        broker = self._broker
        for wanted, answer in zip(self._wanted, self.answers, strict=True):
            if answer.records:
                topic, size = self._name_of(wanted) or "", part_size(answer.records)
                if self._replica >= 0:
                    self._account_follower(topic, answer.partition_index, size)
                    continue
                broker.topic_meters[topic].bytes_out.value += size
                for observer in broker.observers:
                    observer.fetched(
                        TopicPartition(topic, answer.partition_index), wanted[2].fetch_offset, size
                    )

    def _account_follower(self, topic: str, index: int, size: int) -> None:
        broker = self._broker
        partition = broker.replicas.partitions.get(TopicPartition(topic, index))
        if partition is not None:
            broker.replication.sent(partition, self._replica, size, broker.clock.monotonic_ms())


def _aborted(log: Log, offset: int, found: Slice, end: int) -> list[_Answer.AbortedTransaction]:
    """The aborted transactions that wrote to what is sent, or at least to the same segment."""
    segment = next(log.segments.from_offset(found.offset))
    return [
        _Answer.AbortedTransaction(producer_id=txn.producer_id, first_offset=txn.first_offset)
        for txn in log.aborted_txns(offset, min(end, log.segments.end_of(segment, end)))
    ]


def _down_converted(data: bytes, magic: int, first_offset: int) -> bytes:
    try:
        return down_convert(data, magic, first_offset=first_offset)
    except RecordError as error:
        raise KafkaError(error.code, error.detail) from error


def _hint(broker: "Broker", call: Call, response: FetchResponse) -> None:
    leaders = []
    for topic in response.responses:
        image = broker.metadata.topic_of_id.get(topic.topic_id)
        for answer in topic.partitions:
            if answer.error_code in HINTED and image is not None:
                leader = leader_of(broker, image.name, answer.partition_index)
                if leader is not None:
                    answer.current_leader = _Answer.Leader(leader_id=leader[0], leader_epoch=leader[1])
                    leaders.append(leader[0])
    if leaders:
        response.node_endpoints = endpoints_of(broker, call, leaders, FetchResponse.NodeEndpoint)
