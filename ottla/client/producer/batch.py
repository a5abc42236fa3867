"""Records of one partition that travel together, and what the senders of each hear of it.

A batch is open while records join it, then waits for its turn, is under way, and is done: with an offset, or with an
error. Records are kept as they were handed in and become bytes when the batch is sent for the first time. A batch that
a broker finds too large is cut in two, and its records hear from the halves.
"""

import asyncio
import contextlib
import logging
import threading
from bisect import bisect_right
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any, NamedTuple

from ottla.client.errors import IllegalStateError, KafkaTimeoutError
from ottla.client.records import RecordMetadata
from ottla.core.ids import TopicPartition
from ottla.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, set_producer
from ottla.records.builder import build_rows
from ottla.records.compression import Codec
from ottla.records.record import Header

logger = logging.getLogger(__name__)

Row = tuple[int, bytes | None, bytes | None, Sequence[Header]]
"""Timestamp, key, value, headers."""

RECORD_OVERHEAD = 21
"""Bytes of a record besides its key, its value and its headers, at most."""
NO_SEQUENCE = -1
_SEQUENCES = 1 << 31


class Identity(NamedTuple):
    """Who a producer is to brokers."""

    producer_id: int
    epoch: int


NOBODY = Identity(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


class Landed(NamedTuple):
    """Where a batch came to lie."""

    base_offset: int
    log_append_time_ms: int = -1
    log_start_offset: int = -1


class Home:
    """Where batches live: the lock for what is not touched on the loop only, and the loop's thread."""

    __slots__ = ("lock", "loop_thread")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.loop_thread: int | None = None


class Batch:
    """See above. The lock of its home protects what threads share: `rows`, `size`, `outcome` and who waits for it."""

    __slots__ = (
        "_data",
        "_landed",
        "_waiting",
        "attempts",
        "created",
        "expires",
        "halves",
        "home",
        "identity",
        "in_stretches",
        "is_closed",
        "order",
        "outcome",
        "partition",
        "refused",
        "retry_at",
        "rows",
        "sequence",
        "size",
        "why_again",
    )

    def __init__(
        self,
        partition: TopicPartition,
        order: tuple[int, ...],
        created: float,
        expires: float,
        home: Home,
    ) -> None:
        self.partition = partition
        self.order = order
        """The place among the batches of its partition, for good. Halves have one more number."""
        self.created, self.expires = created, expires
        self.home = home
        self.rows: list[Row] = []
        self.size = 0
        self.in_stretches = 0
        """How many of the records nobody asks about one by one."""
        self.is_closed = False
        self.identity, self.sequence = NOBODY, NO_SEQUENCE
        """Which batch of this producer it is to the broker. Kept until the broker's word is known for sure."""
        self.attempts = 0
        self.refused = 0
        """Attempts that certainly wrote nothing: the broker has said so, or there was no connection."""
        self.retry_at = 0.0
        self.why_again: Exception | None = None
        """What was wrong the last time."""
        self.outcome: Landed | Exception | None = None
        self.halves: list[tuple[int, Batch]] = []
        """Where it was cut: the index of each half's first record, and the half."""
        self._data: bytearray | None = None
        self._landed: list[tuple[int, int, int]] = []
        """What is left of the records when they are written: timestamp, and the sizes of key and value."""
        self._waiting: list[Callable[[], None]] = []

    def __repr__(self) -> str:
        return f"<Batch {self.order} of {self.partition}, {len(self.rows)} records, sequence {self.sequence}>"

    @property
    def has_sequence(self) -> bool:
        return self.sequence != NO_SEQUENCE

    @property
    def next_sequence(self) -> int:
        return (self.sequence + len(self.rows)) % _SEQUENCES

    def bytes_of(self, codec: Codec, level: int | None, is_transactional: bool) -> bytearray:
        """The batch as it is sent. Compressed once, however often it is sent."""
        if self._data is None:
            self._data = build_rows(self.rows, codec, level)
        if self.identity is not NOBODY:
            set_producer(self._data, *self.identity, self.sequence, is_transactional)
        return self._data

    def renumber(self) -> None:
        """The broker has certainly not written it, and will not under its number: it is as if it was never sent."""
        self.identity, self.sequence = NOBODY, NO_SEQUENCE

    def halved(self) -> "tuple[Batch, Batch]":
        """Two batches with its records, the second right behind the first. Its own senders hear from them."""
        middle = len(self.rows) // 2
        parts = []
        for number, start, rows in ((0, 0, self.rows[:middle]), (1, middle, self.rows[middle:])):
            half = Batch(self.partition, (*self.order, number), self.created, self.expires, self.home)
            half.rows, half.is_closed, half.attempts, half.refused = rows, True, self.attempts, self.attempts
            half.size = sum(size_of(row) for row in rows)
            half.in_stretches = len(rows) if self.in_stretches == len(self.rows) else 0
            if self.has_sequence:
                half.identity, half.sequence = self.identity, (self.sequence + start) % _SEQUENCES
            parts.append(half)
            self.halves.append((start, half))
        self._data = None
        return parts[0], parts[1]

    # --- what becomes of it ---------------------------------------------------------------------------------------

    def finish(self, outcome: Landed | Exception) -> None:
        """It is done. Whoever waits is told, in this thread."""
        with self.home.lock:
            if self.outcome is not None:
                return
            if isinstance(outcome, Landed) and not self.halves and self.in_stretches < len(self.rows):
                self._landed = [
                    (timestamp, -1 if key is None else len(key), -1 if value is None else len(value))
                    for timestamp, key, value, _ in self.rows
                ]
            self.rows = []  # who keeps a delivery does not keep the record
            self.outcome = outcome
            waiting, self._waiting = self._waiting, []
            self._data = None
        for fn in waiting:
            fn()

    def when_done(self, fn: Callable[[], None]) -> None:
        """Call `fn` when it is done, or now if it is."""
        with self.home.lock:
            is_done = self.outcome is not None
            if not is_done:
                self._waiting.append(fn)
        if is_done:
            fn()

    def forget(self, fn: Callable[[], None]) -> None:
        """Whoever was to be told has gone: those who ask again and again leave nothing behind."""
        with self.home.lock:
            if fn in self._waiting:
                self._waiting.remove(fn)

    def metadata(self, index: int) -> RecordMetadata:
        """Where that record came to lie. Raises why it did not. Only when done."""
        if self.halves:
            place = bisect_right(self.halves, index, key=lambda half: half[0]) - 1
            start, half = self.halves[place]
            return half.metadata(index - start)
        outcome = self.outcome
        assert outcome is not None, "only a batch that is done knows"
        if isinstance(outcome, Exception):
            raise outcome
        timestamp, key_size, value_size = self._landed[index]
        topic, partition = self.partition
        return RecordMetadata(
            topic,
            partition,
            outcome.base_offset + index if outcome.base_offset >= 0 else -1,
            timestamp if outcome.log_append_time_ms < 0 else outcome.log_append_time_ms,
            outcome.log_start_offset,
            key_size,
            value_size,
        )


def size_of(row: Row) -> int:
    """What a record takes at most, uncompressed."""
    _, key, value, headers = row
    size = RECORD_OVERHEAD
    if key is not None:
        size += len(key)
    if value is not None:
        size += len(value)
    if headers:
        size += headers_size(headers)
    return size


def headers_size(headers: Sequence[Header]) -> int:
    return sum(10 + 4 * len(name) + (len(content) if content is not None else 0) for name, content in headers)


class Delivery:
    """What becomes of one record: `await` it, or `get` it where there is no event loop."""

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: Batch, index: int) -> None:
        self._batch, self._index = batch, index

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        batch = self._batch
        if batch.outcome is None:
            loop = asyncio.get_running_loop()
            future: asyncio.Future[None] = loop.create_future()
            wake = partial(_wake, loop, future)
            batch.when_done(wake)
            try:
                yield from future.__await__()
            finally:
                if not future.done() or future.cancelled():
                    batch.forget(wake)
        return batch.metadata(self._index)

    def get(self, timeout: float | None = None) -> RecordMetadata:
        """Wait for it, in a thread that has no event loop. Raises why the record was not written, or
        KafkaTimeoutError after `timeout` seconds (the record may still be written)."""
        batch = self._batch
        if batch.outcome is None:
            if threading.get_ident() == batch.home.loop_thread:
                raise IllegalStateError("to wait here would stop the producer's own event loop: use `await`")
            done = threading.Event()
            batch.when_done(done.set)
            try:
                is_done = done.wait(timeout)
            finally:
                batch.forget(done.set)
            if not is_done:
                raise KafkaTimeoutError(f"the record for {batch.partition} has no answer after {timeout:g} s")
        return batch.metadata(self._index)

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """The same as `get`."""
        return self.get(timeout)

    def done(self) -> bool:
        return self._batch.outcome is not None

    @property
    def is_done(self) -> bool:
        return self._batch.outcome is not None

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Why the record was not written, if it was not."""
        try:
            self.get(timeout)
        except KafkaTimeoutError:
            if not self.done():
                raise
        except Exception:
            pass
        else:
            return None
        return self._error()

    def succeeded(self) -> bool:
        return self.done() and self._error() is None

    def failed(self) -> bool:
        return self.done() and self._error() is not None

    def add_callback(self, fn: Callable[..., object], *args: Any, **kwargs: Any) -> "Delivery":
        """Call `fn(*args, metadata, **kwargs)` when the record is written. It runs on the producer's event loop, or in
        its thread: it must not block, and what it raises is logged."""
        self._batch.when_done(lambda: self._call(fn, args, kwargs, is_error=False))
        return self

    def add_errback(self, fn: Callable[..., object], *args: Any, **kwargs: Any) -> "Delivery":
        """Call `fn(*args, error, **kwargs)` when it is not."""
        self._batch.when_done(lambda: self._call(fn, args, kwargs, is_error=True))
        return self

    def add_both(self, fn: Callable[..., object], *args: Any, **kwargs: Any) -> "Delivery":
        """Call `fn` with the metadata or the error."""
        return self.add_callback(fn, *args, **kwargs).add_errback(fn, *args, **kwargs)

    def _error(self) -> Exception | None:
        try:
            self._batch.metadata(self._index)
        except Exception as error:
            return error
        return None

    def _call(
        self, fn: Callable[..., object], args: tuple[Any, ...], kwargs: dict[str, Any], *, is_error: bool
    ) -> None:
        error = self._error()
        if (error is not None) == is_error:
            call_safely(fn, *args, error if is_error else self._batch.metadata(self._index), **kwargs)


class Settled(NamedTuple):
    """What became of a stretch of records. `last_offset` is -1 if none was acknowledged, or nobody said where."""

    acknowledged: int
    failed: int
    last_offset: int
    error: Exception | None = None
    first_failed: int = -1
    """Which of them the error is about, counted from the first of the stretch."""


class Stretch(NamedTuple):
    """Records in a row that were handed in together, and travel in the same batch: they share one answer."""

    batch: Batch
    first: int
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody needs here
    origins: Sequence[int] = ()
    """Which of the records it was that were handed in together: places in the `values` of `send_many`."""

    @property
    def partition(self) -> TopicPartition:
        return self.batch.partition

    def when_done(self, fn: Callable[["Stretch"], object]) -> None:
        """Call `fn` with this when all of it is acknowledged or has failed: on the producer's loop, or now."""
        # A function in here is more than mypyc understands.
        self.batch.when_done(partial(call_safely, fn, self))

    def settled(self) -> Settled:
        """What became of it. Only when done."""
        return _settled(self.batch, self.first, self.first + self.count)


