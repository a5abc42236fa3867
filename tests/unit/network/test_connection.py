"""One client: frames in, replies out in order, and nothing that grows with what the client does or leaves undone."""

import asyncio
import logging
import random
import struct
from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.core.errors import ProtocolError
from ottla.network.connection import Connection, Hub, Limits
from ottla.network.parts import BufferPool
from tests.unit.network.wire import LOOPS, FakeTransport, Pattern, Scene, echo, frame, pattern, run, until

on_both_loops = pytest.mark.parametrize("loop", LOOPS)
MB = 1024 * 1024


class Waiting:
    """Serves requests that start with `w` when told to, and all others at once."""

    def __init__(self):
        self.served = []
        self.pending = {}

    def __call__(self, connection, request):
        payload = bytes(request)
        self.served.append(payload)
        if payload[:1] != b"w":
            return [frame(payload)]
        self.pending[payload] = asyncio.get_running_loop().create_future()
        return self.pending[payload]

    def answer(self, payload):
        self.pending.pop(payload).set_result([frame(payload)])


# --- order ----------------------------------------------------------------------------------------------------------


@on_both_loops
@pytest.mark.parametrize("seed", range(5))
def test_replies_leave_in_the_order_of_requests_whatever_order_they_are_ready_in(loop, seed):
    async def main():
        chance, serve = random.Random(seed), Waiting()
        payloads = [b"%s%d" % (chance.choice([b"w", b"now"]), number) for number in range(60)]
        async with Scene(serve) as scene:
            client, _ = await scene.connect()
            await client.send(b"".join(map(frame, payloads)))
            await until(lambda: len(serve.served) == len(payloads))
            waiting = list(serve.pending)
            chance.shuffle(waiting)
            for payload in waiting:
                serve.answer(payload)
                if chance.random() < 0.5:
                    await asyncio.sleep(0)
            assert [await client.reply() for _ in payloads] == payloads

    run(loop, main())


@on_both_loops
def test_many_frames_in_one_read_are_all_served(loop):
    async def main():
        payloads = [b"%d" % number for number in range(5000)]
        async with Scene(echo) as scene:
            client, _ = await scene.connect()
            await client.send(b"".join(map(frame, payloads)))
            assert [await client.reply() for _ in payloads] == payloads

    run(loop, main())


@on_both_loops
def test_frames_may_be_cut_anywhere(loop):
    payloads = [b"first", b"", b"a longer one" * 3, b"x"]
    stream = b"".join(map(frame, payloads))

    async def main():
        async with Scene(echo) as scene:
            client, _ = await scene.connect()
            for cut in range(1, len(stream)):
                for piece in (stream[:cut], stream[cut:]):
                    before = scene.hub.bytes_in
                    await client.send(piece)
                    await until(lambda: scene.hub.bytes_in == before + len(piece))  # noqa: B023  # waited for here
                assert [await client.reply() for _ in payloads] == payloads

    run(loop, main())


@on_both_loops
def test_frames_may_come_byte_by_byte(loop):
    payloads = [b"", b"one", b"", b"another" * 10]

    async def main():
        async with Scene(echo) as scene:
            client, _ = await scene.connect()
            for sent, byte in enumerate(b"".join(map(frame, payloads)), 1):
                await client.send(bytes([byte]))
                await until(lambda: scene.hub.bytes_in == sent)  # noqa: B023  # waited for here
            assert [await client.reply() for _ in payloads] == payloads

    run(loop, main())


sizes = st.sampled_from(
    [0, 1, 3, 4, 5, 100, 4091, 4092, 4093, 5000, 300_000, MB + 65_532, MB + 65_533, 3 * MB]
)


@settings(deadline=None, max_examples=50)
@given(st.lists(sizes, min_size=1, max_size=6), st.lists(st.integers(1, 400_000), max_size=20), st.booleans())
def test_every_frame_arrives_as_it_was_sent_however_large_and_however_cut(sizes, cuts, cuts_sizes):
    payloads = [pattern(number, size) for number, size in enumerate(sizes)]
    stream, seen = b"".join(map(frame, payloads)), []
    hub = Hub(lambda _, request: seen.append(bytes(request)) or [], Limits(), lambda: 0)
    transport = FakeTransport()
    transport.attach(Connection(hub, "PLAINTEXT"))
    for cut in ([1, 1, 1] if cuts_sizes else []) + cuts:
        assert transport.feed(stream[:cut]) == b""
        stream = stream[cut:]
    assert transport.feed(stream) == b""
    assert seen == payloads


