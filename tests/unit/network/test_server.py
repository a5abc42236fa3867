"""Who may be connected, for how long, and how it ends."""

import asyncio
import contextlib
import socket
from types import SimpleNamespace

import pytest

from ottla.core.clock import ManualClock
from ottla.network import server as server_module
from ottla.network.connection import Limits
from ottla.network.server import Admission, Server, _overdue
from tests.unit.network.wire import LOOPS, FakeTransport, connect, echo, frame, run, until

on_both_loops = pytest.mark.parametrize("loop", LOOPS)
FRAME_MS, STALL_MS, IDLE_MS = 1000, 2000, 5000
LIMITS = Limits(frame_timeout_ms=FRAME_MS, stall_timeout_ms=STALL_MS, idle_timeout_ms=IDLE_MS)


class Scene:
    """A server on one port, with time that stands still and clients that are closed in the end."""

    def __init__(self, serve=echo, admission=None, limits=LIMITS):
        self.clock = ManualClock()
        self.server = Server(serve, limits, admission or Admission(), self.clock.monotonic_ms)
        self.clients = []
        self.port = 0

    async def __aenter__(self):
        self.port = await self.server.bind("PLAINTEXT", "127.0.0.1", 0)
        await self.server.serve()
        return self

    async def __aexit__(self, *_):
        for client in self.clients:
            client.close()
        await self.server.abort()

    async def connect(self, **options):
        client = await connect(self.port, **options)
        self.clients.append(client)
        return client

    async def is_served(self, client):
        """Does it get an answer, and not the end of the connection?"""
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            await client.send(frame(b"hello"))
            return await client.reply() == b"hello"
        return False

    def later(self, ms):
        self.clock.advance(ms)
        self.server.sweep()


# --- listening ------------------------------------------------------------------------------------------------------


@on_both_loops
@pytest.mark.parametrize("steps", range(5))
@pytest.mark.parametrize("end", ["close", "abort"])
def test_whoever_is_being_accepted_when_the_server_closes_is_let_go(loop, steps, end):
    async def scene():
        async with Scene() as s:
            with socket.create_connection(("127.0.0.1", s.port)) as client:
                client.setblocking(False)
                for _ in range(steps):
                    await asyncio.sleep(0)
                await getattr(s.server, end)()
                with contextlib.suppress(ConnectionResetError):
                    assert await asyncio.get_running_loop().sock_recv(client, 1) == b""

    run(loop, scene())


@on_both_loops
def test_a_crowd_does_not_wait_for_a_turn_of_the_loop_each(loop):
    async def main():
        async with Scene() as scene:
            crowd = [socket.create_connection(("127.0.0.1", scene.port)) for _ in range(100)]
            turns = 0
            while len(scene.server.connections) < len(crowd):
                await asyncio.sleep(0)
                turns += 1
            assert turns < 50
            for each in crowd:
                each.close()

    run(loop, main())


@on_both_loops
def test_a_closed_server_lets_nobody_in_by_any_door(loop):
    async def main():
        scene = Scene()
        async with scene:
            await scene.server.close()
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", scene.port))

    run(loop, main())


@on_both_loops
def test_nobody_is_let_in_before_serve_and_everybody_after_it(loop):
    async def main():
        server = Server(echo, LIMITS, Admission(), lambda: 0)
        port = await server.bind("PLAINTEXT", "127.0.0.1", 0)
        with pytest.raises(ConnectionRefusedError):
            await connect(port)
        await server.serve()
        client = await connect(port)
        await client.send(frame(b"hello"))
        assert await client.reply() == b"hello"
        client.close()
        await server.close()

    run(loop, main())


@on_both_loops
def test_connections_know_by_which_listener_they_came(loop):
    async def main():
        server = Server(lambda c, _: [frame(c.listener.encode())], LIMITS, Admission(), lambda: 0)
        ports = {name: await server.bind(name, "127.0.0.1", 0) for name in ("INSIDE", "OUTSIDE")}
        await server.serve()
        for name, port in ports.items():
            client = await connect(port)
            await client.send(frame(b""))
            assert await client.reply() == name.encode()
            client.close()
        await server.close()

    run(loop, main())


@on_both_loops
def test_an_address_that_is_taken_is_an_error_and_leaves_nothing_open(loop):
    async def main():
        async with Scene() as scene:
            rival = Server(echo, LIMITS, Admission(), lambda: 0)
            free = await rival.bind("A", "127.0.0.1", 0)
            with pytest.raises(OSError):
                await rival.bind("B", "127.0.0.1", scene.port)
                await rival.serve()
            await rival.abort()
            again = Server(echo, LIMITS, Admission(), lambda: 0)
            assert await again.bind("A", "127.0.0.1", free) == free
            await again.abort()

    run(loop, main())


# --- admission ------------------------------------------------------------------------------------------------------


