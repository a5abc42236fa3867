"""Which messages are known: claimed by somebody who works on them, or done. And a store of that in memory.

A claim comes before the work, `confirm` after it, `release` if it failed. A claim that is neither confirmed nor
released (its owner has crashed) lapses after a while, or with its store: then the message is claimed again, so none is
lost.
"""

import enum
import threading
import time
from collections import OrderedDict
from typing import Any, Protocol

from ottla.core.errors import ConfigError

_MS = 1000


class Claim(enum.Enum):
    """What a store says to somebody who wants to work on a message."""

    OURS = "work on it, then confirm or release it"
    BUSY = "somebody is at it, or was when it crashed: ask again later"
    DONE = "it was done before"


class ClaimStore(Protocol):
    """Where that is kept. Stores of an AsyncDeduplicator may return coroutines."""

    def claim(self, message_id: str) -> Any:
        """A `Claim`."""

    def confirm(self, message_id: str) -> Any:
        """The work is done."""

    def release(self, message_id: str) -> Any:
        """The work has failed: let others try."""


class MemoryStore:
    """Knows what this process has done, within a window; for duplicates that come close together. For any thread.

    A restart forgets everything, so what a crash makes be read again is not recognised.
    """

    def __init__(self, count_max: int = 100_000, window_ms: float | None = None) -> None:
        """Remembers the last `count_max` messages, and those no longer than `window_ms`."""
        if count_max < 1:
            raise ConfigError(f"a window of {count_max} messages recognises none")
        self._count_max, self._window = count_max, None if window_ms is None else window_ms / _MS
        self._lock = threading.Lock()
        self._claimed: set[str] = set()
        self._done: OrderedDict[str, float] = OrderedDict()

    def claim(self, message_id: str) -> Claim:
        with self._lock:
            self._forget_old()
            if message_id in self._done:
                return Claim.DONE
            if message_id in self._claimed:
                return Claim.BUSY
            self._claimed.add(message_id)
            return Claim.OURS

    def confirm(self, message_id: str) -> None:
        with self._lock:
            self._claimed.discard(message_id)
            self._done[message_id] = time.monotonic()
            self._done.move_to_end(message_id)
            self._forget_old()

    def release(self, message_id: str) -> None:
        with self._lock:
            self._claimed.discard(message_id)

    def _forget_old(self) -> None:
        oldest = None if self._window is None else time.monotonic() - self._window
        while self._done:
            moment = next(iter(self._done.values()))
            if len(self._done) <= self._count_max and (oldest is None or moment > oldest):
                return
            self._done.popitem(last=False)
