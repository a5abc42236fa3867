"""Which of the oldest segments may go. Pure: the log does what these say.

The newest segment is never among them, nor is anything that is not yet below the high watermark.
"""

from ottla.storage.config import TopicConfig
from ottla.storage.segments import Segments


def expired(
    segments: Segments,
    config: TopicConfig,
    now_ms: int,
    high_watermark: int,
    log_start_offset: int,
) -> int:
    """How many segments, counted from the oldest, are too old, too many, or before the start of the log."""
    settled = _settled(segments, high_watermark)
    outdated = _before_start(segments, settled, log_start_offset)
    if "delete" not in config.cleanup_policy:
        return outdated
    by_time = _by_time(segments, settled, config.retention_ms, now_ms)
    by_size = _by_size(segments, settled, config.retention_bytes)
    return max(outdated, by_time, by_size)


def is_active_expired(segments: Segments, config: TopicConfig, now_ms: int) -> bool:
    """Is even the newest segment too old, so that an empty one should take its place?"""
    active = segments.active
    if active.size == 0 or config.retention_ms < 0 or "delete" not in config.cleanup_policy:
        return False
    return now_ms - active.newest_ms > config.retention_ms


def _settled(segments: Segments, high_watermark: int) -> int:
    """Segments that end at or below the high watermark, without the active one."""
    count = 0
    for following in list(segments)[1:]:
        if following.base_offset > high_watermark:
            break
        count += 1
    return count


def _before_start(segments: Segments, settled: int, log_start_offset: int) -> int:
    count = 0
    while count < settled and segments[count + 1].base_offset <= log_start_offset:
        count += 1
    return count


def _by_time(segments: Segments, settled: int, retention_ms: int, now_ms: int) -> int:
    count = 0
    if retention_ms >= 0:
        while count < settled and now_ms - segments[count].newest_ms > retention_ms:
            count += 1
    return count


def _by_size(segments: Segments, settled: int, retention_bytes: int) -> int:
    count = 0
    if retention_bytes >= 0:
        surplus = segments.size - retention_bytes
        while count < settled and surplus - segments[count].size >= 0:
            surplus -= segments[count].size
            count += 1
    return count
