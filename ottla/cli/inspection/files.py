"""Files of a log that may be anything: only regular ones are opened, and by the commands that only read, only for that.

A pipe with the name of a segment must not make a command wait for ever, nor a device be written to. Whoever writes
follows no link: what lies behind it may be another's, and in use.
"""

import fcntl
import os
import stat
from contextlib import suppress
from typing import NoReturn

from ottla.core.types import Buffer
from ottla.storage.files import File, FileLock, OsFiles
from ottla.storage.inspection.directory import log_directory_of
from ottla.storage.lock import LOCK_NAME


class GuardedFiles:
    """Files of the operating system, as long as they are regular and no links."""

    def __init__(self, *, follows_links: bool = False) -> None:
        self._files = OsFiles()
        self._follows_links = follows_links

    def _require_regular(self, path: str) -> None:
        """Raise OSError if there is something else than a file under the name, or nothing."""
        if not self._follows_links:
            refuse_link(path)
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise OSError(None, "is not a regular file", path)

    def open(self, path: str, *, create: bool = False) -> File:
        try:
            self._require_regular(path)
        except FileNotFoundError:
            if not create:
                raise
        return self._files.open(path, create=create)

    def read(self, path: str) -> bytes:
        self._require_regular(path)
        return self._files.read(path)

    def names(self, directory: str) -> list[str]:
        if not self._follows_links:
            refuse_link(directory)
        return self._files.names(directory)

    def exists(self, path: str) -> bool:
        """A link that leads nowhere is there too: nobody may write through it."""
        return os.path.lexists(path)

    def size(self, path: str) -> int:
        return self._files.size(path)

    def modified_ms(self, path: str) -> int:
        return self._files.modified_ms(path)

    def set_modified(self, path: str, modified_ms: int) -> None:
        self._files.set_modified(path, modified_ms)

    def make_directory(self, path: str) -> None:
        self._files.make_directory(path)

    def remove_directory(self, path: str) -> None:
        self._files.remove_directory(path)

    def rename(self, source: str, target: str) -> None:
        self._files.rename(source, target)

    def remove(self, path: str) -> None:
        self._files.remove(path)

    def sync_directory(self, path: str) -> None:
        self._files.sync_directory(path)

    def lock(self, path: str) -> FileLock:
        with suppress(FileNotFoundError):  # then it is made
            self._require_regular(path)
        return self._files.lock(path)


class ReadOnlyFiles(GuardedFiles):
    """The same without any way to change them. Works on a read-only file system."""

    def __init__(self, *, follows_links: bool = True) -> None:
        super().__init__(follows_links=follows_links)

    def open(self, path: str, *, create: bool = False) -> File:
        if create:
            _refuse(path)
        if not self._follows_links:
            refuse_link(path)
        return ReadOnlyFile(path)

    def set_modified(self, path: str, modified_ms: int) -> None:
        _refuse(path)

    def make_directory(self, path: str) -> None:
        _refuse(path)

    def remove_directory(self, path: str) -> None:
        _refuse(path)

    def rename(self, source: str, target: str) -> None:
        _refuse(source)

    def remove(self, path: str) -> None:
        _refuse(path)

    def sync_directory(self, path: str) -> None:
        _refuse(path)

    def lock(self, path: str) -> FileLock:
        _refuse(path)


class ReadOnlyFile:
    """A file that this process cannot write to, even by mistake."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        if not stat.S_ISREG(os.fstat(self._fd).st_mode):
            self.close()
            raise OSError(None, "is not a regular file", path)

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def read_at(self, position: int, size: int) -> bytes:
        return os.pread(self._fd, size, position)

    def read_into(self, position: int, buffer: Buffer) -> int:
        return os.preadv(self._fd, [buffer], position)

    def write_at(self, position: int, data: Buffer) -> None:
        _refuse(self.path)

    def truncate(self, size: int) -> None:
        _refuse(self.path)

    def sync(self) -> None:
        _refuse(self.path)

    def rename(self, path: str) -> None:
        _refuse(self.path)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _refuse(path: str) -> NoReturn:
    raise PermissionError(None, "is only to be read here", path)


def refuse_link(path: str) -> None:
    if os.path.islink(path):
        raise OSError(None, "is a link, and a repair follows none", path)


def is_in_use(directory: str) -> bool:
    """Does a broker hold the lock of a log directory or of the one above a partition, ours (`flock`) or Kafka's
    (`fcntl`)?

    The question is asked by taking the lock for a moment, shared: a broker that starts just then could be refused.
    """
    directory = log_directory_of(ReadOnlyFiles(), directory)
    try:
        fd = os.open(f"{directory}/{LOCK_NAME}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return False  # nobody ever started here
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return False
        for take in (fcntl.flock, fcntl.lockf):
            try:
                take(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
                take(fd, fcntl.LOCK_UN)
            except (BlockingIOError, PermissionError):
                return True
            except OSError:
                continue  # a file system without such locks
        return False
    finally:
        os.close(fd)