@on_both_loops
@pytest.mark.parametrize(
    ("admission", "allowed"),
    [
        (Admission(connections_max=2), 2),
        (Admission(descriptors_max=2), 2),
        (Admission(per_ip_max=3), 3),
        (Admission(per_ip_max=1, per_ip_overrides={"127.0.0.1": 2}), 2),
        (Admission(per_ip_max=3, per_ip_overrides={"127.0.0.1": 1, "10.0.0.1": 9}), 1),
        (Admission(per_ip_overrides={"127.0.0.1": 0}), 0),
    ],
)
def test_no_more_connections_than_allowed_and_who_leaves_makes_room(loop, admission, allowed):
    async def main():
        async with Scene(admission=admission) as scene:
            for _ in range(2):
                inside = [await scene.connect() for _ in range(allowed)]
                assert all([await scene.is_served(client) for client in inside])
                refused = scene.server.refused
                assert not await scene.is_served(await scene.connect())
                assert scene.server.refused == refused + 1
                assert all([await scene.is_served(client) for client in inside])
                for client in inside:
                    client.close()
                await until(lambda: not scene.server.connections)
            assert scene.server.accepted == 2 * (allowed + 1)
            assert not scene.server._per_ip

    run(loop, main())


# --- deadlines ------------------------------------------------------------------------------------------------------


@on_both_loops
@pytest.mark.parametrize("sent", [b"\0", frame(b"hello")[:-1], frame(bytes(500_000))[:-1]])
def test_half_a_request_is_waited_for_and_then_not_any_longer(loop, sent):
    async def main():
        async with Scene() as scene:
            client = await scene.connect()
            await client.send(sent)
            await until(lambda: scene.server.hub.bytes_in == len(sent))
            scene.later(FRAME_MS)
            assert scene.server.connections
            scene.later(1)
            assert await client.is_closed()

    run(loop, main())


