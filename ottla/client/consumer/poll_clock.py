"""Whether the application still polls: who does not within `max_poll_interval_ms` leaves its place to others.

An application may also wait within one long poll. So at half time whoever waits there is asked to look at its group,
which counts as a poll; an application that works on records does not notice. Time is an argument, in milliseconds.
"""


class PollClock:
    """Of one member."""

    __slots__ = ("_interval_ms", "_is_nudged", "_polled_ms")

    def __init__(self, interval_ms: float, now_ms: float) -> None:
        self._interval_ms = interval_ms
        self._polled_ms = now_ms
        self._is_nudged = False

    def polled(self, now_ms: float) -> None:
        self._polled_ms, self._is_nudged = now_ms, False

    def is_overdue(self, now_ms: float) -> bool:
        return now_ms >= self._polled_ms + self._interval_ms

    def nudges(self, now_ms: float) -> bool:
        """Whether it is time to ask who waits in a poll to look; true once for each poll."""
        if self._is_nudged or now_ms < self._polled_ms + self._interval_ms / 2:
            return False
        self._is_nudged = True
        return True

    def next_ms(self, now_ms: float) -> float:
        """How long until one of the two may have changed."""
        at_ms = self._polled_ms + self._interval_ms / (1 if self._is_nudged else 2)
        return max(0.0, at_ms - now_ms)
