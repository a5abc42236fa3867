"""Records that were read and are not done: who is next, and what may be committed.

Records of one lane (a key of a partition, unless the application says otherwise) are handed out one at a time, in the
order of the log. Those of different lanes are independent. Every method may be called from any thread.
"""

import threading
from collections import deque
from collections.abc import Callable, Collection, Hashable, Sequence
from typing import NamedTuple

from ottla.client.helpers.offset_tracker import OffsetTracker
from ottla.client.records import ConsumerRecord
from ottla.core.ids import TopicPartition

KeyOf = Callable[[ConsumerRecord], Hashable]
Lane = tuple[TopicPartition, Hashable]


class Item(NamedTuple):
    """A record that somebody works on."""

    record: ConsumerRecord
    lane: Lane
    tracker: OffsetTracker
    """Of the partition as it was assigned then: what finishes after it has moved counts for nothing."""


class Backlog:
    """Of one consumer."""

    def __init__(self, key_of: KeyOf) -> None:
        """Records for which `key_of` says None have no order."""
        self._key_of = key_of
        self._lock = threading.Lock()
        self._trackers: dict[TopicPartition, OffsetTracker] = {}
        self._lanes: dict[Lane, deque[Item]] = {}
        """Lanes that wait or are worked on, with what waits in them."""
        self._ready: deque[Lane] = deque()
        """Lanes that have something to do, and nobody to do it."""
        self._running: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}
        self.done_count = 0

    def add(self, partition: TopicPartition, records: Sequence[ConsumerRecord]) -> None:
        """Records of one partition, behind those that were added before."""
        with self._lock:
            tracker = self._trackers.setdefault(partition, OffsetTracker())
            for record in records:
                key = self._key_of(record)
                lane: Lane = (partition, object() if key is None else key)
                item = Item(record, lane, tracker)
                tracker.start(record.offset)
                if lane in self._lanes:
                    self._lanes[lane].append(item)
                else:
                    self._lanes[lane] = deque([item])
                    self._ready.append(lane)

    def skip(self, partition: TopicPartition, offset: int) -> None:
        """A record that nobody needs to work on: it counts as done."""
        with self._lock:
            tracker = self._trackers.setdefault(partition, OffsetTracker())
            tracker.start(offset)
            tracker.finish(offset)
            self.done_count += 1

    # --- for those who work -----------------------------------------------------------------------------------------

    def take(self) -> Item | None:
        """A record to work on, if there is one. `finish` or `abandon` it."""
        with self._lock:
            if not self._ready:
                return None
            lane = self._ready.popleft()
            item = self._lanes[lane].popleft()
            self._running[lane[0]] = self._running.get(lane[0], 0) + 1
            return item

    def finish(self, item: Item) -> None:
        """It is done: the next one of its lane may be taken."""
        with self._lock:
            if not self.is_current(item):
                return
            self._running[item.lane[0]] -= 1
            item.tracker.finish(item.record.offset)
            self.done_count += 1
            if self._lanes[item.lane]:
                self._ready.append(item.lane)
            else:
                del self._lanes[item.lane]

    def abandon(self, item: Item) -> None:
        """It is not done, and nobody works on it: its lane ends here, and the watermark stays below it."""
        with self._lock:
            if self.is_current(item):
                self._running[item.lane[0]] -= 1

    def is_current(self, item: Item) -> bool:
        """Whether its partition is still ours, as it was."""
        return self._trackers.get(item.lane[0]) is item.tracker

    # --- for the one who reads --------------------------------------------------------------------------------------

    @property
    def unfinished_count(self) -> int:
        with self._lock:
            return sum(each.unfinished_count for each in self._trackers.values())

    def kept_count(self, partition: TopicPartition) -> int:
        """Records of a partition that would be read again after a crash now."""
        with self._lock:
            tracker = self._trackers.get(partition)
            return 0 if tracker is None else tracker.kept_count

    def running_count(self, partitions: Collection[TopicPartition] | None = None) -> int:
        """Records that somebody works on right now, of these partitions or of all."""
        with self._lock:
            wanted = self._running if partitions is None else partitions
            return sum(self._running.get(each, 0) for each in wanted)

    def commits(self, partitions: Collection[TopicPartition] | None = None) -> dict[TopicPartition, int]:
        """The watermarks that have moved since `committed` was told of them."""
        marks = self.watermarks()
        with self._lock:
            return {
                key: mark
                for key, mark in marks.items()
                if (partitions is None or key in partitions) and self._committed.get(key, -1) < mark
            }

    def committed(self, offsets: dict[TopicPartition, int]) -> None:
        with self._lock:
            self._committed |= {key: offset for key, offset in offsets.items() if key in self._trackers}

    def drop_waiting(self, partitions: Collection[TopicPartition] | None = None) -> None:
        """Nobody will work on what waits, of these partitions or of all; what is being worked on may finish."""
        with self._lock:
            self._ready = deque(
                each for each in self._ready if partitions is not None and each[0] not in partitions
            )
            for lane, items in list(self._lanes.items()):
                if partitions is None or lane[0] in partitions:
                    items.clear()

    def watermarks(self) -> dict[TopicPartition, int]:
        """Where each partition would have to be read on from."""
        with self._lock:
            marks = {key: each.watermark for key, each in self._trackers.items()}
            return {key: mark for key, mark in marks.items() if mark is not None}

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """They are not ours any more: whatever of them is still being worked on counts for nothing."""
        with self._lock:
            self._ready = deque(each for each in self._ready if each[0] not in partitions)
            self._lanes = {lane: items for lane, items in self._lanes.items() if lane[0] not in partitions}
            for partition in partitions:
                for table in (self._trackers, self._running, self._committed):
                    table.pop(partition, None)
