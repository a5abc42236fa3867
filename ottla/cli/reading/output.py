"""Stdout as bytes, in pieces as large as they come. Who reads it may hang up, also while nothing is written."""

import os
import select
import stat
import sys
from typing import BinaryIO, TextIO


class Output:
    """`write` returns when everything is out of this process. Raises BrokenPipeError when nobody reads any more."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout
        buffer: BinaryIO | None = getattr(self._stream, "buffer", None)
        self._buffer = buffer
        self._pipe = _pipe_of(buffer)
        self.is_terminal = self._stream.isatty()
        self.size = 0

    def write(self, data: bytes) -> None:
        if not data:
            return
        if self._buffer is None:
            self._stream.write(data.decode("utf-8", "surrogateescape"))
            self._stream.flush()
        else:
            self._buffer.write(data)
            self._buffer.flush()
        self.size += len(data)

    def check(self) -> None:
        """Has the reader of a pipe gone? Whoever only waits would never find out."""
        if self._pipe is None:
            return
        poll = select.poll()
        poll.register(self._pipe, 0)
        if any(event & (select.POLLERR | select.POLLNVAL) for _, event in poll.poll(0)):
            raise BrokenPipeError("nobody reads stdout any more")


def _pipe_of(buffer: BinaryIO | None) -> int | None:
    """The descriptor, if it is that of a pipe or a socket."""
    try:
        number = -1 if buffer is None else buffer.fileno()
        mode = os.fstat(number).st_mode
    except (OSError, ValueError):
        return None
    return number if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) else None
