"""Segments that were deleted, and whose files wait for `file.delete.delay.ms`: somebody may still be reading them."""

from collections.abc import Iterator

from ottla.storage.segment import Segment


class Doomed:
    """What waits, and since when. The clock may be any, as long as it is always the same one."""

    def __init__(self) -> None:
        self._waiting: list[tuple[int, Segment]] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[Segment]:
        return (segment for _, segment in self._waiting)

    def add(self, segment: Segment, now_ms: int) -> None:
        self._waiting.append((now_ms, segment))

    def take(self, now_ms: int, delay_ms: int) -> list[Segment]:
        """Those that have waited for `delay_ms`, as it is set now; they are the caller's to remove."""
        taken = [segment for since, segment in self._waiting if now_ms - since >= delay_ms]
        # A clock that went back must not let the others wait for longer than the delay.
        self._waiting = [(min(s, now_ms), segment) for s, segment in self._waiting if now_ms - s < delay_ms]
        return taken

    def wait_ms(self, now_ms: int, delay_ms: int) -> int | None:
        """How long until the first has waited for `delay_ms`; None if there is none."""
        if not self._waiting:
            return None
        return max(0, min(since for since, _ in self._waiting) + delay_ms - now_ms)
