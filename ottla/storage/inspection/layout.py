"""Which files a partition's directory holds, by their names, and small ones read with a bound."""

from bisect import bisect_right
from dataclasses import dataclass, field

from ottla.core.errors import OttlaError
from ottla.storage import snapshots
from ottla.storage.files import File, Files
from ottla.storage.segment import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    file_name,
    offset_of,
)
from ottla.storage.swap import CLEANED_SUFFIX, SWAP_SUFFIX

OFFSET_MAX = 2**63 - 1
SMALL_BYTES_MAX = 64 << 20
INDEX_SUFFIXES = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)
PASSING = {
    DELETED_SUFFIX: "deleted; removed after a while, or by the next start",
    CLEANED_SUFFIX: "of a replacement that is not finished; removed by the next start",
    SWAP_SUFFIX: "of a replacement that is finished; put in place by the next start",
    ".tmp": "a small file that was not finished; removed by the next start",
}


@dataclass(slots=True)
class Layout:
    """The files of one partition."""

    directory: str
    bases: list[int] = field(default_factory=list)
    """First offsets of the segments, rising."""
    unnumbered: list[str] = field(default_factory=list)
    """Segments whose number no offset has."""
    snapshots: list[int] = field(default_factory=list)
    passing: dict[str, list[str]] = field(default_factory=dict)
    """Names on their way in or out, by how they end."""
    orphans: list[str] = field(default_factory=list)
    """Indexes without a segment."""
    names: frozenset[str] = frozenset()

    @classmethod
    def of(cls, files: Files, directory: str) -> "Layout":
        names = files.names(directory)
        layout = cls(directory, names=frozenset(names))
        for name in names:
            layout._take(name)
        bases = set(layout.bases)
        for name in names:
            for suffix in INDEX_SUFFIXES:
                if (offset := offset_of(name, suffix)) is not None and offset not in bases:
                    layout.orphans.append(name)
        layout.bases.sort()
        layout.snapshots.sort()
        return layout

    def _take(self, name: str) -> None:
        if (offset := offset_of(name, LOG_SUFFIX)) is not None:
            if offset <= OFFSET_MAX:
                self.bases.append(offset)
            else:
                self.unnumbered.append(name)
        elif (offset := offset_of(name, snapshots.SUFFIX)) is not None:
            self.snapshots.append(offset)
        else:
            ending = name[name.rfind(".") :]
            if ending in PASSING:
                self.passing.setdefault(ending, []).append(name)

    def path(self, base: int, suffix: str) -> str:
        return f"{self.directory}/{file_name(base, suffix)}"

    def has(self, base: int, suffix: str) -> bool:
        return file_name(base, suffix) in self.names

    def limit_of(self, base: int) -> int:
        """The first offset that the segment cannot hold: the next one starts there, or its indexes end."""
        at = bisect_right(self.bases, base)
        beyond = base + 2**31
        return min(self.bases[at], beyond) if at < len(self.bases) else beyond

    def ends_of(self, base: int) -> frozenset[int]:
        """Offsets at which the log once ended, by its snapshots, if this is its last segment."""
        return frozenset(self.snapshots if base == self.bases[-1] else ())


def looks_like_a_partition(files: Files, directory: str) -> bool:
    """Does the directory itself hold segments, or what stands beside them?"""
    kinds = (LOG_SUFFIX, *INDEX_SUFFIXES, snapshots.SUFFIX)
    return any(offset_of(n, kind) is not None for n in files.names(directory) for kind in kinds)


def read_small(files: Files, path: str) -> bytes:
    """The whole of a file that is small if it is what its name says; OSError if it is not."""
    file = files.open(path)
    try:
        if (size := file.size()) > SMALL_BYTES_MAX:
            raise OSError(None, f"has {size} bytes, far more than a file of this name needs", path)
        return read_fully(file, 0, size)
    finally:
        file.close()


def read_fully(file: File, position: int, size: int) -> bytes:
    """Up to `size` bytes; fewer only where the file ends. (The system gives at most 2 GiB at once.)"""
    data = file.read_at(position, size)
    if len(data) == size or not data:
        return data
    parts = [data]
    got = len(data)
    while got < size and (data := file.read_at(position + got, size - got)):
        parts.append(data)
        got += len(data)
    return b"".join(parts)


def why(error: OSError) -> str:
    """What the operating system said, without the path that stands before it anyway."""
    return f"cannot be read: {error.strerror or error}"


def said_of(path: str, error: OttlaError) -> str:
    """What makes no sense in a file, likewise."""
    return str(error).removeprefix(path).lstrip(": ")
