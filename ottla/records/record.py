"""One record as a value: what every format, from magic 0 to 2, is read into and built from."""

from typing import NamedTuple

Header = tuple[str, bytes | None]
"""A record header. Keys that are not UTF-8 survive a round trip: they are decoded with `surrogateescape`."""


class Record(NamedTuple):
    """A key, a value, where and when they were written. A null value is a tombstone in a compacted topic."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


NO_TIMESTAMP = -1
