"""What the cleaner remembers of each log: what was asked for, how the last cleaning went, when to try again."""

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from ottla.storage.cleaning.job import Stats
from ottla.storage.cleaning.plan import Cleanable
from ottla.storage.log import Log

State = Literal["idle", "waiting", "mapping", "copying", "paused", "uncleanable"]

RETRY_MS_MIN = 15_000
RETRY_MS_MAX = 3_600_000
"""What is damaged, or does not fit, stays so until somebody does something."""
CHANGES_MAX = 3
"""So often a log may change under the hands of its worker before it is given a rest."""
FULL_RETRY_MS_MAX = 300_000
"""A disk that was full may have room again."""


class CleaningStatus(NamedTuple):
    """How it stands with one log."""

    state: State
    done_bytes: int
    total_bytes: int
    """Of the cleaning that is under way: each byte counts twice, as it is read for the map and then copied."""
    first_dirty_offset: int
    end_offset: int
    """Up to where it could be cleaned now."""
    dirty_ratio: float
    runs: int
    """Cleanings that ended well since the broker started."""
    last_error: str | None
    last_run_ms: int
    """When the last one ended well, by the clock on the wall; -1 if none has."""
    bytes_before: int
    bytes_after: int
    records_before: int
    records_after: int


class Failure(NamedTuple):
    """Why the last cleaning of a log did not end well."""

    reason: str
    is_full: bool
    circumstances: tuple[Any, ...]
    tries: int
    again_ms: int
    """When to try again, by the monotonic clock, if the circumstances stay as they are."""


@dataclass
class LogState:
    """One log, as the cleaner knows it."""

    log: Log
    requested_to: int | None = None
    """Somebody asked for it to be cleaned up to here."""
    pauses: int = 0
    failure: Failure | None = None
    changes: int = 0
    """Cleanings in a row that became pointless on their way."""
    rolled_ms: int | None = None
    """When its active segment was last closed for `max.compaction.lag.ms`, by the monotonic clock."""
    runs: int = 0
    last_run_ms: int = -1
    last: Stats = field(default_factory=Stats)
    _reported: str | None = None

    def is_wanted(self, found: Cleanable) -> bool:
        """Did somebody ask for it, and is there anything left to do for it?"""
        if self.requested_to is None:
            return False
        if found.cleanable_bytes == 0 or found.first_dirty_offset >= self.requested_to:
            self.requested_to = None
        return self.requested_to is not None

    def may_roll(self, now_ms: int) -> bool:
        """Can a record of the active segment have waited for that long? If they come with old timestamps, all of them
        seem to, and every handful would be a segment, and a compaction, of its own."""
        return self.rolled_ms is None or now_ms - self.rolled_ms >= self.log.config.max_compaction_lag_ms

    def may_try(self, circumstances: tuple[Any, ...], now_ms: int) -> bool:
        """After a failure: not before a while, unless something has changed."""
        failure = self.failure
        return failure is None or failure.circumstances != circumstances or now_ms >= failure.again_ms

    def failed(self, reason: str, *, is_full: bool, circumstances: tuple[Any, ...], now_ms: int) -> bool:
        """Remember it. True if nobody was told yet."""
        last = self.failure
        tries = last.tries + 1 if last and last.circumstances == circumstances else 1
        pause_ms = min(RETRY_MS_MIN << min(tries - 1, 20), FULL_RETRY_MS_MAX if is_full else RETRY_MS_MAX)
        self.failure = Failure(reason, is_full, circumstances, tries, now_ms + pause_ms)
        self.requested_to = None
        told, self._reported = self._reported, "full" if is_full else reason
        return told != self._reported

    def succeeded(self, stats: Stats, wall_ms: int) -> None:
        self.failure = self._reported = None
        self.changes = 0
        self.runs += 1
        self.last_run_ms = wall_ms
        self.last = stats

    def status(
        self, state: State, found: Cleanable, *, done_bytes: int = 0, total_bytes: int = 0
    ) -> CleaningStatus:
        return CleaningStatus(
            state,
            done_bytes,
            total_bytes,
            found.first_dirty_offset,
            found.end_offset,
            found.ratio,
            self.runs,
            self.failure.reason if self.failure else None,
            self.last_run_ms,
            self.last.bytes_read,
            self.last.bytes_kept,
            self.last.records_read,
            self.last.records_kept,
        )
