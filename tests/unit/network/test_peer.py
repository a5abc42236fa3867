"""Our side of a connection, against a server that says what the test wants it to say."""

import asyncio
import contextlib
import gc
import struct
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ottla.core.errors import ErrorCode, ProtocolError
from ottla.network.peer import PeerClosed, PeerLimits, RequestTimedOut, connect
from ottla.protocol.apis import api_of
from ottla.protocol.framing import ResponseHeader, decode_request, decode_response, encode_response
from ottla.protocol.messages.fetch import FetchRequest, FetchResponse
from ottla.protocol.messages.groups import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.messages.metadata import ApiVersionsResponse
from ottla.protocol.messages.produce import ProduceRequest
from ottla.protocol.messages.sasl import SaslHandshakeRequest, SaslHandshakeResponse

HANDSHAKE, HEARTBEAT, FETCH, PRODUCE, API_VERSIONS = 17, 12, 1, 0, 18


class Asking:
    """The server's end: reads requests, writes whatever it is told to."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def next(self) -> tuple[Any, Any]:
        (size,) = struct.unpack(">i", await self.reader.readexactly(4))
        return decode_request(await self.reader.readexactly(size))

    async def answer(self, header: Any, response: object, version: int | None = None) -> None:
        version = header.request_api_version if version is None else version
        parts = encode_response(ResponseHeader(correlation_id=header.correlation_id), response, version)
        self.writer.write(b"".join(bytes(part) for part in parts))
        await self.writer.drain()

    async def answer_versions(self, offered: dict[int, tuple[int, int]]) -> None:
        header, _ = await self.next()
        await self.answer(header, api_versions(offered))


def api_versions(offered: dict[int, tuple[int, int]], error_code: int = 0) -> ApiVersionsResponse:
    row = ApiVersionsResponse.ApiVersion
    keys = [row(api_key=key, min_version=low, max_version=high) for key, (low, high) in offered.items()]
    return ApiVersionsResponse(error_code=error_code, api_keys=keys)


def handshake(text: str = "") -> SaslHandshakeRequest:
    return SaslHandshakeRequest(mechanism=text)


def echo(request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=0, mechanisms=[request.mechanism])


def play(server: Callable[[Asking], Awaitable[None]], client: Callable[[str, int], Awaitable[None]]) -> None:
    """Run both ends until the client is done. What goes wrong on either end fails the test."""

    async def both() -> None:
        errors: list[BaseException] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await server(Asking(reader, writer))
            except (asyncio.IncompleteReadError, ConnectionError):
                pass  # the client left
            except Exception as error:
                errors.append(error)
            finally:
                writer.close()
                with contextlib.suppress(ConnectionError):
                    await writer.wait_closed()

        listening = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with listening:
            await asyncio.wait_for(client("127.0.0.1", listening.sockets[0].getsockname()[1]), 60)
        assert not errors
        assert [task for task in asyncio.all_tasks() if "serve" not in repr(task)] == [asyncio.current_task()]

    asyncio.run(both())


async def serve_echo(asking: Asking) -> None:
    while True:
        header, request = await asking.next()
        await asking.answer(header, echo(request))


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0)


# --- versions -------------------------------------------------------------------------------------------------------


def test_the_highest_version_that_both_speak_is_used():
    async def server(asking):
        await asking.answer_versions({API_VERSIONS: (0, 4), HEARTBEAT: (0, 2)})
        header, _ = await asking.next()
        assert header.request_api_version == 2
        assert header.client_id == "somebody"
        await asking.answer(header, HeartbeatResponse(error_code=27, throttle_time_ms=11))

    async def client(host, port):
        async with await connect(host, port, client_id="somebody") as peer:
            request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
            assert (await peer.send(request)).error_code == 27
            assert peer.throttle_time_ms == 11

    play(server, client)


@pytest.mark.parametrize("offered, version", [({API_VERSIONS: (0, 2), HANDSHAKE: (0, 1)}, 2), ({}, 0)])
def test_a_broker_that_does_not_know_our_question_is_asked_again_in_its_own_words(offered, version):
    async def server(asking):
        header, _ = await asking.next()
        assert header.request_api_version == api_of(API_VERSIONS).versions.last
        await asking.answer(header, api_versions(offered, ErrorCode.UNSUPPORTED_VERSION), version=0)
        header, _ = await asking.next()
        assert header.request_api_version == version
        await asking.answer(header, api_versions({API_VERSIONS: (0, 2), HANDSHAKE: (0, 1)}))
        header, request = await asking.next()
        await asking.answer(header, echo(request))

    async def client(host, port):
        async with await connect(host, port) as peer:
            assert (await peer.send(handshake("x"))).mechanisms == ["x"]

    play(server, client)


def test_what_the_other_side_does_not_speak_is_not_sent():
    async def server(asking):
        await asking.answer_versions({API_VERSIONS: (0, 4), FETCH: (100, 101)})
        assert await asking.reader.read() == b""

    async def client(host, port):
        async with await connect(host, port) as peer:
            with pytest.raises(ProtocolError, match=f"127.0.0.1:{port} speaks Fetch 100-101, we speak 0-18"):
                await peer.send(FetchRequest(max_wait_ms=0, min_bytes=0, topics=[]))
            with pytest.raises(ProtocolError, match=f"{port} does not offer SaslHandshake"):
                await peer.send(handshake())

    play(server, client)


def test_an_answer_that_says_no_versions_but_an_error_ends_the_attempt():
    async def server(asking):
        header, _ = await asking.next()
        await asking.answer(header, api_versions({}, ErrorCode.CLUSTER_AUTHORIZATION_FAILED))

    async def client(host, port):
        with pytest.raises(ProtocolError, match="does not say what it speaks: error 31"):
            await connect(host, port)

    play(server, client)


# --- many at once ---------------------------------------------------------------------------------------------------


def test_many_requests_are_under_way_and_each_gets_its_own_answer():
    async def server(asking):
        asked = [await asking.next() for _ in range(50)]
        for header, request in asked:
            await asking.answer(header, echo(request))

    async def client(host, port):
        async with await connect(host, port, negotiate=False) as peer:
            answers = await asyncio.gather(*(peer.send(handshake(str(n)), 1) for n in range(50)))
            assert [answer.mechanisms for answer in answers] == [[str(n)] for n in range(50)]
            assert peer.in_flight == 0

    play(server, client)


def test_requests_leave_in_the_order_in_which_they_were_posted_even_when_they_had_to_wait():
    async def server(asking):
        for expected in range(20):
            header, request = await asking.next()
            assert request.mechanism == str(expected)
            await asking.answer(header, echo(request))

    async def client(host, port):
        limits = PeerLimits(in_flight_max=3)
        async with await connect(host, port, negotiate=False, limits=limits) as peer:
            tasks = []
            for n in range(20):
                tasks.append(asyncio.create_task(peer.send(handshake(str(n)), 1)))
                await asyncio.sleep(0)
                assert peer.in_flight <= 3
            assert [answer.mechanisms for answer in await asyncio.gather(*tasks)] == [
                [str(n)] for n in range(20)
            ]

    play(server, client)


def test_a_request_that_cannot_be_written_does_not_keep_the_others_from_their_turn():
    async def client(host, port):
        async with await connect(host, port, negotiate=False, limits=PeerLimits(in_flight_max=1)) as peer:
            good = [asyncio.create_task(peer.send(handshake("a"), 1)) for _ in range(2)]
            await until(lambda: peer.in_flight == 1)
            bad = asyncio.create_task(peer.send(handshake(None), 1))
            more = asyncio.create_task(peer.send(handshake("b"), 1))
            with pytest.raises(ProtocolError):
                await bad
            assert (await more).mechanisms == ["b"]
            await asyncio.gather(*good)

    play(serve_echo, client)


@pytest.mark.parametrize("which", [0, 1, 2, 3])
def test_a_caller_that_is_cancelled_disturbs_nobody(which):
    async def server(asking):
        first = await asking.next()
        await gate.wait()
        await asking.answer(first[0], echo(first[1]))
        await serve_echo(asking)

    async def client(host, port):
        nonlocal gate
        gate = asyncio.Event()
        async with await connect(host, port, negotiate=False, limits=PeerLimits(in_flight_max=2)) as peer:
            tasks = [asyncio.create_task(peer.send(handshake(str(n)), 1)) for n in range(4)]
            await until(lambda: peer.in_flight == 2)  # two are under way, two wait for their turn
            tasks[which].cancel()
            gate.set()
            answers = await asyncio.gather(*tasks, return_exceptions=True)
            assert isinstance(answers.pop(which), asyncio.CancelledError)
            assert [answer.mechanisms for answer in answers] == [[str(n)] for n in range(4) if n != which]
            assert (await peer.send(handshake("after"), 1)).mechanisms == ["after"]

    gate = asyncio.Event()
    play(server, client)


def test_a_caller_that_is_interrupted_while_the_answer_is_decoded_disturbs_nobody(monkeypatch):
    """Ctrl-C cancels from a signal handler, between any two steps of ours."""
    interrupted: list[asyncio.Task[Any]] = []

    async def server(asking: Asking) -> None:
        await asking.answer_versions({HANDSHAKE: (0, 1)})
        for _ in range(2):
            header, request = await asking.next()
            await asking.answer(header, echo(request))

    async def client(host: str, port: int) -> None:
        peer = await connect(host, port)
        complaints: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))

        def decoding(*args: Any) -> Any:
            for task in interrupted:
                task.cancel()
            interrupted.clear()
            return decode_response(*args)

        monkeypatch.setattr("ottla.network.peer.decode_response", decoding)
        interrupted.append(asyncio.create_task(peer.send(handshake("one"))))
        with pytest.raises(asyncio.CancelledError):
            await interrupted[0]
        assert (await peer.send(handshake("two"))).mechanisms == ["two"]
        assert not complaints
        await peer.close()

    play(server, client)


def test_a_turn_that_came_in_the_moment_of_cancellation_is_passed_on():
    async def client(host, port):
        async with await connect(host, port, negotiate=False, limits=PeerLimits(in_flight_max=1)) as peer:
            first = await peer.post(handshake("1"), 1)
            second = asyncio.create_task(peer.send(handshake("2"), 1))
            third = asyncio.create_task(peer.send(handshake("3"), 1))
            await asyncio.sleep(0)
            first.add_done_callback(lambda _: second.cancel())  # its turn has come, but it has not run
            assert (await third).mechanisms == ["3"]

    play(serve_echo, client)


# --- time -----------------------------------------------------------------------------------------------------------


def test_a_timeout_names_who_did_not_answer_what_and_a_late_answer_goes_to_nobody():
    async def server(asking):
        header, request = await asking.next()
        await gate.wait()
        await asking.answer(header, echo(request))
        await serve_echo(asking)

    async def client(host, port):
        nonlocal gate
        gate = asyncio.Event()
        async with await connect(host, port, negotiate=False) as peer:
            with pytest.raises(
                RequestTimedOut, match=f"127.0.0.1:{port} did not answer SaslHandshake v1 within 1 ms"
            ):
                await peer.send(handshake("late"), 1, timeout_ms=1)
            assert peer.in_flight == 1, "its place in the line is kept"
            gate.set()
            assert (await peer.send(handshake("next"), 1)).mechanisms == ["next"]

    gate = asyncio.Event()
    play(server, client)


def test_waiting_for_a_turn_counts_as_waiting():
    async def server(asking):
        await asking.reader.read()

    async def client(host, port):
        limits = PeerLimits(in_flight_max=1)
        async with await connect(host, port, negotiate=False, limits=limits) as peer:
            await peer.post(handshake(), 1)
            with pytest.raises(RequestTimedOut, match="SaslHandshake v1 within 1 ms"):
                await peer.send(handshake(), 1, timeout_ms=1)

    play(server, client)


def test_a_server_that_never_answers_does_not_hold_up_the_connecting():
    async def server(asking):
        await asking.reader.read()

    async def client(host, port):
        with pytest.raises(RequestTimedOut, match="did not answer ApiVersions v4 within 5 ms"):
            await connect(host, port, limits=PeerLimits(timeout_ms=5))

    play(server, client)


# --- closing --------------------------------------------------------------------------------------------------------


def test_what_is_under_way_fails_when_the_other_side_closes():
    async def server(asking):
        for _ in range(3):
            await asking.next()

    async def client(host, port):
        peer = await connect(host, port, negotiate=False)
        answers = await asyncio.gather(*(peer.send(handshake(), 1) for _ in range(3)), return_exceptions=True)
        for answer in answers:
            assert isinstance(answer, PeerClosed)
            assert f"127.0.0.1:{port} closed the connection" in str(answer)
            assert "SaslHandshake v1 had no answer" in str(answer)
        assert not peer.is_open
        with pytest.raises(PeerClosed, match="SaslHandshake v1 was not sent"):
            await peer.send(handshake(), 1)
        await peer.close()

    play(server, client)


def test_closing_fails_what_is_under_way_and_what_waits_for_its_turn():
    async def server(asking):
        await asking.reader.read()

    async def client(host, port):
        peer = await connect(host, port, negotiate=False, limits=PeerLimits(in_flight_max=1))
        tasks = [asyncio.create_task(peer.send(handshake(), 1)) for _ in range(3)]
        await until(lambda: peer.in_flight == 1)
        await peer.close()
        for answer in await asyncio.gather(*tasks, return_exceptions=True):
            assert isinstance(answer, PeerClosed)
            assert "we closed the connection" in str(answer)
        await peer.close()
        peer.abort()

    play(server, client)


def test_what_was_sent_without_an_answer_arrives_before_the_end():
    arrived = []

    async def server(asking):
        arrived.append((await asking.next())[1])
        assert await asking.reader.read() == b""

    async def client(host, port):
        partition = ProduceRequest.Topic.Partition(index=0, records=bytes(3_000_000))
        topic = ProduceRequest.Topic(name="t", partition_data=[partition])
        async with await connect(host, port, negotiate=False) as peer:
            await peer.send_oneway(ProduceRequest(acks=0, timeout_ms=0, topic_data=[topic]), 9)
            assert peer.in_flight == 0
        await until(lambda: bool(arrived))

    play(server, client)
    assert len(arrived[0].topic_data[0].partition_data[0].records) == 3_000_000


def test_nobody_there_is_said_with_the_address():
    async def nobody():
        listening = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        listening.close()
        await listening.wait_closed()
        with pytest.raises(PeerClosed, match=f"^cannot connect to 127.0.0.1:{port}: Connection refused$"):
            await connect("127.0.0.1", port)

    asyncio.run(nobody())


# --- not what was expected ------------------------------------------------------------------------------------------


def test_an_answer_to_another_request_closes_the_connection():
    async def server(asking):
        header, request = await asking.next()
        header.correlation_id += 1
        await asking.answer(header, echo(request))
        assert await asking.reader.read() == b""

    async def client(host, port):
        peer = await connect(host, port, negotiate=False)
        with pytest.raises(ProtocolError, match=f"127.0.0.1:{port}: an answer to request 2, expected was 1"):
            await peer.send(handshake(), 1)
        assert not peer.is_open

    play(server, client)


def test_an_answer_that_cannot_be_read_closes_the_connection():
    async def server(asking):
        header, _ = await asking.next()
        asking.writer.write(struct.pack(">iihi", 10, header.correlation_id, 0, 1000))
        await asking.writer.drain()

    async def client(host, port):
        peer = await connect(host, port, negotiate=False)
        answers = await asyncio.gather(*(peer.send(handshake(), 1) for _ in range(2)), return_exceptions=True)
        assert all(isinstance(answer, ProtocolError) for answer in answers)
        assert f"127.0.0.1:{port}: SaslHandshakeResponse v1" in str(answers[0])

    play(server, client)


@pytest.mark.parametrize(
    "reply, reason",
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "looks like the answer of an HTTP server"),
        (b"\x15\x03\x01\x00\x02\x02\x46", "looks like a TLS alert"),
        (b"", "without a word: perhaps this listener wants TLS or SASL"),
    ],
)
def test_a_server_that_is_no_kafka_is_recognised(reply, reason):
    async def server(asking):
        await asking.next()
        asking.writer.write(reply)

    async def client(host, port):
        with pytest.raises((ProtocolError, PeerClosed), match=reason):
            await connect(host, port)

    play(server, client)


def test_an_answer_may_not_be_larger_than_agreed():
    async def server(asking):
        await asking.next()
        asking.writer.write(struct.pack(">i", 10_001))
        assert await asking.reader.read() == b""

    async def client(host, port):
        with pytest.raises(ProtocolError, match="frame of 10001 bytes, 10000 allowed"):
            await connect(host, port, limits=PeerLimits(frame_bytes_max=10_000))

    play(server, client)


# --- bulk -----------------------------------------------------------------------------------------------------------


def test_records_of_a_large_answer_are_views_of_the_bytes_as_they_were_received():
    records = bytes(range(256)) * 20_000

    async def server(asking):
        header, _ = await asking.next()
        partition = FetchResponse.Topic.Partition(
            partition_index=0, error_code=0, high_watermark=0, records=records
        )
        await asking.answer(header, FetchResponse(responses=[FetchResponse.Topic(partitions=[partition])]))

    async def client(host, port):
        async with await connect(host, port, negotiate=False) as peer:
            response = await peer.send(FetchRequest(max_wait_ms=0, min_bytes=0, topics=[]), 12)
        view = response.responses[0].partitions[0].records
        assert isinstance(view, memoryview)
        assert view == records
        assert len(memoryview(view.obj)) >= len(records), "it points into the whole frame"

    play(server, client)
    gc.collect()


def test_a_sender_waits_while_the_other_side_does_not_read():
    async def server(asking):
        await gate.wait()
        while True:
            await asking.next()

    async def client(host, port):
        nonlocal gate
        gate = asyncio.Event()
        partition = ProduceRequest.Topic.Partition(index=0, records=bytes(1_000_000))
        topic = ProduceRequest.Topic(name="t", partition_data=[partition])
        request = ProduceRequest(acks=0, timeout_ms=0, topic_data=[topic])
        sent = 0

        async def flood():
            nonlocal sent
            while sent < 100:
                await peer.send_oneway(request, 9)
                sent += 1

        async with await connect(host, port, negotiate=False) as peer:
            flooding = asyncio.create_task(flood())
            await until(lambda: not peer._is_writable)
            for _ in range(100):
                await asyncio.sleep(0)
            assert sent < 50, "100 MB do not fit into the sockets' buffers"
            gate.set()
            await flooding

    gate = asyncio.Event()
    play(server, client)


def test_it_works_on_uvloop_as_well():
    uvloop = pytest.importorskip("uvloop")

    async def main():
        async def serve(reader, writer):
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                await serve_echo(Asking(reader, writer))
            writer.close()

        listening = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with listening:
            port = listening.sockets[0].getsockname()[1]
            async with await connect("127.0.0.1", port, negotiate=False) as peer:
                answers = await asyncio.gather(*(peer.send(handshake("x" * n), 1) for n in range(200)))
                assert [len(answer.mechanisms[0]) for answer in answers] == list(range(200))

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
