"""One end of a connection in the world: an asyncio transport over two streams, with windows as TCP has them.

What arrives is received by the machine, also while its process is paused; it is read by the process, in a callback of
its loop. A receiver that does not read fills its window, then the sender's buffer, and then the sender is told.
"""

import asyncio
import enum
import errno
import random
from collections import deque
from typing import Any, cast

from ottla.core.types import Buffer
from ottla.testing.simulation.loop import NodeLoop
from ottla.testing.simulation.stream import Stream

WINDOW_BYTES = 256 * 1024
_HIGH_WATER_BYTES = 64 * 1024
_SPLIT = 0.02
"""How likely a read gets only a part of what is there."""


class Sign(enum.Enum):
    """What travels besides bytes."""

    OPEN = enum.auto()
    ACCEPTED = enum.auto()
    REFUSED = enum.auto()
    END = enum.auto()
    RESET = enum.auto()
    READ = enum.auto()


class VirtualTransport(asyncio.Transport):
    """Made by `Wires`, which connects it with the other side."""

    def __init__(self, loop: NodeLoop, extra: dict[str, Any], chance: random.Random) -> None:
        super().__init__(extra)
        self.loop = loop
        self.other: VirtualTransport
        self.out: Stream
        self._chance = chance
        self._protocol: asyncio.BaseProtocol | None = None
        self._received: deque[Buffer | Sign] = deque()
        self._is_reading = True
        self._has_read_soon = False
        self._unsent: deque[bytes] = deque()
        self._unsent_bytes = 0
        self._unread_bytes = 0
        """Sent, and not yet read by the other side."""
        self._high_bytes, self._low_bytes = _HIGH_WATER_BYTES, _HIGH_WATER_BYTES // 4
        self._is_writable = True
        self._is_closing = False
        self._is_lost = False
        self._is_ended = False
        self._is_reset = False

    # --- for the one who uses it --------------------------------------------------------------------------------

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self._protocol is not None
        return self._protocol

    def begin(self, protocol: asyncio.BaseProtocol) -> None:
        """The connection is there: tell the protocol, and read."""
        self._protocol = protocol
        protocol.connection_made(self)
        self._read_soon()

    def is_closing(self) -> bool:
        return self._is_closing

    @property
    def is_lost(self) -> bool:
        return self._is_lost

    def is_reading(self) -> bool:
        return self._is_reading and not self._is_closing

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        if not self._is_reading:
            self._is_reading = True
            self._read_soon()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high_bytes = high if high is not None else _HIGH_WATER_BYTES
        self._low_bytes = low if low is not None else self._high_bytes // 4

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low_bytes, self._high_bytes

    def get_write_buffer_size(self) -> int:
        return self._unsent_bytes

    def can_write_eof(self) -> bool:
        return False

    def write(self, data: Buffer) -> None:
        if self._is_closing or self.loop.is_over or not len(data):
            return
        if self._is_reset:
            self.loop.call_soon(self._lose, _reset())
            return
        payload = bytes(data)
        room = 0 if self._unsent else WINDOW_BYTES - self._unread_bytes
        if room > 0:
            self._send(payload[:room])
        if len(payload) > room:
            rest = payload[max(room, 0) :]
            self._unsent.append(rest)
            self._unsent_bytes += len(rest)
            if self._is_writable and self._unsent_bytes > self._high_bytes:
                self._is_writable = False
                self.get_protocol().pause_writing()

    def close(self) -> None:
        """Let leave what is written; then it is over."""
        if not self._is_closing:
            self._is_closing = True
            if not self._unsent:
                self.loop.call_soon(self._lose, None)

    def abort(self) -> None:
        self._is_closing = True
        self._unsent.clear()
        self._unsent_bytes = 0
        self.loop.call_soon(self._lose, None)

    # --- sending ------------------------------------------------------------------------------------------------

    def _send(self, payload: bytes) -> None:
        self._unread_bytes += len(payload)
        self.out.send(payload)

    def _was_read(self, count: int) -> None:
        """The other side has read so much: there is room for more. It need not be told if nothing waits for it."""
        if self._unsent:
            self.other.out.send((Sign.READ, count))
        else:
            self._unread_bytes -= count

    def _send_rest(self, count: int) -> None:
        self._unread_bytes -= count
        while self._unsent and (room := WINDOW_BYTES - self._unread_bytes) > 0:
            payload = self._unsent.popleft()
            if len(payload) > room:
                self._unsent.appendleft(payload[room:])
                payload = payload[:room]
            self._unsent_bytes -= len(payload)
            self._send(payload)
        if self._is_closing:
            if not self._unsent:
                self._lose(None)
        elif not self._is_writable and self._unsent_bytes <= self._low_bytes:
            self._is_writable = True
            self.get_protocol().resume_writing()

    def end(self, sign: Sign) -> None:
        """Nothing follows: the process closed it, or is no more."""
        if not self._is_ended:
            self._is_ended = True
            self.out.send(sign)

    # --- receiving ----------------------------------------------------------------------------------------------

    def arrive(self, item: Any) -> None:
        """The machine has received something."""
        if isinstance(item, tuple):
            self.loop.call_soon(self._send_rest, item[1])
        elif self._is_lost or self.loop.is_over:
            if item is not Sign.RESET and item is not Sign.END:
                self.out.send(Sign.RESET)  # nobody is here any more
        else:
            self._received.append(item)
            self._read_soon()
            if item is Sign.RESET:
                self._is_reset = True
                if self._unsent:
                    self.loop.call_soon(self._lose, _reset())

    def _read_soon(self) -> None:
        if self._received and self._is_reading and self._protocol is not None and not self._has_read_soon:
            self._has_read_soon = True
            self.loop.call_soon(self._read)

    def _read(self) -> None:
        self._has_read_soon = False
        if not self.is_reading() or not self._received:
            return
        first = self._received[0]
        if first is Sign.RESET:
            self._lose(_reset())
        elif first is Sign.END:
            self._received.clear()
            if not cast(asyncio.Protocol, self._protocol).eof_received():
                self.close()
        else:
            self._take(self._available())
            self._read_soon()

    def _available(self) -> bytes:
        """The bytes that are there; or, as it happens, only the first of them."""
        buffers = []
        while self._received and not isinstance(self._received[0], Sign):
            buffers.append(self._received.popleft())
        data = b"".join(cast(list[bytes], buffers)) if len(buffers) > 1 else cast(bytes, buffers[0])
        if len(data) > 1 and self._chance.random() < _SPLIT:
            count = self._chance.randrange(1, len(data))
            self._received.appendleft(data[count:])
            data = data[:count]
        return data

    def _take(self, data: bytes) -> None:
        protocol = self._protocol
        if isinstance(protocol, asyncio.BufferedProtocol):
            room = memoryview(protocol.get_buffer(-1))
            count = min(len(room), len(data))
            room[:count] = data[:count]
            if count < len(data):
                self._received.appendleft(data[count:])
            self.other._was_read(count)
            protocol.buffer_updated(count)
        else:
            self.other._was_read(len(data))
            cast(asyncio.Protocol, protocol).data_received(data)

    def _lose(self, error: Exception | None) -> None:
        if self._is_lost:
            return
        self._is_lost = self._is_closing = True
        self._unsent.clear()
        self._unsent_bytes = 0
        self._received.clear()
        self.end(Sign.END)
        if self._protocol is not None:
            self._protocol.connection_lost(error)


def _reset() -> ConnectionResetError:
    return ConnectionResetError(errno.ECONNRESET, "the other side has reset the connection")
