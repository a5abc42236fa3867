"""Which files there are to dump, what kind each is, and how to open one without being able to change it."""

import os
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import click

from ottla.cli.inspection.files import ReadOnlyFile, ReadOnlyFiles
from ottla.storage import checkpoints, epochs, snapshots
from ottla.storage.files import File
from ottla.storage.inspection import layout
from ottla.storage.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, offset_of

SUFFIXES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, snapshots.SUFFIX)
NAMES = (
    epochs.FILE_NAME,
    checkpoints.PARTITION_METADATA,
    checkpoints.RECOVERY_POINT,
    checkpoints.LOG_START,
    checkpoints.HIGH_WATERMARK,
    checkpoints.CLEANER,
)
_PASSING = (".deleted", ".cleaned", ".swap")  # what a segment's files are called while they come or go


class Dumped(NamedTuple):
    """A file to dump. `kind` is its suffix, or its name if that has a meaning of its own."""

    path: str
    kind: str

    @property
    def base_offset(self) -> int | None:
        """The offset in the file's name; None if the name is another one."""
        return offset_of(_lasting(os.path.basename(self.path)), self.kind)

    @property
    def log_path(self) -> str:
        """The segment that an index speaks of."""
        stem, _, passing = self.path.rpartition(self.kind)
        return stem + LOG_SUFFIX + passing


def open_file(path: str) -> File:
    """The file, or OSError that names it."""
    return ReadOnlyFile(path)


def read_small(path: str) -> bytes:
    """The whole of a file that is small when it is what its name says."""
    return layout.read_small(ReadOnlyFiles(), path)


def expand(paths: Iterable[str]) -> Iterator[Dumped]:
    """The files that `paths` name. A directory stands for all in it that can be dumped."""
    for path in paths:
        if os.path.isdir(path):
            yield from _inside(path)
        else:
            yield _known(path)


def _inside(directory: str) -> Iterator[Dumped]:
    found = [
        Dumped(f"{directory.rstrip('/')}/{name}", kind)
        for name, kind in _kinds(sorted(os.listdir(directory)))
    ]
    if not found:
        raise click.ClickException(f"{directory}: holds no file of a log")
    yield from found


def _kinds(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    for name in names:
        if (kind := _kind_of(name)) is not None:
            yield name, kind


def _known(path: str) -> Dumped:
    name = os.path.basename(path)
    kind = _kind_of(_lasting(name))
    if kind is None:
        os.lstat(path)  # a name that was mistyped is missing rather than of an unknown kind
        known = ", ".join((*SUFFIXES, *NAMES))
        raise click.UsageError(f"{path}: not a kind of file that can be dumped ({known})")
    dumped = Dumped(path, kind)
    if kind in (INDEX_SUFFIX, TIME_INDEX_SUFFIX) and dumped.base_offset is None:
        raise click.UsageError(f"{path}: the name of an index must be its segment's base offset in 20 digits")
    return dumped


def _kind_of(name: str) -> str | None:
    if name in NAMES:
        return name
    return next((suffix for suffix in SUFFIXES if name.endswith(suffix)), None)


def _lasting(name: str) -> str:
    """The name without what a rename put behind it."""
    for suffix in _PASSING:
        name = name.removesuffix(suffix)
    return name
