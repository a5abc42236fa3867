"""Sessions by a socket: the contract of all stores, and what becomes of them when the connection breaks."""

import asyncio
import logging
import socket
from unittest.mock import patch

import pytest

from ottla.metadata import remote
from ottla.metadata.embedded import MEMORY, EmbeddedStore
from ottla.metadata.remote import RemoteStore
from ottla.metadata.served import StoreServer
from ottla.metadata.store import Create, SessionLost, SessionState, StoreError, StoreUnavailable
from tests.unit.metadata.store_contract import PATIENCE_S, Calls, StoreContract

LONG_MS = 60_000  # no session ends by itself, however slow the machine
SHORT_MS = 1_500


class ServedWorld:
    """A store, its server, and sessions with it by real sockets."""

    def __init__(self, path: str = MEMORY, session_timeout_ms: int = LONG_MS) -> None:
        self._path, self._session_timeout_ms = path, session_timeout_ms
        self.store: EmbeddedStore | None = None
        self.server: StoreServer | None = None
        self.port = 0

    async def start(self) -> None:
        if self.store is None:
            self.store = await EmbeddedStore.open(self._path)
        self.server = StoreServer(self.store)
        self.port = await self.server.start(port=self.port)

    async def session(self, port: int | None = None) -> RemoteStore:
        if self.server is None:
            await self.start()
        return await RemoteStore.open(
            "127.0.0.1", self.port if port is None else port, session_timeout_ms=self._session_timeout_ms
        )

    async def expire(self, session: RemoteStore) -> None:
        await self.server.expire(session.id)
        await become(session, SessionState.LOST)

    async def stop_serving(self) -> None:
        server, self.server = self.server, None
        await server.close()

    async def close(self) -> None:
        if self.server is not None:
            await self.stop_serving()
        if self.store is not None:
            await self.store.close()

    async def __aenter__(self) -> "ServedWorld":
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class Gate:
    """A way to the server that can be shut without a word, and broken."""

    def __init__(self, world: ServedWorld) -> None:
        self._world = world
        self.is_open = asyncio.Event()
        self.is_open.set()
        self._writers: list[asyncio.StreamWriter] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    async def __aenter__(self) -> "Gate":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.break_connections()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def shut(self) -> None:
        self.is_open.clear()

    def open(self) -> None:
        self.is_open.set()

    def break_connections(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.add(asyncio.current_task())
        try:
            await self.is_open.wait()
            there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._world.port)
            self._writers += [writer, there_writer]
            await asyncio.gather(self._pass(reader, there_writer), self._pass(there_reader, writer))
        except (OSError, asyncio.CancelledError):
            writer.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            await self.is_open.wait()
            writer.write(data)
        writer.close()


async def become(session: RemoteStore, state: SessionState) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while session.session is not state:
            await asyncio.sleep(0.005)


async def until(condition) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.005)


class _Served(StoreContract):
    def run(self, scenario):
        async def whole() -> None:
            try:
                await scenario
            finally:
                await self.served.close()

        asyncio.run(whole())


class TestRemoteStoreInMemory(_Served):
    def world(self, tmp_path):
        self.served = ServedWorld()
        return self.served


class TestRemoteStoreOnDisk(_Served):
    def world(self, tmp_path):
        self.served = ServedWorld(f"{tmp_path}/metadata.db")
        return self.served


def with_a_gate(session_timeout_ms: int = LONG_MS):
    """Run a test with a world and a gate before its server."""

    def decorate(test):
        def run():
            async def scenario() -> None:
                async with ServedWorld(session_timeout_ms=session_timeout_ms) as world, Gate(world) as gate:
                    await test(world, gate)

            asyncio.run(scenario())

        run.__name__ = test.__name__
        return run

    return decorate


@with_a_gate()
async def test_a_session_survives_its_connection_with_its_ephemeral_nodes(world, gate):
    session = await world.session(gate.port)
    states = []
    session.on_session(states.append)
    await session.create("/a", b"x", ephemeral=True)
    gate.break_connections()
    await until(lambda: states == [SessionState.SUSPENDED, SessionState.CONNECTED])
    assert (await session.get("/a")).data == b"x"
    await session.close()
    assert states[-1] is SessionState.LOST


@with_a_gate()
async def test_what_is_under_way_when_the_connection_breaks_fails_and_nobody_knows(world, gate):
    session = await world.session(gate.port)
    gate.shut()
    asked = asyncio.ensure_future(session.create("/a"))
    await asyncio.sleep(0)
    gate.break_connections()
    with pytest.raises(StoreUnavailable, match="nobody knows"):
        await asked
    await session.close()


@with_a_gate()
async def test_without_a_connection_requests_fail_soon(world, gate):
    session = await world.session(gate.port)
    gate.shut()
    gate.break_connections()
    await become(session, SessionState.SUSPENDED)
    with pytest.raises(StoreUnavailable, match=f"127.0.0.1:{gate.port}"):
        await session.get("/")
    await session.close()


