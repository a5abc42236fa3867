"""What a simulated broker does with what others ask of it: followers, clients, the controller, and those who
take it for the controller.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.replication.exchange import FetchAnswer
from ottla.replication.partition import ALL_REPLICAS, Partition
from ottla.testing.simulation.cluster.messages import (
    Alter,
    Answer,
    AskMetadata,
    Errand,
    Fetch,
    Fetched,
    MetadataAnswer,
    Order,
    Produce,
    Produced,
    Read,
    ReadAnswer,
    Stop,
)
from ottla.testing.simulation.cluster.object_log import ObjectLog

if TYPE_CHECKING:
    from ottla.testing.simulation.cluster.life import Life

_READ_MAX = 50


class Requests:
    """The receiving end of one life of a broker."""

    def __init__(self, life: "Life") -> None:
        self.life = life
        self.world = life.world
        self._handlers: dict[type, Callable[[str, Any], None]] = {
            Fetch: self._fetch,
            Produce: self._produce,
            Read: self._read,
            AskMetadata: self._metadata,
            Order: self._order,
            Alter: self._alter,
            Stop: self._stop,
            Errand: self._errand,
        }

    def receive(self, sender: str, message: Any) -> None:
        self._handlers[type(message)](sender, message)

    def _send(self, receiver: str, message: Any) -> None:
        self.world.send(self.life.name, receiver, message)

    def _partition(self, where: TopicPartition) -> Partition:
        partition = self.life.replicas.partitions.get(where)
        if partition is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{where} is not here")
        return partition

    # --- followers ------------------------------------------------------------------------------------------------

    def _fetch(self, sender: str, message: Fetch) -> None:
        ends = 0, 0
        try:
            partition = self._partition(message.partition)
            if partition.topic_id != message.topic_id:
                raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID, "it is another topic")
            log: Any = partition.log
            ends = log.log_start_offset, log.end_offset
            answer = self._answer(partition, log, message)
        except KafkaError as error:
            self.world.sometimes(f"a follower is refused ({int(error.code)})")
            answer = FetchAnswer(error.code)
        self._send(sender, Fetched(message.partition, message.topic_id, message.question, answer, ends))

    def _answer(self, partition: Partition, log: ObjectLog, message: Fetch) -> FetchAnswer:
        now_ms = self.world.now_ms
        diverging = partition.follower_fetch(message.life, message.question, now_ms)
        self.life.broker.touched(partition)
        if diverging is None and partition.someone_may_join(now_ms):
            self.life.propose(partition)
        records: tuple[Any, ...] = ()
        if diverging is None:
            offset = message.question.fetch_offset
            records = log.slice(offset, log.end_offset, self.life.settings.records_max)
        watermark = partition.high_watermark.value
        return FetchAnswer(ErrorCode.NONE, watermark, log.log_start_offset, diverging, records)

    # --- producers ------------------------------------------------------------------------------------------------

    def _produce(self, sender: str, message: Produce) -> None:
        try:
            partition = self._partition(message.partition)
            self._check_lease(message.acks)
            is_client = not message.record.is_marker
            appended = partition.append(message.record, message.acks, self.world.now_ms, client=is_client)
        except KafkaError as error:
            self.world.sometimes(f"a producer is refused ({int(error.code)})")
            self._send(sender, Produced(message.number, error.code))
            return
        self.life.broker.touched(partition)
        if appended.is_duplicate:
            self.world.sometimes("a duplicate is suppressed")
        if message.acks == ALL_REPLICAS:
            self._wait(sender, message.number, partition, appended.last_offset)
        else:
            self._send(sender, Produced(message.number, ErrorCode.NONE, appended.last_offset))

    def _check_lease(self, acks: int) -> None:
        """Cut off from the store for a whole session, somebody else may lead by now. Who waits for all replicas finds
        out by itself; who does not would be told that his record is safe."""
        since_ms = self.life.suspended_ms
        if acks == ALL_REPLICAS or since_ms is None:
            return
        if self.world.now_ms - since_ms >= self.life.settings.session_ms:
            self.world.sometimes("a broker that is cut off takes no records with acks=1")
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "cut off from the metadata store")

    def _wait(self, sender: str, number: int, partition: Partition, offset: int) -> None:
        def told(error: KafkaError | None) -> None:
            timer.cancel()
            if error is not None:
                self.world.sometimes(f"a produce fails while it waits ({int(error.code)})")
            code = ErrorCode.NONE if error is None else error.code
            self._send(sender, Produced(number, code, offset if error is None else -1))

        def give_up() -> None:
            waiter.cancel()
            self.world.sometimes("a produce waits for too long (7)")
            self._send(sender, Produced(number, ErrorCode.REQUEST_TIMED_OUT))

        timer = self.life.after(self.life.settings.produce_ms, give_up)
        waiter = partition.high_watermark.on_reach(offset + 1, told)

    # --- consumers ------------------------------------------------------------------------------------------------

    def _read(self, sender: str, message: Read) -> None:
        try:
            answer = self._records(message)
        except KafkaError as error:
            self.world.sometimes(f"a reader is refused ({int(error.code)})")
            answer = ReadAnswer(message.number, error.code)
        self._send(sender, answer)

    def _records(self, message: Read) -> ReadAnswer:
        """What a consumer may see: up to the high watermark, or up to the last stable offset; leader or follower."""
        partition = self._partition(message.partition)
        if partition.state is None or (not partition.is_leader and partition.following is None):
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "nobody has told us what to do")
        partition.check_epoch(message.leader_epoch)
        log: Any = partition.log
        end = partition.fetchable_end(1 if message.read_committed else 0)
        if log.end_offset >= message.offset > partition.high_watermark.value:
            raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE, f"{message.offset} is not committed yet")
        records = log.slice(message.offset, end, _READ_MAX) if message.offset <= end else ()
        last = records[-1].offset if records else message.offset
        aborted = tuple(
            each for each in log.aborted if each.last_offset >= message.offset and each.first_offset <= last
        )
        watermark = partition.high_watermark.value
        self.life.broker.touched(partition)
        return ReadAnswer(message.number, ErrorCode.NONE, records, aborted, watermark, end)

    def _metadata(self, sender: str, message: AskMetadata) -> None:
        metadata = self.life.office.metadata
        topics = tuple(metadata.topics.values())
        self._send(sender, MetadataAnswer(message.number, metadata.controller_id, topics))

    # --- the controller, and those who ask it ---------------------------------------------------------------------

    def _order(self, sender: str, message: Order) -> None:
        if not self.life.office.is_registered:
            return  # as if nobody listened yet: it is asked again, if it is for this life
        self._do(sender, message.number, lambda: self.life.office.follow(message.request), "an order")

    def _alter(self, sender: str, message: Alter) -> None:
        self._do(sender, message.number, lambda: self.life.office.alter(message))

    def _stop(self, sender: str, message: Stop) -> None:
        self._do(sender, message.number, lambda: self.life.office.shut_down(message))

    def _errand(self, sender: str, message: Errand) -> None:
        self._do(sender, message.number, lambda: self.life.office.run_errand(message.work))

    def _do(
        self, sender: str, number: int, work: Callable[[], Awaitable[Any]], what: str = "a request"
    ) -> None:
        """Do it on this broker's event loop, and answer when it is done."""

        async def answered() -> None:
            try:
                answer = Answer(number, await work())
            except KafkaError as error:
                self.world.sometimes(f"{what} is refused ({int(error.code)})")
                answer = Answer(number, error.detail, error.code)
            self._send(sender, answer)

        self.life.loop.run(answered())
