"""Time comes in by the door: hosts hold a `Clock`, brains are handed `now_ms`.

Wall time is for what people and other machines see (record timestamps, retention); it may jump either way.
Monotonic time is for how long something takes (timeouts, sessions); it never goes back, its zero is any.
"""

import time
from typing import NamedTuple, Protocol


class Moment(NamedTuple):
    """Now, by both clocks: for brains that write timestamps and set timers at the same time."""

    wall_ms: int
    monotonic_ms: int


class Clock(Protocol):
    """Where a host reads the time."""

    def now_ms(self) -> int:
        """Milliseconds since 1970, as far as this machine knows."""

    def monotonic_ms(self) -> int:
        """Milliseconds since some fixed moment; never goes back."""


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000


class ManualClock:
    """A clock that moves only when told to: for tests and simulation."""

    def __init__(self, now_ms: int = 1_700_000_000_000, monotonic_ms: int = 0) -> None:
        self._now_ms = now_ms
        self._monotonic_ms = monotonic_ms

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_ms(self) -> int:
        return self._monotonic_ms

    def advance(self, by_ms: int) -> None:
        """Let time pass."""
        assert by_ms >= 0, "time does not run backwards"
        self._now_ms += by_ms
        self._monotonic_ms += by_ms

    def step_wall(self, by_ms: int) -> None:
        """Set the wall clock forward or back, as an administrator or NTP does; no time passes."""
        self._now_ms += by_ms
