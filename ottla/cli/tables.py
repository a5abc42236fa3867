"""Rows of a command's answer: a table on a terminal, tab-separated lines elsewhere, JSON for programs.

Every row of a table has the same names. What came over the network is escaped before a terminal sees it.
"""

import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ottla.cli.dump.output import cell, printable, say
from ottla.cli.session import session

if TYPE_CHECKING:
    from rich.table import Table

Row = Mapping[str, Any]
_WIDTH_MAX = 10_000  # wider than any table: rich must not shorten names to fit them in
_GAP = 2  # rich's: one blank on each side, except at the edges
_NOTHING = "-"


def is_for_people() -> bool:
    """Is stdout a terminal that wants more than lines?"""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def show(rows: Sequence[Row], names: Sequence[str]) -> None:
    """The rows, under their names. On a terminal that is too narrow the last columns are left out, and named."""
    if is_for_people():
        from rich.console import Console

        shown = fitting(rows, names)
        Console(file=sys.stdout, highlight=False, width=_WIDTH_MAX).print(table(rows, shown))
        if len(shown) < len(names):
            say_left_out(names[len(shown) :])
    else:
        lines(rows, names)


def part() -> None:
    """An empty line between two tables that people look at."""
    if is_for_people():
        sys.stdout.write("\n")


def fitting(rows: Sequence[Row], names: Sequence[str]) -> Sequence[str]:
    """As many of the columns, from the left, as the terminal has room for; all with --wide.

    The first one always stays: a row must say what it is about.
    """
    if session().is_wide:
        return names
    from rich.cells import cell_len

    room = shutil.get_terminal_size().columns
    used = -_GAP
    for count, name in enumerate(names):
        used += _GAP + max([len(name), *(cell_len(_text(row[name])) for row in rows)])
        if used > room and count:
            return names[:count]
    return names


def say_left_out(names: Sequence[str]) -> None:
    """That a table is not all there is."""
    if not session().is_quiet:
        say(f"no room for {', '.join(name.replace('_', ' ') for name in names)}: --wide shows all columns")


def lines(rows: Sequence[Row], names: Sequence[str], *, header: bool = True) -> None:
    """Tab-separated, one line for each row."""
    if header:
        sys.stdout.write("\t".join(names) + "\n")
    for row in rows:
        sys.stdout.write("\t".join(_text(row[name]) for name in names) + "\n")
    sys.stdout.flush()


def document(value: Any) -> None:
    """One JSON document on one line."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def table(rows: Sequence[Row], names: Sequence[str]) -> "Table":
    """For people: numbers to the right, names with spaces."""
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, header_style="bold")
    for name in names:
        is_number = all(isinstance(row[name], int | float | None) for row in rows)
        made.add_column(name.replace("_", " "), no_wrap=True, justify="right" if is_number else "left")
    for row in rows:
        made.add_row(*(Text(_text(row[name])) for name in names))
    return made


def _text(value: Any) -> str:
    if value is None:
        return _NOTHING
    if isinstance(value, float):
        return f"{value:.3f}"
    if isinstance(value, list):
        return ",".join(_text(each) for each in value) or _NOTHING
    return cell(value)


__all__ = [
    "document",
    "fitting",
    "is_for_people",
    "lines",
    "part",
    "printable",
    "say",
    "say_left_out",
    "show",
    "table",
]
