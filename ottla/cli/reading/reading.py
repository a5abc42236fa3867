"""The loop of `ottla consume`: poll, choose, write, and know when it is over.

What one poll hands out is written before the next one begins, so that a group never commits what nobody has seen: its
commits are automatic, happen within polls, and cover what earlier polls have handed out. Whatever was handed out but
not written (behind the last record that was wanted, or when the reader of our output has hung up) is given back first.
"""

import contextlib
import re
import signal
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from operator import attrgetter
from types import FrameType
from typing import Any, NamedTuple

from ottla.cli.reading.encoders import Encode, matching
from ottla.cli.reading.output import Output
from ottla.cli.reading.progress import Shows
from ottla.cli.reading.remarks import Remarks
from ottla.cli.reading.stretches import Stretches
from ottla.cli.remote import NOT_FOUND, Failed
from ottla.client import Consumer, RebalanceListener
from ottla.client.errors import CommitFailedError, WakeupError
from ottla.client.records import ConsumerRecord
from ottla.core.errors import KafkaError, RetriableError
from ottla.core.ids import TopicPartition

AT_A_TIME = 1000
_BOUNDED_MS, _FOREVER_MS = 100, 500  # how soon a poll looks up from waiting
_OFFSET = attrgetter("offset")

Found = Mapping[TopicPartition, Sequence[ConsumerRecord]]


class Wish(NamedTuple):
    """Which of the records are written, and how."""

    encode: Encode
    count_max: int | None = None
    pattern: re.Pattern[bytes] | None = None


class Reading(RebalanceListener):
    """One consumer, read to the end of what is wanted. It listens to which partitions it has."""

    def __init__(
        self,
        consumer: Consumer,
        stretches: Stretches,
        wish: Wish,
        output: Output,
        *,
        has_group: bool,
        patience: float,
    ) -> None:
        """`patience` is how many seconds without a record make it look whether there are any to come."""
        self._consumer, self._stretches, self._wish, self._output = consumer, stretches, wish, output
        self._has_group, self._patience = has_group, patience
        self._held: set[TopicPartition] = set()
        self._is_begun = False
        self._done: set[TopicPartition] = set()
        self.count = 0
        """Records that were written."""

    # --- which partitions -------------------------------------------------------------------------------------------

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        """Read exactly these."""
        self._consumer.assign(partitions)
        self.on_partitions_assigned(partitions)

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """Of a group each is begun as said; without one, partitions that came to be later are read from their start."""
        self._held |= set(assigned)
        self._done -= set(assigned)
        if not self._is_begun or self._has_group:
            self._stretches.begin(assigned)
        self._is_begun = True

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        self._held -= set(revoked)

    # --- the loop ---------------------------------------------------------------------------------------------------

    def run(self, progress: Shows, remarks: Remarks) -> None:
        """Raises BrokenPipeError if nobody wants to read it any more, WakeupError after `Consumer.wakeup`."""
        timeout_ms = _BOUNDED_MS if self._stretches.is_bounded else _FOREVER_MS
        heard = time.monotonic()
        while not self._is_over(progress):
            found = self._consumer.poll(timeout_ms, self._at_a_time())
            now = time.monotonic()
            if found:
                heard = now
                remarks.relieve()
                self._print(found)
            else:
                self._output.check()
                if now - heard > self._patience:
                    heard = now
                    with contextlib.suppress(KafkaError):  # it stays as it is, then
                        self._look_again(remarks)
        self._commit()

    def _look_again(self, remarks: Remarks) -> None:
        """Nothing has come for a while: perhaps it never will. What has an end does not wait for a topic that is gone;
        what has none may see it come again."""
        for topic in sorted({each.topic for each in self._held}):
            if self._consumer.partitions_for_topic(topic) is None:
                gone = f"there is no topic {topic!r} any more: somebody has deleted it"
                if self._stretches.is_bounded:
                    raise Failed(gone, NOT_FOUND)
                remarks.note(gone)
        if self._stretches.is_bounded:
            self._stretches.look_again()

    def _commit(self) -> None:
        """Closing would do it too, but nobody would fail who must not."""
        if self._has_group and self._consumer.config.enable_auto_commit:
            with contextlib.suppress(CommitFailedError, RetriableError):  # tried once more by closing
                self._consumer.commit()

    def _at_a_time(self) -> int:
        if self._wish.count_max is None or self._wish.pattern is not None:
            return AT_A_TIME
        return min(AT_A_TIME, self._wish.count_max - self.count)

    def _is_over(self, progress: Shows) -> bool:
        if self._wish.count_max is not None and self.count >= self._wish.count_max:
            return True
        if not self._stretches.is_bounded:
            progress.show(self.count, self._output.size, None)
            return False
        if not self._is_begun:
            return False
        positions = self._consumer.positions()
        done = {place for place in self._held if self._stretches.is_done(place, positions)}
        if new := done - self._done:
            self._consumer.pause(*new)
            self._done |= new
        left = self._stretches.left(self._held, positions)
        progress.show(self.count, self._output.size, left)
        return left == 0

    # --- records ----------------------------------------------------------------------------------------------------

    def _print(self, found: Found) -> None:
        chosen, unread = self._chosen(found)
        try:
            if chosen:
                self._output.write(self._wish.encode(chosen))
        except BaseException:
            self._give_back({place: records[0].offset for place, records in found.items()})
            raise
        self.count += len(chosen)
        self._give_back(unread)

    def _chosen(self, found: Found) -> tuple[list[ConsumerRecord], dict[TopicPartition, int]]:
        """What is to be written, and from where on partitions were not even looked at."""
        chosen: list[ConsumerRecord] = []
        unread: dict[TopicPartition, int] = {}
        count, pattern = self._wish.count_max, self._wish.pattern
        for place, records in found.items():
            stop = self._stretches.stops.get(place)
            if stop is not None and records[-1].offset >= stop:
                cut = bisect_left(records, stop, key=_OFFSET)
                unread[place], records = records[cut].offset, records[:cut]
            hits = records if pattern is None else matching(pattern, records)
            if count is not None and len(hits) > (room := count - self.count - len(chosen)):
                hits = hits[:room]
                unread[place] = hits[-1].offset + 1 if hits else records[0].offset
            chosen += hits
        return chosen, unread

    def _give_back(self, places: Mapping[TopicPartition, int]) -> None:
        """As if they had not been handed out: the group must not commit them."""
        if self._has_group:
            for place, offset in places.items():
                if place in self._held:
                    self._consumer.seek(place, offset)


class Interrupts:
    """Ctrl-C, or being told to end: noted the first time, so that what is begun is finished. The second time raises."""

    def __init__(self, wake: Callable[[], object]) -> None:
        self._wake = wake
        self.is_set = False

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        if self.is_set:
            raise KeyboardInterrupt
        self.is_set = True
        self._wake()

    @contextlib.contextmanager
    def noted(self) -> Iterator[None]:
        """Raises KeyboardInterrupt in the end if there was one."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before: dict[signal.Signals, Any] = {
            number: signal.signal(number, self._note) for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            with contextlib.suppress(WakeupError):
                yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        if self.is_set:
            raise KeyboardInterrupt
