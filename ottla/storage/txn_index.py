"""`.txnindex`: the aborted transactions whose marker lies in this segment, in the order of their markers.

A reader who asks for committed records only is told which of these overlap what it fetched. The file exists only
where a transaction was aborted. It has no checksum; entries that contradict each other mean it is rebuilt.
"""

import errno
import struct
from typing import NamedTuple

from ottla.core.errors import ProtocolError
from ottla.storage.files import File, Files, write_whole

ENTRY = struct.Struct(">hqqqq")
VERSION = 0
FULL = {errno.ENOSPC, errno.EDQUOT}


class AbortedTxn(NamedTuple):
    """A transaction that ended in an abort: `last_offset` is the marker's."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def parse(data: bytes, path: str) -> list[AbortedTxn]:
    """All entries, or ProtocolError that says at which byte they stop making sense."""
    entries: list[AbortedTxn] = []
    for at in range(0, len(data), ENTRY.size):
        if at + ENTRY.size > len(data):
            raise ProtocolError(f"{path} ends within an entry, at byte {at}")
        version, *fields = ENTRY.unpack_from(data, at)
        entry = AbortedTxn(*fields)
        if version != VERSION or entry.first_offset > entry.last_offset:
            raise ProtocolError(f"{path} has an impossible entry at byte {at}")
        if entries and entry.last_offset <= entries[-1].last_offset:
            raise ProtocolError(f"{path} is not sorted at byte {at}")
        entries.append(entry)
    return entries


class TxnIndex:
    """The aborted transactions of one segment."""

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self.path = path
        self._file: File | None = None
        self._entries: list[AbortedTxn] | None = None
        self._written = 0
        """How many entries the file has."""

    @property
    def entries(self) -> list[AbortedTxn]:
        return self.load()

    def load(self) -> list[AbortedTxn]:
        """Read the file, once. Raises ProtocolError if it makes no sense: then somebody must `clear` and rebuild it."""
        if self._entries is None:
            self._entries = self._read()
            self._written = len(self._entries)
        return self._entries

    def append(self, aborted: AbortedTxn) -> None:
        """On a disk that is full it waits in memory for the next `flush`: the marker lies in the log already."""
        entries = self.entries
        assert not entries or aborted.last_offset > entries[-1].last_offset, "markers come in order"
        entries.append(aborted)
        try:
            self.flush()
        except OSError as error:
            if error.errno not in FULL:
                raise

    def flush(self) -> None:
        """Write what the file lacks."""
        if self._entries is None or self._written == len(self._entries):
            return
        if self._file is None:
            self._file = self._files.open(self.path, create=True)
        missing = b"".join(ENTRY.pack(VERSION, *aborted) for aborted in self._entries[self._written :])
        self._file.write_at(self._written * ENTRY.size, missing)
        self._written = len(self._entries)

    def overlapping(self, start: int, end: int) -> list[AbortedTxn]:
        """Those that wrote anything in [start, end)."""
        return [t for t in self.entries if t.last_offset >= start and t.first_offset < end]

    def truncate_to_offset(self, offset: int) -> None:
        """Forget the markers at `offset` and behind it."""
        kept = [t for t in self.entries if t.last_offset < offset]
        if len(kept) < len(self.entries):
            if self._written > len(kept):
                if self._file is None:
                    self._file = self._files.open(self.path, create=False)
                self._file.truncate(len(kept) * ENTRY.size)
                self._written = len(kept)
            self._entries = kept

    def clear(self) -> None:
        """Start anew, whatever the file says."""
        self.close()
        if self._files.exists(self.path):
            self._files.remove(self.path)
        self._entries, self._written = [], 0

    def replace(self, entries: list[AbortedTxn]) -> None:
        """Other entries, whatever the file says; it holds the old or the new ones even after a crash."""
        self.close()
        write_whole(self._files, self.path, b"".join(ENTRY.pack(VERSION, *aborted) for aborted in entries))
        self._entries, self._written = list(entries), len(entries)

    def sync(self) -> None:
        if (file := self._file) is not None:  # read once: the owner may close it meanwhile
            file.sync()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def rename(self, path: str) -> None:
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

    def _read(self) -> list[AbortedTxn]:
        if not self._files.exists(self.path):
            return []
        return parse(self._files.read(self.path), self.path)
