"""A file system that forgets: what was not synced is gone when the power is lost.

`python -m tests.cluster.forgetful DIRECTORY` mounts one there, over FUSE, all of it in memory. Bytes last when their
file was synced, names when their directory was; as POSIX promises, and no more. Whoever writes to the file `.power` in
it cuts the power: each file goes back to what was synced and some of the writes that followed, as chance has it, the
last of them torn. The process that mounts it outlives the power. Tests do not import this, but `tests.cluster.power`:
where there is no libfuse, this cannot be imported.
"""

import errno
import itertools
import os
import random
import stat
import sys
import time
from typing import Any

import mfusepy

from tests.cluster.power import POWER

FREE_BYTES = 1 << 40
_BLOCK = 4096
_HIDDEN = ".fuse_hidden"  # what libfuse calls a file that was removed while somebody has it open


class FileNode:
    """The bytes of a file: as they are, as they last, and what was done since."""

    def __init__(self) -> None:
        self.content = bytearray()
        self.modified_ns = time.time_ns()
        self._synced = bytearray()
        self._changes: list[tuple[int, bytes | None]] = []
        """Positions and what was written there; None where the file was cut, or made longer."""

    def change(self, position: int, data: bytes | None) -> None:
        _apply(self.content, position, data)
        self._changes.append((position, data))
        self.modified_ns = time.time_ns()

    def sync(self) -> None:
        self._keep(len(self._changes))

    def lose_power(self, source: random.Random) -> None:
        count = source.randint(0, len(self._changes))
        torn = self._changes[count] if count < len(self._changes) else None
        self._keep(count)
        if torn is not None and torn[1] is not None:
            _apply(self._synced, torn[0], torn[1][: source.randint(0, len(torn[1]))])
        self.content = self._synced[:]

    def _keep(self, count: int) -> None:
        for position, data in self._changes[:count]:
            _apply(self._synced, position, data)
        self._changes.clear()


def _apply(content: bytearray, position: int, data: bytes | None) -> None:
    if data is None:
        del content[position:]
    content.extend(bytes(max(position - len(content), 0)))
    if data is not None:
        content[position : position + len(data)] = data


class DirectoryNode:
    """The names in a directory: as they are, and as they last."""

    def __init__(self) -> None:
        self.entries: dict[str, FileNode | DirectoryNode] = {}
        self.modified_ns = time.time_ns()
        self._synced: dict[str, FileNode | DirectoryNode] = {}

    def names(self) -> list[str]:
        return [name for name in self.entries if not name.startswith(_HIDDEN)]

    def sync(self) -> None:
        self._synced = {name: self.entries[name] for name in self.names()}

    def lose_power(self, source: random.Random) -> None:
        self.entries = dict(self._synced)
        for node in self.entries.values():
            node.lose_power(source)


class ForgetfulFiles(mfusepy.Operations):  # type: ignore[misc]
    """What FUSE asks for."""

    use_ns = True

    def __init__(self) -> None:
        self._root = DirectoryNode()
        self._open: dict[int, FileNode] = {}
        self._handles = itertools.count(1)
        self._source = random.Random(7)

    def _find(self, path: str) -> FileNode | DirectoryNode:
        node: FileNode | DirectoryNode = self._root
        for name in filter(None, path.split("/")):
            if not isinstance(node, DirectoryNode) or name not in node.entries:
                raise mfusepy.FuseOSError(errno.ENOENT)
            node = node.entries[name]
        return node

    def _directory(self, path: str) -> DirectoryNode:
        node = self._find(path)
        if not isinstance(node, DirectoryNode):
            raise mfusepy.FuseOSError(errno.ENOTDIR)
        return node

    def _above(self, path: str) -> tuple[DirectoryNode, str]:
        parent, _, name = path.rpartition("/")
        return self._directory(parent), name

    def _file(self, path: str, handle: int | None) -> FileNode:
        node = self._open.get(handle) if handle else None
        found = node if node is not None else self._find(path)
        if not isinstance(found, FileNode):
            raise mfusepy.FuseOSError(errno.EISDIR)
        return found

    def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
        if path == f"/{POWER}":
            return {"st_mode": stat.S_IFREG | 0o600, "st_size": 0, "st_nlink": 1}
        node = self._open.get(fh) if fh else None
        node = node if node is not None else self._find(path)
        times = dict.fromkeys(("st_mtime", "st_ctime", "st_atime"), node.modified_ns)
        if isinstance(node, DirectoryNode):
            return {"st_mode": stat.S_IFDIR | 0o755, "st_nlink": 2, **times}
        size = len(node.content)
        return {"st_mode": stat.S_IFREG | 0o644, "st_nlink": 1, "st_size": size, **times}

    def readdir(self, path: str, fh: int) -> list[str]:
        return [".", "..", *self._directory(path).names()]

    def mkdir(self, path: str, mode: int) -> int:
        parent, name = self._above(path)
        if name in parent.entries:
            raise mfusepy.FuseOSError(errno.EEXIST)
        parent.entries[name] = DirectoryNode()
        return 0

    def rmdir(self, path: str) -> int:
        parent, name = self._above(path)
        if self._directory(path).entries:
            raise mfusepy.FuseOSError(errno.ENOTEMPTY)
        del parent.entries[name]
        return 0

    def create(self, path: str, mode: int, fi: Any = None) -> int:
        parent, name = self._above(path)
        parent.entries[name] = FileNode()
        return self.open(path, 0)

    def open(self, path: str, flags: int) -> int:
        if path == f"/{POWER}":
            return 0
        handle = next(self._handles)
        self._open[handle] = self._file(path, None)
        if flags & os.O_TRUNC:
            self._open[handle].change(0, None)
        return handle

    def release(self, path: str, fh: int) -> int:
        self._open.pop(fh, None)
        return 0

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        return bytes(memoryview(self._file(path, fh).content)[offset : offset + size])

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        if path == f"/{POWER}":
            self._root.lose_power(self._source)
        else:
            self._file(path, fh).change(offset, bytes(data))
        return len(data)

    def truncate(self, path: str, length: int, fh: int | None = None) -> int:
        if path != f"/{POWER}":
            self._file(path, fh).change(length, None)
        return 0

    def unlink(self, path: str) -> int:
        parent, name = self._above(path)
        del parent.entries[name]
        return 0

    def rename(self, old: str, new: str) -> int:
        source, was = self._above(old)
        target, name = self._above(new)
        target.entries[name] = source.entries.pop(was)
        return 0

    def fsync(self, path: str, datasync: int, fh: int) -> int:
        self._file(path, fh).sync()
        return 0

    def fsyncdir(self, path: str, datasync: int, fh: int) -> int:
        self._directory(path).sync()
        return 0

    def utimens(self, path: str, times: tuple[int, int] | None = None) -> int:
        self._find(path).modified_ns = times[1] if times else time.time_ns()
        return 0

    def chmod(self, path: str, mode: int) -> int:
        return 0

    def statfs(self, path: str) -> dict[str, int]:
        blocks = FREE_BYTES // _BLOCK
        counts = dict.fromkeys(("f_blocks", "f_bfree", "f_bavail"), blocks)
        return {"f_bsize": _BLOCK, "f_frsize": _BLOCK, "f_namemax": 255, **counts}


if __name__ == "__main__":
    mfusepy.FUSE(
        ForgetfulFiles(), sys.argv[1], foreground=True, nothreads=True, direct_io=True,
        attr_timeout=0, entry_timeout=0, negative_timeout=0,
    )  # fmt: skip
