"""The sparse indexes beside a segment: `.index` (offset -> position) and `.timeindex` (timestamp -> offset).

Every entry is a promise about the `.log` beside it, and carries no checksum: an index is a hint. Whoever follows an
entry checks the batch it leads to, and rebuilds the index when that contradicts it.

Entries gather in memory and reach the file a page at a time, when the segment is flushed, and when it is closed. What
a crash takes away, recovery writes again. Looking up costs one bisection over the first key of every page, which is
in memory, and one over a page, which is one read.
"""

import struct
from bisect import bisect_right
from contextlib import suppress
from typing import ClassVar, NamedTuple

from ottla.core.errors import OttlaError
from ottla.storage.files import File, Files

PAGE_BYTES = 4096  # also what gathers in memory before it is written


class CorruptIndex(OttlaError):
    """An index that cannot be what it says; its owner rebuilds it from the log."""


class SortedEntries:
    """A file of fixed-size entries whose first field only grows. Both indexes keep theirs in one of these."""

    def __init__(self, files: Files, path: str, layout: struct.Struct, bytes_max: int) -> None:
        self._files = files
        self.path = path
        self.layout = layout
        self.entries_max = bytes_max // layout.size
        self._per_page = PAGE_BYTES // layout.size
        self._file: File | None = None
        self._pending = bytearray()  # the entries that the file lacks
        self._written = 0
        self._page_keys: list[int] = []  # first key of every page
        self._page: tuple[int, bytes] = (-1, b"")  # the page last read
        self.count = 0
        self.last: tuple[int, int] | None = None

    def create(self) -> None:
        """Start empty, whatever lay there before."""
        self._open(create=True).truncate(0)
        self._forget()

    def load(self) -> None:
        """Read what is there. Zeros at the end are the room that Kafka allocates ahead."""
        file = self._open(create=False)
        data = file.read_at(0, file.size())
        size = self.layout.size
        if len(data) % size:
            raise CorruptIndex(f"{self.path} holds {len(data)} bytes, not a multiple of {size}")
        self._forget()
        self.count = self._written = -(-len(data.rstrip(b"\0")) // size)
        unpack = self.layout.unpack_from
        step = self._per_page * size
        self._page_keys = [unpack(data, at)[0] for at in range(0, self.count * size, step)]
        if any(a >= b for a, b in zip(self._page_keys, self._page_keys[1:], strict=False)):
            raise CorruptIndex(f"{self.path} is not sorted")
        if self.count:
            self.last = unpack(data, (self.count - 1) * size)

    def append(self, key: int, value: int) -> None:
        """Add an entry. A key that does not grow comes from a damaged batch that was kept: no hint leads there."""
        if self.last is not None and key <= self.last[0]:
            return
        if self.count % self._per_page == 0:
            self._page_keys.append(key)
        self._pending += self.layout.pack(key, value)
        self.count += 1
        self.last = (key, value)
        if len(self._pending) >= PAGE_BYTES:
            # If the disk is full it gathers on: the batch is in the log, and the next `flush` reports what remains.
            with suppress(OSError):
                self.flush()

    def floor(self, key: int) -> int:
        """The number of the last entry whose key is at most `key`; -1 if there is none."""
        page = bisect_right(self._page_keys, key) - 1
        if page < 0:
            return -1
        data = self._read_page(page)
        low, high, size, unpack = 0, len(data) // self.layout.size, self.layout.size, self.layout.unpack_from
        while high - low > 1:
            middle = (low + high) // 2
            if unpack(data, middle * size)[0] <= key:
                low = middle
            else:
                high = middle
        return page * self._per_page + low

    def entry(self, number: int) -> tuple[int, int]:
        page, slot = divmod(number, self._per_page)
        key, value = self.layout.unpack_from(self._read_page(page), slot * self.layout.size)
        return key, value

    def truncate(self, count: int) -> None:
        """Keep the first `count` entries."""
        if count >= self.count:
            return
        self.flush()
        self._open(create=False).truncate(count * self.layout.size)
        self._page = (-1, b"")
        self.count = self._written = count
        del self._page_keys[-(-count // self._per_page) :]
        self.last = self.entry(count - 1) if count else None

    def flush(self) -> None:
        """Hand to the operating system what has gathered."""
        if self._pending:
            self._open(create=False).write_at(self._written * self.layout.size, bytes(self._pending))
            self._written = self.count
            self._pending.clear()
            self._page = (-1, b"")

    def sync(self) -> None:
        """Make the written entries last. Safe in a thread: `flush` comes first, on the owner's."""
        if (file := self._file) is not None:  # read once: the owner may close it meanwhile
            file.sync()

    def close(self) -> None:
        try:
            self.flush()
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Close without writing what has gathered: the file is to go, or the disk is past hope."""
        self._pending.clear()
        if self._file is not None:
            self._file.close()
            self._file = None

    def rename(self, path: str) -> None:
        """Under its new name. A file that is missing stays missing: whoever needs it rebuilds it."""
        if self._file is not None:
            self._file.rename(path)
        elif self._files.exists(self.path):
            self._files.rename(self.path, path)
        self.path = path

    def renamed(self, path: str) -> None:
        """The directory around it was renamed, and so it was."""
        self.path = path
        if self._file is not None:
            self._file.path = path

    def _forget(self) -> None:
        self._pending.clear()
        self._page_keys, self._page = [], (-1, b"")
        self.count, self._written, self.last = 0, 0, None

    def _open(self, *, create: bool) -> File:
        if self._file is None:
            self._file = self._files.open(self.path, create=create)
        return self._file

    def _read_page(self, number: int) -> bytes:
        if self._page[0] == number and not self._pending:
            return self._page[1]
        first = number * self._per_page
        size = self.layout.size
        on_disk = min(self._written - first, self._per_page)
        data = self._open(create=False).read_at(first * size, on_disk * size) if on_disk > 0 else b""
        if on_disk > 0 and len(data) < on_disk * size:
            raise CorruptIndex(f"{self.path} became shorter than {self._written} entries")
        if self._pending:
            after = max(0, first - self._written) * size
            return data + bytes(self._pending[after : after + self._per_page * size - len(data)])
        self._page = (number, data)
        return data


class OffsetEntry(NamedTuple):
    offset: int
    position: int


class OffsetIndex:
    """`.index`: the last offset of a batch, less the segment's base, and where that batch starts. 8 bytes each."""

    LAYOUT: ClassVar = struct.Struct(">II")

    def __init__(self, files: Files, path: str, base_offset: int, bytes_max: int) -> None:
        self.base_offset = base_offset
        self.entries = SortedEntries(files, path, self.LAYOUT, bytes_max)

    @property
    def is_full(self) -> bool:
        return self.entries.count >= self.entries.entries_max

    @property
    def last(self) -> OffsetEntry | None:
        if (last := self.entries.last) is None:
            return None
        return OffsetEntry(self.base_offset + last[0], last[1])

    def append(self, offset: int, position: int) -> None:
        self.entries.append(offset - self.base_offset, position)

    def look_up(self, offset: int) -> OffsetEntry | None:
        """The last entry at or before `offset`."""
        if offset < self.base_offset or (number := self.entries.floor(offset - self.base_offset)) < 0:
            return None
        relative, position = self.entries.entry(number)
        return OffsetEntry(self.base_offset + relative, position)

    def truncate_to_position(self, position: int) -> None:
        """Drop the entries of batches that start at `position` or behind it. Positions grow as offsets do."""
        count = self.entries.count
        while count and self.entries.entry(count - 1)[1] >= position:
            count -= 1
        self.entries.truncate(count)


class TimeEntry(NamedTuple):
    timestamp: int
    offset: int


class TimeIndex:
    """`.timeindex`: the largest timestamp so far, and the last offset of the batch that brought it. 12 bytes each."""

    LAYOUT: ClassVar = struct.Struct(">qI")

    def __init__(self, files: Files, path: str, base_offset: int, bytes_max: int) -> None:
        self.base_offset = base_offset
        self.entries = SortedEntries(files, path, self.LAYOUT, bytes_max)

    @property
    def is_full(self) -> bool:
        """One entry is kept free for the segment's last one."""
        return self.entries.count >= self.entries.entries_max - 1

    @property
    def last(self) -> TimeEntry | None:
        if (last := self.entries.last) is None:
            return None
        return TimeEntry(last[0], self.base_offset + last[1])

    def append(self, timestamp: int, offset: int) -> None:
        """Remember a timestamp that is larger than all before; others are of no use to a reader."""
        last = self.entries.last
        if timestamp >= 0 and (last is None or timestamp > last[0]):
            self.entries.append(timestamp, offset - self.base_offset)

    def look_up(self, timestamp: int) -> TimeEntry | None:
        """The last entry whose timestamp is at most `timestamp`."""
        number = self.entries.floor(timestamp)
        if number < 0:
            return None
        found, relative = self.entries.entry(number)
        return TimeEntry(found, self.base_offset + relative)

    def truncate_to_offset(self, offset: int) -> None:
        """Drop the entries that speak of `offset` or what follows it."""
        count = self.entries.count
        while count and self.base_offset + self.entries.entry(count - 1)[1] >= offset:
            count -= 1
        self.entries.truncate(count)
