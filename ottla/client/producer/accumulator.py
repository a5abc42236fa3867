"""Where records wait for the sender: a queue of batches for each partition, and a bound for all of them together.

Records are added by the application's thread, batches are taken by the event loop's: one lock stands between them, held
for a few operations. A queue gives out batches in order. A batch that may have been written keeps its number until the
broker has said what became of it, and of what is new only a little leaves meanwhile: so a retry neither doubles nor
reorders records.
"""

import asyncio
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from ottla.client.producer.batch import NOBODY, Batch, Delivery, Home, Identity, Row, Stretch
from ottla.client.producer.config import ProducerConfig
from ottla.core.ids import TopicPartition

_SENT_MAX = 64  # batches of a partition that were sent and may come back; far above what is in flight
_REMEMBERED = 5
"""So many batches of a producer a broker knows by their numbers. One that is sent again when more have followed it
looks like a gap: it would be sent under another number, and be there twice."""


class PartitionQueue:
    """The batches of one partition. `waiting` is in order; only the last one may be open."""

    __slots__ = (
        "_is_known",
        "_next_order",
        "_next_sequence",
        "_numbered",
        "_unsettled",
        "identity",
        "in_flight",
        "is_doubtful",
        "partition",
        "waiting",
    )

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.waiting: list[Batch] = []
        self.in_flight: list[Batch] = []
        self.identity = NOBODY
        """Who we are in this partition. It changes only while nothing is unresolved."""
        self.is_doubtful = False
        """A batch was given up and may be written or not: the numbers behind it cannot be used."""
        self._is_known = False
        """Whether the partition's log has something of our id. To one that has nothing any number is a beginning."""
        self._next_sequence = 0
        self._next_order = 0
        self._numbered = 0
        self._unsettled: dict[Batch, int] = {}
        """Of which batches the broker's word is not known, and how many had got numbers when they did."""

    def new_order(self) -> tuple[int, ...]:
        self._next_order += 1
        return (self._next_order,)

    def take(self, now: float, is_due: Callable[[Batch], bool], current: Identity) -> Batch | None:
        """The next batch to be sent, if it may be: it counts as under way from here on."""
        batch = self.next_up()
        if batch is None or batch.retry_at > now:
            return None
        if batch.has_sequence:
            if self.in_flight:
                return None  # alone, so that whatever comes back of it comes back in order
        elif not is_due(batch) or (current is not NOBODY and not self._number(batch, current)):
            return None
        batch.is_closed = True
        self.waiting.remove(batch)
        self.in_flight.append(batch)
        return batch

    def next_up(self) -> Batch | None:
        """Whose turn it is: what was sent before comes before what was not."""
        sent = next((each for each in islice(self.waiting, _SENT_MAX) if each.has_sequence), None)
        return sent or (self.waiting[0] if self.waiting else None)

    @property
    def is_settled(self) -> bool:
        """Nothing that has a number waits for the broker's word."""
        return not self.in_flight and not any(each.has_sequence for each in islice(self.waiting, _SENT_MAX))

    def _number(self, batch: Batch, current: Identity) -> bool:
        """Give a batch the next number. Not possible while we are about to be somebody else."""
        if self.identity != current:
            if self.in_flight:
                return False
            self._is_known = self._is_known and self.identity.producer_id == current.producer_id
            self.identity, self._next_sequence, self.is_doubtful = current, 0, False
            self._unsettled.clear()
        if self.is_doubtful or (self.in_flight and not self._is_known):
            return False
        if self._followers_of_oldest() >= _REMEMBERED - 1:
            return False  # it is under way to a former leader, say, while others are answered by the new one
        batch.identity, batch.sequence = current, self._next_sequence
        self._next_sequence = batch.next_sequence
        self._unsettled[batch] = self._numbered
        self._numbered += 1
        return True

    def _followers_of_oldest(self) -> int:
        """How many got numbers after the first of which the broker's word is not known."""
        for batch, count in list(self._unsettled.items()):
            if batch.outcome is None:
                return self._numbered - count - 1
            del self._unsettled[batch]  # it was cut in two
        return 0

    def is_first_unresolved(self, batch: Batch) -> bool:
        """Whether the broker's word is known of everything that was sent before it."""
        others = [*self.in_flight, *(each for each in self.waiting if each.has_sequence)]
        return all(each is batch or each.order > batch.order for each in others)

    def written(self, batch: Batch) -> None:
        """The broker has it."""
        self._unsettled.pop(batch, None)
        self._is_known = self._is_known or batch.identity.producer_id == self.identity.producer_id

    def put_back(self, *batches: Batch) -> None:
        """They are to be sent again, where they were."""
        self.waiting.extend(batches)
        self.waiting.sort(key=lambda each: each.order)

    def gave_up(self, batch: Batch, *, is_number_free: bool) -> None:
        """It will not be sent again. If nothing was numbered after it, and it is surely not written, the next one can
        have its number. If that was wrong, the broker would take the next one for this one, and drop it."""
        self._unsettled.pop(batch, None)
        if not batch.has_sequence or batch.identity != self.identity:
            return
        if not is_number_free or batch.next_sequence != self._next_sequence:
            self.is_doubtful = True
        else:
            self._next_sequence = batch.sequence


