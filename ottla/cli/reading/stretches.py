"""What is read of each partition: from which offset, and up to which.

What one says of all partitions ("the last ten", "since an hour ago") becomes offsets when a partition is begun. A group
goes on where it has committed; what it has not, is begun as said. Nothing that has an end waits for records to come: it
ends where the log ended when it began; for who reads committed records, before the first transaction that is open.
"""

from collections.abc import Collection, Mapping

from ottla.cli.targets import END, START, Bounds, Span, Target
from ottla.client import Consumer
from ottla.core.ids import TopicPartition


class Stretches:
    """Of one consumer. What has an end is over where the logs end, at the latest; with `ends`, everything has one."""

    def __init__(self, consumer: Consumer, span: Span, *, ends: bool, has_group: bool) -> None:
        self._consumer, self._span = consumer, span
        self._ends, self._has_group = ends, has_group
        self.stops: dict[TopicPartition, int] = {}
        """Where each is done. Empty if that is never."""

    @property
    def is_bounded(self) -> bool:
        return self._ends or self.has_stop

    @property
    def has_stop(self) -> bool:
        """Whether it was said where to end: that may be before the end of a log."""
        return self._span.stop is not None

    def begin(self, partitions: Collection[TopicPartition]) -> None:
        """Go to where these are to be read from, and note where they are done. Asks brokers."""
        start, stop = self._span
        if not partitions or (start.end == START and not self.is_bounded):
            return  # the consumer begins there by itself
        logs = self._bounds(partitions)
        fresh = self._uncommitted(partitions)
        for place, offset in self._offsets(start, {each: logs[each] for each in fresh}).items():
            self._consumer.seek(place, min(max(offset, logs[place].start), logs[place].end))
        if self.is_bounded:
            found = self._offsets(stop or Target(end=END), logs)
            limited = {place: min(offset, logs[place].end) for place, offset in found.items()}
            self.stops = {**limited, **self.stops}

    def look_again(self) -> None:
        """Nothing has come for a while: perhaps a log became shorter, and what is waited for will never come."""
        for place, log in self._bounds(self.stops).items():
            self.stops[place] = min(self.stops[place], log.end)

    def left(self, held: Collection[TopicPartition], positions: Mapping[TopicPartition, int]) -> int:
        """How many offsets are still to be read of those that are held."""
        return sum(
            max(1, self.stops[place] - positions.get(place, self.stops[place] - 1))
            for place in held
            if place in self.stops and not self.is_done(place, positions)
        )

    def is_done(self, place: TopicPartition, positions: Mapping[TopicPartition, int]) -> bool:
        return place in self.stops and positions.get(place, -1) >= self.stops[place]

    # --- asking ---------------------------------------------------------------------------------------------------

    def _uncommitted(self, partitions: Collection[TopicPartition]) -> list[TopicPartition]:
        if not self._has_group:
            return list(partitions)
        return [place for place, at in self._consumer.committed_many(partitions).items() if at is None]

    def _bounds(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Bounds]:
        starts = self._consumer.beginning_offsets(partitions)
        ends = self._consumer.end_offsets(partitions)
        return {place: Bounds(starts[place], max(starts[place], ends[place])) for place in partitions}

    def _offsets(self, target: Target, logs: Mapping[TopicPartition, Bounds]) -> dict[TopicPartition, int]:
        if target.offset is not None:
            return dict.fromkeys(logs, target.offset)
        if target.before_end is not None:
            return {place: max(log.start, log.end - target.before_end) for place, log in logs.items()}
        if target.time_ms is None:
            return {place: log.start if target.end == START else log.end for place, log in logs.items()}
        found = self._consumer.offsets_for_times(dict.fromkeys(logs, target.time_ms))
        return {
            place: logs[place].end if at is None or at.offset < 0 else at.offset
            for place, at in found.items()
        }
