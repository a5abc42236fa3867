"""A disk in memory that forgets: what was not synced may vanish, tear, or come back as zeros when the power goes.

It stands in for `OsFiles`. Every file keeps what is durable apart from what was written since its last sync, and every
directory keeps the names that last apart from those that do not yet. `crash` draws one of the states that a real disk
could be in afterwards:

    - each unsynced write arrived, did not, or arrived in part, or left zeros in the place of its bytes; what a failed
      sync should have written is lost for good, whatever a later sync says
    - of the unsynced creations, renames and removals in a directory, those up to some point happened, the later not

Faults are planted with `fail_next`, `capacity` (the disk is full) and `crash_after` (the power goes in the middle).
"""

import errno
import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from ottla.core.types import Buffer

SECTOR = 512


class PowerLoss(BaseException):
    """The machine stopped here. Not an Exception: nobody may handle it and go on."""


@dataclass(slots=True)
class _Inode:
    """The bytes of a file: those that last, and what was done to them since."""

    durable: bytearray = field(default_factory=bytearray)
    content: bytearray = field(default_factory=bytearray)
    pending: list[tuple[int, bytes | None]] = field(
        default_factory=list
    )  # (position, data) or (size, None) = truncate
    modified_ms: int = 0

    def write(self, position: int, data: bytes) -> None:
        _write(self.content, position, data)
        self.pending.append((position, data))

    def truncate(self, size: int) -> None:
        _truncate(self.content, size)
        self.pending.append((size, None))

    def sync(self) -> None:
        pending, self.pending = self.pending, []
        for position, data in pending:
            if data is None:
                _truncate(self.durable, position)
            else:
                _write(self.durable, position, data)

    def fail_sync(self) -> None:
        """As `OsFile` does it on Linux: no later sync writes these pages, and nobody reads them any more."""
        self.pending = []
        self.content[:] = self.durable

    def crash(self, source: random.Random) -> None:
        survived = self.durable
        for position, data in self.pending:
            if data is None:
                if source.random() < 0.5:
                    _truncate(survived, position)
                continue
            fate = source.random()
            if fate < 0.4:
                _write(survived, position, data)
            elif fate < 0.7:
                _write(survived, position, data[: _torn(len(data), source)])
            elif fate < 0.85:
                _write(survived, position, bytes(len(data)))  # the length arrived, the bytes did not
        self.content = bytearray(survived)
        self.pending.clear()


def _torn(size: int, source: random.Random) -> int:
    """Where a write stops: usually between sectors, sometimes anywhere."""
    at = source.randrange(size + 1)
    return at if source.random() < 0.3 else at // SECTOR * SECTOR


def _write(content: bytearray, position: int, data: bytes) -> None:
    if position > len(content):
        content.extend(bytes(position - len(content)))
    content[position : position + len(data)] = data


def _truncate(content: bytearray, size: int) -> None:
    if size < len(content):
        del content[size:]
    else:
        content.extend(bytes(size - len(content)))


_Names = dict[str, _Inode]


@dataclass(slots=True)
class _Directory:
    durable: _Names = field(default_factory=dict)
    names: _Names = field(default_factory=dict)
    pending: list[Callable[[_Names], None]] = field(default_factory=list)

    def change(self, step: Callable[[_Names], None]) -> None:
        step(self.names)
        self.pending.append(step)

    def sync(self) -> None:
        self.durable = dict(self.names)
        self.pending.clear()

    def crash(self, source: random.Random) -> None:
        for step in self.pending[: source.randint(0, len(self.pending))]:
            step(self.durable)
        self.names = dict(self.durable)
        self.pending.clear()


