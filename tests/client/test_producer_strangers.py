"""A producer that meets something else than a Kafka broker, or nobody: it says what it has met, and in time."""

import asyncio
import contextlib
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from ottla.client import AsyncProducer, Producer
from ottla.client.errors import KafkaTimeoutError, NoBrokersAvailable, ProtocolMismatch
from ottla.core.errors import KafkaError
from ottla.testing.broker import AsyncBroker

Speak = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def stranger(speak: Speak, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await speak(reader, writer)
        writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def refused(server: str, **settings: object) -> KafkaError:
    """What a producer says of it."""
    async with AsyncProducer(bootstrap_servers=server, **settings) as producer:
        with pytest.raises(KafkaError) as caught:
            await producer.send("t", b"")
    return caught.value


def closed_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def test_where_nobody_listens_address_and_reason_are_named():
    one, other = closed_port(), closed_port()
    error = asyncio.run(refused(f"{one},{other}", max_block_ms=300))
    assert isinstance(error, NoBrokersAvailable)
    assert "within 300 ms" in str(error)
    assert one in str(error) and other in str(error)
    assert "onnect" in str(error)


def test_the_same_without_a_loop_and_the_producer_closes_quickly():
    server = closed_port()
    with Producer(bootstrap_servers=server, max_block_ms=200) as producer:
        with pytest.raises(NoBrokersAvailable, match=server):
            producer.send("t", b"")
        with pytest.raises(NoBrokersAvailable, match=server):
            producer.partitions_for("t")


def test_a_name_that_does_not_exist():
    error = asyncio.run(refused("nobody.invalid:9092", max_block_ms=2000))
    assert isinstance(error, NoBrokersAvailable | KafkaTimeoutError)


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    directory: Path = tmp_path_factory.mktemp("tls")
    command = (
        "openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 1 -subj /CN=localhost"
    )
    subprocess.run(command.split(), cwd=directory, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "cert.pem", directory / "key.pem")
    return context


def test_a_port_that_wants_tls_and_says_so_is_recognised_at_once():
    """Some send an alert to whoever speaks in plain, OpenSSL by itself hangs up: see below."""

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(65536)
        writer.write(b"\x15\x03\x01\x00\x02\x02\x46")  # fatal: protocol version
        await writer.drain()
        await reader.read()

    async def run() -> None:
        async with stranger(speak) as server:
            error = await asyncio.wait_for(refused(server), 20)
            assert isinstance(error, ProtocolMismatch), error
            assert "TLS" in str(error)

    asyncio.run(run())


def test_one_that_hangs_up_on_plain_words_is_asked_whether_it_speaks_tls(tls):
    async def run() -> None:
        async with stranger(_silent, tls) as server:
            error = await asyncio.wait_for(refused(server), 20)
            assert isinstance(error, ProtocolMismatch), error
            assert "speaks TLS on this port: set security_protocol to SSL" in str(error)

    asyncio.run(run())


async def _silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


def test_an_http_server_is_recognised_at_once():
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
        await writer.drain()
        await reader.read()

    async def run() -> None:
        async with stranger(speak) as server:
            error = await asyncio.wait_for(refused(server), 20)
            assert isinstance(error, ProtocolMismatch), error

    asyncio.run(run())


@pytest.mark.parametrize(
    "answer",
    [
        b"\0\0\0\x08\0\0\0\x01garb",
        b"\0\0\0\x04\0\0\0\x63",
        b"\x7f\xff\xff\xff\0\0\0\x01",
        b"\xff\xff\xff\xff",
    ],
    ids=["nonsense", "another id", "too large", "a negative size"],
)
def test_garbage_is_recognised_at_once(answer):
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(answer)
        await writer.drain()
        await reader.read()

    async def run() -> None:
        async with stranger(speak) as server:
            error = await asyncio.wait_for(refused(server), 20)
            assert isinstance(error, ProtocolMismatch), error

    asyncio.run(run())


def test_one_that_takes_the_connection_and_is_silent_is_named():
    async def run() -> None:
        async with stranger(_silent) as server:
            error = await asyncio.wait_for(refused(server, max_block_ms=300), 20)
            assert isinstance(error, KafkaTimeoutError | NoBrokersAvailable)
            assert "within 300 ms" in str(error)
            assert server in str(error)

    asyncio.run(run())


def test_one_that_hangs_up_at_once_is_tried_until_the_time_is_over():
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pass

    async def run() -> None:
        async with stranger(speak) as server:
            error = await asyncio.wait_for(refused(server, max_block_ms=300), 20)
            assert isinstance(error, NoBrokersAvailable)
            assert server in str(error)

    asyncio.run(run())


def test_a_broker_among_strangers_is_found(tls):
    async def run() -> None:
        async with (
            AsyncBroker(memory=True) as broker,
            stranger(_silent, tls) as one,
            stranger(_silent) as other,
        ):
            servers = [closed_port(), one, other, broker.bootstrap_server]
            limits = {"socket_connection_setup_timeout_ms": 200, "max_block_ms": 20_000}
            async with AsyncProducer(bootstrap_servers=servers, **limits) as producer:
                assert (await producer.send_and_wait("t", b"")).offset == 0

    asyncio.run(run())
