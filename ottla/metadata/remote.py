"""A session with a store that another process serves, see `served`: a MetadataStore over a socket.

The session lives as long as the server hears of us. We count from when we said what it has answered, which is never
later than when it heard us. After two thirds of the timeout without that, or when the connection breaks, the session is
SUSPENDED: what was asked fails, for nobody knows whether it was done, and we come back by a new connection with the id
and the secret of the session. It is LOST when the server says so: it has missed us, or does not know us, since it was
started anew. Watches are kept over all this, and each is told once when the connection is back.
"""

import asyncio
import contextlib
import functools
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from ottla.core.errors import ProtocolError
from ottla.metadata import store_wire as wire
from ottla.metadata.store import (
    Node,
    Op,
    SessionLost,
    SessionState,
    SingleWrites,
    StoreError,
    StoreUnavailable,
)
from ottla.metadata.store_wire import Frame

logger = logging.getLogger(__name__)

BEATS = 6
"""So often within its timeout the server hears of a session: two may come late before anybody worries."""
_BACKOFF_SECONDS = 0.02, 0.5  # between attempts to come back: at first, at most
_REFUSAL_SECONDS = (
    0.03  # how long a request waits that finds no connection: who tries in a loop should not spin
)
_OPEN_SECONDS = 10.0
_CLOSE_SECONDS = 3.0
_MS = 1000

T = TypeVar("T")


class _Asked(NamedTuple):
    """A request under way, and when it was sent."""

    future: "asyncio.Future[Any]"
    at: float