class SimDisk:
    """Files in memory, with the failings of a disk."""

    def __init__(self, capacity: int | None = None) -> None:
        self.capacity = capacity
        self.now_ms = 0  # the time that files written from now on carry
        self.operations = 0
        self._directories: dict[str, _Directory] = {}
        self._faults: list[tuple[str, int, int]] = []  # (operation, after this many of them, errno)
        self._crash_at: int | None = None
        self._locks: dict[str, SimLock] = {}

    # --- faults --------------------------------------------------------------------------------------------------

    def fail_next(self, operation: str, code: int = errno.EIO, *, after: int = 0) -> None:
        """The next `operation` ("write", "sync", "rename", ...) fails with `code`; `after` lets some pass first."""
        self._faults.append((operation, after, code))

    def repair(self) -> None:
        """Faults that have not struck yet are taken back."""
        self._faults.clear()

    def crash_after(self, operations: int) -> None:
        """The power goes at the operation that follows `operations` more: it raises PowerLoss."""
        self._crash_at = self.operations + operations

    def kill(self) -> None:
        """The process died, and its locks with it. What it wrote is there."""
        self._locks.clear()

    def crash(self, source: random.Random) -> None:
        """The power went. What is there now is what the next start will find."""
        self._crash_at = None
        self._faults.clear()
        self._locks.clear()
        for directory in self._directories.values():
            before = [*directory.names.values(), *directory.durable.values()]
            directory.crash(source)
            # What was created and removed again since the last sync of the directory may come back.
            inodes = {id(i): i for i in [*before, *directory.names.values()]}
            for inode in inodes.values():
                inode.crash(source)

    def step(self, operation: str) -> None:
        """One operation begins; planted faults strike here."""
        self.operations += 1
        if self._crash_at is not None and self.operations > self._crash_at:
            raise PowerLoss(operation)
        for at, (kind, after, code) in enumerate(self._faults):
            if kind != operation:
                continue
            if after > 0:
                self._faults[at] = (kind, after - 1, code)
                return
            del self._faults[at]
            raise OSError(code, os.strerror(code))

    @property
    def used(self) -> int:
        return sum(len(i.content) for d in self._directories.values() for i in d.names.values())

    # --- Files ---------------------------------------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False) -> "SimFile":
        directory, name = self._locate(path)
        if name not in directory.names:
            if not create:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            self.step("create")
            inode = _Inode()
            directory.change(lambda names: names.__setitem__(name, inode))
        return SimFile(path, self, directory.names[name])

    def read(self, path: str) -> bytes:
        return bytes(self._inode(path).content)

    def names(self, directory: str) -> list[str]:
        below = {
            path[len(directory) + 1 :].split("/")[0]
            for path in list(self._directories)  # a copy: files are removed in threads
            if path.startswith(directory + "/")
        }
        return sorted({*self._directory(directory).names, *below})

    def exists(self, path: str) -> bool:
        if path in self._directories:
            return True
        parent, _, name = path.rpartition("/")
        return parent in self._directories and name in self._directories[parent].names

    def size(self, path: str) -> int:
        return len(self._inode(path).content)

    def modified_ms(self, path: str) -> int:
        return self._inode(path).modified_ms

    def set_modified(self, path: str, modified_ms: int) -> None:
        self._inode(path).modified_ms = modified_ms

    def make_directory(self, path: str) -> None:
        """With those above it. Lasts at once, as does the renaming and removal of directories."""
        parent = path.rpartition("/")[0]
        if parent:
            self.make_directory(parent)
        self._directories.setdefault(path, _Directory())

    def remove_directory(self, path: str) -> None:
        if self._directory(path).names:
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
        del self._directories[path]

    def rename(self, source: str, target: str) -> None:
        self.step("rename")
        if source in self._directories:
            self._directories[target] = self._directories.pop(source)
            return
        directory, old = self._locate(source)
        other, new = self._locate(target)
        assert directory is other, "renames stay within a directory"
        inode = self._inode(source)

        def step(names: _Names) -> None:
            names.pop(old, None)
            names[new] = inode

        directory.change(step)

    def remove(self, path: str) -> None:
        self.step("remove")
        directory, name = self._locate(path)
        self._inode(path)
        directory.change(lambda names: names.__delitem__(name))

    def sync_directory(self, path: str) -> None:
        self.step("sync")
        self._directory(path).sync()

    def lock(self, path: str) -> "SimLock":
        file = self.open(path, create=True)
        if path in self._locks:
            raise BlockingIOError(errno.EWOULDBLOCK, os.strerror(errno.EWOULDBLOCK), path)
        file.truncate(0)
        file.write_at(0, b"%d\n" % os.getpid())
        lock = self._locks[path] = SimLock(path, self)
        return lock

    def unlock(self, lock: "SimLock") -> None:
        """A lock from before a crash is nobody's any more."""
        if self._locks.get(lock.path) is lock:
            del self._locks[lock.path]

    def _directory(self, path: str) -> _Directory:
        try:
            return self._directories[path]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from None

    def _locate(self, path: str) -> tuple[_Directory, str]:
        directory, _, name = path.rpartition("/")
        return self._directory(directory), name

    def _inode(self, path: str) -> _Inode:
        directory, name = self._locate(path)
        if name not in directory.names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return directory.names[name]


class SimFile:
    """An open file of a SimDisk."""

    def __init__(self, path: str, disk: SimDisk, inode: _Inode) -> None:
        self.path = path
        self._disk = disk
        self._inode = inode

    def size(self) -> int:
        return len(self._inode.content)

    def read_at(self, position: int, size: int) -> bytes:
        self._disk.step("read")
        return bytes(self._inode.content[position : position + size])

    def read_into(self, position: int, buffer: Buffer) -> int:
        data = self.read_at(position, len(buffer))
        memoryview(buffer)[: len(data)] = data
        return len(data)

    def write_at(self, position: int, data: Buffer) -> None:
        """A write that fails may still have left some of its bytes, as on a real disk."""
        payload = bytes(data)
        try:
            self._disk.step("write")
        except (OSError, PowerLoss):
            self._inode.write(position, payload[: len(payload) // 2])
            raise
        growth = position + len(payload) - len(self._inode.content)
        if self._disk.capacity is not None and growth > 0:
            room = self._disk.capacity - self._disk.used
            if growth > room:
                self._inode.write(position, payload[: max(0, len(payload) - growth + room)])
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._inode.write(position, payload)
        self._inode.modified_ms = self._disk.now_ms

    def truncate(self, size: int) -> None:
        self._disk.step("truncate")
        self._inode.truncate(size)

    def sync(self) -> None:
        try:
            self._disk.step("sync")
        except OSError:
            self._inode.fail_sync()
            raise
        self._inode.sync()

    def rename(self, path: str) -> None:
        self._disk.rename(self.path, path)
        self.path = path

    def close(self) -> None:
        pass


class SimLock:
    """A held file of a SimDisk."""

    def __init__(self, path: str, disk: SimDisk) -> None:
        self.path = path
        self._disk = disk

    def release(self) -> None:
        self._disk.unlock(self)
