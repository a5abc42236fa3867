"""How far a long input was sent: a bar on stderr, if that is a terminal and the input is none."""

import os
import sys
import time
from typing import TYPE_CHECKING

from ottla.cli.session import session

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_PATIENCE_SECONDS = 1.0  # what is done before that needs no bar
_DRAW_SECONDS = 0.1


class SendingProgress:
    """Show it as often as you like; `close` it in the end. Without a total it only moves."""

    def __init__(self, total: int | None, *, is_typed: bool) -> None:
        is_wanted = sys.stderr.isatty() and not is_typed and not session().is_quiet
        self._total = total
        self._due = (
            time.monotonic() + _PATIENCE_SECONDS
            if is_wanted and not os.environ.get("NO_COLOR")
            else float("inf")
        )
        self._bar: tuple[Progress, TaskID] | None = None

    def show(self, done: int, acknowledged: int) -> None:
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + _DRAW_SECONDS
        if self._bar is None:
            self._bar = _bar(self._total)
        progress, task = self._bar
        progress.update(task, completed=done, about=f"{acknowledged} records acknowledged")

    def close(self) -> None:
        if self._bar is not None:
            self._bar[0].stop()
        self._bar, self._due = None, float("inf")


def _bar(total: int | None) -> "tuple[Progress, TaskID]":
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    progress = Progress(
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TextColumn("{task.fields[about]}", markup=False),
        console=Console(file=sys.stderr),
        transient=True,
    )
    task = progress.add_task("sending", total=total, about="")
    progress.start()
    return progress, task
