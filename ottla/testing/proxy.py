"""A proxy between clients and a broker that knows where frames end: it holds, loses, delays or repeats whole ones.

Networks do worse than fail. A request may arrive long after its sender has given up and gone on over another
connection, an answer may be lost when its request has been carried out, a request may be carried out twice. A test
plants one of these for the next request or answer of an API:

    async with Proxy("127.0.0.1", broker.port) as proxy:
        held = proxy.hold("Produce")
        ...                         # a client that talks to proxy.bootstrap_server produces
        await held.arrived()        # the broker has not seen it
        ...                         # the client gives up, and goes on over another connection
        held.release()
        answer = await held.answer()

As on a real connection nothing overtakes: what comes behind a held frame waits with it. A held request reaches the
broker also when its client has hung up. Addresses in answers are made the proxy's own, so that clients which ask for
leaders and coordinators come back here. Everything runs on the loop that started the proxy; `hold` and the other calls
that plant something, and `release`, may be called from any thread.
"""

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, Literal, NamedTuple

from ottla.core.errors import ProtocolError
from ottla.protocol.apis import api_named, api_of
from ottla.protocol.framing import FRAME_BYTES_MAX, decode_response, encode_response, size_of

Side = Literal["request", "response"]

_SIZE = struct.Struct(">i")
_REQUEST_START = struct.Struct(">hhi")  # key, version, correlation id
_METADATA, _FIND_COORDINATOR, _DESCRIBE_CLUSTER = 3, 10, 60
_NAMES_BROKERS = {_METADATA, _FIND_COORDINATOR, _DESCRIBE_CLUSTER}


class Held:
    """One frame that does not go on before `release`. Made by `Proxy.hold`."""

    def __init__(self) -> None:
        self.frame = b""
        """What is held, without its size; empty before it arrives."""
        self._arrived = asyncio.Event()
        self._released = asyncio.Event()
        self._answered = asyncio.Event()
        self._answer: Any = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def arrived(self) -> None:
        """Return when the frame is here."""
        await self._arrived.wait()

    def release(self) -> None:
        """Let it go on, and what waits behind it."""
        if self._loop is None:
            self._released.set()  # it has not arrived, and will not be held
        else:
            self._loop.call_soon_threadsafe(self._released.set)

    async def answer(self) -> Any:
        """What the broker said to a request, also when its client is gone. Raises ConnectionError if it hung up."""
        await self._answered.wait()
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    async def _keep(self, frame: bytes) -> None:
        self.frame, self._loop = frame, asyncio.get_running_loop()
        self._arrived.set()
        await self._released.wait()

    def _answer_with(self, answer: Any) -> None:
        if not self._answered.is_set():
            self._answer = answer
            self._answered.set()


class _Fault(NamedTuple):
    """What happens to one frame."""

    key: int
    side: Side
    held: Held | None = None
    seconds: float = 0.0
    is_lost: bool = False
    is_repeated: bool = False


class _Asked(NamedTuple):
    """A request that the broker has and has not answered."""

    key: int
    version: int
    held: Held | None = None
    is_swallowed: bool = False
    """Its answer is to a repetition that nobody sent."""


