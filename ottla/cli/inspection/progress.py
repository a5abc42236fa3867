"""How far an inspection has come: a bar on a terminal, if it takes longer than a moment; nothing elsewhere."""

import os
import sys
import time
from typing import TYPE_CHECKING, TextIO

from ottla.cli.session import session
from ottla.storage.segment import LOG_SUFFIX

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

PATIENCE_SECONDS = 0.5


class Bar:
    """Call it with the bytes that were just looked at."""

    def __init__(self, label: str, total: int, stream: TextIO | None = None) -> None:
        self._label, self._total = label, total
        self._stream = stream or sys.stderr
        is_shown = self._stream.isatty() and not session().is_quiet
        self._due = time.monotonic() + PATIENCE_SECONDS if is_shown else float("inf")
        self._done = self._shown = 0
        self._bar: tuple[Progress, TaskID] | None = None

    def __call__(self, count: int) -> None:
        self._done += count
        if self._done - self._shown < self._total // 1000:
            return
        self._shown = self._done
        if self._bar is not None:
            self._bar[0].update(self._bar[1], completed=self._done)
        elif time.monotonic() >= self._due:
            self._bar = _bar(self._stream, self._label, self._done, self._total)

    def pause(self) -> None:
        """Out of the way of a line that is to be printed; it comes back by itself."""
        if self._bar is not None:
            self._bar[0].stop()
            self._bar = None

    def close(self) -> None:
        self.pause()
        self._due = float("inf")


def _bar(stream: TextIO, label: str, done: int, total: int) -> "tuple[Progress, TaskID]":
    from rich.console import Console  # a tenth of a second, that most runs do not need
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn()
    progress = Progress(*columns, console=Console(file=stream), transient=True)
    task = progress.add_task(label, completed=done, total=total)
    progress.start()
    return progress, task


def bytes_below(directory: str) -> int:
    """The size of all segments in a directory and in those right below it, as far as that can be told."""
    total = 0
    for where in [directory, *_directories(directory)]:
        try:
            with os.scandir(where) as found:
                total += sum(e.stat().st_size for e in found if e.name.endswith(LOG_SUFFIX) and e.is_file())
        except OSError:
            continue
    return total


def _directories(directory: str) -> list[str]:
    try:
        with os.scandir(directory) as found:
            return [entry.path for entry in found if entry.is_dir()]
    except OSError:
        return []
