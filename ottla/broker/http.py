"""A few pages over HTTP/1.1: is the broker alive, is it ready, and its numbers for Prometheus.

    /healthz   200 as long as the process turns its event loop
    /readyz    200 while the broker serves clients, else 503 and the reason
    /metrics   every number, in Prometheus' text format

Nothing is ever read but a request's head, and that is bounded in size and time, as is the number of connections.
Whoever sends something else is answered once, if it can be, and closed.
"""

import asyncio
import logging
import re
from collections.abc import Callable
from typing import NamedTuple

from ottla.core.metrics import CONTENT_TYPE, Registry

logger = logging.getLogger(__name__)

HEAD_BYTES_MAX = 8192  # curl sends 80, a browser with many cookies 4000
CONNECTIONS_MAX = 64  # a scraper and a probe need one each
TIMEOUT_SECONDS = 30.0  # for a request to arrive, and for its answer to be taken

_TEXT = "text/plain; charset=utf-8"
_REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
    505: "HTTP Version Not Supported",
}
_REQUEST_LINE = re.compile(rb"([A-Z]{1,20}) (\S{1,4096}) HTTP/([0-9]\.[0-9])")
_HEAD_END = b"\r\n\r\n"


class Reply(NamedTuple):
    """What goes back. `close` if nothing that follows on this connection could be understood."""

    status: int
    body: str
    content_type: str = _TEXT
    close: bool = False


class Request(NamedTuple):
    """As much of a request's head as matters here."""

    method: str
    path: str
    keeps_alive: bool
    has_body: bool


class HttpServer:
    """Serves the pages of one broker. `ready` tells why the broker does not serve clients, None if it does."""

    def __init__(
        self,
        registry: Registry,
        ready: Callable[[], str | None],
        *,
        connections_max: int = CONNECTIONS_MAX,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        self._pages: dict[str, Callable[[], Reply]] = {
            "/healthz": lambda: Reply(200, "alive\n"),
            "/readyz": lambda: _readiness(ready()),
            "/metrics": lambda: Reply(200, registry.expose(), CONTENT_TYPE),
        }
        self._connections_max = connections_max
        self._timeout_seconds = timeout_seconds
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, host: str, port: int) -> int:
        """Listen; the port it got. Raises OSError if it is taken."""
        self._server = await asyncio.start_server(self._connected, host, port, limit=HEAD_BYTES_MAX)
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Stop listening and drop every connection."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer), name="http")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if len(self._tasks) > self._connections_max:
                return
            while await self._exchange(reader, writer):
                pass
            writer.close()
            async with asyncio.timeout(self._timeout_seconds):
                await writer.wait_closed()
        except (OSError, EOFError, TimeoutError):
            pass  # the other side has gone, or does not get on: nothing to tell anybody
        finally:
            writer.transport.abort()  # closing alone would keep what somebody does not read

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request and its answer; whether there may be another."""
        async with asyncio.timeout(self._timeout_seconds):
            request = await _read_request(reader)
        reply = request if isinstance(request, Reply) else self.reply(request)
        keeps_alive = isinstance(request, Request) and request.keeps_alive and not reply.close
        with_body = isinstance(request, Reply) or request.method != "HEAD"
        writer.write(_encode(reply._replace(close=not keeps_alive), with_body=with_body))
        async with asyncio.timeout(self._timeout_seconds):
            await writer.drain()
        return keeps_alive

    def reply(self, request: Request) -> Reply:
        """The page that is asked for, or why there is none."""
        page = self._pages.get(request.path)
        if page is None:
            return Reply(404, f"there are: {', '.join(self._pages)}\n", close=request.has_body)
        if request.method not in ("GET", "HEAD"):
            return Reply(405, "only GET and HEAD\n", close=True)
        try:
            return page()._replace(close=request.has_body)
        except Exception:
            logger.exception("%s failed", request.path)
            return Reply(500, "this is a bug; the log of the broker says more\n", close=True)


def _readiness(reason: str | None) -> Reply:
    return Reply(200, "ready\n") if reason is None else Reply(503, f"not ready: {reason}\n")


async def _read_request(reader: asyncio.StreamReader) -> Request | Reply:
    """The next request, or the answer to something that is none. Raises EOFError at the end of the connection."""
    first = await reader.readexactly(1)
    if not b"A" <= first <= b"Z":  # TLS begins with 0x16: it would wait for an answer for ever
        raise EOFError("not HTTP")
    try:
        head = first + await reader.readuntil(_HEAD_END)
    except asyncio.LimitOverrunError:
        return Reply(431, f"at most {HEAD_BYTES_MAX} bytes\n", close=True)
    return parse_head(head.removesuffix(_HEAD_END))


def parse_head(head: bytes) -> Request | Reply:
    """A request's head without the empty line behind it."""
    line, *fields = head.split(b"\r\n")
    match = _REQUEST_LINE.fullmatch(line)
    if match is None:
        return Reply(400, "not a request\n", close=True)
    if not match[3].startswith(b"1."):
        return Reply(505, "HTTP/1.1, please\n", close=True)
    headers: dict[str, str] = {}
    for field in fields:
        name, colon, value = field.decode("latin-1").partition(":")
        if not colon or not name or name != name.strip():
            return Reply(400, "not a header\n", close=True)
        headers[name.lower()] = value.strip().lower()
    connection = headers.get("connection", "")
    return Request(
        method=match[1].decode(),
        path=match[2].decode("latin-1").partition("?")[0],
        keeps_alive="keep-alive" in connection if match[3] == b"1.0" else "close" not in connection,
        has_body="transfer-encoding" in headers or headers.get("content-length", "0") != "0",
    )


def _encode(reply: Reply, *, with_body: bool) -> bytes:
    body = reply.body.encode()
    head = [
        f"HTTP/1.1 {reply.status} {_REASONS[reply.status]}",
        f"Content-Type: {reply.content_type}",
        f"Content-Length: {len(body)}",
        f"Connection: {'close' if reply.close else 'keep-alive'}",
        "Cache-Control: no-store",
    ]
    if reply.status == 405:
        head.append("Allow: GET, HEAD")
    return "\r\n".join([*head, "", ""]).encode() + (body if with_body else b"")
