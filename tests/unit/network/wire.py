"""Both ends of real connections over loopback, and a transport that does only what a test says."""

import asyncio
import contextlib
import socket
import struct
from collections.abc import Awaitable, Callable
from typing import Any

import uvloop

from ottla.core.clock import ManualClock
from ottla.network.connection import Connection, Hub, Limits

LOOPS = {"stdlib": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


def run(loop: str, main: Awaitable[None]) -> None:
    """Run to the end on the named event loop; nothing may be left running."""

    async def bounded() -> None:
        await asyncio.wait_for(main, 120)
        await until(lambda: asyncio.all_tasks() == {asyncio.current_task()})

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(bounded())


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0)


def frame(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def echo(connection: Connection, request: Any) -> list[Any]:
    return [frame(bytes(request))]


class Pattern:
    """A stretch of bytes that tell where they come from."""

    def __init__(self, seed: int, size: int) -> None:
        self._content = pattern(seed, size)
        self.size = size

    def read_into(self, start: int, buffer: memoryview) -> int:
        data = self._content[start : start + len(buffer)]
        buffer[: len(data)] = data
        return len(data)


def pattern(seed: int, size: int) -> bytes:
    """No two stretches of it are alike, nor those of another seed."""
    return b"".join(struct.pack(">II", seed, number) for number in range(size // 8 + 1))[:size]


class Client:
    """A client that sends and reads what it is told to, no more."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    async def send(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self._sock, data)

    async def receive(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            piece = await asyncio.get_running_loop().sock_recv(self._sock, min(count - len(data), 1 << 16))
            if not piece:
                raise ConnectionResetError("the server has closed")
            data += piece
        return bytes(data)

    async def reply(self) -> bytes:
        (size,) = struct.unpack(">i", await self.receive(4))
        return await self.receive(size)

    async def is_closed(self) -> bool:
        """Wait for the end; there must be nothing before it."""
        try:
            return await asyncio.get_running_loop().sock_recv(self._sock, 1) == b""
        except ConnectionResetError:
            return True

    def close(self) -> None:
        self._sock.close()


async def connect(port: int, *, receive_bytes: int | None = None) -> Client:
    sock = socket.socket()
    sock.setblocking(False)
    if receive_bytes is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    try:
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
    except OSError:
        sock.close()
        raise
    return Client(sock)


class Scene:
    """Connections to whoever serves; `async with` closes them all."""

    def __init__(self, serve: Any, limits: Limits | None = None) -> None:
        self.clock = ManualClock()
        self.hub = Hub(serve, limits or Limits(), self.clock.monotonic_ms)
        self._clients: list[Client] = []
        self._server: asyncio.Server

    async def __aenter__(self) -> "Scene":
        self._server = await asyncio.get_running_loop().create_server(
            lambda: Connection(self.hub, "PLAINTEXT"), "127.0.0.1", 0
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for client in self._clients:
            client.close()
        for connection in list(self.hub.connections):
            connection.close()
        await until(lambda: not self.hub.connections)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._server.wait_closed(), 5)

    async def connect(self, *, receive_bytes: int | None = None) -> tuple[Client, Connection]:
        known = set(self.hub.connections)
        client = await connect(self._server.sockets[0].getsockname()[1], receive_bytes=receive_bytes)
        self._clients.append(client)
        await until(lambda: self.hub.connections.keys() - known)
        (connection,) = self.hub.connections.keys() - known
        return client, connection


class FakeTransport:
    """Takes everything, or fills up when it is told to."""

    def __init__(self) -> None:
        self.protocol: Any = None
        self.written: list[Any] = []
        """What has left."""
        self.stuck: list[Any] = []
        """What has been taken but cannot leave: as it was given, not copied."""
        self.is_full = False
        self.is_reading = True
        self.is_aborted = False

    def attach(self, protocol: Any) -> Any:
        self.protocol = protocol
        protocol.connection_made(self)
        return protocol

    def get_extra_info(self, name: str) -> Any:
        return ("127.0.0.1", 4711) if name == "peername" else None

    def set_write_buffer_limits(self, high: int) -> None:
        assert high == 0

    def get_write_buffer_size(self) -> int:
        return sum(map(len, self.stuck))

    def write(self, data: Any) -> None:
        assert not self.is_aborted
        if not self.is_full:
            self.written.append(bytes(data))
            return
        is_first = not self.stuck
        self.stuck.append(data)
        if is_first:
            self.protocol.pause_writing()

    def drain(self) -> None:
        """The peer reads all there is."""
        self.is_full = False
        if self.stuck:
            self.written += [bytes(data) for data in self.stuck]
            self.stuck.clear()
            self.protocol.resume_writing()

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def abort(self) -> None:
        self.is_aborted = True
        self.is_reading = False

    def feed(self, data: bytes) -> bytes:
        """Receive as an event loop does, until told to stop; what was not taken."""
        while data and self.is_reading:
            buffer = self.protocol.get_buffer(-1)
            assert len(buffer) > 0, "a loop has nothing to do with an empty buffer"
            count = min(len(buffer), len(data))
            buffer[:count] = data[:count]
            self.protocol.buffer_updated(count)
            data = data[count:]
        return data

    def replies(self) -> list[bytes]:
        """The frames that have left, without their sizes."""
        data, found = b"".join(self.written), []
        while data:
            (size,) = struct.unpack_from(">i", data)
            found.append(data[4 : 4 + size])
            data = data[4 + size :]
        return found
