"""A connection that a client opened: step 1 in the life of a request, and the last step of its reply.

Bytes become frames, frames become replies, and replies leave in the order of their requests, whatever order they are
ready in. Whoever serves gets a frame and returns the parts of the reply, or a future of them if it has to wait.

Nothing here grows with what a peer does or leaves undone. Small requests are cut out of one receive buffer that all
connections share, so an idle connection holds none; a large one gets a buffer that grows with what has arrived, not
with what was announced. While replies wait for a peer that does not read, or behind a request that takes its time, or
too many requests are under way, no more is read from it.
"""

import asyncio
import logging
import struct
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, cast

from ottla.core.errors import ProtocolError
from ottla.core.types import Buffer, Part
from ottla.network.complaints import Complaints
from ottla.network.parts import BufferPool, Outbox, ShortRead, held_bytes, is_buffer
from ottla.protocol.framing import FRAME_BYTES_MAX, size_of
from ottla.storage.files import aligned_buffer

logger = logging.getLogger(__name__)

_SIZE = struct.Struct(">i")
_RECEIVE_BYTES = 256 * 1024
_FLUSH_BYTES = 64 * 1024  # replies to requests that came together are sent together, up to here

Parts = list[Part]
Reply = Parts | asyncio.Future[Parts]
Serve = Callable[["Connection", Buffer], Reply]


class Limits(NamedTuple):
    """What one connection may cost."""

    frame_bytes_max: int = FRAME_BYTES_MAX
    in_flight_max: int = 64
    frame_timeout_ms: int = 60_000
    stall_timeout_ms: int = 60_000
    idle_timeout_ms: int = 600_000
    queued_bytes_max: int = 1024 * 1024
    """Replies that are ready and wait for one before them."""


class Hub:
    """What the connections of one event loop share."""

    def __init__(self, serve: Serve, limits: Limits, now_ms: Callable[[], int]) -> None:
        self.serve = serve
        self.limits = limits
        self.now_ms = now_ms
        self.connections: dict[Connection, None] = {}
        """In the order in which they came: who is closed first must not be left to chance."""
        self.received = aligned_buffer(_RECEIVE_BYTES)
        self.pool = BufferPool()
        self.complaints = Complaints()
        self.bytes_in = 0
        self.bytes_out = 0