steps = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.lists(st.tuples(st.booleans(), st.integers(0, 3000)), max_size=12)),
        st.tuples(st.just("cut"), st.integers(1, 4000)),
        st.tuples(st.just("answer"), st.integers(0, 20)),
        st.tuples(st.just("fill"), st.none()),
        st.tuples(st.just("drain"), st.none()),
        st.tuples(st.just("mute"), st.none()),
        st.tuples(st.just("unmute"), st.none()),
    ),
    max_size=60,
)


@settings(deadline=None)
@given(steps, st.integers(1, 5), st.sampled_from([1, 2000, MB]))
def test_nothing_is_lost_or_reordered_whatever_holds_requests_and_replies_up(
    script, in_flight_max, queued_max
):
    async def play():
        loop = asyncio.get_running_loop()
        serve, transport, timers = Waiting(), FakeTransport(), deque()
        hub = Hub(serve, Limits(in_flight_max=in_flight_max, queued_bytes_max=queued_max), lambda: 0)
        connection = transport.attach(Connection(hub, "PLAINTEXT"))
        loop.call_later = lambda _, callback: timers.append(callback)
        sent, on_the_way = [], b""

        async def do(what, argument):
            nonlocal on_the_way
            if what == "send":
                for waits, size in argument:
                    sent.append(b"%s%d." % (b"w" if waits else b"n", len(sent)) + bytes(size))
                    on_the_way += frame(sent[-1])
            elif what == "cut":
                rest = transport.feed(on_the_way[:argument])
                on_the_way = rest + on_the_way[argument:]
            elif what == "answer" and serve.pending:
                serve.answer(list(serve.pending)[argument % len(serve.pending)])
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            elif what == "fill":
                transport.is_full = True
            elif what == "drain":
                transport.drain()
            elif what == "mute":
                connection.mute(1)
            elif what == "unmute" and timers:
                timers.popleft()()
            assert len(serve.pending) <= in_flight_max

        for what, argument in script:
            await do(what, argument)
        while on_the_way or serve.pending or timers or transport.stuck or connection._backlog:
            for what in ("drain", "unmute", "answer"):
                await do(what, 0)
            await do("cut", len(on_the_way))
        assert serve.served == sent
        assert transport.replies() == sent
        assert connection.is_idle and not connection.is_answering
        assert connection._queued_bytes == connection._outbox.held_bytes == 0
        assert transport.is_reading

    run("stdlib", play())


# --- memory ---------------------------------------------------------------------------------------------------------


def test_a_large_frame_takes_room_as_it_arrives_and_not_as_it_is_announced():
    hub, transport = Hub(lambda *_: [], Limits(), lambda: 0), FakeTransport()
    connection = transport.attach(Connection(hub, "PLAINTEXT"))
    announced, arrived = 100 * 1000 * 1000, 0
    transport.feed(struct.pack(">i", announced))
    while arrived < 20 * MB:
        assert len(connection._partial) <= max(BufferPool.buffer_bytes, 2 * (arrived + 4))
        arrived += len(piece := bytes(100_000))
        assert transport.feed(piece) == b""


def test_an_idle_connection_holds_no_buffer():
    hub, transport = Hub(echo, Limits(), lambda: 0), FakeTransport()
    connection = transport.attach(Connection(hub, "PLAINTEXT"))
    transport.feed(frame(bytes(100_000)) + frame(b"x"))
    assert connection.is_idle
    assert connection._partial is None and connection._lent is None
    assert not connection._backlog


@on_both_loops
def test_a_request_that_is_being_worked_on_keeps_its_bytes(loop):
    """Its records may be read by a thread, long after other requests came and went."""
    kept = []

    def serve(connection, request):
        if len(kept) < 3:
            kept.append(request)
            return asyncio.get_running_loop().create_future()
        return []

    async def main():
        first, later = [pattern(n, 500_000) for n in range(3)], [pattern(n, 500_000) for n in range(3, 20)]
        async with Scene(serve) as scene:
            client, _ = await scene.connect()
            other, _ = await scene.connect()
            await client.send(b"".join(map(frame, first)))
            await until(lambda: len(kept) == 3)
            for payload in later:
                await client.send(frame(payload))
                await other.send(frame(payload))
            await until(lambda: scene.hub.bytes_in == 500_004 * 37)
            assert [bytes(request) for request in kept] == first
            client.close()
            await until(lambda: len(scene.hub.connections) == 1)
            await other.send(frame(pattern(98, 500_000)) * 5)
            await until(lambda: scene.hub.bytes_in == 500_004 * 42)
            assert [bytes(request) for request in kept] == first

    run(loop, main())