class Accumulator:
    """All queues of a producer. `wake` is called, in any thread, when there is something for the sender to look at."""

    def __init__(self, config: ProducerConfig, wake: Callable[[], None]) -> None:
        self.home = Home()
        self.lock = self.home.lock
        self.queues: dict[TopicPartition, PartitionQueue] = {}
        self.used_bytes = self.used_records = 0
        self.flushing = 0
        """How many wait for everything to be sent: then nothing lingers."""
        self._config = config
        self._wake = wake
        self._is_awake = False
        self._batch_size = config.batch_size
        self._records_max = config.batch_max_records or 1 << 30
        self._delivery_seconds = config.delivery_timeout_ms / 1000
        self._bytes_max = config.buffer_memory
        self._count_max = config.buffer_max_records or 1 << 62
        self._room = threading.Condition(self.lock)
        self._room_waiters: set[Callable[[], None]] = set()

    def queue(self, partition: TopicPartition) -> PartitionQueue:
        found = self.queues.get(partition)
        if found is None:
            with self.lock:
                found = self.queues.setdefault(partition, PartitionQueue(partition))
        return found

    def append(self, queue: PartitionQueue, row: Row, size: int) -> Delivery | None:
        """Add a record; None if there is no room for it."""
        is_news = False
        with self.lock:
            used = self.used_bytes + size
            if used > self._bytes_max or self.used_records >= self._count_max:
                return None
            waiting = queue.waiting
            batch = waiting[-1] if waiting else None
            if batch is None or batch.is_closed:
                batch, is_news = self._open(queue), True
            elif batch.size + size > self._batch_size:
                batch.is_closed = True
                batch, is_news = self._open(queue), True
            rows = batch.rows
            index = len(rows)
            rows.append(row)
            batch.size = filled = batch.size + size
            if filled >= self._batch_size or index + 1 >= self._records_max:
                batch.is_closed = is_news = True  # it need not linger
            self.used_bytes = used
            self.used_records += 1
        if is_news and not self._is_awake:
            self._is_awake = True
            self._wake()
        return Delivery(batch, index)

    def append_many(
        self, queue: PartitionQueue, rows: list[Row], ends: Sequence[int], origins: Sequence[int]
    ) -> list[Stretch]:
        """Add records from the first on, as many as there is room for. `ends[i]` is the size of the first `i + 1`."""
        placed: list[Stretch] = []
        with self.lock:
            room = self._bytes_max - self.used_bytes
            count = min(bisect_right(ends, room), self._count_max - self.used_records)
            start = done = 0
            while start < count:
                batch = self._with_room(queue, ends[start] - done)
                fits = bisect_right(ends, done + self._batch_size - batch.size, start, count)
                stop = min(max(fits, start + 1), start + self._records_max - len(batch.rows))
                placed.append(Stretch(batch, len(batch.rows), stop - start, origins[start:stop]))
                batch.rows += rows[start:stop]
                batch.in_stretches += stop - start
                batch.size += ends[stop - 1] - done
                if batch.size >= self._batch_size or len(batch.rows) >= self._records_max:
                    batch.is_closed = True
                start, done = stop, ends[stop - 1]
            self.used_bytes += done
            self.used_records += start
        if placed and not self._is_awake:
            self._is_awake = True
            self._wake()
        return placed

    def _with_room(self, queue: PartitionQueue, size: int) -> Batch:
        """The batch that a record of that size joins."""
        batch = queue.waiting[-1] if queue.waiting else None
        if batch is not None and not batch.is_closed and batch.size + size > self._batch_size:
            batch.is_closed = True
        return self._open(queue) if batch is None or batch.is_closed else batch

    def _open(self, queue: PartitionQueue) -> Batch:
        now = time.monotonic()
        batch = Batch(queue.partition, queue.new_order(), now, now + self._delivery_seconds, self.home)
        queue.waiting.append(batch)
        return batch

    def close(self) -> None:
        """No room is left, for good: what is added from now on would stay for ever."""
        with self.lock:
            self._bytes_max = -1
        self.release(())  # whoever waits for room looks again, and finds out

    def slept(self) -> None:
        """The sender is about to look: what is added from now on wakes it again."""
        self._is_awake = False

    def is_full_batch(self, batch: Batch) -> bool:
        return batch.is_closed

    def waiting_bytes(self, topic: str, partition: int) -> int:
        """What is queued for a partition: a guess, nobody stops for it."""
        queue = self.queues.get(TopicPartition(topic, partition))
        return 0 if queue is None else sum(each.size for each in queue.waiting)

    # --- the end of batches ---------------------------------------------------------------------------------------

    def unfinished(self) -> list[Batch]:
        """Every batch that is not done."""
        with self.lock:
            queues = list(self.queues.values())
            return [batch for queue in queues for batch in (*queue.in_flight, *queue.waiting)]

    def release(self, batches: Iterable[Batch]) -> None:
        """They are done: their room is free."""
        with self.lock:
            for batch in batches:
                self.used_bytes -= batch.size
                self.used_records -= len(batch.rows)
            self._room.notify_all()
            waiters = list(self._room_waiters)
        for fn in waiters:
            fn()

    def wait_for_room(self, size: int, seconds: float | None) -> bool:
        """Wait in this thread until a record of that size fits, or none ever will."""
        with self._room:
            return self._room.wait_for(lambda: self._is_worth_a_try(size), seconds)

    async def room(self, size: int, seconds: float | None) -> bool:
        """The same on the event loop."""
        changed = asyncio.Event()
        self._room_waiters.add(changed.set)
        try:
            async with asyncio.timeout(seconds):
                while not self._is_worth_a_try(size):
                    changed.clear()
                    await changed.wait()
                return True
        except TimeoutError:
            return False
        finally:
            self._room_waiters.discard(changed.set)

    def _is_worth_a_try(self, size: int) -> bool:
        is_room = self.used_bytes + size <= self._bytes_max and self.used_records < self._count_max
        return is_room or self._bytes_max < 0