def _settled(batch: Batch, start: int, stop: int) -> Settled:
    if batch.halves:
        return _settled_halves(batch, start, stop)
    outcome = batch.outcome
    assert outcome is not None, "only a batch that is done knows"
    if isinstance(outcome, Exception):
        return Settled(0, stop - start, -1, outcome, 0)
    last = outcome.base_offset + stop - 1 if outcome.base_offset >= 0 and stop > start else -1
    return Settled(stop - start, 0, last)


def _settled_halves(batch: Batch, start: int, stop: int) -> Settled:
    acknowledged = failed = 0
    last_offset = first_failed = -1
    error: Exception | None = None
    for index, (place, half) in enumerate(batch.halves):
        end = stop if index + 1 == len(batch.halves) else batch.halves[index + 1][0]
        if start >= end or place >= stop:
            continue
        part = _settled(half, max(start - place, 0), min(stop, end) - place)
        acknowledged += part.acknowledged
        failed += part.failed
        last_offset = max(last_offset, part.last_offset)
        if error is None and part.error is not None:
            error, first_failed = part.error, max(place - start, 0) + part.first_failed
    return Settled(acknowledged, failed, last_offset, error, first_failed)


def call_safely(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call what an application handed in. Its mistakes are logged, and stop nobody."""
    try:
        return fn(*args, **kwargs)
    except Exception:
        logger.exception("a callback of the application failed: %r", fn)
        return None


def _wake(loop: asyncio.AbstractEventLoop, future: "asyncio.Future[None]") -> None:
    """The batch may be finished by another loop's thread, and whoever waited may be gone."""

    def wake() -> None:
        if not future.done():
            future.set_result(None)

    try:
        is_here = asyncio.get_running_loop() is loop
    except RuntimeError:
        is_here = False
    if is_here:
        wake()
        return
    with contextlib.suppress(RuntimeError):  # that loop has ended, and whoever waited with it
        loop.call_soon_threadsafe(wake)


def failed_delivery(partition: TopicPartition, error: Exception) -> Delivery:
    """Of a record that was not accepted."""
    batch = Batch(partition, (), 0.0, 0.0, Home())
    batch.outcome = error
    return Delivery(batch, 0)
