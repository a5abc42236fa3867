"""The network of a cluster on one machine: a door in front of every broker and of the store, which can be shut.

Brokers reach each other, and the store, through ports of this process. Who comes to a broker is told by the client id
in the first request: brokers call themselves `broker-N`, or `controller-N` where they are that. So the way from one
broker to another can be cut, in one direction or both, without root, and nobody else's connections suffer.

A cut is silent, as that of a cable: what is sent stays under way, nobody's connection is closed, and new ones are never
answered. A new connection takes both directions. When the cut is healed, the connections that suffered from it are
broken, and made anew by their owners. Everything here runs on one event loop.
"""

import asyncio
import re
import struct

from ottla.testing.cluster_node import LOOPBACK

STORE = "store"
STRANGER = ""
"""Somebody who is no broker. Nobody cuts them off."""
Place = int | str
"""The id of a broker, or STORE."""

_FIRST_REQUEST = struct.Struct(">ihhih")  # size, key, version, correlation id, length of the client id
_BROKER = re.compile(rb"(?:broker|controller)-([0-9]{1,10})")
_CLIENT_ID_BYTES_MAX = 64
_CHUNK_BYTES = 64 * 1024


class Network:
    """All doors, and which ways are cut."""

    def __init__(self) -> None:
        self._cuts: set[tuple[Place, Place]] = set()
        self._servers: list[asyncio.Server] = []
        self._passages: set[_Passage] = set()

    async def door(self, sender: Place | None, receiver: Place, host: str, port: int) -> int:
        """A port that leads to `receiver` at that address. Without a sender, the first request says who comes."""

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await _Passage(self, reader, writer, sender, receiver, (host, port)).run()

        server = await asyncio.start_server(serve, LOOPBACK, 0)
        self._servers.append(server)
        number: int = server.sockets[0].getsockname()[1]
        return number

    def cut(self, sender: Place, receiver: Place) -> None:
        """From now on nothing gets from one to the other."""
        self._cuts.add((sender, receiver))
        for passage in self._passages:
            passage.look()

    async def heal(self) -> None:
        """All ways are open again. Connections that suffered are broken."""
        torn = [passage for passage in self._passages if passage.is_torn]
        await _end(torn)
        self._cuts.clear()

    def is_cut(self, sender: Place, receiver: Place) -> bool:
        return (sender, receiver) in self._cuts

    @property
    def cuts(self) -> list[tuple[Place, Place]]:
        return sorted(self._cuts, key=str)

    async def close(self) -> None:
        for server in self._servers:
            server.close()
        await _end(list(self._passages))

    def enter(self, passage: "_Passage") -> None:
        self._passages.add(passage)

    def leave(self, passage: "_Passage") -> None:
        self._passages.discard(passage)


class _Passage:
    """One connection through a door, and the one behind it."""

    def __init__(
        self,
        network: Network,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        sender: Place | None,
        receiver: Place,
        address: tuple[str, int],
    ) -> None:
        self._network = network
        self._reader, self._writers = reader, [writer]
        self._sender, self._receiver = sender, receiver
        self._address = address
        self.is_torn = False
        self.task = asyncio.current_task()

    def look(self) -> None:
        """Has one of our directions been cut?"""
        there, back = self._ways()
        self.is_torn = self.is_torn or self._network.is_cut(*there) or self._network.is_cut(*back)

    async def run(self) -> None:
        self._network.enter(self)
        try:
            first = await self._first_words()
            self.look()
            if self.is_torn:
                while await self._reader.read(_CHUNK_BYTES):
                    pass  # nobody hears it
                return
            await self._connect(first)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # somebody hung up, or the cut was healed
        finally:
            self._network.leave(self)
            for writer in self._writers:
                writer.transport.abort()

    async def _connect(self, first: bytes) -> None:
        reader, writer = await asyncio.open_connection(*self._address)
        self._writers.append(writer)
        writer.write(first)
        there, back = self._ways()
        passing = [
            asyncio.ensure_future(self._pass(self._reader, writer, there)),
            asyncio.ensure_future(self._pass(reader, self._writers[0], back)),
        ]
        try:
            await asyncio.wait(passing, return_when=asyncio.FIRST_COMPLETED)
            await self._tell_of_the_end()
        finally:
            for task in passing:
                task.cancel()
            await asyncio.gather(*passing, return_exceptions=True)

    async def _tell_of_the_end(self) -> None:
        """One end has hung up. Whoever cannot be reached does not learn it before the healing."""
        there, back = self._ways()
        for writer, way in zip(self._writers, (back, there), strict=True):
            if not self._network.is_cut(*way):
                writer.transport.abort()
        if self.is_torn:
            await _for_ever()

    def _ways(self) -> tuple[tuple[Place, Place], tuple[Place, Place]]:
        sender = STRANGER if self._sender is None else self._sender
        return (sender, self._receiver), (self._receiver, sender)

    async def _first_words(self) -> bytes:
        """Find out who it is, and return what was read for that."""
        if self._sender is not None:
            return b""
        start = await self._reader.readexactly(_FIRST_REQUEST.size)
        size = _FIRST_REQUEST.unpack(start)[-1]
        client_id = await self._reader.readexactly(min(max(size, 0), _CLIENT_ID_BYTES_MAX))
        if (found := _BROKER.fullmatch(client_id)) is not None:
            self._sender = int(found[1])
        return start + client_id

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: tuple[Place, Place]
    ) -> None:
        """Pass on what is said, until it is over. A cut holds it, until the healing ends this."""
        while True:
            data = await reader.read(_CHUNK_BYTES)
            if self._network.is_cut(*way):
                await _for_ever()
            if not data:
                return
            writer.write(data)
            await writer.drain()


async def _for_ever() -> None:
    await asyncio.get_running_loop().create_future()


async def _end(passages: list[_Passage]) -> None:
    tasks = [passage.task for passage in passages if passage.task is not None]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