class Connection(asyncio.BufferedProtocol):
    """One client. Knows who it is and how it got here; what its requests mean is for others to know."""

    def __init__(self, hub: Hub, listener: str) -> None:
        self._hub = hub
        self._serve = hub.serve
        self.listener = listener
        self.peer_host = ""
        self.peer = "?"
        self.principal = "User:ANONYMOUS"
        self.appending: asyncio.Future[None] | None = None
        self.shortcut: Any = None
        self.last_prefix: bytes | None = None
        """What whoever serves remembers of the last requests."""
        self.is_open = False
        self._transport: asyncio.Transport = cast(asyncio.Transport, None)
        # Receiving: a frame that has come in part, or complete ones that have to wait.
        self._partial: memoryview | None = None
        self._filled = 0
        self._frame_size = 0
        self._backlog: Buffer = b""
        # Answering.
        self._replies: deque[Reply] = deque()
        self._queued_bytes = 0
        self._outbox = Outbox()
        self._lent: memoryview | None = None
        """A buffer that the transport still reads from."""
        self._is_reading = True
        self._is_writable = True
        self._unsent_bytes = 0
        self._mutes = 0
        self.active_ms = 0
        """When something last moved, in either direction."""
        self.frame_since_ms: int | None = None
        """Since when a frame has been incomplete."""

    # --- life ---------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        name = transport.get_extra_info("peername")
        if name:
            self.peer_host, self.peer = str(name[0]), f"{name[0]}:{name[1]}"
        # Without a threshold a write is tried at once, and pause_writing says that not all of it was taken.
        self._transport.set_write_buffer_limits(0)
        self.is_open = True
        self.active_ms = self._hub.now_ms()
        self._hub.connections[self] = None

    def connection_lost(self, error: Exception | None) -> None:
        self.is_open = False
        self._hub.connections.pop(self, None)
        self._outbox.clear()
        self._partial, self._backlog, self._lent = None, b"", None
        for reply in self._replies:
            if not isinstance(reply, list):
                reply.cancel()
        self._replies.clear()

    def close(self, reason: str | None = None) -> None:
        """Drop the connection. A reason is worth a line in the log, though not every time."""
        if reason and self.is_open:
            said = self._hub.complaints.about(self.peer_host, reason, self._hub.now_ms())
            if said is not None:
                logger.warning("closed the connection of %s: %s", self.peer, said)
        self.is_open = False
        self._transport.abort()

    def mute(self, seconds: float) -> None:
        """Read nothing from this peer for a while: how a broker slows down who asks too much."""
        self._mutes += 1
        self._pause()
        asyncio.get_running_loop().call_later(seconds, self._unmute)

    def _unmute(self) -> None:
        self._mutes -= 1
        self._go_on()

    def finish(self) -> None:
        """Take no more requests. `is_answering` tells when those that came before are answered."""
        self._mutes += 1
        self._pause()

    @property
    def is_answering(self) -> bool:
        """Is there something to answer, or to send?"""
        return bool(self._replies or self._outbox or self._lent) or not self._is_writable

    @property
    def is_idle(self) -> bool:
        """Is there nothing to answer and nothing to send?"""
        return not (self._replies or self._outbox or self._lent or self._partial or self._backlog)

    @property
    def descriptor(self) -> int:
        return int(self._transport.get_extra_info("socket").fileno())

    @property
    def is_stalled(self) -> bool:
        """Does the peer leave replies unread?"""
        return not self._is_writable

    @property
    def is_reading(self) -> bool:
        """Is it the peer's turn, or does it have to wait for us?"""
        return self._is_reading

    def note_progress(self, now_ms: int) -> None:
        """A peer that takes a large reply slowly does take it: less is unsent than when we last looked."""
        if not self._is_writable:
            unsent = self._transport.get_write_buffer_size()
            if unsent < self._unsent_bytes:
                self.active_ms = now_ms
            self._unsent_bytes = unsent

    # --- receiving ----------------------------------------------------------------------------------------------

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._partial is None:
            return self._hub.received
        return self._partial[self._filled :]

    def buffer_updated(self, count: int) -> None:
        hub = self._hub
        hub.bytes_in += count
        self.active_ms = hub.now_ms()
        try:
            if self._partial is None:
                if not self._serve_alone(hub.received, count):
                    self._cut(hub.received, count)
            else:
                self._filled += count
                if self._filled == len(self._partial):
                    self._complete(self._partial)
        except Exception as error:
            self._give_up(error)
            return
        if self._outbox:
            self._flush()

    def _serve_alone(self, data: memoryview, count: int) -> bool:
        """The usual case, without ado: one whole request, nothing before it, a reply of one buffer."""
        if count <= _SIZE.size or _SIZE.unpack_from(data)[0] != count - _SIZE.size:
            return False
        if self._replies or self._outbox or count > self._hub.limits.frame_bytes_max:
            return False
        reply = self._serve(self, bytes(data[_SIZE.size : count]))
        if type(reply) is list and len(reply) == 1 and self.is_open and is_buffer(part := reply[0]):
            self._hub.bytes_out += len(part)
            self._transport.write(part)
        else:
            self._accept(reply)
        return True

    def _give_up(self, error: Exception) -> None:
        """This request has no answer, and so nothing after it can have one. What is answered already is sent."""
        self._flush()
        if not isinstance(error, ProtocolError):
            logger.error("a request of %s could not be served", self.peer, exc_info=error)
        self.close(str(error) if isinstance(error, ProtocolError) else "a request could not be served")

    def eof_received(self) -> bool:
        return False  # the transport closes; replies under way have nobody to go to

    def _cut(self, data: Buffer, end: int) -> None:
        """Serve every whole frame in `data`; keep what is left."""
        position = 0
        while end - position >= _SIZE.size and self.is_open:
            stop = position + _SIZE.size + size_of(data, position, self._hub.limits.frame_bytes_max)
            if stop > end:
                break
            if self._must_wait():
                rest = memoryview(data)[position:end]  # a view, or each reply would copy all that waits
                self._backlog = bytes(rest) if data is self._hub.received else rest
                self._pause()
                return
            self._take(bytes(data[position + _SIZE.size : stop]))
            position = stop
            if self._outbox.held_bytes > _FLUSH_BYTES:
                self._flush()
        self._backlog = b""
        self._keep(data, position, end)

    def _keep(self, data: Buffer, start: int, end: int) -> None:
        """Set the beginning of a frame aside, in a buffer for the rest of it."""
        count = end - start
        if count == 0 or not self.is_open:
            self._partial, self.frame_since_ms = None, None
            return
        if count < _SIZE.size:
            self._frame_size, room = 0, memoryview(bytearray(_SIZE.size))
        else:
            self._frame_size = _SIZE.size + size_of(data, start, self._hub.limits.frame_bytes_max)
            room = self._room_for(self._frame_size, count)
        room[:count] = data[start:end]
        self._partial, self._filled = room, count
        if self.frame_since_ms is None:
            self.frame_since_ms = self.active_ms

    def _room_for(self, size: int, arrived: int) -> memoryview:
        """For a whole frame if it is of a usual size; else for twice of what has come."""
        if size <= 4096:
            return memoryview(bytearray(size))
        pooled = self._hub.pool.take()
        if size <= len(pooled):
            return pooled[:size]
        if 2 * arrived <= len(pooled):
            return pooled
        self._hub.pool.give_back(pooled)
        return aligned_buffer(min(size, 2 * arrived))

    def _complete(self, partial: memoryview) -> None:
        """The buffer is full: the frame is whole, or it is time for a larger one."""
        if self._frame_size == 0:
            self._frame_size = _SIZE.size + size_of(partial, 0, self._hub.limits.frame_bytes_max)
        if self._filled < self._frame_size:
            self._keep(partial, 0, self._filled)
            return
        self._partial, self.frame_since_ms = None, None
        if self._must_wait():
            self._backlog = partial
            self._pause()
            return
        if self._take(partial[_SIZE.size :]):
            self._recycle(partial)

    def _recycle(self, buffer: memoryview) -> None:
        """Give a buffer back to the pool: its request is answered and nobody looks at it any more."""
        whole = memoryview(buffer.obj)
        if len(whole) > 4096 and len(whole) == self._hub.pool.buffer_bytes:
            self._hub.pool.give_back(whole)

    def _must_wait(self) -> bool:
        """Are there too many requests under way, replies that are not read, or a throttle?"""
        limits = self._hub.limits
        is_full = len(self._replies) >= limits.in_flight_max or self._queued_bytes > limits.queued_bytes_max
        return is_full or not self._is_writable or self._mutes > 0

    def _pause(self) -> None:
        if self._is_reading and self.is_open:
            self._is_reading = False
            self._transport.pause_reading()

    def _go_on(self) -> None:
        """Take up what had to wait, then read again."""
        if self._is_reading or not self.is_open or self._must_wait():
            return
        if self._backlog:
            backlog, self._backlog = self._backlog, b""
            try:
                self._cut(backlog, len(backlog))
            except Exception as error:
                self._give_up(error)
                return
            if self._outbox:
                self._flush()
        if not self._backlog and self.is_open and not self._must_wait():
            self._is_reading = True
            if self.frame_since_ms is not None:
                self.frame_since_ms = self._hub.now_ms()  # until now the rest was not waited for
            self._transport.resume_reading()

    # --- answering ----------------------------------------------------------------------------------------------

    def _take(self, frame: Buffer) -> bool:
        """Have a request served. True if its answer is there already."""
        return self._accept(self._serve(self, frame))

    def _accept(self, reply: Reply) -> bool:
        """Take a reply in, whose turn may come later. True if it is there already."""
        if isinstance(reply, list):
            if self._replies:
                self._replies.append(reply)
                self._queued_bytes += held_bytes(reply)
            else:
                self._outbox.put(reply)
            return True
        self._replies.append(reply)
        reply.add_done_callback(self._on_ready)
        return False

    def _on_ready(self, ready: asyncio.Future[Parts]) -> None:
        """Send what is ready from the front of the queue on: a reply waits for those before it."""
        error = None if ready.cancelled() else ready.exception()
        if error is not None:
            logger.error("a request of %s could not be answered", self.peer, exc_info=error)
        elif not ready.cancelled():
            self._queued_bytes += held_bytes(ready.result())
        if not self.is_open:
            return
        self.active_ms = self._hub.now_ms()
        self._dequeue()
        self._flush()
        self._go_on()

    def _dequeue(self) -> None:
        while self._replies:
            first = self._replies[0]
            if not isinstance(first, list):
                if not first.done():
                    return
                if first.cancelled() or first.exception() is not None:
                    self._flush()
                    self.close("a request could not be answered")
                    return
                first = first.result()
            self._queued_bytes -= held_bytes(first)
            self._outbox.put(first)
            self._replies.popleft()

    def _flush(self) -> None:
        """Give parts to the transport until it has enough."""
        outbox, hub = self._outbox, self._hub
        while outbox and self._is_writable and self.is_open:
            buffer = outbox.take_buffer()
            if buffer is not None:
                hub.bytes_out += len(buffer)
                self._transport.write(buffer)
                continue
            self._lent = hub.pool.take()
            try:
                count = outbox.fill(self._lent)
            except (ShortRead, OSError) as error:
                self.close(f"a reply could not be read from the log: {error}")
                return
            hub.bytes_out += count
            self._transport.write(self._lent[:count])
            if self._is_writable:
                self._return_lent()

    def _return_lent(self) -> None:
        if self._lent is not None:
            self._hub.pool.give_back(self._lent)
            self._lent = None

    def pause_writing(self) -> None:
        self._is_writable = False
        self.active_ms = self._hub.now_ms()
        self._unsent_bytes = self._transport.get_write_buffer_size()
        self._pause()

    def resume_writing(self) -> None:
        self._is_writable = True
        self.active_ms = self._hub.now_ms()
        self._return_lent()
        self._flush()
        self._go_on()
