"""Which of the oldest segments may go. Pure: the log does what these say.

Segments go from the oldest on, and the first that must stay protects all behind it. What is not yet below the high
watermark stays. A record whose timestamp lies in the future is not old before its time has come, and passed by
`retention.ms`; it, and whatever was written after it, can go by size or by a new log start meanwhile. Records without a
time are as old as their file.
"""

from ottla.storage.config import TopicConfig
from ottla.storage.scan import BrokenChain
from ottla.storage.segments import Segments

ALL = 2**63 - 1


def expired(
    segments: Segments,
    config: TopicConfig,
    now_ms: int,
    high_watermark: int,
    log_start_offset: int,
    end_offset: int,
    count_max: int = ALL,
) -> int:
    """How many segments, counted from the oldest, are before the start of the log, too many, or too old.

    All of them, if even the active one should go: then an empty one has to take its place. No more than `count_max` are
    looked at, for a log that has thousands. Raises BrokenChain if the oldest segment is damaged.
    """
    settled = _settled(segments, high_watermark, end_offset)
    limit = min(settled, count_max)
    count = min(segments.ending_by(log_start_offset), limit)
    if "delete" not in config.cleanup_policy:
        return count
    count = _by_size(segments, count, limit, config.retention_bytes)
    return _by_time(segments, count, limit, config.retention_ms, now_ms)


def _settled(segments: Segments, high_watermark: int, end_offset: int) -> int:
    """Segments that end at or below the high watermark. An empty one at the end of the log has nothing to lose."""
    count = segments.ending_by(high_watermark)
    is_whole = count == len(segments) - 1 and high_watermark >= end_offset
    return count + (is_whole and segments.active.size > 0)


def _by_size(segments: Segments, count: int, limit: int, retention_bytes: int) -> int:
    """While what would stay is at least as much as is to be kept."""
    if retention_bytes < 0:
        return count
    surplus = segments.size - sum(segments[number].size for number in range(count)) - retention_bytes
    while count < limit and surplus - segments[count].size >= 0:
        surplus -= segments[count].size
        count += 1
    return count


def _by_time(segments: Segments, count: int, limit: int, retention_ms: int, now_ms: int) -> int:
    """How old a damaged segment is cannot be told. What lies before it goes first."""
    if retention_ms < 0:
        return count
    try:
        while count < limit and now_ms - segments[count].newest_ms > retention_ms:
            count += 1
    except BrokenChain:
        if count == 0:
            raise
    return count