class _Wire:
    """One connection, greeted."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, welcome: Frame) -> None:
        self.reader, self.writer, self.welcome = reader, writer, welcome

    def abort(self) -> None:
        self.writer.transport.abort()


class _Lost(Exception):
    """The server knows no such session."""


class RemoteStore(SingleWrites):
    """One session with a served store. `open` makes it; `close` ends it."""

    def __init__(self, host: str, port: int, connection: _Wire) -> None:
        self._host, self._port = host, port
        self._id = wire.integer(connection.welcome, "session")
        self._secret = wire.text(connection.welcome, "secret")
        self._timeout = wire.integer(connection.welcome, "timeout_ms", least=1) / _MS
        self._loop = asyncio.get_running_loop()
        self._state = SessionState.CONNECTED
        self._listeners: list[Callable[[SessionState], None]] = []
        self._watches: dict[str, list[Callable[[], None]]] = {}
        self._connection: _Wire | None = connection
        self._vouched = self._loop.time()
        """The latest moment of which we know that the server has heard of us since."""
        self._number = 0
        self._asked: dict[int, _Asked] = {}
        self._beats: dict[int, float] = {}
        self._room = asyncio.Semaphore(wire.ASKED_MAX)
        self._tasks = [asyncio.create_task(self._live(connection)), asyncio.create_task(self._beat())]

    @classmethod
    async def open(cls, host: str, port: int, *, session_timeout_ms: int) -> "RemoteStore":
        """Begin a session. Raises StoreUnavailable if nobody answers there."""
        try:
            connection = await _connect(host, port, _OPEN_SECONDS, timeout_ms=session_timeout_ms)
            try:
                return cls(host, port, connection)
            except BaseException:
                connection.abort()
                raise
        except (OSError, _Lost) as error:
            detail = str(error) or "it says nothing"
            raise StoreUnavailable(f"no metadata store answers at {host}:{port}: {detail}") from error
        except ProtocolError as error:
            raise StoreUnavailable(f"what answers at {host}:{port} is no metadata store: {error}") from error

    @property
    def session(self) -> SessionState:
        return self._state

    @property
    def id(self) -> int:
        return self._id

    def on_session(self, on_change: Callable[[SessionState], None]) -> None:
        self._listeners.append(on_change)

    # --- requests -----------------------------------------------------------------------------------------------

    async def get(self, path: str) -> Node:
        return await self._ask("get", wire.unpack_node, path=path)

    async def get_all(self, paths: Iterable[str]) -> dict[str, Node]:
        wanted = list(paths)
        nodes: list[Node | None] = []
        while True:
            rest = wanted[len(nodes) :]
            unpack = functools.partial(wire.unpack_nodes, most=len(rest))
            nodes += await self._ask("get_all", unpack, paths=rest)
            if len(nodes) == len(wanted):
                return {path: node for path, node in zip(wanted, nodes, strict=True) if node is not None}

    async def children(self, path: str) -> list[str]:
        return await self._ask("children", wire.unpack_names, path=path)

    async def multi(self, ops: Sequence[Op]) -> list[int]:
        return await self._ask("multi", wire.unpack_results, ops=wire.pack_ops(ops))

    async def watch(self, path: str, on_change: Callable[[], None]) -> Callable[[], None]:
        watches = self._watches.setdefault(path, [])
        watches.append(on_change)

        def end() -> None:
            if on_change in watches:
                watches.remove(on_change)

        try:
            await self._ask("watch", _nothing, path=path)
        except BaseException:
            end()
            raise
        return end

    async def close(self) -> None:
        if self._state is SessionState.CONNECTED:
            with contextlib.suppress(
                StoreError, TimeoutError
            ):  # who is not heard will be missed, and expires
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await self._ask("close", _nothing)
        self._become(SessionState.LOST)
        self._hang_up()
        current = asyncio.current_task()
        await asyncio.gather(*(task for task in self._tasks if task is not current), return_exceptions=True)

    def abandon(self) -> None:
        """Be heard of no more, and say nothing, as if the process had died: the server will miss it."""
        self._listeners.clear()
        self._become(SessionState.LOST)
        self._hang_up()

    async def _ask(self, do: str, unpack: Callable[[Any], T], **fields: object) -> T:
        if self._state is SessionState.SUSPENDED:
            await asyncio.sleep(_REFUSAL_SECONDS)
        async with self._room:
            self._check_session()
            assert self._connection is not None, "there is one while CONNECTED"
            self._number += 1
            number = self._number
            frame = wire.encode("ask", number=number, do=do, **fields)
            asked = self._asked[number] = _Asked(self._loop.create_future(), self._loop.time())
            self._connection.writer.write(frame)
            try:
                return unpack(await asked.future)
            except ProtocolError as error:
                raise StoreUnavailable(f"the metadata store makes no sense: {error}") from error
            finally:
                self._asked.pop(number, None)

    def _check_session(self) -> None:
        if self._state is SessionState.LOST:
            raise SessionLost("the session with the metadata store is over")
        if self._state is SessionState.SUSPENDED:
            raise StoreUnavailable(
                f"there is no connection to the metadata store at {self._host}:{self._port}"
            )

    # --- the connection -----------------------------------------------------------------------------------------

    async def _live(self, connection: _Wire) -> None:
        """Hear what the server says, and come back when the connection breaks, until the session is over."""
        try:
            while True:
                await self._hear(connection)
                self._become(SessionState.SUSPENDED)
                connection = await self._come_back()
                self._connection = connection
                self._become(SessionState.CONNECTED)
                for path in list(self._watches):
                    self._tell(path)  # something may have changed meanwhile
        except _Lost:
            self._become(SessionState.LOST)
        finally:
            self._hang_up()

    async def _hear(self, connection: _Wire) -> None:
        """Returns when the connection is over."""
        try:
            while (frame := await wire.read(connection.reader)) is not None:
                self._take(frame)
        except (OSError, ProtocolError):
            pass  # a server that makes no sense is one that cannot be heard
        finally:
            connection.abort()

    async def _come_back(self) -> _Wire:
        """A new connection for the same session. Raises _Lost."""
        pause, pause_max = _BACKOFF_SECONDS
        while True:
            began = self._loop.time()
            try:
                connection = await _connect(
                    self._host, self._port, self._timeout / 3, session=self._id, secret=self._secret
                )
                self._vouched = began
                return connection
            except (OSError, ProtocolError):
                await asyncio.sleep(pause)
                pause = min(2 * pause, pause_max)

    async def _beat(self) -> None:
        """Let the server hear of us, and notice when it has not."""
        while True:
            await asyncio.sleep(self._timeout / BEATS)
            if self._state is not SessionState.CONNECTED or self._connection is None:
                continue
            now = self._loop.time()
            if 3 * (now - self._vouched) >= 2 * self._timeout:
                self._connection.abort()  # `_live` comes back by another one
                self._become(SessionState.SUSPENDED)
                continue
            self._number += 1
            self._beats[self._number] = now
            self._connection.writer.write(wire.encode("beat", number=self._number))

    def _take(self, frame: Frame) -> None:
        say = frame["say"]
        if say == "lost":
            raise _Lost
        if self._state is not SessionState.CONNECTED:
            return  # given up already, though its last words were still under way
        if say == "changed":
            self._tell(wire.text(frame, "path"))
        elif say == "beat":
            self._vouch(self._beats.pop(wire.integer(frame, "number"), self._vouched))
        elif say == "answer":
            asked = self._asked.get(wire.integer(frame, "number"))
            if asked is not None:  # else nobody waits any more
                self._vouch(asked.at)
                _settle(asked.future, frame)
            if frame.get("error") == SessionLost.__name__:
                raise _Lost
        else:
            raise ProtocolError(f"the metadata store says {say}")

    def _vouch(self, at: float) -> None:
        self._vouched = max(self._vouched, at)

    def _tell(self, path: str) -> None:
        for on_change in self._watches.get(path, ()):
            self._loop.call_soon(on_change)

    def _become(self, state: SessionState) -> None:
        if self._state in (state, SessionState.LOST):
            return
        self._state = state
        where = f"the metadata store at {self._host}:{self._port}"
        if state is SessionState.SUSPENDED:
            logger.warning("there is no connection to %s", where)
        elif state is SessionState.CONNECTED:
            logger.info("the connection to %s is back", where)
        if state is not SessionState.CONNECTED:
            self._let_down()
        for listener in list(self._listeners):
            listener(state)

    def _let_down(self) -> None:
        """Nobody knows what became of what was asked."""
        asked, self._asked = self._asked, {}
        self._beats.clear()
        for each in asked.values():
            if not each.future.done():
                each.future.set_exception(self._why_nothing_came())

    def _why_nothing_came(self) -> StoreError:
        if self._state is SessionState.LOST:
            return SessionLost("the session with the metadata store is over")
        return StoreUnavailable("the connection to the metadata store broke: nobody knows what was done")

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.abort()
        current = asyncio.current_task()
        for task in self._tasks:
            if task is not current:
                task.cancel()


async def _connect(host: str, port: int, seconds: float, **hello: object) -> _Wire:
    """Connect and be welcomed. Raises OSError, _Lost, or ProtocolError."""
    async with asyncio.timeout(seconds):
        reader, writer = await asyncio.open_connection(host, port, limit=wire.FRAME_BYTES_MAX)
        try:
            writer.write(wire.encode("hello", **hello))
            answer = await wire.read(reader)
            if answer is None:
                raise ConnectionError("it hung up")
            if answer["say"] == "lost":
                raise _Lost("it does not know the session")
            if answer["say"] != "welcome":
                raise ProtocolError(str(answer.get("detail", answer["say"])))
            return _Wire(reader, writer, answer)
        except BaseException:
            writer.transport.abort()
            raise


def _settle(future: "asyncio.Future[Any]", frame: Frame) -> None:
    if future.done():
        return
    if "error" in frame:
        future.set_exception(wire.error_of(frame))
    else:
        future.set_result(frame.get("result"))


def _nothing(value: object) -> None:
    """For requests whose answer says only that it was done."""
