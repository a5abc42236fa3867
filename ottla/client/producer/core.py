"""The parts of a producer, and what both of its faces do with them. Everything here runs on the event loop."""

import asyncio
import logging
import threading
from collections.abc import Callable

from ottla.client.cluster import Cluster
from ottla.client.deadline import Deadline
from ottla.client.errors import (
    BufferFullError,
    ClosedError,
    IllegalStateError,
    KafkaTimeoutError,
    RecordDroppedError,
)
from ottla.client.producer.accumulator import Accumulator
from ottla.client.producer.batch import Batch
from ottla.client.producer.config import ProducerConfig
from ottla.client.producer.identity import Gate, Idempotent, Nobody
from ottla.client.producer.intake import Formed, Intake
from ottla.client.producer.sender import Sender
from ottla.client.producer.transactions import State, Transactions
from ottla.client.records import GroupMetadata, Offsets
from ottla.core.errors import ErrorCode, KafkaError, StaleMetadataError

logger = logging.getLogger(__name__)


class Core:
    """Made anywhere, started on a loop. `wake` is called in any thread when the sender should look."""

    def __init__(self, config: ProducerConfig, wake: Callable[[], None] | None = None) -> None:
        self.config = config
        self.look = asyncio.Event()
        self.cluster = Cluster(config, creates_topics=config.allow_auto_create_topics)
        self.accumulator = Accumulator(config, wake or self.look.set)
        self.intake = Intake(config, self.cluster.metadata, self.accumulator)
        self.transactions: Transactions | None = None
        self.gate: Gate = self._gate()
        self.sender = Sender(self.cluster, config, self.accumulator, self.gate, self.look)
        self.is_started = self.is_closed = False
        self.why_closed = "the producer was closed"
        self._ending: asyncio.Task[None] | None = None
        self.dropped_records = 0

    def _gate(self) -> Gate:
        if self.config.transactional_id is not None:
            self.transactions = Transactions(self.cluster, self.config, self.look, self._has_doubts)
            return self.transactions
        return Idempotent(self.cluster, self.look) if self.config.enable_idempotence else Nobody()

    def _has_doubts(self) -> bool:
        return any(
            queue.is_doubtful and queue.identity == self.gate.identity
            for queue in self.accumulator.queues.values()
        )

    def start(self) -> None:
        if self.is_closed:
            raise ClosedError(self.why_closed)
        if not self.is_started:
            self.is_started = True
            self.accumulator.home.loop_thread = threading.get_ident()
            self.sender.start()

    # --- records ----------------------------------------------------------------------------------------------------

    def check_sendable(self) -> None:
        """Raises if no record can be taken now."""
        if self.is_closed:
            raise ClosedError(self.why_closed)
        if self.transactions is not None:
            self.transactions.check_open()

    async def know_topic(self, formed: Formed, deadline: Deadline) -> None:
        """Return when the topic, and the partition if one is named, can be written to, or raise why not."""
        topic, _, _, partition, _, _ = formed
        info = await self.cluster.topic(topic, deadline)
        if partition is None or 0 <= partition < len(info.partitions):
            return
        if partition < 0:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {partition}")

        async def look() -> None:
            await self.cluster.refresh([topic])
            count = len((await self.cluster.topic(topic, deadline)).partitions)
            if partition >= count:
                sentence = f"topic {topic} has {count} partitions, and no number {partition}"
                raise StaleMetadataError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, sentence)

        await self.cluster.patiently(look, deadline, f"{topic}-{partition} was not found")

    def no_room(self, formed: Formed) -> BufferFullError:
        """What is raised for a record that finds no room in time."""
        used = f"{self.accumulator.used_bytes} bytes and {self.accumulator.used_records} records are waiting"
        return BufferFullError(
            f"no room for a record of {formed[2]} bytes within {self.config.max_block_ms} ms: {used}"
        )

    def dropped(self, formed: Formed) -> RecordDroppedError:
        self.dropped_records += 1
        return RecordDroppedError(f"a record for topic {formed[0]} was dropped: the buffer is full")

    async def flush(self, deadline: Deadline) -> None:
        """Return when everything that was handed in before is done, well or not. Raises KafkaTimeoutError."""
        self.accumulator.flushing += 1
        self.look.set()
        try:
            await self._settled(self.accumulator.unfinished(), deadline)
        finally:
            self.accumulator.flushing -= 1

    async def _settled(self, batches: list[Batch], deadline: Deadline) -> None:
        loop = asyncio.get_running_loop()
        left = len(batches)
        if not left:
            return
        all_done: asyncio.Future[None] = loop.create_future()

        def one_done() -> None:
            nonlocal left
            left -= 1
            if not left and not all_done.done():
                all_done.set_result(None)

        for batch in batches:
            batch.when_done(one_done)
        try:
            async with asyncio.timeout(deadline.left_seconds()):
                await all_done
        except TimeoutError:
            count = sum(len(each.rows) for each in batches if each.outcome is None)
            raise KafkaTimeoutError(f"{count} records were not acknowledged within {deadline}") from None

    async def partitions_for(self, topic: str, deadline: Deadline) -> set[int]:
        return set(range(len((await self.cluster.topic(topic, deadline)).partitions)))

    # --- transactions -----------------------------------------------------------------------------------------------

    @property
    def transactional(self) -> Transactions:
        if self.is_closed:
            raise ClosedError(self.why_closed)
        if self.transactions is None:
            raise IllegalStateError("there are no transactions without a transactional_id")
        return self.transactions

    async def init_transactions(self, deadline: Deadline) -> None:
        self.start()
        await self.transactional.init(deadline)

    def begin_transaction(self) -> None:
        self.transactional.begin()

    async def send_offsets(self, offsets: Offsets, group: GroupMetadata, deadline: Deadline) -> None:
        await self.transactional.send_offsets(offsets, group, deadline)

    async def commit_transaction(self, deadline: Deadline) -> None:
        transactions = self.transactional
        transactions.closing(True)
        await self.flush(deadline)
        await transactions.end(True, deadline)

    async def abort_transaction(self, deadline: Deadline) -> None:
        """What has not left does not leave any more."""
        await self._abort(self.transactional, deadline)

    async def _abort(self, transactions: Transactions, deadline: Deadline) -> None:
        transactions.closing(False)
        self.sender.fail_all(IllegalStateError("the transaction was aborted"), waiting_only=True)
        await self._settled(self.accumulator.unfinished(), deadline)
        await transactions.end(False, deadline)

    # --- the end ------------------------------------------------------------------------------------------------------

    async def close(self, deadline: Deadline) -> None:
        """Send what was handed in, abort a transaction that is open, and end. What cannot be sent in time fails."""
        if self.is_closed:
            return
        self.is_closed = True
        try:
            if self.is_started:
                await self._farewell(deadline)
        finally:
            self._ending = asyncio.ensure_future(self._end())
            await asyncio.shield(self._ending)

    async def _end(self) -> None:
        await self.sender.stop()
        await self.gate.close()
        await self.cluster.close()

    async def ended(self) -> None:
        """Return when `close`, which may have been interrupted, has let go of everything."""
        await self.close(Deadline(0))
        while self._ending is None:
            await asyncio.sleep(0)  # it was interrupted just now, and is about to begin the end
        await asyncio.wait((self._ending,))

    async def _farewell(self, deadline: Deadline) -> None:
        transactions = self.transactions
        try:
            if transactions is not None and transactions.state in (State.OPEN, State.SPOILT):
                await self._abort(transactions, deadline)
            else:
                await self.flush(deadline)
        except KafkaError as error:
            logger.warning("the producer is closed before everything is done: %s", error)

    def metrics(self) -> dict[str, int]:
        """Counts, for those who watch."""
        return {
            "buffered_bytes": self.accumulator.used_bytes,
            "buffered_records": self.accumulator.used_records,
            "requests_sent": self.sender.sent_requests,
            "batches_retried": self.sender.retried_batches,
            "records_failed": self.sender.failed_records,
            "records_dropped": self.dropped_records,
        }
