"""How kazoo is tamed. What a session does with a real server is in test_zookeeper.py."""

import asyncio
import socket
import threading

import pytest

from ottla.metadata import zookeeper_session
from ottla.metadata.store import SessionLost, SessionState, StoreUnavailable
from ottla.metadata.zookeeper_address import parse
from ottla.metadata.zookeeper_session import WINDOW, Session, _Connection, _Handler


@pytest.fixture(autouse=True)
def no_thread_stays():
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


def test_the_window_is_smaller_than_what_kazoo_can_be_told_without_blocking():
    teller, told = socket.socketpair()
    with teller, told:
        teller.setblocking(False)
        for _ in range(WINDOW):
            assert teller.send(b"\0") == 1


def test_a_session_that_never_began_ends_at_once():
    async def scenario():
        session = Session(parse("127.0.0.1:1"), 10_000)
        assert session.state is SessionState.SUSPENDED
        with pytest.raises(StoreUnavailable):
            await session.begin(0.05)
        with pytest.raises(StoreUnavailable, match="no connection"):
            await session.ask_all([])
        await session.end()
        await session.end()
        with pytest.raises(SessionLost):
            await session.ask_all([])

    asyncio.run(scenario())


def test_states_are_told_once_and_nothing_follows_the_end():
    async def scenario():
        session = Session(parse("127.0.0.1:1"), 10_000)
        states = []
        session.on_state = states.append
        for state in ("CONNECTED", "SUSPENDED", "SUSPENDED", "CONNECTED", "LOST", "CONNECTED"):
            session._hear(SessionState[state], 7)
        await session.end()
        assert [state.name for state in states] == ["CONNECTED", "SUSPENDED", "CONNECTED", "LOST"]
        assert session.id == 7

    asyncio.run(scenario())


def test_what_is_given_up_while_it_waits_for_a_connection_is_given_up_at_once():
    async def scenario():
        session = Session(parse("127.0.0.1:1"), 10_000)
        asking = asyncio.ensure_future(session.ask_all([]))
        await asyncio.sleep(0)
        session.abandon()
        with pytest.raises(SessionLost):
            await asking

    asyncio.run(scenario())


@pytest.mark.parametrize("wait", [lambda session: session.begin(60), lambda session: session.ask_all([])])
def test_who_is_told_to_stop_at_the_moment_the_connection_is_there_stops(wait):
    async def scenario():
        session = Session(parse("127.0.0.1:1"), 10_000)
        waiting = asyncio.ensure_future(wait(session))
        while not session._is_settled._waiters:
            await asyncio.sleep(0)
        session._hear(SessionState.CONNECTED, 7)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled()
        await session.end()

    asyncio.run(scenario())


def test_silence_counts_only_while_an_answer_is_due(monkeypatch):
    async def scenario():
        session = Session(parse("127.0.0.1:1"), 10)
        drops = []
        monkeypatch.setattr(session._handler, "silent_s", lambda: 1.0)
        monkeypatch.setattr(session._handler, "drop", lambda: drops.append(1))
        session._mind_the_silence()
        assert not drops
        session._in_flight_count = 1
        while len(drops) < 2:  # it is looked at again and again
            await asyncio.sleep(0.001)
        await session.end()

    asyncio.run(scenario())


def test_a_peer_that_announces_a_gigabyte_gets_no_memory_for_it():
    left, right = socket.socketpair()
    with right, _Connection(fileno=left.detach()) as connection:
        right.sendall(b"HTTP")
        assert connection.recv(1 << 62) == b"HTTP"


def test_who_has_hung_up_is_not_connected_again():
    handler = _Handler(1.0)
    with socket.create_server(("127.0.0.1", 0)) as server:
        connection = handler.create_connection(address=server.getsockname(), timeout=60)
        handler.hang_up()
        assert connection.recv(1) == b""
        connection.close()
        with pytest.raises(OSError, match="given up"):
            handler.create_connection(address=server.getsockname(), timeout=60)
        handler.hang_up()


def test_each_server_gets_a_share_of_the_session_timeout_to_be_reached(monkeypatch):
    waits = []
    monkeypatch.setattr(
        zookeeper_session, "_Handler", lambda connect_s: waits.append(connect_s) or _Handler(1)
    )

    async def scenario():
        for connect, timeout_ms in (("a,b,c", 1_200), ("a", 2_000), ("a,b,c", 18_000)):
            await Session(parse(connect), timeout_ms).end()

    asyncio.run(scenario())
    assert waits == pytest.approx([0.2, 1.0, 2.0])


def test_a_server_that_takes_a_connection_and_says_nothing_is_tried_again(monkeypatch):
    """As one that is being started sometimes does: the session must not wait for it until it is over."""
    monkeypatch.setattr(zookeeper_session, "_HANDSHAKE_S", 0.05)

    async def scenario():
        came = asyncio.Queue()
        server = await asyncio.start_server(lambda reader, writer: came.put_nowait(writer), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        session = Session(parse(f"127.0.0.1:{port}"), 600_000)
        beginning = asyncio.create_task(session.begin(60))
        async with asyncio.timeout(60):
            silent = [await came.get(), await came.get()]
        await session.end()
        with pytest.raises(SessionLost):
            await beginning
        server.close()
        while not came.empty():
            silent.append(came.get_nowait())
        for writer in silent:
            writer.close()

    asyncio.run(scenario())