def test_the_buffer_of_a_request_that_is_answered_serves_the_next_one():
    buffers = []
    hub = Hub(lambda _, request: buffers.append(id(request.obj)) or [], Limits(), lambda: 0)
    transport = FakeTransport()
    transport.attach(Connection(hub, "PLAINTEXT"))
    for _ in range(3):
        transport.feed(frame(bytes(500_000)))
    assert len(set(buffers)) == 1


@on_both_loops
def test_a_buffer_that_a_transport_still_sends_from_is_not_filled_anew(loop):
    """One reader is slow while others fetch: all get their own bytes."""
    size = 3 * MB

    def serve(connection, request):
        return [struct.pack(">i", size), Pattern(int(bytes(request)), size)]

    async def fetch(client, number):
        await client.send(frame(b"%d" % number))
        assert await client.reply() == pattern(number, size)

    async def main():
        async with Scene(serve) as scene:
            slow, connection = await scene.connect(receive_bytes=4096)
            await slow.send(frame(b"7"))
            await until(lambda: connection.is_stalled)
            others = [(await scene.connect())[0] for _ in range(3)]
            await asyncio.gather(*(fetch(client, number) for number, client in enumerate(others)))
            assert await slow.reply() == pattern(7, size)
            await asyncio.gather(
                *(fetch(client, number) for number, client in enumerate([slow, *others], 10))
            )

    run(loop, main())


@on_both_loops
def test_who_does_not_read_is_not_read_from(loop):
    served = []

    def serve(connection, request):
        served.append(bytes(request))
        return [frame(bytes(request) + bytes(100_000))]

    async def main():
        payloads = [b"%04d" % number for number in range(1000)]
        async with Scene(serve) as scene:
            client, connection = await scene.connect(receive_bytes=4096)
            sending = asyncio.ensure_future(client.send(b"".join(map(frame, payloads))))
            await until(lambda: connection.is_stalled)
            await sending
            count = len(served)
            assert count < len(payloads)
            assert connection._outbox.held_bytes < 2 * 100_000
            assert [(await client.reply())[:4] for _ in payloads] == payloads
        assert served == payloads

    run(loop, main())


@on_both_loops
def test_no_more_requests_are_under_way_than_allowed(loop):
    async def main():
        serve = Waiting()
        payloads = [b"w%d" % number for number in range(50)]
        async with Scene(serve, Limits(in_flight_max=4)) as scene:
            client, connection = await scene.connect()
            await client.send(b"".join(map(frame, payloads)))
            for number, payload in enumerate(payloads):
                await until(lambda: payload in serve.pending)  # noqa: B023  # waited for here
                assert serve.served == payloads[: min(number + 4, 50)]
                serve.answer(payload)
                assert await client.reply() == payload
            assert connection.is_reading

    run(loop, main())


def test_replies_behind_one_that_waits_are_limited_too():
    """Requests that are answered at once could pile up any number of bytes behind one that waits."""

    async def play():
        serve, transport = Waiting(), FakeTransport()
        transport.attach(Connection(Hub(serve, Limits(queued_bytes_max=1000), lambda: 0), "PLAINTEXT"))
        payloads = [b"w", *(b"n%d" % number + bytes(398) for number in range(20))]
        rest = transport.feed(b"".join(map(frame, payloads)))
        assert (len(serve.served), transport.is_reading) == (4, False)
        serve.answer(b"w")
        await until(lambda: len(serve.served) == len(payloads))
        assert rest == b"" and transport.replies() == payloads and transport.is_reading

    run("stdlib", play())


def test_replies_that_are_ready_before_their_turn_count_as_queued():
    async def play():
        serve, transport = Waiting(), FakeTransport()
        transport.attach(Connection(Hub(serve, Limits(queued_bytes_max=1000), lambda: 0), "PLAINTEXT"))
        large = b"w2" + bytes(2000)
        transport.feed(frame(b"w1") + frame(large))
        serve.answer(large)
        await asyncio.sleep(0)
        transport.feed(frame(b"next"))
        assert serve.served == [b"w1", large]
        serve.answer(b"w1")
        await until(lambda: len(serve.served) == 3)
        assert transport.replies() == [b"w1", large, b"next"]

    run("stdlib", play())


def test_reading_is_not_taken_up_again_while_there_is_a_reason_to_wait():
    async def play():
        serve, transport = Waiting(), FakeTransport()
        transport.attach(Connection(Hub(serve, Limits(in_flight_max=1), lambda: 0), "PLAINTEXT"))
        transport.feed(frame(b"w") + frame(b"now"))
        assert not transport.is_reading
        transport.is_full = True
        serve.answer(b"w")
        await until(lambda: serve.served == [b"w"] and transport.stuck)
        assert not transport.is_reading
        transport.drain()
        await until(lambda: serve.served == [b"w", b"now"])
        assert transport.is_reading

    run("stdlib", play())


