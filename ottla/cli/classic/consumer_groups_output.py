"""How `kafka-consumer-groups` prints: tables with columns as wide as they must be, and errors on stdout."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ottla.cli.dump.output import printable

NOTHING = "-"


class Column(NamedTuple):
    """A header, and how wide the column is at least. `grows` with its cells; 0 is for a last column, without blanks."""

    header: str
    width: int
    grows: bool = True


def print_table(columns: Sequence[Column], rows: Iterable[Sequence[object]], *, end: str = "") -> None:
    """Below an empty line; cells that are None are a dash. `end` closes every line."""
    cells = [[_text(value) for value in row] for row in rows]
    widths = [
        max([each.width, *(len(row[number]) for row in cells)]) if each.grows and each.width else each.width
        for number, each in enumerate(columns)
    ]
    print()
    for row in [[each.header for each in columns], *cells]:
        print(" ".join(f"{text:<{width}}" for text, width in zip(row, widths, strict=True)) + end)


def _text(value: object) -> str:
    return NOTHING if value is None else printable(str(value))


def print_error(sentence: str) -> None:
    """As the tool does: on stdout, below an empty line."""
    print(f"\nError: {printable(sentence)}")
