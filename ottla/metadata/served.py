"""An embedded store that other processes use: one process has the tree, the others have sessions with it by a socket.

This is for clusters on one machine, without a ZooKeeper. Whoever connects may read and write everything, since there is
no authentication: so it listens on the loopback unless told otherwise.

A session belongs to an id and a secret, not to a connection: who comes back with both, in time, finds it as it was. One
that was silent for its timeout is over, and its ephemeral nodes are gone. The silence is counted in small steps: nobody
is missed because this process itself stood still. Sessions live in memory: after a restart all are over.

Requests of a session are carried out in order. Heartbeats are answered meanwhile, however slow the disk is.
"""

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Awaitable, Callable
from typing import Any

from ottla.core.errors import ConfigError, ProtocolError
from ottla.core.hosts import is_loopback
from ottla.metadata import store_wire as wire
from ottla.metadata.embedded import EmbeddedStore
from ottla.metadata.store import StoreError
from ottla.metadata.store_wire import Frame

logger = logging.getLogger(__name__)

SESSIONS_MAX = 1000  # brokers, and their next lives before the last ones are missed
WATCHES_MAX = 100_000  # of one session; brokers watch a dozen paths
TIMEOUT_MS_MAX = 60 * 60 * 1000
UNSENT_BYTES_MAX = 4 * wire.FRAME_BYTES_MAX  # a client that does not read its answers loses its connection
_NODE_BYTES = 64  # of an answer, at most, for what is not data
_HELLO_SECONDS = 10.0
_STEP_SECONDS = 0.05  # silence is counted in these
_MS = 1000


class _Connection:
    """One connection, of one session once it has said whose it is."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self._writer = reader, writer

    def send(self, say: str, **fields: object) -> None:
        transport = self._writer.transport
        if transport.get_write_buffer_size() > UNSENT_BYTES_MAX:
            transport.abort()
        if not transport.is_closing():
            self._writer.write(wire.encode(say, **fields))

    def close(self) -> None:
        """What was said is still sent; then it is over."""
        self._writer.close()

    def abort(self) -> None:
        self._writer.transport.abort()


class _Session:
    """A client's session. It outlives its connections."""

    def __init__(self, store: EmbeddedStore, timeout_ms: int) -> None:
        self.store = store
        self.secret = secrets.token_hex(16)
        self.timeout_ms = timeout_ms
        self.silent_ms = 0.0
        self.connection: _Connection | None = None
        self._watched: set[str] = set()

    def attach(self, connection: _Connection) -> None:
        """A client has come, or come back: the connection it had before is over."""
        if self.connection is not None:
            self.connection.abort()
        self.connection, self.silent_ms = connection, 0.0
        connection.send("welcome", session=self.store.id, secret=self.secret, timeout_ms=self.timeout_ms)

    def end(self) -> None:
        if self.connection is not None:
            self.connection.send("lost")
            self.connection.close()

    async def watch(self, path: str) -> None:
        if path not in self._watched:
            if len(self._watched) >= WATCHES_MAX:
                raise StoreError(f"{path} is not watched: {WATCHES_MAX} watches are the most")
            await self.store.watch(path, lambda: self._tell(path))
            self._watched.add(path)

    def _tell(self, path: str) -> None:
        if self.connection is not None:  # who is away is told of everything when it is back
            self.connection.send("changed", path=path)


