"""Where answers arrive: bytes in, frames out, without a copy of what is large.

Small frames are cut out of one buffer that is filled again and again. A frame that does not fit gets a buffer of its
own, of anonymous memory: it takes up room as bytes arrive, not when their number is announced, and the receiver may
keep views of it for as long as it likes. One that says when it is done with them gets the next frame into the same
memory: to receive into fresh pages takes seven times as long.
"""

import struct
from collections.abc import Iterator

from ottla.core.types import Buffer
from ottla.protocol.framing import FRAME_BYTES_MAX, size_of
from ottla.storage.files import aligned_buffer

_SIZE = struct.Struct(">i")
RECEIVE_BYTES = 64 * 1024
KEPT_BYTES_MAX = 4 * 1024 * 1024
"""Memory of a connection that may stay between two large frames: what a follower gets at a time, under load."""


class Inbox:
    """Fill `room()`, say how much arrived, and take the frames that are complete."""

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX, kept_bytes_max: int = KEPT_BYTES_MAX) -> None:
        self.frame_bytes_max, self.kept_bytes_max = frame_bytes_max, kept_bytes_max
        self._received = memoryview(bytearray(RECEIVE_BYTES))
        self._large: memoryview | None = None
        """The frame that is on its way and does not fit."""
        self._memory: memoryview | None = None
        """Where it lies."""
        self._filled = 0
        self._lent: memoryview | None = None
        """Where the last large frame lies that was handed out."""
        self._spare: memoryview | None = None

    def recycle(self) -> None:
        """Nobody looks at the frames any more that have come so far: the memory of the last one may be used again."""
        if self._lent is not None and len(self._lent) <= self.kept_bytes_max:
            self._spare = self._lent
        self._lent = None

    def room(self) -> memoryview:
        """Where the next bytes belong; never empty."""
        return (self._received if self._large is None else self._large)[self._filled :]

    def arrived(self, count: int) -> Iterator[Buffer]:
        """Every frame that is whole now. Must be read to its end; raises ProtocolError for a size that cannot be."""
        self._filled += count
        if self._large is None:
            yield from self._cut()
        elif self._filled == len(self._large):
            frame, self._large, self._filled = self._large, None, 0
            self._lent, self._memory = self._memory, None
            yield frame

    def _cut(self) -> Iterator[Buffer]:
        position, end, received = 0, self._filled, self._received
        while end - position >= _SIZE.size:
            size, start = size_of(received, position, self.frame_bytes_max), position + _SIZE.size
            if size > end - start:
                if size > RECEIVE_BYTES - _SIZE.size:
                    self._set_aside(size, received[start:end])
                    return
                break
            yield bytes(received[start : start + size])
            position = start + size
        if position:
            received[: end - position] = bytes(received[position:end])
            self._filled = end - position

    def _set_aside(self, size: int, beginning: memoryview) -> None:
        memory, self._spare = self._spare, None
        if memory is None or len(memory) < size:
            memory = aligned_buffer(size)
        self._memory, self._large, self._filled = memory, memory[:size], len(beginning)
        self._large[: self._filled] = beginning
