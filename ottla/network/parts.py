"""What waits to be sent on a connection: buffers, and stretches of files that are read when there is room for them.

A stretch costs no memory while it waits. When its turn comes it is read into a buffer from a pool that all connections
share, together with the small buffers around it, so that most replies are one write to the socket.
"""

from collections import deque
from typing import TypeGuard, cast

from ottla.core.types import Buffer, Part, Stretch
from ottla.storage.files import aligned_buffer

CHUNK_BYTES = 1024 * 1024
"""How much of a file is in memory for one connection at a time."""
_BUFFER_BYTES = CHUNK_BYTES + 64 * 1024
"""A buffer also takes a whole request with a megabyte of records, headers included."""
_SMALL = 64 * 1024  # below this, copying a buffer is cheaper than one more write


def is_buffer(part: Part) -> TypeGuard[Buffer]:
    kind = type(part)
    return kind is bytearray or kind is memoryview or kind is bytes


def held_bytes(parts: list[Part]) -> int:
    """What parts take in memory; stretches take nothing."""
    return sum(len(part) for part in parts if is_buffer(part))


class ShortRead(OSError):
    """A file ended before the bytes that were promised to the peer: it was truncated meanwhile."""


class BufferPool:
    """Buffers that are free. Few are ever needed at once: only connections in the middle of a transfer hold one."""

    buffer_bytes = _BUFFER_BYTES

    def __init__(self, kept_max: int = 8) -> None:
        self._free: list[memoryview] = []
        self._kept_max = kept_max

    def take(self) -> memoryview:
        return self._free.pop() if self._free else aligned_buffer(self.buffer_bytes)

    def give_back(self, buffer: memoryview) -> None:
        if len(self._free) < self._kept_max:
            self._free.append(buffer)


class Outbox:
    """The parts that wait for the socket, in order."""

    def __init__(self) -> None:
        self._parts: deque[Part] = deque()
        self._start = 0
        """How much of the first part has been taken already."""
        self.held_bytes = 0
        """What the parts take in memory."""

    def __bool__(self) -> bool:
        return bool(self._parts)

    def put(self, parts: list[Part]) -> None:
        for part in parts:
            if is_buffer(part):
                self.held_bytes += len(part)
            self._parts.append(part)

    def clear(self) -> None:
        self._parts.clear()
        self._start = self.held_bytes = 0

    def take_buffer(self) -> Buffer | None:
        """The first part, if it can be sent as it is: alone, or too large to be copied."""
        part = self._parts[0]
        if is_buffer(part) and (len(self._parts) == 1 or len(part) >= _SMALL):
            self._parts.popleft()
            self.held_bytes -= len(part)
            return part
        return None

    def fill(self, buffer: memoryview) -> int:
        """Move small buffers and stretches into `buffer` until it is full; how many bytes.

        Raises ShortRead if a file lacks some.
        """
        filled, room = 0, min(len(buffer), CHUNK_BYTES)
        while self._parts and filled < room:
            part = self._parts[0]
            if not is_buffer(part):
                filled += self._read(cast(Stretch, part), buffer[filled:room])
            elif len(part) < _SMALL and len(part) <= room - filled:
                buffer[filled : filled + len(part)] = part
                filled += len(part)
                self.held_bytes -= len(part)
                self._parts.popleft()
            else:
                break
        return filled

    def _read(self, stretch: Stretch, buffer: memoryview) -> int:
        wanted = min(stretch.size - self._start, len(buffer))
        got = stretch.read_into(self._start, buffer[:wanted])
        if got < wanted:
            raise ShortRead(f"{stretch} ends {wanted - got} bytes early")
        self._start += got
        if self._start == stretch.size:
            self._parts.popleft()
            self._start = 0
        return got
