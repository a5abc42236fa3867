"""What a reader of a file yields: rows, and what is wrong with the file.

A reader never raises for what it finds in a file. Damage becomes a `Problem` at a byte position; if nothing behind it
can be read, the problem `stops` the file.
"""

from typing import Any, NamedTuple, TypeAlias


class Row(NamedTuple):
    """A batch, record or entry: what kind of thing it is, and its fields in the order they are shown."""

    kind: str
    fields: dict[str, Any]


class Problem(NamedTuple):
    """Something in the file that cannot be right, and the byte where it is."""

    reason: str
    position: int | None = None
    stops: bool = False
    next_intact: int | None = None
    """Where a whole batch lies behind the damage, if one was found."""

    def about(self, path: str) -> str:
        """The problem as a sentence that names the file."""
        if self.position is None:
            return self.reason if path in self.reason else f"{path}: {self.reason}"
        verb = "stops at byte" if self.stops else "byte"
        behind = "" if self.next_intact is None else f"; a whole batch follows at byte {self.next_intact}"
        return f"{path}: {verb} {self.position}: {self.reason}{behind}"


Item: TypeAlias = Row | Problem
