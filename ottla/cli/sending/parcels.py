"""From pieces of an input to records: lines as they are, lines with a key in front.

A parser makes parcels of a block: records of one topic, and of one partition if they name it, that are sent together.
Where a piece makes no sense, the parcels before it are good all the same, and a `Fault` says what is wrong with it.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from ottla.cli.sending.inputs import Block

Value = bytes | None
Headers = tuple[tuple[str, bytes | None], ...]
_TARGET = slice(3, 5)  # topic and partition of a record


class Record(NamedTuple):
    """One that has something of its own. What is None, except for key and value, was not said."""

    key: Value
    value: Value
    headers: Headers = ()
    topic: str | None = None
    partition: int | None = None
    timestamp_ms: int | None = None


class Parcel(NamedTuple):
    """Records that are sent together. `places` is where each stands in its block."""

    places: Sequence[int]
    values: Sequence[Value]
    keys: Sequence[Value] | None = None
    records: Sequence[Record] | None = None
    """Instead of the others: records with headers or timestamps, all of one topic and one partition."""
    partition: int | None = None
    """Where keys and values go, if whoever made the parcel has chosen."""

    def cut(self, count: int) -> "Parcel":
        """The first of them."""
        return Parcel(
            self.places[:count],
            self.values[:count],
            None if self.keys is None else self.keys[:count],
            None if self.records is None else self.records[:count],
            self.partition,
        )


class Fault(NamedTuple):
    """A piece that is no record, where it stands in its block, and why it is none."""

    place: int
    sentence: str


class Parser(Protocol):
    """Makes records of the pieces of an input."""

    noun: str
    """What a piece is called."""

    def __call__(self, block: Block) -> tuple[list[Parcel], Fault | None]: ...


class Lines:
    """Each piece is a value; all have the same key. A value that is the null marker is none: a tombstone."""

    noun = "line"

    def __init__(self, key: Value, null_marker: bytes | None) -> None:
        self._key, self._null = key, null_marker

    def __call__(self, block: Block) -> tuple[list[Parcel], Fault | None]:
        values = block.pieces
        if self._null is not None and self._null in values:
            values = [None if each == self._null else each for each in values]
        keys = None if self._key is None else [self._key] * len(values)
        return [Parcel(range(len(values)), values, keys)] if values else [], None


class KeyedLines:
    """Key and value with a separator between them: the first one in the line."""

    noun = "line"

    def __init__(self, separator: bytes, null_marker: bytes | None) -> None:
        self._separator, self._null = separator, null_marker

    def __call__(self, block: Block) -> tuple[list[Parcel], Fault | None]:
        separator = self._separator
        cut = [(each or b"").partition(separator) for each in block.pieces]
        fault = None
        if not all(each[1] for each in cut):
            index = next(number for number, each in enumerate(cut) if not each[1])
            shown = separator.decode("utf-8", "backslashreplace")
            fault = Fault(index, f"there is no {shown!r} in it, so that it has no key")
            cut = cut[:index]
        keys: list[Value] = [each[0] for each in cut]
        values: list[Value] = [each[2] for each in cut]
        if (null := self._null) is not None:
            keys = [None if each == null else each for each in keys]
            values = [None if each == null else each for each in values]
        return [Parcel(range(len(values)), values, keys)] if values else [], fault


def parcels_of(records: Sequence[Record], places: Sequence[int]) -> list[Parcel]:
    """Records in order, those next to each other together that go to the same place."""
    found: list[Parcel] = []
    start = 0
    for stop in range(1, len(records) + 1):
        if stop == len(records) or records[stop][_TARGET] != records[start][_TARGET]:
            found.append(Parcel(places[start:stop], (), None, records[start:stop]))
            start = stop
    return found
