"""Up to where everything of a partition is done, when its records are done out of order.

`watermark` is what may be committed: every record below it is done, and the one at it is not (or was not seen yet).
Records that are done beyond it wait for those before them; after a crash they are done again.
"""

from collections import deque


class OffsetTracker:
    """Of one partition. Offsets start in growing order, with gaps where the log has some, and finish in any."""

    __slots__ = ("_finished", "_started", "watermark")

    def __init__(self) -> None:
        self._started: deque[int] = deque()
        """From the first one that is not done on, also those that are."""
        self._finished: set[int] = set()
        """Those of them that are done."""
        self.watermark: int | None = None
        """None until something has started."""

    def start(self, offset: int) -> None:
        assert not self._started or offset > self._started[-1], (
            "records are handed out in the order of the log"
        )
        if not self._started:
            # Nothing is under way: whatever lies between the last record and this one is a gap.
            self.watermark = offset
        self._started.append(offset)

    def finish(self, offset: int) -> None:
        """The record is done. It has started, and is finished once."""
        self._finished.add(offset)
        while self._started and self._started[0] in self._finished:
            first = self._started.popleft()
            self._finished.remove(first)
            self.watermark = self._started[0] if self._started else first + 1

    @property
    def unfinished_count(self) -> int:
        return len(self._started) - len(self._finished)

    @property
    def kept_count(self) -> int:
        """Records that would be read again after a crash now: those that are not done, and those done beyond them."""
        return len(self._started)
