"""The one door to the operating system: every byte that storage keeps passes through here.

`Files` and `File` are the seam. `OsFiles` is the real one; `ottla.testing.disk.SimDisk` forgets unsynced bytes.
Reads and writes name their position, so a file has no cursor to lose. `mmap` is not used: both implementations
must see every write.

Open handles are bounded. A file that has not been used for a while is closed behind its owner's back and opened
again at its next use, so ten thousand segments need no more than `handles_max` descriptors. When the process has none
left, files give up more: a crowd of connections must not look like a broken disk.
"""

import errno
import fcntl
import mmap
import os
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Protocol, TypeVar

from ottla.core.types import Buffer

HANDLES_MAX = 1024
T = TypeVar("T")
_FLOCK = struct.Struct(
    "@hhqqi4x"
)  # type, whence, start, length (0: all), process (0: it belongs to the file)
_sync = getattr(os, "fdatasync", os.fsync)  # macOS has only the latter


class File(Protocol):
    """One open file. Only `sync` may be called from another thread than the owner's."""

    path: str

    def size(self) -> int: ...

    def read_at(self, position: int, size: int) -> bytes:
        """Up to `size` bytes; fewer only where the file ends."""
        ...

    def read_into(self, position: int, buffer: Buffer) -> int: ...

    def write_at(self, position: int, data: Buffer) -> None:
        """Write all of `data` or raise OSError; after an error the bytes from `position` on are undefined."""
        ...

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None: ...

    def rename(self, path: str) -> None: ...

    def close(self) -> None: ...


class FileLock(Protocol):
    """A file that is held."""

    def release(self) -> None: ...