@with_a_gate()
async def test_every_watch_is_told_once_when_the_connection_is_back(world, gate):
    session = await world.session(gate.port)
    one, two = Calls(), Calls()
    await session.watch("/a", one)
    await session.watch("/b", two)
    gate.shut()
    gate.break_connections()
    await become(session, SessionState.SUSPENDED)
    await world.store.create("/a")
    gate.open()
    await one.next()
    await two.next()
    assert (one.count, two.count) == (1, 1)
    await world.store.set("/a", b"more")
    await one.next()
    await session.close()


@with_a_gate(session_timeout_ms=SHORT_MS)
async def test_a_session_that_is_cut_off_is_suspended_then_missed_then_told_so(world, gate):
    session = await world.session(gate.port)
    await session.create("/a", b"", ephemeral=True)
    states = []
    session.on_session(states.append)
    gate.shut()
    await become(session, SessionState.SUSPENDED)
    await until(lambda: not world.server.sessions)
    assert await world.store.children("/") == []
    gate.open()
    await become(session, SessionState.LOST)
    assert states[0] is SessionState.SUSPENDED
    with pytest.raises(SessionLost):
        await session.get("/")
    await session.close()


def test_a_session_that_has_nothing_to_say_lives_on():
    async def scenario() -> None:
        async with ServedWorld(session_timeout_ms=SHORT_MS) as world:
            session = await world.session()
            states = []
            session.on_session(states.append)
            await session.create("/a", b"", ephemeral=True)
            clock = asyncio.get_running_loop().time
            enough = clock() + 1.5 * SHORT_MS / 1000
            await until(lambda: clock() > enough)
            # A machine that stands still may interrupt it, but nobody was silent: it is still the same session.
            assert SessionState.LOST not in states
            assert await world.store.children("/") == ["a"]
            await session.close()

    asyncio.run(scenario())


def test_after_a_restart_of_the_server_all_sessions_are_over():
    async def scenario() -> None:
        async with ServedWorld() as world:
            session = await world.session()
            await session.multi([Create("/lasts"), Create("/goes", b"", ephemeral=True)])
            await world.stop_serving()
            await become(session, SessionState.SUSPENDED)
            await world.start()
            await become(session, SessionState.LOST)
            again = await world.session()
            assert await again.children("/") == ["lasts"]
            await again.close()
            await session.close()

    asyncio.run(scenario())


def test_who_abandons_a_session_says_nothing_and_is_missed():
    async def scenario() -> None:
        async with ServedWorld(session_timeout_ms=SHORT_MS) as world:
            session = await world.session()
            await session.create("/a", b"", ephemeral=True)
            session.abandon()
            assert world.server.sessions
            await until(lambda: not world.server.sessions)
            assert await world.store.children("/") == []
            await session.close()

    asyncio.run(scenario())


def test_a_close_ends_the_session_at_once():
    async def scenario() -> None:
        async with ServedWorld() as world:
            session = await world.session()
            await session.close()
            assert world.server.sessions == []

    asyncio.run(scenario())


def test_where_nobody_listens_it_says_so():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(StoreUnavailable, match=f"no metadata store answers at 127.0.0.1:{port}"):
            asyncio.run(RemoteStore.open("127.0.0.1", port, session_timeout_ms=1000))


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0\0\0\2{}", b"\0\0\0\1!", b""])
def test_what_is_no_store_is_told_from_one(answer):
    async def serve(reader, writer):
        writer.write(answer)
        writer.close()

    async def scenario() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(StoreUnavailable, match=f"at 127.0.0.1:{port}"):
            await RemoteStore.open("127.0.0.1", port, session_timeout_ms=10_000)
        server.close()

    asyncio.run(scenario())


def test_more_than_fits_into_one_answer_is_asked_for_again():
    async def scenario() -> None:
        async with ServedWorld() as world:
            session = await world.session()
            paths = [f"/{number}" for number in range(8)]
            for path in paths:
                await world.store.create(path, path.encode() * 1_500_000)
            found = await session.get_all([*paths, "/missing"])
            assert [(path, len(node.data)) for path, node in found.items()] == [(p, 3_000_000) for p in paths]
            with pytest.raises(StoreError, match="too many"):
                await session.create("/large", bytes(13_000_000))
            assert session.session is SessionState.CONNECTED
            await session.close()

    asyncio.run(scenario())


@with_a_gate()
async def test_closing_does_not_wait_for_a_server_that_does_not_answer(world, gate):
    session = await world.session(gate.port)
    gate.shut()
    with patch.object(remote, "_CLOSE_SECONDS", 0.01):
        await session.close()
    assert session.session is SessionState.LOST


@with_a_gate()
async def test_an_interruption_and_its_end_are_a_line_each(world, gate):
    session = await world.session(gate.port)
    said: list[str] = []
    handler = logging.Handler(logging.INFO)
    handler.emit = lambda record: said.append(record.getMessage())
    remote.logger.addHandler(handler)
    level = remote.logger.level
    remote.logger.setLevel(logging.INFO)
    try:
        gate.shut()
        gate.break_connections()
        await become(session, SessionState.SUSPENDED)
        gate.open()
        await become(session, SessionState.CONNECTED)
        await session.close()
    finally:
        remote.logger.removeHandler(handler)
        remote.logger.setLevel(level)
    where = f"the metadata store at 127.0.0.1:{gate.port}"
    assert said == [f"there is no connection to {where}", f"the connection to {where} is back"]