# --- the end --------------------------------------------------------------------------------------------------------


@on_both_loops
def test_a_lost_connection_takes_its_requests_with_it(loop):
    cleaned = []

    async def work():
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            cleaned.append(True)

    async def main():
        tasks = []

        def serve(connection, request):
            tasks.append(asyncio.get_running_loop().create_task(work()))
            return tasks[-1]

        async with Scene(serve) as scene:
            client, connection = await scene.connect()
            await client.send(frame(b"x") * 10)
            await until(lambda: len(tasks) == 10)
            client.close()
            await until(lambda: all(task.done() for task in tasks))
            assert all(task.cancelled() for task in tasks)
            assert len(cleaned) == 10
            assert not scene.hub.connections and not connection.is_open
            assert not connection._replies

    run(loop, main())


@on_both_loops
def test_who_stops_sending_is_closed(loop):
    async def main():
        async with Scene(echo) as scene:
            client, _ = await scene.connect()
            await client.send(frame(b"hello"))
            assert await client.reply() == b"hello"
            client._sock.shutdown(1)
            assert await client.is_closed()
            await until(lambda: not scene.hub.connections)

    run(loop, main())


@on_both_loops
def test_nothing_is_served_after_the_connection_was_closed_in_the_middle_of_a_read(loop):
    served = []

    def serve(connection, request):
        served.append(bytes(request))
        if request == b"bad":
            connection.close("it is bad")
        return [frame(bytes(request))]

    async def main():
        async with Scene(serve) as scene:
            client, _ = await scene.connect()
            await client.send(frame(b"bad") + frame(b"after"))
            assert await client.is_closed()
            assert served == [b"bad"]

    run(loop, main())


@on_both_loops
@pytest.mark.parametrize("is_late", [False, True])
def test_nonsense_closes_the_connection_after_what_came_before_it_was_answered(loop, is_late, caplog):
    def serve(connection, request):
        if request == b"bad":
            raise ProtocolError("no such thing")
        return [frame(bytes(request))]

    async def main():
        async with Scene(serve, Limits(in_flight_max=1)) as scene:
            client, connection = await scene.connect()
            if is_late:  # from what had to wait
                connection.mute(0.001)
            await client.send(frame(b"good") + frame(b"bad") + frame(b"after"))
            assert await client.reply() == b"good"
            assert await client.is_closed()

    with caplog.at_level(logging.WARNING):
        run(loop, main())
    assert "no such thing" in caplog.text and "Traceback" not in caplog.text


@on_both_loops
@pytest.mark.parametrize("is_late", [False, True])
def test_a_mistake_of_ours_is_told_in_the_log_and_closes_one_connection_only(loop, is_late, caplog):
    def serve(connection, request):
        if request == b"bad":
            raise RuntimeError("our mistake")
        return [frame(bytes(request))]

    async def main():
        async with Scene(serve) as scene:
            client, connection = await scene.connect()
            other, _ = await scene.connect()
            if is_late:
                connection.mute(0.001)
            await client.send(frame(b"good") + frame(b"bad") + frame(b"after"))
            assert await client.reply() == b"good"
            assert await client.is_closed()
            await other.send(frame(b"still here"))
            assert await other.reply() == b"still here"

    with caplog.at_level(logging.WARNING):
        run(loop, main())
    assert "RuntimeError: our mistake" in caplog.text


@on_both_loops
@pytest.mark.parametrize("how", ["fails", "is cancelled"])
def test_a_reply_that_never_comes_closes_the_connection_when_its_turn_has_come(loop, how, caplog):
    async def main():
        serve = Waiting()
        async with Scene(serve) as scene:
            client, _ = await scene.connect()
            await client.send(frame(b"w1") + frame(b"w2") + frame(b"w3"))
            await until(lambda: len(serve.pending) == 3)
            if how == "fails":
                serve.pending.pop(b"w2").set_exception(RuntimeError("our mistake"))
            else:
                serve.pending.pop(b"w2").cancel()
            serve.answer(b"w3")
            await asyncio.sleep(0)
            serve.answer(b"w1")
            assert await client.reply() == b"w1"
            assert await client.is_closed()

    with caplog.at_level(logging.WARNING):
        run(loop, main())
    assert ("RuntimeError: our mistake" in caplog.text) == (how == "fails")


