"""How far a measurement is: a bar on stderr if that is a terminal, nothing elsewhere.

It is told often and looks at the clock first: drawing must not be what is measured.
"""

import os
import sys
import time
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_REDRAW_SECONDS = 0.1


class Bar:
    """`begin` a part of the work, say how far it `is_at`, and `close` it in the end."""

    def __init__(self, *, is_quiet: bool = False, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._is_shown = self._stream.isatty() and not is_quiet and not os.environ.get("NO_COLOR")
        self._drawn: tuple[Progress, TaskID] | None = None
        self._due = 0.0

    def begin(self, label: str, total: int) -> None:
        """What was shown before is over."""
        self.close()
        if self._is_shown:
            self._drawn = _bar(self._stream, label, total)
            self._due = 0.0

    def is_at(self, done: int) -> None:
        if self._drawn is None or time.monotonic() < self._due:
            return
        self._due = time.monotonic() + _REDRAW_SECONDS
        progress, task = self._drawn
        progress.update(task, completed=done, refresh=True)

    def close(self) -> None:
        if self._drawn is not None:
            self._drawn[0].stop()
        self._drawn = None


def _bar(stream: TextIO, label: str, total: int) -> "tuple[Progress, TaskID]":
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(file=stream),
        transient=True,
        auto_refresh=False,  # a thread that draws would take its time from what is measured
    )
    task = progress.add_task(label, total=total)
    progress.start()
    return progress, task