@on_both_loops
def test_sending_on_slowly_does_not_help(loop):
    async def main():
        async with Scene() as scene:
            client = await scene.connect()
            for count, byte in enumerate(frame(b"hello world")[:5], 1):
                await client.send(bytes([byte]))
                await until(lambda: scene.server.hub.bytes_in == count)  # noqa: B023  # waited for here
                scene.later(FRAME_MS // 4)
            assert await client.is_closed()

    run(loop, main())


@on_both_loops
def test_a_request_that_completes_in_time_leaves_no_deadline(loop):
    async def main():
        async with Scene() as scene:
            client = await scene.connect()
            await client.send(frame(b"hello")[:3])
            await until(lambda: scene.server.hub.bytes_in == 3)
            await client.send(frame(b"hello")[3:])
            assert await client.reply() == b"hello"
            scene.later(FRAME_MS + 1)
            assert await scene.is_served(client)

    run(loop, main())


def test_half_a_request_has_its_full_time_again_when_it_is_the_peers_turn():
    """While a connection is held back, the rest of a request cannot come, however willing the peer is."""

    async def play():
        scene, timers, transport = Scene(), [], FakeTransport()
        connection = transport.attach(server_module._Admitted(scene.server, "PLAINTEXT"))
        transport.feed(frame(b"hello")[:6])
        asyncio.get_running_loop().call_later = lambda seconds, callback: timers.append(callback)
        connection.mute(60)
        scene.later(FRAME_MS + 1)
        assert connection.is_open
        timers.pop()()
        scene.later(FRAME_MS)
        assert connection.is_open
        scene.later(1)
        assert not connection.is_open

    run("stdlib", play())


@on_both_loops
def test_who_reads_no_replies_is_closed(loop):
    async def main():
        async with Scene(lambda *_: [frame(bytes(20_000_000))]) as scene:
            client = await scene.connect(receive_bytes=4096)
            await client.send(frame(b"x"))
            await until(lambda: any(connection.is_stalled for connection in scene.server.connections))
            scene.later(STALL_MS)
            assert scene.server.connections
            while scene.server.connections:  # the kernel may go on taking some for a while
                scene.later(STALL_MS + 1)
                await asyncio.sleep(0)

    run(loop, main())


@on_both_loops
def test_who_reads_slowly_is_not(loop):
    async def main():
        async with Scene(lambda *_: [frame(bytes(20_000_000))]) as scene:
            client = await scene.connect(receive_bytes=4096)
            await client.send(frame(b"x"))
            await until(lambda: any(connection.is_stalled for connection in scene.server.connections))
            (connection,) = scene.server.connections
            while connection.is_stalled:
                unsent = connection._transport.get_write_buffer_size()
                while connection.is_stalled and connection._transport.get_write_buffer_size() == unsent:
                    await client.receive(500_000)
                scene.later(STALL_MS)
                assert connection.is_open

    run(loop, main())


def test_a_reply_that_took_its_time_does_not_count_as_left_unread():
    async def play():
        futures, transport = [], FakeTransport()

        def serve(connection, request):
            futures.append(asyncio.get_running_loop().create_future())
            return futures[-1]

        scene = Scene(serve)
        connection = transport.attach(server_module._Admitted(scene.server, "PLAINTEXT"))
        transport.feed(frame(b"x"))
        scene.later(10 * STALL_MS)
        transport.is_full = True
        futures[0].set_result([frame(b"at last")])
        await until(lambda: transport.stuck)
        scene.later(STALL_MS)
        assert connection.is_open
        scene.later(1)
        assert not connection.is_open

    run("stdlib", play())


@on_both_loops
def test_who_is_idle_is_closed_but_not_who_waits_for_a_reply(loop):
    async def main():
        futures = []

        def serve(connection, request):
            if request == b"hello":
                return [frame(b"hello")]
            futures.append(asyncio.get_running_loop().create_future())
            return futures[-1]

        async with Scene(serve) as scene:
            idle, waiting = await scene.connect(), await scene.connect()
            await until(lambda: len(scene.server.connections) == 2)
            await waiting.send(frame(b"wait"))
            await until(lambda: futures)
            scene.later(IDLE_MS)
            assert len(scene.server.connections) == 2
            scene.later(1)
            assert await idle.is_closed()
            futures[0].set_result([frame(b"done")])
            assert await waiting.reply() == b"done"
            scene.later(IDLE_MS)
            assert await scene.is_served(waiting), "the reply counts as something that moved"
            scene.later(IDLE_MS + 1)
            assert await waiting.is_closed()

    run(loop, main())


@on_both_loops
def test_deadlines_are_looked_at_all_the_time(loop, monkeypatch):
    async def main():
        async with Scene() as scene:
            client = await scene.connect()
            await until(lambda: scene.server.connections)
            scene.clock.advance(IDLE_MS + 1)
            assert await client.is_closed()

    monkeypatch.setattr(server_module, "_SWEEP_SECONDS", 0.001)
    run(loop, main())


# --- the end --------------------------------------------------------------------------------------------------------


@on_both_loops
def test_closing_waits_for_the_replies_under_way(loop):
    async def main():
        future = asyncio.get_running_loop().create_future()
        async with Scene(lambda *_: future) as scene:
            client = await scene.connect()
            await client.send(frame(b"x"))
            await until(lambda: any(connection.is_answering for connection in scene.server.connections))
            closing = asyncio.ensure_future(scene.server.close())
            await asyncio.sleep(0)
            with pytest.raises(OSError):
                await connect(scene.port)
            assert not closing.done()
            future.set_result([frame(b"done")])
            await closing
            assert await client.reply() == b"done"
            assert await client.is_closed()
            assert not scene.server.connections

    run(loop, main())


@on_both_loops
def test_closing_does_not_wait_for_ever(loop):
    async def main():
        futures = []

        def serve(*_):
            futures.append(asyncio.get_running_loop().create_future())
            return futures[-1]

        async with Scene(serve) as scene:
            client = await scene.connect()
            await client.send(frame(b"x"))
            await until(lambda: futures)
            await scene.server.close(grace_seconds=0)
            assert futures[0].cancelled()
            assert await client.is_closed()

    run(loop, main())


@on_both_loops
def test_who_never_stops_sending_does_not_keep_the_server_from_its_end(loop):
    async def main():
        async with Scene() as scene:
            client = await scene.connect()

            async def send_for_ever():
                with contextlib.suppress(ConnectionError):
                    while True:
                        await client.send(frame(bytes(1000)) * 10)

            async def read_for_ever():
                with contextlib.suppress(ConnectionError):
                    while True:
                        await client.reply()

            busy = [asyncio.ensure_future(send_for_ever()), asyncio.ensure_future(read_for_ever())]
            await until(lambda: scene.server.hub.bytes_out > 1_000_000)
            await scene.server.close(grace_seconds=1000)
            await asyncio.gather(*busy)

    run(loop, main())


@on_both_loops
@pytest.mark.parametrize("is_graceful", [True, False])
def test_who_connects_while_the_server_ends_does_not_keep_it_and_is_not_kept(loop, is_graceful):
    async def main():
        for patience in range(6):
            scene = await Scene().__aenter__()
            clients = await asyncio.gather(*(connect(scene.port) for _ in range(20)), return_exceptions=True)
            for _ in range(patience):
                await asyncio.sleep(0)
            await (scene.server.close() if is_graceful else scene.server.abort())
            for client in clients:
                if not isinstance(client, BaseException):
                    assert await client.is_closed()
                    client.close()
            assert not scene.server.connections

    run(loop, main())


@on_both_loops
def test_the_end_may_come_twice_and_before_the_beginning(loop):
    async def main():
        server = Server(echo, LIMITS, Admission(), lambda: 0)
        await server.abort()
        await server.close()
        async with Scene() as scene:
            await scene.server.close()
            await scene.server.close()
            await scene.server.abort()

    run(loop, main())


def test_connections_stay_however_idle_if_the_limit_says_so():
    idle = SimpleNamespace(
        active_ms=0, frame_since_ms=None, is_reading=True, is_stalled=False, is_idle=True, peer="a peer"
    )
    assert _overdue(idle, 10**12, Limits(idle_timeout_ms=-1)) is None
    assert _overdue(idle, 10**12, Limits(idle_timeout_ms=1000)) == ""
