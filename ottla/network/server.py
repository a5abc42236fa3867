"""Listening sockets, and the rules for who may be connected and for how long.

Limits on one connection are kept by the connection itself; here are those on all of them together, and the deadlines:
one walk over the connections every few seconds, instead of a timer for each.
"""

import asyncio
import contextlib
import logging
import socket
from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple

from ottla.network.connection import Connection, Hub, Limits, Serve

logger = logging.getLogger(__name__)

_SWEEP_SECONDS = 1.0
_GRACE_SECONDS = 5.0
_MS = 1000
_DOORS = 16
"""How often a listening socket is watched. uvloop lets one client in each time that it looks: of a crowd that comes
back after a restart, each would wait for a turn of the loop."""


class Admission(NamedTuple):
    """How many connections there may be."""

    connections_max: int = 2**31 - 1
    per_ip_max: int = 2**31 - 1
    per_ip_overrides: Mapping[str, int] = {}
    descriptors_max: int = 2**31 - 1
    """As many as the process has descriptors for."""


class Sockets(NamedTuple):
    """What the kernel is told about our sockets. -1 leaves a buffer to it."""

    backlog: int = 1024
    send_bytes: int = -1
    receive_bytes: int = -1

    def apply(self, transport: asyncio.BaseTransport) -> None:
        made: socket.socket | None = transport.get_extra_info("socket")
        for option, size in ((socket.SO_SNDBUF, self.send_bytes), (socket.SO_RCVBUF, self.receive_bytes)):
            if made is not None and size >= 0:
                with contextlib.suppress(OSError):  # a wish: the kernel has its own limits
                    made.setsockopt(socket.SOL_SOCKET, option, size)


class Server:
    """The connections of a broker, on all of its listeners."""

    def __init__(
        self,
        serve: Serve,
        limits: Limits,
        admission: Admission,
        monotonic_ms: Callable[[], int],
        sockets: Sockets | None = None,
    ) -> None:
        self.hub = Hub(serve, limits, monotonic_ms)
        self.admission = admission
        """May be replaced at any time; connections that are there stay."""
        self.sockets = sockets or Sockets()
        self.refused = 0
        self.accepted = 0
        self._per_ip: Counter[str] = Counter()
        self._listening: list[asyncio.Server] = []
        self._sweeper: asyncio.Task[None] | None = None
        self._is_closing = False

    @property
    def connections(self) -> dict[Connection, None]:
        return self.hub.connections

    async def bind(self, listener: str, host: str, port: int) -> int:
        """Take an address; the port it got. Nobody is listened to before `serve`."""
        loop, make = asyncio.get_running_loop(), lambda: _Admitted(self, listener)
        server = await loop.create_server(make, host, port, backlog=self.sockets.backlog, start_serving=False)
        self._listening.append(server)
        doors = 0 if isinstance(loop, asyncio.BaseEventLoop) else _DOORS
        for bound in server.sockets * (doors - 1):
            door = socket.fromfd(bound.fileno(), bound.family, bound.type)
            again = await loop.create_server(
                make, sock=door, backlog=self.sockets.backlog, start_serving=False
            )
            self._listening.append(again)
        return int(server.sockets[0].getsockname()[1])

    async def serve(self) -> None:
        """Let clients in, on every address."""
        for server in self._listening:
            await server.start_serving()
        self._sweeper = asyncio.create_task(self._sweep_for_ever(), name="deadlines")

    async def close(self, grace_seconds: float = _GRACE_SECONDS) -> None:
        """Accept nobody any more, let requests under way be answered, then close every connection."""
        await self._stop_listening()
        for connection in list(self.connections):
            connection.finish()
        deadline = asyncio.get_running_loop().time() + grace_seconds
        while any(c.is_answering for c in self.connections) and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.01)
        await self.abort()

    async def abort(self) -> None:
        """Close everything at once."""
        await self._stop_listening()
        self._listening.clear()
        if self._sweeper is not None:
            self._sweeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._sweeper
            self._sweeper = None
        while self.connections:  # again and again: one that was being accepted may come late
            for connection in list(self.connections):
                connection.close()
            await asyncio.sleep(0)

    async def _stop_listening(self) -> None:
        """asyncio forgets a socket that it has accepted, but not handed to anybody yet, when a server closes: nobody
        would ever close it, and its client wait for ever. So nobody is accepted first, and then the server closes."""
        self._is_closing = True
        loop = asyncio.get_running_loop()
        if isinstance(loop, asyncio.SelectorEventLoop):
            for server in self._listening:
                for listening in server.sockets:
                    loop.remove_reader(listening.fileno())
            await asyncio.sleep(0)
        for server in self._listening:
            server.close()

    def descriptors(self) -> list[int]:
        """Of every open socket: a process that is forked off has them too, and may have to let go of them."""
        listening = [each.fileno() for server in self._listening for each in server.sockets]
        return listening + [c.descriptor for c in self.connections if c.is_open]

    # --- admission ----------------------------------------------------------------------------------------------

    def admit(self, connection: Connection) -> str | None:
        """Why this connection is one too many; None if it is not. It must `leave` in any case."""
        self.accepted += 1
        host = connection.peer_host
        self._per_ip[host] += 1
        if self._is_closing:
            return ""
        per_ip_max = self.admission.per_ip_overrides.get(host, self.admission.per_ip_max)
        if self._per_ip[host] > per_ip_max:
            return f"{host} has {per_ip_max} connections already (max.connections.per.ip)"
        if len(self.connections) > self.admission.connections_max:
            return f"there are {self.admission.connections_max} connections already (max.connections)"
        if len(self.connections) > self.admission.descriptors_max:
            return (
                f"there are {self.admission.descriptors_max} connections already (ulimit -n allows no more)"
            )
        return None

    def leave(self, connection: Connection) -> None:
        host = connection.peer_host
        self._per_ip[host] -= 1
        if not self._per_ip[host]:
            del self._per_ip[host]

    # --- deadlines ----------------------------------------------------------------------------------------------

    async def _sweep_for_ever(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            self.sweep()

    def sweep(self) -> None:
        """Close connections that have kept us waiting for too long."""
        now_ms, limits = self.hub.now_ms(), self.hub.limits
        for connection in list(self.connections):
            connection.note_progress(now_ms)
            if (reason := _overdue(connection, now_ms, limits)) is not None:
                connection.close(reason)


def _overdue(connection: Connection, now_ms: int, limits: Limits) -> str | None:
    quiet_ms = now_ms - connection.active_ms
    since = connection.frame_since_ms if connection.is_reading else None
    if since is not None and now_ms - since > limits.frame_timeout_ms:
        return f"a request was not complete after {limits.frame_timeout_ms // _MS} s"
    if connection.is_stalled and quiet_ms > limits.stall_timeout_ms:
        return f"it read no replies for {limits.stall_timeout_ms // _MS} s"
    if connection.is_idle and 0 <= limits.idle_timeout_ms < quiet_ms:
        logger.info("closed the connection of %s, idle for %d s", connection.peer, quiet_ms // _MS)
        return ""
    return None


class _Admitted(Connection):
    """A connection that is counted."""

    def __init__(self, server: Server, listener: str) -> None:
        super().__init__(server.hub, listener)
        self._server = server

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._server.sockets.apply(transport)
        if (reason := self._server.admit(self)) is not None:
            self._server.refused += bool(reason)
            self.close(reason)

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self._server.leave(self)
