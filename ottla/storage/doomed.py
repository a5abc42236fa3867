"""Segments that were deleted, and whose files wait for `file.delete.delay.ms`: somebody may still be reading them."""

from collections import deque
from collections.abc import Iterator

from ottla.storage.segment import Segment


class Doomed:
    """What waits, and since when. The clock may be any, as long as it is always the same one."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, Segment]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[Segment]:
        return (segment for _, segment in self._waiting)

    def add(self, segment: Segment, now_ms: int) -> None:
        self._waiting.append((now_ms, segment))

    def take(self, now_ms: int, delay_ms: int) -> list[Segment]:
        """Those that have waited for `delay_ms`, as it is set now; they are the caller's to remove."""
        if self._waiting and self._waiting[0][0] > now_ms:
            # A clock that went back must not let anybody wait for longer than the delay.
            self._waiting = deque((min(since, now_ms), segment) for since, segment in self._waiting)
        taken = []
        while self._waiting and now_ms - self._waiting[0][0] >= delay_ms:
            taken.append(self._waiting.popleft()[1])
        return taken

    def wait_ms(self, now_ms: int, delay_ms: int) -> int | None:
        """How long until the first has waited for `delay_ms`; None if there is none."""
        if not self._waiting:
            return None
        return max(0, self._waiting[0][0] + delay_ms - now_ms)
