"""The pages for probes and Prometheus: over a real socket, with polite and hostile callers."""

import asyncio
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable

import pytest

from ottla.broker.http import HEAD_BYTES_MAX, HttpServer, Reply, Request, parse_head
from ottla.core.metrics import CONTENT_TYPE, Counter, Gauge, Metrics, Registry


class Numbers(Metrics):
    appends = Counter("ottla_test_appends_total", "Batches appended.")


class Broken(Metrics):
    depth = Gauge("ottla_test_depth", "Fails when it is asked.")


def serve(
    talk: Callable[[HttpServer, int], Awaitable[None]],
    *,
    ready: Callable[[], str | None] = lambda: None,
    registry: Registry | None = None,
    **limits: float,
) -> None:
    async def run() -> None:
        server = HttpServer(registry or Registry(Numbers()), ready, **limits)  # type: ignore[arg-type]
        port = await server.start("127.0.0.1", 0)
        try:
            await asyncio.wait_for(talk(server, port), 30)
        finally:
            await server.close()

    asyncio.run(run())


async def exchange(port: int, request: bytes) -> bytes:
    """Everything that comes back until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


def get(path: str, *, method: str = "GET", more: str = "Connection: close\r\n") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: x\r\n{more}\r\n".encode()


def test_a_broker_that_turns_is_alive():
    async def talk(server, port):
        answer = await exchange(port, get("/healthz"))
        assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
        assert answer.endswith(b"\r\n\r\nalive\n")

    serve(talk)


def test_readiness_follows_the_broker_and_gives_the_reason():
    state: list[str | None] = ["recovering logs"]

    async def talk(server, port):
        answer = await exchange(port, get("/readyz"))
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert answer.endswith(b"not ready: recovering logs\n")
        state[0] = None
        assert (await exchange(port, get("/readyz"))).endswith(b"\r\n\r\nready\n")

    serve(talk, ready=lambda: state[0])


def test_metrics_are_those_of_the_registry_in_prometheus_format():
    numbers = Numbers()
    numbers.appends.labels().add(3)
    seen: list[tuple[str, str]] = []

    async def talk(server, port):
        def scrape():
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics?x=1", timeout=30) as response:
                seen.append((response.headers["Content-Type"], response.read().decode()))

        await asyncio.to_thread(scrape)

    serve(talk, registry=Registry(numbers))
    assert seen == [(CONTENT_TYPE, Registry(numbers).expose())]
    assert "ottla_test_appends_total 3\n" in seen[0][1]


def test_a_head_request_gets_the_head_alone():
    async def talk(server, port):
        answer = await exchange(port, get("/healthz", method="HEAD"))
        assert b"Content-Length: 6\r\n" in answer
        assert answer.endswith(b"\r\n\r\n")

    serve(talk)


def test_a_connection_serves_many_requests_until_one_says_close():
    async def talk(server, port):
        answer = await exchange(port, get("/healthz", more="") * 2 + get("/readyz"))
        assert answer.count(b"HTTP/1.1 200") == 3
        assert answer.count(b"Connection: keep-alive") == 2

    serve(talk)


def test_http_1_0_closes_unless_asked_not_to():
    assert parse_head(b"GET / HTTP/1.0") == Request("GET", "/", keeps_alive=False, has_body=False)
    kept = parse_head(b"GET / HTTP/1.0\r\nConnection: Keep-Alive")
    assert isinstance(kept, Request)
    assert kept.keeps_alive


@pytest.mark.parametrize(
    "request_, status",
    [
        (get("/nothing"), b"404"),
        (get("/healthz", method="POST", more=""), b"405"),
        (get("/healthz", more="Content-Length: 9\r\n"), b"200"),
        (b"GET /healthz\r\n\r\n", b"400"),
        (b"GET /healthz HTTP/1.1\r\nno colon\r\n\r\n", b"400"),
        (b"GET /healthz HTTP/1.1\r\n folded: x\r\n\r\n", b"400"),
        (b"PRI * HTTP/2.0\r\n\r\n", b"505"),
        (b"GET /" + b"x" * HEAD_BYTES_MAX, b"431"),
        (b"GET / HTTP/1.1\r\nA: " + b"x" * HEAD_BYTES_MAX + b"\r\n\r\n", b"431"),
    ],
)
def test_what_cannot_be_served_is_answered_once_and_closed(request_, status):
    async def talk(server, port):
        answer = await exchange(port, request_)
        assert answer.startswith(b"HTTP/1.1 " + status)
        assert answer.count(b"Content-Length") == 1

    serve(talk)


@pytest.mark.parametrize(
    "garbage", [b"\x16\x03\x01\x02\x00", b"\x00\x00\x00\x10", b"\r\n\r\n", b"get / http/1.1\r\n\r\n"]
)
def test_what_is_not_http_is_closed_without_an_answer(garbage):
    async def talk(server, port):
        assert await exchange(port, garbage) == b""

    serve(talk)


def test_an_unfinished_request_does_not_stay():
    async def talk(server, port):
        assert await exchange(port, b"GET /healthz HTTP/1.1\r\n") == b""

    serve(talk, timeout_seconds=0.01)


def test_one_connection_too_many_is_turned_away_and_room_comes_back():
    async def talk(server, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(get("/healthz", more=""))
        await reader.readuntil(b"alive\n")
        assert await exchange(port, get("/healthz")) == b""
        writer.close()
        await writer.wait_closed()
        while not (await exchange(port, get("/healthz"))).startswith(b"HTTP/1.1 200 "):
            await asyncio.sleep(0)

    serve(talk, connections_max=1)


def test_a_page_that_fails_is_a_500_and_the_server_lives_on(caplog):
    broken = Broken()
    broken.depth.labels().follow(lambda: 1 / 0)

    async def talk(server, port):
        assert (await exchange(port, get("/metrics"))).startswith(b"HTTP/1.1 500 ")
        assert (await exchange(port, get("/healthz"))).startswith(b"HTTP/1.1 200 ")

    serve(talk, registry=Registry(broken))
    assert "ZeroDivisionError" in caplog.text


def test_closing_drops_those_who_are_still_connected():
    async def talk(server, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(get("/healthz", more=""))
        await reader.readuntil(b"alive\n")
        await server.close()
        assert await reader.read() == b""
        writer.close()
        with pytest.raises(OSError):
            await asyncio.open_connection("127.0.0.1", port)

    serve(talk)


def test_a_reader_who_does_not_read_is_dropped():
    class Big(Metrics):
        pass

    registry = Registry(Big())
    registry.expose = lambda: "x" * (32 << 20)  # type: ignore[method-assign]

    async def talk(server, port):
        _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(get("/metrics", more=""))
        while not server._tasks:
            await asyncio.sleep(0)
        while server._tasks:
            await asyncio.sleep(0)
        writer.transport.abort()

    serve(talk, registry=registry, timeout_seconds=0.05)


def test_a_page_with_a_body_in_its_request_closes():
    server = HttpServer(Registry(), lambda: None)
    assert server.reply(Request("GET", "/healthz", keeps_alive=True, has_body=True)) == Reply(
        200, "alive\n", close=True
    )
