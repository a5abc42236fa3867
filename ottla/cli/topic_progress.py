"""How far compactions are: a bar for each topic on a terminal, lines elsewhere, and nothing if it is quick."""

import os
import sys
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, TextIO

from ottla.cli.session import session
from ottla.cli.topic_runs import Progress

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

LINE_SECONDS = 5.0
PATIENCE_SECONDS = 1.0
"""Before the first line."""
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


class CompactionProgress:
    """Show it as often as you like; `close` it in the end."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._line_due = time.monotonic() + PATIENCE_SECONDS
        self._bars: Bars | None = None
        self._tasks: dict[str, TaskID] = {}
        self._is_quiet = session().is_quiet

    def show(self, found: Iterable[Progress]) -> None:
        if self._is_quiet:
            return
        if self._stream.isatty() and not os.environ.get("NO_COLOR"):
            self._draw(found)
        elif time.monotonic() >= self._line_due:
            self._line_due = time.monotonic() + LINE_SECONDS
            for each in found:
                self._stream.write(f"{line(each)}\n")
            self._stream.flush()

    def close(self) -> None:
        if self._bars is not None:
            self._bars.stop()
        self._bars = None

    def _draw(self, found: Iterable[Progress]) -> None:
        bars = self._bars = self._bars or _bars(self._stream)
        for each in found:
            if each.topic not in self._tasks:
                self._tasks[each.topic] = bars.add_task(each.topic, total=None, about="")
            task = self._tasks[each.topic]
            total = 1.0 if each.fraction else None  # it only moves as long as nobody knows
            bars.update(task, completed=each.fraction, total=total, about=about(each), refresh=False)
        bars.refresh()


def line(found: Progress) -> str:
    """`orders: 25 %, 1 mapping, 2 waiting; 12.0 MiB of 16.0 MiB`."""
    return f"{found.topic}: {found.fraction:.0%}, {about(found)}".replace("%", " %")


def about(found: Progress) -> str:
    """Phases, and the bytes of partitions that have begun."""
    if not found.total_bytes:
        return str(found)
    return f"{found}; {size(found.done_bytes)} of {size(found.total_bytes)}"


def size(count: int) -> str:
    """Bytes as people say them."""
    amount, unit = float(count), _UNITS[0]
    for unit in _UNITS:
        if abs(amount) < 1024 or unit == _UNITS[-1]:
            break
        amount /= 1024
    return f"{count} B" if unit == "B" else f"{amount:.1f} {unit}"


def _bars(stream: TextIO) -> "Bars":
    from rich.console import Console
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn
    from rich.progress import Progress as Bars

    bars = Bars(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[about]}", markup=False),
        console=Console(file=stream),
        transient=True,
        auto_refresh=False,
    )
    bars.start()
    return bars
