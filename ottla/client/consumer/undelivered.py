"""What was fetched and not handed out yet, of every partition in the order of its offsets.

At most `AHEAD` fetches of a partition lie here, so memory stays bounded however slow the application is. What belongs
to an earlier life of a partition (before a seek, or another assignment) is dropped when it is met; what belongs to a
paused one stays.
"""

from collections import deque
from collections.abc import Callable, Collection, Mapping

from ottla.client.consumer.fetched import Fetched
from ottla.client.consumer.subscription import PartitionState, Position, Subscription
from ottla.client.records import ConsumerRecord
from ottla.core.errors import KafkaError
from ottla.core.ids import TopicPartition

AHEAD = 2
"""One that is handed out, and one behind it."""


class Undelivered:
    """Of one consumer. Partitions take turns: the one whose fetch came first is handed out first."""

    def __init__(self, subscription: Subscription) -> None:
        self._subscription = subscription
        self._queues: dict[TopicPartition, deque[Fetched]] = {}
        self._current: Fetched | None = None

    def add(self, fetched: Fetched) -> None:
        self._queues.setdefault(fetched.partition, deque()).append(fetched)

    def is_full(self, state: PartitionState) -> bool:
        """Whether there is enough of this partition for now, or only reading will tell where to go on."""
        queue = self._valid(state)
        return queue is not None and (len(queue) >= AHEAD or queue[-1].end_offset is None)

    def end(self, state: PartitionState) -> Position:
        """Where to fetch on."""
        queue = self._valid(state)
        if queue and (offset := queue[-1].end_offset) is not None:
            return Position(offset, queue[-1].end_epoch)
        assert state.position is not None, "only partitions that have a position are fetched"
        return state.position

    def _valid(self, state: PartitionState) -> deque[Fetched] | None:
        queue = self._queues.get(state.partition)
        if queue is not None and queue[0].life != state.life:
            del self._queues[state.partition]
            return None
        return queue

    def clear(self) -> None:
        self._queues.clear()
        self._current = None

    # --- many at once -------------------------------------------------------------------------------------------

    def collect(
        self, count: int, only: Collection[TopicPartition] | None = None
    ) -> tuple[dict[TopicPartition, list[ConsumerRecord]], bool]:
        """At most so many records, and whether a fetch was used up. Raises for a record that cannot be read, once all
        before it have been handed out."""
        self.settle()
        out: dict[TopicPartition, list[ConsumerRecord]] = {}
        used_up = False
        while count > 0 and (found := self._first(only)) is not None:
            state, fetched = found
            try:
                records = fetched.take(count)
            except KafkaError:
                if out:
                    break
                raise
            finally:
                self._move(state, fetched)
            if records:
                out.setdefault(state.partition, []).extend(records)
                count -= len(records)
            if fetched.is_done:
                used_up = True
                self._drop(fetched)
            elif not records or count > 0:
                break  # a record that cannot be read is next
        return out, used_up

    def _first(self, only: Collection[TopicPartition] | None) -> tuple[PartitionState, Fetched] | None:
        states: Mapping[TopicPartition, PartitionState] = self._subscription.partitions
        for partition in list(self._queues):
            state = states.get(partition)
            queue = self._valid(state) if state is not None else None
            if state is None or not queue:
                self._queues.pop(partition, None)
            elif state.is_fetchable and (only is None or partition in only):
                return state, queue[0]
        return None

    def _drop(self, fetched: Fetched) -> None:
        """The next fetch of the partition queues behind those of others."""
        queue = self._queues.pop(fetched.partition)
        queue.popleft()
        if queue:
            self._queues[fetched.partition] = queue

    @staticmethod
    def _move(state: PartitionState, fetched: Fetched) -> None:
        assert state.position is not None, "it was fetched from there"
        offset, epoch = fetched.reader_offset, fetched.offset_epoch
        if offset != state.position.offset:
            state.position = Position(offset, epoch)

    # --- one by one ---------------------------------------------------------------------------------------------

    def open(
        self,
        count: int,
        only: Collection[TopicPartition] | None = None,
        intercept: Callable[[TopicPartition, list[ConsumerRecord]], list[ConsumerRecord]] | None = None,
    ) -> Fetched | None:
        """Something whose `ready` records the caller hands out itself, moving `ready_index`; the position follows when
        `settle` is called. None if there is nothing. `intercept` may put others in their place."""
        self.settle()
        while (found := self._first(only)) is not None:
            state, fetched = found
            if not fetched.ready:
                try:
                    fetched.ready = fetched.take(count)
                    if intercept is not None and fetched.ready:
                        fetched.ready = intercept(state.partition, fetched.ready)
                finally:
                    self._move(state, fetched)
            if fetched.ready:
                self._current = fetched
                return fetched
            if fetched.is_done:
                self._drop(fetched)
        return None

    def settle(self) -> bool:
        """The position becomes what the one by one reader has seen. Whether a fetch was used up."""
        fetched, self._current = self._current, None
        if fetched is None:
            return False
        if fetched.ready_index >= len(fetched.ready):
            fetched.ready, fetched.ready_index = [], 0
        state = self._subscription.partitions.get(fetched.partition)
        queue = None if state is None else self._valid(state)
        if state is None or not queue or queue[0] is not fetched:
            return False
        self._move(state, fetched)
        if fetched.is_done:
            self._drop(fetched)
            return True
        return False
