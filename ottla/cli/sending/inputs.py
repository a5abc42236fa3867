"""Where records come from: stdin, files, words of the command line. Read in large blocks, and cut into records there.

A pipe or a terminal is read when something is there, so that Ctrl-C and answers of brokers are never kept waiting. What
is too long to be a record is found out before it fills the memory.
"""

import asyncio
import os
import stat
import sys
from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

from ottla.cli.remote import Failed

BLOCK_SIZE = 1 << 20
_PIPE_SIZE = 1 << 20  # instead of the 64 KiB that a pipe has on Linux: fewer, larger reads
_SET_PIPE_SIZE = 1031  # F_SETPIPE_SZ; the module fcntl has it by name from Python 3.10 on, on Linux only
STDIN = "-"


class Block(NamedTuple):
    """Records in a row as they stand in an input, without what ends them. `first` counts them from 1."""

    source: str
    first: int
    pieces: Sequence[bytes | None]
    size: int
    """Bytes read."""

    def place(self, index: int, noun: str = "line") -> str:
        """Where one of them stands, for a sentence."""
        at = f"{noun} {self.first + index}"
        return at if self.source == STDIN else f"{self.source}, {at}"


class Input:
    """A file, or stdin. `size` is how much is in it, if somebody knows."""

    def __init__(self, path: str = STDIN) -> None:
        self.path = path
        self._is_own = path != STDIN
        if self._is_own:
            self._fd = os.open(path, os.O_RDONLY)
        else:
            if sys.stdin is None:  # whatever has the number 0 now is not what was meant
                raise Failed("stdin is closed: there is nothing to read records from")
            self._fd = sys.stdin.fileno()
        mode = os.fstat(self._fd).st_mode
        if stat.S_ISDIR(mode):
            self.close()
            raise Failed(f"{path} is a directory, and no file with records")
        self._is_waited_for = not stat.S_ISREG(mode)
        self.size = os.fstat(self._fd).st_size if stat.S_ISREG(mode) else None
        if stat.S_ISFIFO(mode):
            self._widen()

    @property
    def is_terminal(self) -> bool:
        return os.isatty(self._fd)

    def close(self) -> None:
        if self._is_own:
            os.close(self._fd)

    def _widen(self) -> None:
        try:
            import fcntl

            fcntl.fcntl(self._fd, _SET_PIPE_SIZE, _PIPE_SIZE)
        except (ImportError, OSError):
            pass  # it is only slower

    async def read(self) -> bytes:
        """Some bytes, none at the end."""
        if self._is_waited_for:
            await self._readable()
        try:
            return os.read(self._fd, BLOCK_SIZE)
        except OSError as error:
            name = self.path if self._is_own else "stdin"
            raise Failed(f"{name} cannot be read: {error.strerror}") from None

    async def _readable(self) -> None:
        loop = asyncio.get_running_loop()
        is_there: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            if not is_there.done():
                is_there.set_result(None)

        try:
            loop.add_reader(self._fd, wake)
        except PermissionError:  # such as /dev/null: it never keeps anybody waiting
            self._is_waited_for = False
            return
        try:
            await is_there
        finally:
            loop.remove_reader(self._fd)


class Cutter:
    """Cuts bytes, as they come, where `end` is. What has none yet is held, and looked at once."""

    def __init__(self, end: bytes) -> None:
        self._end = end
        self._held: list[bytes] = []
        self._seam = b""
        """The last bytes, as far as an end could begin in them."""
        self.held_size = 0

    def cut(self, data: bytes) -> list[bytes]:
        """The pieces that end in here."""
        end = self._end
        if end not in (self._seam + data if self._seam else data):
            self._held.append(data)
            self.held_size += len(data)
            self._seam = self._last_of(self._seam + data)
            return []
        pieces = (b"".join((*self._held, data)) if self._held else data).split(end)
        rest = pieces.pop()
        self._held, self.held_size, self._seam = [rest] if rest else [], len(rest), self._last_of(rest)
        return pieces

    def _last_of(self, data: bytes) -> bytes:
        return data[-(len(self._end) - 1) :] if len(self._end) > 1 else b""

    def rest(self) -> bytes:
        """What has no end."""
        return b"".join(self._held)


async def blocks(source: Input, end: bytes, piece_size_max: int) -> AsyncIterator[Block]:
    """The pieces of an input, each of them ended by `end`; the last one may do without. Raises `Failed` for one that is
    longer than any record may be."""
    first, cutter = 1, Cutter(end)
    while data := await source.read():
        if pieces := cutter.cut(data):
            yield Block(source.path, first, pieces, len(data))
            first += len(pieces)
        if cutter.held_size > piece_size_max:
            where = Block(source.path, first, (), 0).place(0)
            raise Failed(
                f"{where} has more than {piece_size_max} bytes, and no end: raise -X buffer.memory if it is a record"
            )
    if rest := cutter.rest():
        yield Block(source.path, first, [rest], len(rest))


async def given(values: Sequence[bytes | None]) -> AsyncIterator[Block]:
    """Those that stand on the command line."""
    yield Block("--value", 1, values, sum(len(each or b"") for each in values))
