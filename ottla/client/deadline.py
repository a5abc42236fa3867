"""Until when something may take, and how long to wait before it is tried again."""

import asyncio
import math
import random

_MS = 1000
_JITTER = 0.2  # of each pause, either way: clients that failed together do not come back together


class Deadline:
    """A moment on the loop's clock. -1 ms is never."""

    __slots__ = ("_at", "_loop", "timeout_ms")

    def __init__(self, timeout_ms: float) -> None:
        self._loop = asyncio.get_running_loop()
        self.timeout_ms = timeout_ms
        self._at = math.inf if timeout_ms < 0 else self._loop.time() + timeout_ms / _MS

    @property
    def is_over(self) -> bool:
        return self._loop.time() >= self._at

    def left_ms(self, at_most: float = math.inf) -> float:
        """How long there is still, but at most so much."""
        return max(0.0, min((self._at - self._loop.time()) * _MS, at_most))

    def left_seconds(self) -> float | None:
        """The same for `asyncio.wait_for`: None is for ever."""
        return None if self._at == math.inf else max(0.0, self._at - self._loop.time())

    def __str__(self) -> str:
        return f"{self.timeout_ms:.0f} ms"


def backoff_ms(first_ms: float, max_ms: float, failures: int) -> float:
    """The pause after so many failures before this one: twice the last one, up to a limit, and a little by chance."""
    return min(first_ms * 2.0 ** min(failures, 30), max(first_ms, max_ms)) * random.uniform(
        1 - _JITTER, 1 + _JITTER
    )


class Backoff:
    """Pauses that grow with every failure in a row."""

    __slots__ = ("_failures", "_first_ms", "_max_ms")

    def __init__(self, first_ms: float, max_ms: float) -> None:
        self._first_ms, self._max_ms = first_ms, max(first_ms, max_ms)
        self._failures = 0

    def next_ms(self) -> float:
        self._failures += 1
        return backoff_ms(self._first_ms, self._max_ms, self._failures - 1)

    @property
    def is_fresh(self) -> bool:
        """Nothing has failed since the last success: the one that is worth a line in the log."""
        return self._failures == 0

    def reset(self) -> None:
        self._failures = 0

    async def pause(self, deadline: Deadline) -> None:
        """Wait, but not beyond the deadline."""
        await asyncio.sleep(deadline.left_ms(self.next_ms()) / _MS)
