"""How far a reader is: a line on stderr that is written over, where stderr is a terminal and stdout is not."""

import os
import sys
import time
from typing import Protocol

_STEP_SECONDS = 0.2
_MB = 1_000_000
_CLEAR = "\r\x1b[K"


class Shows(Protocol):
    """Is told after every poll how far it is."""

    def show(self, count: int, size: int, left: int | None) -> None: ...


class ReadProgress:
    """Call `show` as often as you like. `total` is the number of offsets to come, None if that has no end."""

    def __init__(self, *, is_quiet: bool) -> None:
        is_seen = sys.stderr.isatty() and not sys.stdout.isatty()
        self._is_shown = is_seen and not is_quiet and not os.environ.get("NO_COLOR")
        self._started = time.monotonic()
        self._due = self._started + _STEP_SECONDS
        self._is_there = False

    def show(self, count: int, size: int, left: int | None) -> None:
        """So many records were written, in so many bytes; so many offsets are left."""
        now = time.monotonic()
        if not self._is_shown or now < self._due:
            return
        self._due = now + _STEP_SECONDS
        rate = size / _MB / max(now - self._started, 1e-3)
        rest = "" if left is None else f", {left} to go"
        sys.stderr.write(f"{_CLEAR}{count} records{rest}, {size / _MB:.1f} MB, {rate:.1f} MB/s")
        sys.stderr.flush()
        self._is_there = True

    def close(self) -> None:
        if self._is_there:
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()
            self._is_there = False
