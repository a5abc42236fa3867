"""What of a log can be cleaned, whether it is worth it, and in which pieces. Pure: the broker's cleaner acts on it.

    segment  0     100    200    300    400    500 (active)
             |--clean--|--------dirty---------|
                       ^ first dirty offset   ^ nothing from here on may be touched

A log consists of segments that were cleaned before, segments that were not, and an end that must not be cleaned: the
active segment, whatever lies above the last stable offset, and records younger than `min.compaction.lag.ms`.
"""

from collections.abc import Iterator
from typing import NamedTuple

from ottla.storage.config import TopicConfig
from ottla.storage.log import Log
from ottla.storage.segment import RELATIVE_OFFSET_MAX, Segment

GROUP_MAX = 50
"""Segments that one replaces at once: taking them out of the way is a few renames each."""


class Cleanable(NamedTuple):
    """What a cleaning of a log would be about."""

    first_dirty_offset: int
    end_offset: int
    """Where the first segment starts that may not be touched."""
    clean_bytes: int
    cleanable_bytes: int
    is_overdue: bool
    """Has a record waited for longer than `max.compaction.lag.ms`?"""

    @property
    def ratio(self) -> float:
        """The part that was written since the last cleaning, of all that may be cleaned."""
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0


def cleanable(log: Log, checkpoint: int | None, now_ms: int) -> Cleanable:
    """`checkpoint` is where the last cleaning ended; None if there was none, or it is not known."""
    first_dirty = log.log_start_offset if checkpoint is None else max(checkpoint, log.log_start_offset)
    end = _end(log, first_dirty, now_ms)
    clean = dirty = 0
    for segment in log.segments:
        if segment.base_offset >= end:
            break
        if segment.base_offset < first_dirty:
            clean += segment.size
        if log.segments.end_of(segment, log.end_offset) > first_dirty:  # half of one is both, as in Kafka
            dirty += segment.size
    return Cleanable(min(first_dirty, end), end, clean, dirty, _is_overdue(log, first_dirty, end, now_ms))


def is_due(found: Cleanable, config: TopicConfig) -> bool:
    if found.is_overdue and found.cleanable_bytes > 0:
        return True
    return found.ratio > config.min_cleanable_dirty_ratio


def wants_roll(log: Log, now_ms: int) -> bool:
    """Does the active segment hold records that have waited for too long? Only a closed one can be cleaned."""
    lag_ms = log.config.max_compaction_lag_ms
    active = log.segments.active
    return active.size > 0 and 0 <= active.first_timestamp < now_ms - lag_ms


def groups(segments: list[Segment], end_offset: int, config: TopicConfig) -> Iterator[list[Segment]]:
    """Neighbours that together fit one segment, so that what was cleaned small becomes few files again. The last of
    them ends at `end_offset`."""
    group: list[Segment] = []
    size = index_size = 0
    ends = [*(segment.base_offset for segment in segments[1:]), end_offset]
    for segment, end in zip(segments, ends, strict=False):  # of no segments there is still an end
        entries = segment.size // max(1, config.index_interval_bytes) * 12
        is_full = group and (
            size + segment.size > config.segment_bytes
            or index_size + entries > config.segment_index_bytes
            or end - 1 - group[0].base_offset > RELATIVE_OFFSET_MAX
            or len(group) >= GROUP_MAX
        )
        if is_full:
            yield group
            group, size, index_size = [], 0, 0
        group.append(segment)
        size += segment.size
        index_size += entries
    if group:
        yield group


def _end(log: Log, first_dirty: int, now_ms: int) -> int:
    """Whole segments only: where the one starts that holds the first record which may not be touched."""
    limit = min(log.last_stable_offset, log.segments.active.base_offset)
    lag_ms = log.config.min_compaction_lag_ms
    for segment in log.segments.from_offset(first_dirty):
        if segment is log.segments.active:
            break
        if log.segments.end_of(segment, log.end_offset) > limit:
            return segment.base_offset
        if lag_ms > 0 and segment.newest_ms > now_ms - lag_ms:
            return segment.base_offset
    return log.segments.active.base_offset


def _is_overdue(log: Log, first_dirty: int, end: int, now_ms: int) -> bool:
    until = now_ms - log.config.max_compaction_lag_ms
    if until <= 0:  # most logs: there is no such limit
        return False
    for segment in log.segments.from_offset(first_dirty):
        if segment.base_offset >= end:
            break
        if 0 < segment.first_timestamp < until:
            return True
    return False
