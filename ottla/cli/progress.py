"""How far a long recovery has come: a bar on a terminal, a line every few seconds elsewhere, nothing if it is quick."""

import sys
import threading
import time
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

PATIENCE_SECONDS = 1.0
LINE_SECONDS = 5.0


class RecoveryProgress:
    """Call it with (done, total), from any thread, as often as you like."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._started = time.monotonic()
        self._line_due = self._started + PATIENCE_SECONDS
        self._bar: tuple[Progress, TaskID] | None = None
        self._lock = threading.Lock()

    def __call__(self, done: int, total: int) -> None:
        with self._lock:
            if self._bar is not None:
                progress, task = self._bar
                progress.update(task, completed=done, total=total)
            elif time.monotonic() >= self._line_due and done < total:
                self._show(done, total)

    def close(self) -> None:
        """It is over, however it ended."""
        with self._lock:
            if self._bar is not None:
                self._bar[0].stop()
            self._bar = None
            self._line_due = float("inf")

    def _show(self, done: int, total: int) -> None:
        if self._stream.isatty():
            self._bar = _bar(self._stream, done, total)
        else:
            self._line_due = time.monotonic() + LINE_SECONDS
            print(f"recovering logs: {done} of {total}", file=self._stream, flush=True)


def _bar(stream: TextIO, done: int, total: int) -> "tuple[Progress, TaskID]":
    from rich.console import Console  # a tenth of a second, that most starts do not need
    from rich.progress import Progress

    progress = Progress(console=Console(file=stream), transient=True)
    task = progress.add_task("recovering logs", completed=done, total=total)
    progress.start()
    return progress, task
