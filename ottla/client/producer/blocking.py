"""The producer for programs without an event loop.

    with Producer(bootstrap_servers="localhost:9092") as producer:
        delivery = producer.send("orders", b"tea", key=b"anna")     # it is in a batch
        metadata = delivery.get(timeout=10)                         # it is in the log

Records are put into batches by the thread that sends them; a thread with an event loop, woken once for a batch, brings
those to the brokers. Every method may be called from any thread.
"""

import atexit
import contextlib
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import CancelledError
from types import TracebackType
from typing import Any, TypeVar, Unpack

from ottla.client.deadline import Deadline
from ottla.client.errors import ClosedError, IllegalStateError, TransactionAbortableError
from ottla.client.parameters import ProducerParameters
from ottla.client.producer.batch import Delivery, failed_delivery
from ottla.client.producer.config import producer_config
from ottla.client.producer.core import Core
from ottla.client.producer.intake import Formed
from ottla.client.records import GroupMetadata, Offsets
from ottla.core.errors import KafkaError, StaleMetadataError
from ottla.core.ids import TopicPartition
from ottla.core.loop_thread import LoopThread

T = TypeVar("T")

logger = logging.getLogger(__name__)

_EXIT_MS = 10_000  # for a program that ends without having closed its producer


class Producer:
    """Sends records. Settings are Kafka's, with underscores; all are in the reference."""

    def __init__(self, **settings: Unpack[ProducerParameters]) -> None:
        config = producer_config(settings)
        self._thread = LoopThread("ottla-producer", patience_seconds=None)
        self._core = Core(config, self._wake)
        self._max_block_ms = config.max_block_ms
        self._send_waits = config.send_waits
        self._close_lock = threading.Lock()
        self._run(_started(self._core))
        self._at_exit = _close_at_exit(self)
        _living.add(self)

    def _wake(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody will send anything any more
            self._thread.loop.call_soon_threadsafe(self._core.look.set)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        """Have it done on the loop. Raises IllegalStateError in a callback, which would wait for itself."""
        if self._thread.is_current:
            work.close()
            raise IllegalStateError(
                "a callback cannot wait for the producer: it runs in the producer's thread"
            )
        try:
            return self._thread.run(work)
        except CancelledError:
            raise ClosedError("the producer was closed meanwhile") from None
        except RuntimeError as error:
            if isinstance(error, KafkaError):
                raise
            raise ClosedError(f"the producer does not run: {error}") from error

    # --- life -------------------------------------------------------------------------------------------------------

    def __enter__(self) -> "Producer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(timeout=None if kind is None else self._max_block_ms / 1000)

    def close(self, timeout: float | None = None) -> None:
        """Send what was handed in and end; without a timeout, for as long as deliveries may take."""
        with self._close_lock:
            if self._core.is_closed or not self._thread.is_ours:
                return
            limit = self._core.config.delivery_timeout_ms if timeout is None else timeout * 1000
            try:
                self._run(_closed(self._core, limit))
            except BaseException:  # interrupted, as by Ctrl-C
                self._run(self._core.ended())
                raise
            finally:
                atexit.unregister(self._at_exit)
                self._thread.end()

    # --- records ----------------------------------------------------------------------------------------------------

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Delivery:
        """Put a record in a batch, and return what will become of it: `get` that, add callbacks to it, or let it go.

        Waits, up to `max_block_ms`, while the topic is not known or the buffer is full. Raises what makes the record
        impossible: SerializationError, RecordTooLargeError, UnknownTopicError, BufferFullError.
        """
        core = self._core
        if core.is_closed or core.transactions is not None:
            core.check_sendable()
        delivery = core.intake.put(topic, value, key, headers, partition, timestamp_ms)
        if delivery is None:
            delivery = self._place(core.intake.form(topic, value, key, headers, partition, timestamp_ms))
        if self._send_waits:
            delivery.get()
        return delivery

    def _place(self, formed: Formed) -> Delivery:
        core, end = self._core, time.monotonic() + self._max_block_ms / 1000
        while True:
            left = None if self._max_block_ms < 0 else max(0.0, end - time.monotonic())
            try:
                delivery = core.intake.place(formed)
            except StaleMetadataError:
                self._run(_topic_known(core, formed, -1 if left is None else left * 1000))
                core.check_sendable()  # the transaction may have ended meanwhile
                continue
            if delivery is not None:
                return delivery
            core.check_sendable()
            if core.config.buffer_full == "drop":
                return failed_delivery(TopicPartition(formed[0], -1), core.dropped(formed))
            # Who sends from a callback would wait for itself.
            may_wait = core.config.buffer_full == "block" and not self._thread.is_current
            if not may_wait or not core.accumulator.wait_for_room(formed[2], left):
                raise core.no_room(formed)
            core.check_sendable()

    def flush(self, timeout: float | None = None) -> None:
        """Send what was handed in without lingering, and return when all of it is acknowledged or has failed."""
        self._call(self._core.flush, -1 if timeout is None else timeout * 1000)

    def partitions_for(self, topic: str) -> set[int]:
        """The numbers of a topic's partitions."""
        return self._call(lambda deadline: self._core.partitions_for(topic, deadline))

    @property
    def transactional_id(self) -> str | None:
        """Whose transactions these are; None for a producer without any."""
        return self._core.config.transactional_id

    def metrics(self) -> dict[str, int]:
        """How much waits, was sent, was sent again, failed, was dropped."""
        return self._core.metrics()

    # --- transactions -----------------------------------------------------------------------------------------------

    def init_transactions(self) -> None:
        """Become the one producer with this `transactional_id`: before the first transaction, once."""
        self._call(self._core.init_transactions)

    def begin_transaction(self) -> None:
        self._core.begin_transaction()

    def send_offsets_to_transaction(self, offsets: Offsets, group: "GroupMetadata | str") -> None:
        """Commit the offsets of a consumer with the transaction. `group` is `consumer.group_metadata()`; with the name
        alone, members that were replaced are not fenced."""
        known = GroupMetadata(group) if isinstance(group, str) else group
        self._call(lambda deadline: self._core.send_offsets(offsets, known, deadline))

    def commit_transaction(self) -> None:
        """Send everything, and make it visible at once. Raises TransactionAbortableError if some of it failed. After a
        KafkaTimeoutError it may be called again."""
        self._call(self._core.commit_transaction)

    def abort_transaction(self) -> None:
        """Nobody who reads committed records will see anything of it."""
        self._call(self._core.abort_transaction)

    @contextlib.contextmanager
    def transaction(self) -> "Iterator[Producer]":
        """`with producer.transaction():` commits at the end of the block, or aborts if it raises."""
        self.begin_transaction()
        try:
            yield self
        except BaseException:
            self._abort()
            raise
        try:
            self.commit_transaction()
        except TransactionAbortableError:
            self._abort()
            raise

    def _abort(self) -> None:
        """Who is told of an error already is not told of another one."""
        try:
            self.abort_transaction()
        except KafkaError as error:
            logger.warning("the transaction could not be aborted: %s", error)

    def _call(self, work: Callable[[Deadline], Coroutine[Any, Any, T]], timeout_ms: float | None = None) -> T:
        if self._core.is_closed:
            raise ClosedError(self._core.why_closed)
        limit = self._max_block_ms if timeout_ms is None else timeout_ms
        return self._run(_with_deadline(work, limit))


_living: "weakref.WeakSet[Producer]" = weakref.WeakSet()


def _stay_behind() -> None:
    """In a child that was forked off: its parent's thread did not come along. What is sent here would wait for ever."""
    for producer in _living:
        producer._core.is_closed = True
        producer._core.why_closed = "the producer was made before the fork: make another one in this process"


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_stay_behind)


async def _with_deadline(work: Callable[[Deadline], Coroutine[Any, Any, T]], timeout_ms: float) -> T:
    return await work(Deadline(timeout_ms))


async def _started(core: Core) -> None:
    core.start()


async def _closed(core: Core, timeout_ms: float) -> None:
    await core.close(Deadline(timeout_ms))


async def _topic_known(core: Core, formed: Formed, timeout_ms: float) -> None:
    await core.know_topic(formed, Deadline(timeout_ms))


def _close_at_exit(producer: Producer) -> Any:
    """What was handed in is sent though the program forgot to close its producer."""
    known = weakref.ref(producer)

    def close() -> None:
        forgotten = known()
        if forgotten is not None:
            forgotten.close(_EXIT_MS / 1000)

    atexit.register(close)
    return close