class StoreServer:
    """Serves a store that somebody else opened, and closes. Needs an event loop that is not blocked for long."""

    def __init__(self, store: EmbeddedStore) -> None:
        self._store = store
        self._sessions: dict[int, _Session] = {}
        self._server: asyncio.Server | None = None
        self._serving: dict[asyncio.Task[Any], _Connection] = {}
        self._counting: asyncio.Task[None] | None = None
        self.port = 0
        self._is_closed = False

    async def start(self, host: str = "127.0.0.1", port: int = 0, *, anywhere: bool = False) -> int:
        """Listen, and return the port. Raises ConfigError for an address that others can reach, unless `anywhere`."""
        if not anywhere and not is_loopback(host):
            raise ConfigError(
                f"the metadata store has no authentication and is not served on {host or 'all addresses'}: "
                "choose an address of the loopback, like 127.0.0.1"
            )
        self._server = await asyncio.start_server(self._serve, host, port)
        self.port = self._server.sockets[0].getsockname()[1]
        self._counting = asyncio.create_task(self._count_silence())
        return self.port

    async def close(self) -> None:
        """End all sessions, without a word: to their owners it is as if the server had died. The store stays open."""
        self._is_closed = True
        if self._server is not None:
            self._server.close()
        if self._counting is not None:
            self._counting.cancel()
        for task, connection in self._serving.items():
            connection.abort()
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        sessions, self._sessions = self._sessions, {}
        for session in sessions.values():
            session.connection = None
            await session.store.close()

    @property
    def sessions(self) -> list[int]:
        """The ids of those that live."""
        return sorted(self._sessions)

    async def expire(self, session_id: int) -> None:
        """End a session, whatever its owner thinks of it."""
        if (session := self._sessions.pop(session_id, None)) is not None:
            await session.store.close()
            session.end()

    # --- sessions -----------------------------------------------------------------------------------------------

    async def _count_silence(self) -> None:
        loop = asyncio.get_running_loop()
        before = loop.time()
        while True:
            await asyncio.sleep(_STEP_SECONDS)
            now = loop.time()
            # A step that took longer was this process's fault: who spoke meanwhile waits in a buffer of the kernel.
            step_ms = min(now - before, 2 * _STEP_SECONDS) * _MS
            before = now
            for session_id, session in list(self._sessions.items()):
                session.silent_ms += step_ms
                if session.silent_ms >= session.timeout_ms:
                    logger.info("the session %d was silent for %d ms", session_id, session.timeout_ms)
                    await self.expire(session_id)

    def _greet(self, frame: Frame, connection: _Connection) -> _Session | None:
        """The session of a connection that says hello: a new one, or its own. None if there is none for it."""
        if self._is_closed:
            return None  # nobody would ever end its session
        if frame["say"] != "hello":
            raise ProtocolError(f"{frame['say']} before hello")
        if "session" in frame:
            session = self._sessions.get(wire.integer(frame, "session"))
            secret = wire.text(frame, "secret").encode("utf-8", "replace")
            if session is None or not secrets.compare_digest(session.secret.encode(), secret):
                connection.send("lost")
                return None
        else:
            timeout_ms = wire.integer(frame, "timeout_ms", least=1, most=TIMEOUT_MS_MAX)
            if len(self._sessions) >= SESSIONS_MAX:
                connection.send("refused", detail=f"there are {SESSIONS_MAX} sessions already")
                return None
            session = _Session(self._store.another_session(), timeout_ms)
            self._sessions[session.store.id] = session
        session.attach(connection)
        return session

    # --- connections --------------------------------------------------------------------------------------------

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = _Connection(reader, writer)
        task = asyncio.current_task()
        assert task is not None
        self._serving[task] = connection
        session: _Session | None = None
        try:
            async with asyncio.timeout(_HELLO_SECONDS):
                hello = await wire.read(reader)
            session = self._greet(hello, connection) if hello is not None else None
            if session is not None:
                await self._converse(session, connection)
        except ProtocolError as error:
            logger.warning("a client of the metadata store made no sense: %s", error)
        except (OSError, asyncio.CancelledError):  # a TimeoutError is an OSError; cancelled is by `close`
            pass
        finally:
            del self._serving[task]
            if session is not None and session.connection is connection:
                session.connection = None
            connection.close()

    async def _converse(self, session: _Session, connection: _Connection) -> None:
        asked: asyncio.Queue[Frame] = asyncio.Queue()
        working = asyncio.create_task(self._work(asked, session, connection))
        try:
            while (frame := await wire.read(connection.reader)) is not None:
                if session.connection is not connection:
                    return  # it has come back by another one
                session.silent_ms = 0.0
                if frame["say"] == "beat":
                    connection.send("beat", number=wire.integer(frame, "number"))
                elif frame["say"] == "ask" and asked.qsize() < wire.ASKED_MAX:
                    asked.put_nowait(frame)
                else:
                    raise ProtocolError(f"{frame['say']} with {asked.qsize()} requests under way")
        finally:
            working.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await working

    async def _work(self, asked: "asyncio.Queue[Frame]", session: _Session, connection: _Connection) -> None:
        """Carry out one request after the other."""
        try:
            while True:
                frame = await asked.get()
                number = wire.integer(frame, "number")
                try:
                    result = await self._carry_out(frame, session)
                    connection.send("answer", number=number, result=result)
                except StoreError as error:
                    connection.send("answer", number=number, error=wire.name_of(error), detail=str(error))
        except BaseException:
            connection.abort()  # the reader learns it from its end, and then asks how this ended
            raise

    async def _carry_out(self, frame: Frame, session: _Session) -> object:
        work = _WORK.get(wire.text(frame, "do"))
        if work is not None:
            return await work(session, frame)
        if frame["do"] == "close":
            self._sessions.pop(session.store.id, None)
            await session.store.close()
            return None
        raise ProtocolError("a request that we do not know")


# --- requests -------------------------------------------------------------------------------------------------------


async def _get(session: _Session, frame: Frame) -> object:
    return wire.pack_node(await session.store.get(wire.path_of(frame.get("path"))))


async def _get_all(session: _Session, frame: Frame) -> object:
    """As many as fit into an answer: who asked asks again for the rest."""
    paths = [wire.path_of(path) for path in wire.items(frame, "paths")]
    found = await session.store.get_all(paths)
    packed: list[object] = []
    room = wire.FRAME_BYTES_MAX // 2
    for path in paths:
        node = found.get(path)
        room -= _NODE_BYTES + (len(node.data) * 4 // 3 if node is not None else 0)
        if room < 0 and packed:
            break
        packed.append(wire.pack_node(node) if node is not None else None)
    return packed


async def _children(session: _Session, frame: Frame) -> object:
    return await session.store.children(wire.path_of(frame.get("path")))


async def _multi(session: _Session, frame: Frame) -> object:
    return await session.store.multi(wire.unpack_ops(wire.items(frame, "ops")))


async def _watch(session: _Session, frame: Frame) -> None:
    await session.watch(wire.path_of(frame.get("path")))


_WORK: dict[str, Callable[[_Session, Frame], Awaitable[object]]] = {
    "get": _get,
    "get_all": _get_all,
    "children": _children,
    "multi": _multi,
    "watch": _watch,
}
