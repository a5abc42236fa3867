"""The network of a cluster, with two ends that say what they hear."""

import asyncio
import contextlib

import pytest

from ottla.protocol.framing import RequestHeader, encode_request
from ottla.protocol.messages.metadata import ApiVersionsRequest
from ottla.testing.cluster_network import STORE, Network

PATIENCE_S = 20


class End:
    """A server that keeps what it hears, and whom it hears."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.writers: list[asyncio.StreamWriter] = []
        self.has_lost = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                self.heard.append(data)
        self.has_lost += 1
        writer.close()


@contextlib.asynccontextmanager
async def a_network(sender, receiver):
    """A network, an end, and the port of the door to it."""
    end = End()
    server = await asyncio.start_server(end.serve, "127.0.0.1", 0)
    network = Network()
    door = await network.door(sender, receiver, "127.0.0.1", server.sockets[0].getsockname()[1])
    try:
        yield network, end, door
    finally:
        await network.close()
        server.close()
        for writer in end.writers:
            writer.close()
        await until(lambda: end.has_lost == len(end.writers))


async def until(condition) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.005)


async def nothing_comes(reader: asyncio.StreamReader, others: asyncio.Task) -> None:
    """What is read from there comes later than something that was sent later by another way."""
    reading = asyncio.ensure_future(reader.read(1))
    await others
    await asyncio.sleep(0)
    assert not reading.done()
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)


def first_request(client_id: str | None) -> bytes:
    header = RequestHeader(request_api_key=18, request_api_version=3, correlation_id=1, client_id=client_id)
    request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
    return b"".join(bytes(part) for part in encode_request(header, request, 3))


@pytest.mark.parametrize(
    "client_id", ["broker-1", "controller-1", "broker-2", "rdkafka", "", None, "x" * 1000]
)
def test_what_is_said_arrives_whoever_says_it(client_id):
    async def scenario() -> None:
        async with a_network(None, 3) as (_, end, door):
            reader, writer = await asyncio.open_connection("127.0.0.1", door)
            said = first_request(client_id)
            writer.write(said)
            await until(lambda: b"".join(end.heard) == said)
            end.writers[0].write(b"answer")
            assert await reader.readexactly(6) == b"answer"
            writer.close()
            await until(lambda: end.has_lost == 1)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("client_id", "is_cut"), [("broker-1", True), ("controller-1", True), ("broker-2", False)]
)
def test_a_cut_is_between_two_and_silent_and_its_healing_breaks_what_suffered(client_id, is_cut):
    async def scenario() -> None:
        async with a_network(None, 3) as (network, end, door):
            reader, writer = await asyncio.open_connection("127.0.0.1", door)
            writer.write(first_request(client_id))
            await until(lambda: end.heard)
            network.cut(1, 3)
            network.cut(3, 1)
            before = len(end.heard)
            writer.write(b"more")
            end.writers[0].write(b"answer")
            if not is_cut:
                assert await reader.readexactly(6) == b"answer"
                await until(lambda: end.heard[-1] == b"more")
                await network.heal()
                assert end.has_lost == 0
                writer.close()
                return
            _, stranger = await asyncio.open_connection("127.0.0.1", door)
            stranger.write(first_request("stranger"))
            await nothing_comes(reader, asyncio.ensure_future(until(lambda: len(end.writers) == 2)))
            assert b"more" not in end.heard[before:]
            assert end.has_lost == 0
            await network.heal()
            with contextlib.suppress(OSError):
                assert await reader.read() == b""
            await until(lambda: end.has_lost == 1)
            writer.close()
            stranger.close()

    asyncio.run(scenario())


def test_a_cut_of_one_direction_leaves_the_other():
    async def scenario() -> None:
        async with a_network(1, STORE) as (network, end, door):
            reader, writer = await asyncio.open_connection("127.0.0.1", door)
            writer.write(b"one")
            await until(lambda: end.heard == [b"one"])
            network.cut(STORE, 1)
            writer.write(b"two")
            await until(lambda: end.heard == [b"one", b"two"])
            end.writers[0].write(b"answer")
            end.writers[0].close()  # nor does it learn that the other has hung up
            writer.write(b"three")
            _, other = await asyncio.open_connection("127.0.0.1", door)
            await nothing_comes(reader, asyncio.ensure_future(until(lambda: end.has_lost == 1)))
            assert len(end.writers) == 1  # a new connection takes both directions
            await network.heal()
            with contextlib.suppress(OSError):
                assert await reader.read() == b""
            writer.close()
            other.close()

    asyncio.run(scenario())


def test_who_hangs_up_behind_a_cut_is_not_missed_before_it_is_healed():
    async def scenario() -> None:
        async with a_network(1, STORE) as (network, end, door):
            _, writer = await asyncio.open_connection("127.0.0.1", door)
            writer.write(b"one")
            await until(lambda: end.heard == [b"one"])
            network.cut(1, STORE)
            writer.transport.abort()
            end.writers[0].write(b"are you there?")
            await end.writers[0].drain()
            for _ in range(20):
                await asyncio.sleep(0.001)
            assert end.has_lost == 0
            await network.heal()
            await until(lambda: end.has_lost == 1)

    asyncio.run(scenario())


def test_a_broker_that_is_down_refuses_through_its_door():
    async def scenario() -> None:
        network = Network()
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        server.close()
        door = await network.door(1, 2, "127.0.0.1", port)
        reader, writer = await asyncio.open_connection("127.0.0.1", door)
        with contextlib.suppress(OSError):
            assert await reader.read() == b""
        writer.close()
        await network.close()

    asyncio.run(scenario())
