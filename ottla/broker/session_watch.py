"""Whether others may have taken our place: judged by our own clock, while the metadata store does not answer.

A broker whose session is over leads nothing any more, but it may not know. As long as its session is only interrupted
it goes on. Once that lasts as long as a session does, another leader may have been elected, and what is written here
without asking followers would be lost.
"""

from collections.abc import Callable

from ottla.core.clock import Clock
from ottla.metadata.store import SessionState


class SessionWatch:
    """Tell it what becomes of the session. `timeout_ms` says how long one lasts without a word."""

    def __init__(self, clock: Clock, timeout_ms: Callable[[], int]) -> None:
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._silent_since_ms: int | None = None
        self._is_over = False

    def follow(self, state: SessionState) -> None:
        self._is_over = state is SessionState.LOST
        if state is SessionState.CONNECTED:
            self._silent_since_ms = None
        elif self._silent_since_ms is None:
            self._silent_since_ms = self._clock.monotonic_ms()

    def registered(self, broker_epoch: int) -> None:
        """A new session has begun, in another life."""
        self.follow(SessionState.CONNECTED)

    def may_lead(self) -> bool:
        """False if the session is over, or may be."""
        since = self._silent_since_ms
        if since is None:
            return True
        return not self._is_over and self._clock.monotonic_ms() - since < self._timeout_ms()
