"""Virtual TCP: how nodes of a world listen and connect. Each node is its own host, and its name is the host's name.

Bytes arrive in order and once. Losses and stragglers of the network delay all that follows, a cut lets it wait, in one
direction if it is cut in one. When a process dies its machine says so to the other side; when the power goes, or the
link is cut, nobody does: the other side believes in a connection that is none.
"""

import asyncio
import errno
import itertools
from collections.abc import Callable
from typing import Any, TypeVar

from ottla.testing.simulation.loop import NodeLoop
from ottla.testing.simulation.stream import Stream
from ottla.testing.simulation.transport import Sign, VirtualTransport
from ottla.testing.simulation.world import World

P = TypeVar("P", bound=asyncio.BaseProtocol)
Address = tuple[str, int]
_FIRST_PORT = 30_000


class VirtualSocket:
    """As much of a socket as those who listen look at."""

    def __init__(self, address: Address) -> None:
        self._address = address

    def getsockname(self) -> Address:
        return self._address

    def fileno(self) -> int:
        return -1


class VirtualServer(asyncio.AbstractServer):
    """A listening socket."""

    def __init__(
        self, wires: "Wires", loop: NodeLoop, factory: Callable[[], asyncio.BaseProtocol], address: Address
    ) -> None:
        self.loop = loop
        self.factory = factory
        self.sockets = (VirtualSocket(address),)
        self._wires = wires
        self._address = address
        self._is_serving = False

    def get_loop(self) -> NodeLoop:
        return self.loop

    def is_serving(self) -> bool:
        return self._is_serving and not self.loop.is_over

    async def start_serving(self) -> None:
        self._is_serving = True

    async def serve_forever(self) -> None:
        self._is_serving = True
        await self.loop.create_future()

    def close(self) -> None:
        self._is_serving = False
        self._wires.forget(self._address, self)

    async def wait_closed(self) -> None:
        """It is."""


class Wires:
    """Who listens where, and all connections."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._chance = world.stream("wires")
        self._servers: dict[Address, VirtualServer] = {}
        self._transports: dict[str, list[VirtualTransport]] = {}
        self._ports = itertools.count(_FIRST_PORT)
        self._dark: dict[str, None] = {}
        world.at_crash(self._crashed)

    def listen(
        self,
        loop: NodeLoop,
        factory: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
        *,
        start_serving: bool,
    ) -> VirtualServer:
        address = (host, port or next(self._ports))
        former = self._servers.get(address)
        if former is not None and not former.loop.is_over:
            raise OSError(errno.EADDRINUSE, f"{host}:{port} is in use")
        server = self._servers[address] = VirtualServer(self, loop, factory, address)
        server._is_serving = start_serving
        return server

    def forget(self, address: Address, server: VirtualServer) -> None:
        if self._servers.get(address) is server:
            del self._servers[address]

    async def connect(
        self, loop: NodeLoop, factory: Callable[[], P], host: str, port: int
    ) -> tuple[VirtualTransport, P]:
        """Raises ConnectionRefusedError where nobody listens, and waits for ever where nobody answers."""
        if host not in self.world.nodes:
            raise OSError(errno.EHOSTUNREACH, f"there is no host {host}")
        local = (loop.node, next(self._ports))
        transport = self._transport(loop, local, (host, port))
        answer: asyncio.Future[Sign] = loop.create_future()
        self._join(transport, host, _Door(self, transport, local, (host, port), answer))
        try:
            if await answer is Sign.REFUSED:
                raise ConnectionRefusedError(errno.ECONNREFUSED, f"nobody listens at {host}:{port}")
        except BaseException:
            transport.end(Sign.RESET)
            raise
        protocol = factory()
        transport.begin(protocol)
        return transport, protocol

    def power_off(self, node: str) -> None:
        """Its machine says nothing any more, until the node is there again. A node says so in its `crash`."""
        self._dark[node] = None
        for transport in self._transports.pop(node, ()):
            transport.out.lose()

    def is_dark(self, node: str) -> bool:
        if self.world.is_up(node):
            self._dark.pop(node, None)
        return node in self._dark

    # --- connections --------------------------------------------------------------------------------------------

    def accept(self, door: "_Door") -> None:
        """Somebody knocks. The machine answers, also for a paused process."""
        host = door.address[0]
        if self.is_dark(host):
            return
        server = self._servers.get(door.address)
        if server is None or not server.is_serving():
            door.back.send(Sign.REFUSED)
            return
        door.back.send(Sign.ACCEPTED)
        loop = server.loop
        transport = self._transport(loop, door.address, door.local)
        transport.out, transport.other = door.back, door.transport
        door.transport.other = door.accepted = transport
        loop.call_soon(lambda: transport.begin(server.factory()))

    def _transport(self, loop: NodeLoop, local: Address, remote: Address) -> VirtualTransport:
        extra = {"peername": remote, "sockname": local}
        transport = VirtualTransport(loop, extra, self._chance)
        mine = self._transports.setdefault(loop.node, [])
        if len(mine) > 100:
            mine[:] = [each for each in mine if not each.is_lost]
        mine.append(transport)
        return transport

    def _join(self, transport: VirtualTransport, host: str, door: "_Door") -> None:
        node = transport.loop.node
        transport.out = Stream(self.world, node, host, door.arrive_there)
        door.back = Stream(self.world, host, node, door.arrive_here)
        transport.out.send(Sign.OPEN)

    def _crashed(self, node: str) -> None:
        for transport in self._transports.pop(node, ()):
            transport.end(Sign.RESET)


class _Door:
    """Where the two directions of a connection come out: before it is accepted, and after."""

    def __init__(
        self,
        wires: Wires,
        transport: VirtualTransport,
        local: Address,
        address: Address,
        answer: "asyncio.Future[Sign]",
    ) -> None:
        self.transport = transport
        self.local = local
        self.address = address
        self.accepted: VirtualTransport | None = None
        self.back: Stream
        self._wires = wires
        self._answer = answer

    def arrive_there(self, item: Any) -> None:
        if item is Sign.OPEN:
            self._wires.accept(self)
        elif self._wires.is_dark(self.address[0]):
            return
        elif self.accepted is not None:
            self.accepted.arrive(item)

    def arrive_here(self, item: Any) -> None:
        if self._wires.is_dark(self.local[0]):
            return
        if item is Sign.ACCEPTED or item is Sign.REFUSED:
            self.transport.loop.call_soon(self._knocked, item)
        else:
            self.transport.arrive(item)

    def _knocked(self, sign: Sign) -> None:
        if not self._answer.done():
            self._answer.set_result(sign)
