"""The producer on an event loop.

async with AsyncProducer(bootstrap_servers="localhost:9092") as producer:
    delivery = await producer.send("orders", b"tea", key=b"anna")     # it is in a batch
    metadata = await delivery                                         # it is in the log
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Unpack

from ottla.client.deadline import Deadline
from ottla.client.errors import IllegalStateError, TransactionAbortableError
from ottla.client.parameters import ProducerParameters
from ottla.client.producer.batch import RECORD_OVERHEAD, Delivery, Row, Stretch, failed_delivery
from ottla.client.producer.bulk import Crowd, crowd_of, gathered, send_crowd
from ottla.client.producer.config import producer_config
from ottla.client.producer.core import Core
from ottla.client.producer.intake import Formed
from ottla.client.records import GroupMetadata, Offsets, RecordMetadata
from ottla.core.errors import KafkaError, StaleMetadataError
from ottla.core.ids import TopicPartition

logger = logging.getLogger(__name__)


class AsyncProducer:
    """Sends records. Settings are Kafka's, with underscores; all are in the reference."""

    def __init__(self, **settings: Unpack[ProducerParameters]) -> None:
        config = producer_config(settings)
        self._core = Core(config)
        self._max_block_ms = config.max_block_ms
        self._send_waits = config.send_waits
        self._yield_size = max(config.batch_size, 16 * 1024)
        self._unyielded = 0

    # --- life -------------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> "AsyncProducer":
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Whoever fails in the middle of the block does not wait for what may never be acknowledged.
        await self.close(timeout_ms=None if kind is None else self._max_block_ms)

    async def start(self) -> None:
        """Begin to send. Nothing is connected before there is something to ask or to send."""
        self._core.start()

    async def close(self, timeout_ms: float | None = None) -> None:
        """Send what was handed in and end; without a timeout, for as long as deliveries may take."""
        limit = self._core.config.delivery_timeout_ms if timeout_ms is None else timeout_ms
        await self._core.close(Deadline(limit))

    # --- records ----------------------------------------------------------------------------------------------------

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Delivery:
        """Put a record in a batch, and return what will become of it: await that too, or let it go.

        Waits, up to `max_block_ms`, while the topic is not known or the buffer is full. Raises what makes the record
        impossible: SerializationError, RecordTooLargeError, UnknownTopicError, BufferFullError.
        """
        core = self._core
        if not core.is_started:
            core.start()
        if core.is_closed or core.transactions is not None:
            core.check_sendable()
        delivery = core.intake.put(topic, value, key, headers, partition, timestamp_ms)
        if delivery is None:
            formed = core.intake.form(topic, value, key, headers, partition, timestamp_ms)
            delivery = await self._place(formed)
            self._unyielded += formed[2]
        else:
            self._unyielded += len(value) + RECORD_OVERHEAD
        if self._send_waits:
            await delivery
        if self._unyielded >= self._yield_size:
            self._unyielded = 0
            await asyncio.sleep(0)  # who sends in a loop lets the sender send
        return delivery

    async def send_and_wait(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> RecordMetadata:
        """Send a record, and return where it came to lie."""
        return await (await self.send(topic, value, key, headers, partition, timestamp_ms))

    async def send_many(
        self,
        topic: str,
        values: Sequence[bytes | None],
        keys: Sequence[bytes | None] | None = None,
        headers: Any = None,
        partition: int | None = None,
        placed: Callable[[list[Stretch]], object] | None = None,
    ) -> list[Stretch]:
        """Put many records in batches, without a delivery for each: what becomes of them is known for each `Stretch`
        that travels together. Waits and raises as `send` does. The producer may have no serializers and no
        interceptors.

        With `placed`, stretches are handed to it as they find room, and what is returned is empty: if this raises, or
        is cancelled, those are what is under way, and the others were not taken.
        """
        return await self._send_crowd(topic, gathered(topic, values, keys, headers), partition, placed)

    async def send_rows(
        self,
        topic: str,
        rows: Sequence[Row],
        partition: int | None = None,
        placed: Callable[[list[Stretch]], object] | None = None,
    ) -> list[Stretch]:
        """The same for records that each have their own timestamp, key, value and headers."""
        return await self._send_crowd(topic, crowd_of(topic, rows), partition, placed)

    async def _send_crowd(
        self,
        topic: str,
        crowd: Crowd,
        partition: int | None,
        placed: Callable[[list[Stretch]], object] | None,
    ) -> list[Stretch]:
        core = self._core
        if not core.is_started:
            core.start()
        core.check_sendable()
        if not core.intake.takes_many:
            raise IllegalStateError("send_many takes bytes: there may be no serializers and no interceptors")
        if self._send_waits:
            raise IllegalStateError("send_many does not wait for answers: send.waits must be false")
        found: list[Stretch] = []
        await send_crowd(core, topic, crowd, partition, Deadline(self._max_block_ms), placed or found.extend)
        await asyncio.sleep(0)  # who sends in a loop lets the sender send
        return found

    async def _place(self, formed: Formed) -> Delivery:
        core, deadline = self._core, Deadline(self._max_block_ms)
        while True:
            try:
                delivery = core.intake.place(formed)
            except StaleMetadataError:
                await core.know_topic(formed, deadline)
                core.check_sendable()  # the transaction may have ended meanwhile
                continue
            if delivery is not None:
                return delivery
            core.check_sendable()
            if core.config.buffer_full == "drop":
                return failed_delivery(TopicPartition(formed[0], -1), core.dropped(formed))
            if core.config.buffer_full == "raise" or not await core.accumulator.room(
                formed[2], deadline.left_seconds()
            ):
                raise core.no_room(formed)
            core.check_sendable()

    async def flush(self, timeout_ms: float = -1) -> None:
        """Send what was handed in without lingering, and return when all of it is acknowledged or has failed."""
        await self._core.flush(Deadline(timeout_ms))

    async def partitions_for(self, topic: str) -> set[int]:
        """The numbers of a topic's partitions."""
        return await self._core.partitions_for(topic, Deadline(self._max_block_ms))

    @property
    def transactional_id(self) -> str | None:
        """Whose transactions these are; None for a producer without any."""
        return self._core.config.transactional_id

    def metrics(self) -> dict[str, int]:
        """How much waits, was sent, was sent again, failed, was dropped."""
        return self._core.metrics()

    # --- transactions -----------------------------------------------------------------------------------------------

    async def init_transactions(self) -> None:
        """Become the one producer with this `transactional_id`: before the first transaction, once."""
        await self._core.init_transactions(Deadline(self._max_block_ms))

    async def begin_transaction(self) -> None:
        self._core.begin_transaction()

    async def send_offsets_to_transaction(self, offsets: Offsets, group: "GroupMetadata | str") -> None:
        """Commit the offsets of a consumer with the transaction. `group` is `consumer.group_metadata()`; with the name
        alone, members that were replaced are not fenced."""
        known = GroupMetadata(group) if isinstance(group, str) else group
        await self._core.send_offsets(offsets, known, Deadline(self._max_block_ms))

    async def commit_transaction(self) -> None:
        """Send everything, and make it visible at once. Raises TransactionAbortableError if some of it failed. After a
        KafkaTimeoutError it may be called again."""
        await self._core.commit_transaction(Deadline(self._max_block_ms))

    async def abort_transaction(self) -> None:
        """Nobody who reads committed records will see anything of it."""
        await self._core.abort_transaction(Deadline(self._max_block_ms))

    def transaction(self) -> "Transaction":
        """`async with producer.transaction():` commits at the end of the block, or aborts if it raises."""
        return Transaction(self)


class Transaction:
    """One transaction, as a block."""

    def __init__(self, producer: AsyncProducer) -> None:
        self._producer = producer

    async def __aenter__(self) -> AsyncProducer:
        await self._producer.begin_transaction()
        return self._producer

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            await self._abort()
            return
        try:
            await self._producer.commit_transaction()
        except TransactionAbortableError:
            await self._abort()
            raise

    async def _abort(self) -> None:
        """Who is told of an error already is not told of another one."""
        try:
            await self._producer.abort_transaction()
        except KafkaError as error:
            logger.warning("the transaction could not be aborted: %s", error)