@on_both_loops
@pytest.mark.parametrize(
    "first", [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x00\xf0\x01", b"\xff\xff\xff\xff"]
)
def test_who_speaks_something_else_is_closed_at_once(loop, first):
    async def main():
        async with Scene(echo) as scene:
            client, _ = await scene.connect()
            await client.send(first)
            assert await client.is_closed()

    run(loop, main())


@on_both_loops
@pytest.mark.parametrize("error", ["short", "failed"])
def test_a_file_that_cannot_be_read_ends_the_connection_and_not_in_the_middle_of_a_lie(loop, error):
    class Broken(Pattern):
        def read_into(self, start, buffer):
            if error == "failed":
                raise OSError("the disk is gone")
            return 10

    async def main():
        async with Scene(lambda *_: [struct.pack(">i", 1000), Broken(1, 1000)]) as scene:
            client, _ = await scene.connect()
            await client.send(frame(b"x"))
            assert await client.is_closed()
            await until(lambda: not scene.hub.connections)

    run(loop, main())


@on_both_loops
def test_a_peer_that_is_gone_while_replies_leave_does_no_harm(loop):
    async def main():
        serve = Waiting()
        async with Scene(serve) as scene:
            for _ in range(20):
                client, connection = await scene.connect()
                await client.send(frame(b"w1") + frame(b"w2") + frame(b"now"))
                await until(lambda: len(serve.pending) == 2)
                client._sock.setsockopt(1, 13, struct.pack("ii", 1, 0))  # SO_LINGER: close with a reset
                client.close()
                serve.answer(b"w1")
                serve.answer(b"w2")
                await until(lambda: not connection.is_open)  # noqa: B023  # waited for here

    run(loop, main())


# --- holding back ---------------------------------------------------------------------------------------------------


def test_a_connection_is_muted_until_the_last_of_overlapping_reasons_has_passed():
    async def play():
        transport, timers, served = FakeTransport(), [], []
        hub = Hub(lambda _, request: served.append(bytes(request)) or [], Limits(), lambda: 0)
        connection = transport.attach(Connection(hub, "PLAINTEXT"))
        asyncio.get_running_loop().call_later = lambda seconds, callback: timers.append(callback)
        connection.mute(1)
        connection.mute(2)
        assert not transport.is_reading
        timers[0]()
        assert not transport.is_reading
        timers[1]()
        assert transport.is_reading

    run("stdlib", play())


def test_what_came_together_with_the_request_that_mutes_is_served_later():
    async def play():
        transport, timers, served = FakeTransport(), [], []

        def serve(connection, request):
            served.append(bytes(request))
            connection.mute(1)
            return [frame(bytes(request))]

        asyncio.get_running_loop().call_later = lambda seconds, callback: timers.append(callback)
        transport.attach(Connection(Hub(serve, Limits(), lambda: 0), "PLAINTEXT"))
        transport.feed(frame(b"1") + frame(b"2") + frame(b"three")[:5])
        assert (served, transport.replies(), transport.is_reading) == ([b"1"], [b"1"], False)
        timers.pop()()
        assert (served, transport.replies(), transport.is_reading) == ([b"1", b"2"], [b"1", b"2"], False)
        timers.pop()()
        assert transport.is_reading
        assert transport.feed(frame(b"three")[5:]) == b""
        assert served == [b"1", b"2", b"three"]

    run("stdlib", play())


@on_both_loops
def test_a_mute_that_ends_after_the_connection_does_nothing(loop):
    async def main():
        async with Scene(echo) as scene:
            client, connection = await scene.connect()
            connection.mute(0)
            client.close()
            connection.close()
            await until(lambda: not scene.hub.connections)
            await until(lambda: connection._mutes == 0)

    run(loop, main())


@on_both_loops
def test_who_finishes_answers_what_came_before_and_takes_nothing_new(loop):
    async def main():
        serve = Waiting()
        async with Scene(serve) as scene:
            client, connection = await scene.connect()
            await client.send(frame(b"w"))
            await until(lambda: serve.pending)
            connection.finish()
            assert connection.is_answering
            await client.send(frame(b"too late"))
            serve.answer(b"w")
            assert await client.reply() == b"w"
            assert not connection.is_answering
            assert serve.served == [b"w"]

    run(loop, main())


@on_both_loops
def test_a_connection_knows_who_is_on_the_other_side(loop):
    async def main():
        async with Scene(echo) as scene:
            client, connection = await scene.connect()
            host, port = client._sock.getsockname()
            assert (connection.peer_host, connection.peer) == (host, f"{host}:{port}")
            assert (connection.listener, connection.principal) == ("PLAINTEXT", "User:ANONYMOUS")

    run(loop, main())