class Files(Protocol):
    """The operations on names. Creations, renames and removals last only after `sync_directory`."""

    def open(self, path: str, *, create: bool = False) -> File: ...

    def read(self, path: str) -> bytes: ...

    def names(self, directory: str) -> list[str]: ...

    def exists(self, path: str) -> bool: ...

    def size(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int: ...

    def set_modified(self, path: str, modified_ms: int) -> None:
        """Let a file look as old as the one it replaces."""
        ...

    def make_directory(self, path: str) -> None:
        """With those above it. Lasts on return."""
        ...

    def remove_directory(self, path: str) -> None: ...

    def rename(self, source: str, target: str) -> None: ...

    def remove(self, path: str) -> None: ...

    def sync_directory(self, path: str) -> None: ...

    def lock(self, path: str) -> FileLock:
        """Hold a file until it is released or this process ends, and write the number of the process into it.

        Raises BlockingIOError if it is held already, be it by this process."""
        ...


class OsFiles:
    """Files of the operating system, with a bound on open handles.

    Without `syncs` nothing outlives a loss of power, and nobody waits for the disk: for data that is only temporary.
    """

    def __init__(self, handles_max: int = HANDLES_MAX, *, syncs: bool = True) -> None:
        self.handles_max = handles_max
        self.syncs = syncs
        self._open: deque[OsFile] = deque()
        self._lock = threading.Lock()

    def open(self, path: str, *, create: bool = False) -> "OsFile":
        file = OsFile(path, self)
        file.open(create=create)
        return file

    def read(self, path: str) -> bytes:
        return self.sparing(Path(path).read_bytes)

    def names(self, directory: str) -> list[str]:
        return sorted(self.sparing(lambda: os.listdir(directory)))

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified(self, path: str, modified_ms: int) -> None:
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def make_directory(self, path: str) -> None:
        if os.path.isdir(path):
            return
        parent = os.path.dirname(os.path.abspath(path))
        self.make_directory(parent)
        os.makedirs(path, exist_ok=True)
        self.sync_directory(parent)

    def remove_directory(self, path: str) -> None:
        Path(path).rmdir()

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def remove(self, path: str) -> None:
        os.unlink(path)

    def sync_directory(self, path: str) -> None:
        if not self.syncs:
            return
        fd = self.sparing(lambda: os.open(path, os.O_RDONLY | os.O_DIRECTORY))
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def lock(self, path: str) -> "OsFileLock":
        return OsFileLock(path)

    @property
    def open_handles(self) -> int:
        return len(self._open)

    def sparing(self, take: Callable[[], T]) -> T:
        """Do what takes a descriptor. If there is none left, one of ours that nobody uses just now is closed for it."""
        while True:
            try:
                return take()
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._give_up_one():
                    raise

    def _give_up_one(self) -> bool:
        with self._lock:
            for _ in range(2 * len(self._open)):
                candidate = self._open.popleft()
                if candidate.give_up():
                    return True
                self._open.append(candidate)
        return False

    def _opened(self, file: "OsFile") -> None:
        """Count one more open file; close one that was not used since the hand last passed it (second chance)."""
        with self._lock:
            self._open.append(file)
            for _ in range(2 * len(self._open)):
                if len(self._open) <= self.handles_max:
                    return
                candidate = self._open.popleft()
                if candidate is file or not candidate.give_up():
                    self._open.append(candidate)

    def _closed(self, file: "OsFile") -> None:
        with self._lock:
            try:
                self._open.remove(file)
            except ValueError:
                return  # the hand closed it first


class OsFile:
    """A file that may lose its descriptor to the bound and takes a new one at the next use.

    The lock guards the descriptor, so that nobody closes (and the kernel gives away) a number that is in use.
    """

    __slots__ = ("_fd", "_files", "_is_closed", "_lock", "_used", "path")

    def __init__(self, path: str, files: OsFiles) -> None:
        self.path = path
        self._files = files
        self._fd = -1
        self._is_closed = False
        self._used = True
        self._lock = threading.Lock()

    def open(self, *, create: bool) -> None:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        try:
            self._fd = self._files.sparing(lambda: os.open(self.path, flags, 0o644))
        except PermissionError:
            if create:
                raise
            self._fd = self._files.sparing(lambda: os.open(self.path, os.O_RDONLY | os.O_CLOEXEC))
        self._files._opened(self)

    def give_up(self) -> bool:
        """Close the descriptor unless the file is busy or was used lately. True if it is closed now."""
        if self._used:
            self._used = False
            return False
        if not self._lock.acquire(blocking=False):
            return False
        try:
            self._close()
            return True
        finally:
            self._lock.release()

    def size(self) -> int:
        with self._lock:
            return os.fstat(self._descriptor()).st_size

    def read_at(self, position: int, size: int) -> bytes:
        with self._lock:
            return os.pread(self._descriptor(), size, position)

    def read_into(self, position: int, buffer: Buffer) -> int:
        with self._lock:
            return os.preadv(self._descriptor(), [buffer], position)

    def write_at(self, position: int, data: Buffer) -> None:
        with self._lock:
            fd = self._fd
            if fd < 0:
                fd = self._descriptor()
            self._used = True
            written = os.pwrite(fd, data, position)
            if written != len(data):
                self._write_rest(fd, position + written, memoryview(data)[written:])

    @staticmethod
    def _write_rest(fd: int, position: int, rest: memoryview) -> None:
        while rest:
            written = os.pwrite(fd, rest, position)
            if written == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            position += written
            rest = rest[written:]

    def truncate(self, size: int) -> None:
        with self._lock:
            os.ftruncate(self._descriptor(), size)

    def sync(self) -> None:
        """Callable from a thread: the lock is held for the duplicate only, so appends go on meanwhile.

        After a failure the kernel counts the pages as clean, though the disk never got them. They are dropped, so
        that the next start reads what is on the disk and not what should be.
        """
        if not self._files.syncs:
            return
        with self._lock:
            own = self._descriptor()
            fd = self._files.sparing(lambda: os.dup(own))
        try:
            _sync(fd)
        except OSError:
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            raise
        finally:
            os.close(fd)

    def rename(self, path: str) -> None:
        with self._lock:
            self._files.rename(self.path, path)
            self.path = path

    def close(self) -> None:
        """For good. Whoever still holds it must not be led to another file that has the name by then."""
        with self._lock:
            self._is_closed = True
            self._close()
        self._files._closed(self)

    def _close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _descriptor(self) -> int:
        self._used = True
        if self._fd < 0:
            if self._is_closed:
                raise FileNotFoundError(errno.ENOENT, "it was closed, and may be gone", self.path)
            self.open(create=False)
        return self._fd


class OsFileLock:
    """A lock of the kernel. It goes with the process, so a file that a dead one left behind is no obstacle.

    `flock` belongs to the open file and not to the process: two brokers in one process exclude each other too. Java
    takes locks of the other kind, so that is taken as well where it can belong to the file."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _lock_whole(self._fd, fcntl.F_WRLCK)
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, b"%d\n" % os.getpid(), 0)
        except OSError:
            os.close(self._fd)
            raise

    def release(self) -> None:
        if self._fd >= 0:
            # Closing alone would leave them to a child that was forked since.
            _lock_whole(self._fd, fcntl.F_UNLCK)
            fcntl.flock(self._fd, fcntl.LOCK_UN)
            os.close(self._fd)
            self._fd = -1


def _lock_whole(fd: int, kind: int) -> None:
    """Take or give back a lock that `fcntl` of any process respects. Raises BlockingIOError if somebody has it."""
    if hasattr(fcntl, "F_OFD_SETLK"):  # only Linux has it
        try:
            fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _FLOCK.pack(kind, os.SEEK_SET, 0, 0, 0))
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EAGAIN):
                raise BlockingIOError(error.errno, "it is locked") from None
            # A file system without such locks: Java cannot take them either.


def aligned_buffer(size: int, *, huge: bool = False) -> memoryview:
    """A buffer to read files into. Anonymous memory starts at a page: on some processors the kernel copies five times
    as fast to there as to a bytearray, which starts 16 bytes behind one.

    `huge` asks for large pages, for what is reached in no order: there are fewer for the processor to keep in mind."""
    memory = mmap.mmap(-1, max(size, 1))
    if huge and hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel without them
            memory.madvise(mmap.MADV_HUGEPAGE)
    return memoryview(memory)[:size]


def write_whole(files: Files, path: str, data: bytes) -> None:
    """Replace a small file so that a crash leaves the old or the new one, never a mixture."""
    temporary = path + ".tmp"
    file = files.open(temporary, create=True)
    try:
        file.truncate(0)
        file.write_at(0, data)
        file.sync()
    finally:
        file.close()
    files.rename(temporary, path)
    files.sync_directory(os.path.dirname(path))


def remove_all(files: Files, paths: Iterable[str]) -> None:
    """Remove whatever of `paths` is there."""
    for path in paths:
        try:
            files.remove(path)
        except FileNotFoundError:
            continue