class Proxy:
    """Listens on a free port of 127.0.0.1, and has a connection to the broker for each that it takes."""

    def __init__(self, host: str, port: int) -> None:
        self.upstream = host, port
        self.port = 0
        """Where it listens, once it is started."""
        self._faults: list[_Fault] = []
        self._server: asyncio.Server | None = None
        self._links: set[_Link] = set()

    @property
    def bootstrap_server(self) -> str:
        """Where clients connect: `host:port`."""
        return f"127.0.0.1:{self.port}"

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Take no more connections, and cut those that are there."""
        if self._server is not None:
            self._server.close()
        tasks = [link.task for link in self._links if link.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def __aenter__(self) -> "Proxy":
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # --- planting -----------------------------------------------------------------------------------------------

    def hold(self, api: str, side: Side = "request") -> Held:
        """Hold the next request of `api`, or its answer, and all that follows it on its connection."""
        held = Held()
        self._faults.append(_Fault(_key_of(api), side, held=held))
        return held

    def lose(self, api: str, side: Side = "request") -> None:
        """Lose the next one together with its connection. When the answer is lost, the broker has done its work."""
        self._faults.append(_Fault(_key_of(api), side, is_lost=True))

    def delay(self, api: str, seconds: float, side: Side = "request") -> None:
        """Let the next one come late."""
        self._faults.append(_Fault(_key_of(api), side, seconds=seconds))

    def repeat(self, api: str) -> None:
        """Send the next request twice. The client gets the first answer."""
        self._faults.append(_Fault(_key_of(api), "request", is_repeated=True))

    @property
    def pending(self) -> list[str]:
        """APIs with something planted that has not struck yet."""
        return [api_of(fault.key).name for fault in self._faults]

    def cut(self) -> None:
        """Break all connections. Must be called on the loop of the proxy."""
        for link in self._links:
            link.cut()

    def _next_fault(self, key: int, side: Side) -> _Fault | None:
        for fault in self._faults:
            if (fault.key, fault.side) == (key, side):
                self._faults.remove(fault)
                return fault
        return None

    # --- serving ------------------------------------------------------------------------------------------------

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = _Link(self, reader, writer)
        self._links.add(link)
        try:
            await link.run()
        finally:
            self._links.discard(link)


class _Link:
    """A client's connection, and the one to the broker that belongs to it."""

    def __init__(self, proxy: Proxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._proxy = proxy
        self._from_client, self._to_client = reader, writer
        self._to_broker: asyncio.StreamWriter | None = None
        self._asked: dict[int, list[_Asked]] = {}
        self.task = asyncio.current_task()

    def cut(self) -> None:
        for writer in (self._to_client, self._to_broker):
            if writer is not None:
                writer.transport.abort()

    async def run(self) -> None:
        try:
            from_broker, self._to_broker = await asyncio.open_connection(*self._proxy.upstream)
            answers = asyncio.ensure_future(self._pass_answers(from_broker))
            try:
                await self._pass_requests(self._to_broker)
                await self._last_answers(answers)
            finally:
                answers.cancel()
                await asyncio.gather(answers, return_exceptions=True)
        except (OSError, _Lost):
            pass  # either end hung up, or was made to: both learn it below
        except asyncio.CancelledError:
            pass  # by `close`
        finally:
            self.cut()
            self._let_down()

    async def _pass_requests(self, to_broker: asyncio.StreamWriter) -> None:
        async for frame in _frames(self._from_client):
            key, version, correlation_id = _REQUEST_START.unpack_from(frame)
            fault = self._proxy._next_fault(key, "request")
            await _suffer(fault, frame)
            held = fault.held if fault is not None else None
            asked = self._asked.setdefault(correlation_id, [])
            asked.append(_Asked(key, version, held))
            to_broker.write(_SIZE.pack(len(frame)) + frame)
            if fault is not None and fault.is_repeated:
                asked.append(_Asked(key, version, is_swallowed=True))
                to_broker.write(_SIZE.pack(len(frame)) + frame)
            await to_broker.drain()

    async def _pass_answers(self, from_broker: asyncio.StreamReader) -> None:
        async for frame in _frames(from_broker):
            (correlation_id,) = _SIZE.unpack_from(frame)
            line = self._asked.get(correlation_id, [])
            asked = line.pop(0) if line else None
            if not line:
                self._asked.pop(correlation_id, None)
            if asked is None or asked.is_swallowed:
                continue
            if asked.held is not None:
                asked.held._answer_with(decode_response(api_of(asked.key).response, frame, asked.version)[1])
            try:
                await _suffer(self._proxy._next_fault(asked.key, "response"), frame)
            except _Lost:
                self.cut()
                return
            if not self._to_client.is_closing():
                self._to_client.write(self._readdressed(asked, frame))
        self._to_client.close()  # the broker hung up

    async def _last_answers(self, answers: "asyncio.Future[None]") -> None:
        """The client is gone; somebody may still want to know what the broker says to a request that was held."""
        waiting = [asked.held for line in self._asked.values() for asked in line if asked.held is not None]
        for held in waiting:
            answered = asyncio.ensure_future(held._answered.wait())
            await asyncio.wait((answered, answers), return_when=asyncio.FIRST_COMPLETED)
            answered.cancel()

    def _let_down(self) -> None:
        for line in self._asked.values():
            for asked in line:
                if asked.held is not None:
                    asked.held._answer_with(ConnectionError("the broker hung up without an answer"))

    def _readdressed(self, asked: _Asked, frame: bytes) -> bytes:
        """The answer as a frame, with the proxy's address where the broker's stands."""
        if asked.key in _NAMES_BROKERS:
            with contextlib.suppress(ProtocolError):  # a version that we do not speak: as it came
                header, response = decode_response(api_of(asked.key).response, frame, asked.version)
                named = [*getattr(response, "brokers", ()), *getattr(response, "coordinators", ())]
                for each in [*named, *([response] if hasattr(response, "host") else [])]:
                    if each.port == self._proxy.upstream[1]:
                        each.host, each.port = "127.0.0.1", self._proxy.port
                return b"".join(encode_response(header, response, asked.version))
        return _SIZE.pack(len(frame)) + frame


class _Lost(Exception):
    """This frame goes no further, nor does its connection."""


async def _suffer(fault: _Fault | None, frame: bytes) -> None:
    if fault is None:
        return
    if fault.held is not None:
        await fault.held._keep(frame)
    if fault.seconds:
        await asyncio.sleep(fault.seconds)
    if fault.is_lost:
        raise _Lost


async def _frames(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Whole frames without their sizes, until the other side ends."""
    try:
        while True:
            size = size_of(await reader.readexactly(_SIZE.size), 0, FRAME_BYTES_MAX)
            yield await reader.readexactly(size)
    except (asyncio.IncompleteReadError, ConnectionError):
        return


def _key_of(name: str) -> int:
    api = api_named(name)
    if api is None:
        raise ValueError(f"no API is called {name!r}")
    return api.key
