"""One connection that we opened, to a broker: many requests under way, their answers matched in order.

A broker answers in the order of the requests, so the answers need no search: the next one belongs to the oldest
request, or the connection is out of step and is closed. Whoever stops waiting, by a timeout or a cancellation, leaves
its place in the line, so that nobody else gets the wrong answer.

What waits here is bounded: a sender waits, in order of arrival, while too many requests are under way or the other
side does not read. An answer of many megabytes is received where it will stay; the records in it are views of that.
"""

import asyncio
import os
import re
import socket
import ssl
import struct
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple, cast

import ottla
from ottla.core.errors import ErrorCode, OttlaError, ProtocolError
from ottla.core.types import Buffer
from ottla.network.inbox import KEPT_BYTES_MAX, Inbox
from ottla.protocol.apis import Api, api_of
from ottla.protocol.framing import FRAME_BYTES_MAX, RequestHeader, decode_response, encode_request
from ottla.protocol.messages.metadata import ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.schema import declaration
from ottla.protocol.wiretypes import Versions

_ERRNO = re.compile(r"\[Errno ([0-9]+)\]")
_ID = struct.Struct(">i")
_ERROR_CODE = struct.Struct(">h")
_ID_MAX = 2**31 - 1
_JOIN_BYTES_MAX = 64 * 1024  # below this, one copy is cheaper than a second write
_CLOSE_SECONDS = 1.0  # for what is written already to leave
_MS = 1000


class PeerClosed(OttlaError, ConnectionError):
    """The connection is gone, or never came to be; whether the request was carried out is not known."""


class RequestTimedOut(OttlaError, TimeoutError):
    """No answer in time. It may still come, and the request may be carried out."""


class PeerLimits(NamedTuple):
    """What a connection may cost us."""

    in_flight_max: int = 1000
    frame_bytes_max: int = FRAME_BYTES_MAX
    timeout_ms: int = 30_000
    kept_bytes_max: int = KEPT_BYTES_MAX
    """Memory that stays between large answers, for those who `recycle`."""


class _Asked:
    """A request that waits for its answer."""

    __slots__ = ("api", "correlation_id", "future", "timer", "version")

    def __init__(self, api: Api, version: int, correlation_id: int, future: "asyncio.Future[Any]") -> None:
        self.api, self.version, self.correlation_id, self.future = api, version, correlation_id, future
        self.timer: asyncio.TimerHandle | None = None


async def connect(
    host: str,
    port: int,
    *,
    client_id: str | None = "ottla",
    limits: PeerLimits | None = None,
    negotiate: bool = True,
    tls: ssl.SSLContext | None = None,
) -> "Peer":
    """A connection that knows what the other side speaks. Without `negotiate` it believes what we speak ourselves.

    Raises PeerClosed or RequestTimedOut if nobody answers, ProtocolError if it is no Kafka broker, with `tls`
    ssl.SSLError if there is none on the other side, or none that the context trusts.
    """
    limits = limits or PeerLimits()
    peer = Peer(f"{host}:{port}", client_id, limits)
    opening = asyncio.ensure_future(_open_transport(peer, host, port, tls))
    try:
        await asyncio.wait((opening,), timeout=limits.timeout_ms / _MS)
        if not opening.done():
            raise RequestTimedOut(f"{peer.address} did not take our connection within {limits.timeout_ms} ms")
        try:
            opening.result()
        except ssl.SSLError:
            raise
        except OSError as error:
            raise PeerClosed(f"cannot connect to {peer.address}: {_reason(error)}") from error
        if negotiate:
            await peer.negotiate()
    except BaseException:
        opening.cancel()
        peer.abort()
        raise
    return peer


def _reason(error: OSError) -> str:
    """In the words of the operating system: asyncio's own repeat the address, once for each that a name has."""
    if isinstance(error, socket.gaierror):
        return error.strerror or str(error)
    numbers = [error.errno] if error.errno else [int(each) for each in _ERRNO.findall(str(error))]
    return ", ".join(dict.fromkeys(map(os.strerror, numbers))) or str(error)


async def _open_transport(peer: "Peer", host: str, port: int, tls: ssl.SSLContext | None) -> None:
    """The one place that knows how bytes travel."""
    await asyncio.get_running_loop().create_connection(lambda: peer, host, port, ssl=tls)


class Peer(asyncio.BufferedProtocol):
    """The other side. Made by `connect`."""

    def __init__(self, address: str, client_id: str | None, limits: PeerLimits) -> None:
        self.address = address
        self.client_id = client_id
        self.limits = limits
        self.versions: Mapping[int, Versions] | None = None
        """What the other side speaks, by API key."""
        self.features: Mapping[str, int] = {}
        """The levels of the cluster's features, as far as the other side names them."""
        self.throttle_time_ms = 0
        """How long the latest answer asked us to wait; the broker will not read from us before."""
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._lost: asyncio.Future[None] = self._loop.create_future()
        self._why_closed: Exception | None = None
        self._next_id = 0
        self._asked: deque[_Asked] = deque()
        self._senders: deque[asyncio.Future[None]] = deque()
        self._is_writable = True
        self._has_heard = False
        self._has_answered = False  # anything but ApiVersions, which every listener answers to everybody
        self._inbox = Inbox(limits.frame_bytes_max, limits.kept_bytes_max)

    async def __aenter__(self) -> "Peer":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def is_open(self) -> bool:
        return self._why_closed is None and self._transport is not None

    @property
    def in_flight(self) -> int:
        """Requests without an answer, those included that nobody waits for any more."""
        return len(self._asked)

    # --- asking -------------------------------------------------------------------------------------------------

    async def send(
        self, request: object, version: int | None = None, *, timeout_ms: int | None = None
    ) -> Any:
        """The answer to a request, by default in the highest version that both sides speak."""
        return await (await self.post(request, version, timeout_ms=timeout_ms))

    async def post(
        self, request: object, version: int | None = None, *, timeout_ms: int | None = None
    ) -> "asyncio.Future[Any]":
        """Send a request when it is its turn, and return the future of its answer: for many under way at once."""
        api, version = self._plan(request, version)
        limit_ms = self.limits.timeout_ms if timeout_ms is None else timeout_ms
        deadline = self._loop.time() + limit_ms / _MS
        late = f"{self.address} did not answer {api.name} v{version} within {limit_ms} ms"
        correlation_id, parts = self._encode(api, request, version)
        await self._turn(deadline, late)
        self._check_open(f"{api.name} v{version} was not sent")
        asked = _Asked(api, version, correlation_id, self._loop.create_future())
        asked.timer = self._loop.call_at(deadline, _give_up, asked.future, late)
        self._asked.append(asked)
        self._write(parts)
        return asked.future

    async def send_oneway(
        self, request: object, version: int | None = None, *, timeout_ms: int | None = None
    ) -> None:
        """Send a request that has no answer: Produce with acks=0. It is written when this returns, not more."""
        api, version = self._plan(request, version)
        limit_ms = self.limits.timeout_ms if timeout_ms is None else timeout_ms
        late = f"{self.address} did not take {api.name} v{version} within {limit_ms} ms"
        _, parts = self._encode(api, request, version)
        await self._turn(self._loop.time() + limit_ms / _MS, late)
        self._check_open(f"{api.name} v{version} was not sent")
        self._write(parts)

    def recycle(self) -> None:
        """Nobody looks at the records of earlier answers any more: their memory may take those of the next."""
        self._inbox.recycle()

    def version_of(self, api: Api) -> int:
        """The highest version of an API that both sides speak."""
        ours = api.versions
        if self.versions is None:
            return ours.last
        theirs = self.versions.get(api.key)
        if theirs is None:
            raise ProtocolError(f"{self.address} does not offer {api.name}")
        common = ours & theirs
        if common.last < common.first:
            raise ProtocolError(f"{self.address} speaks {api.name} {theirs}, we speak {ours}")
        return common.last

    async def negotiate(self) -> None:
        """Ask what the other side speaks. A broker that does not know our question answers in its oldest form."""
        spoken = api_of(ApiVersionsRequest.api_key).versions  # type: ignore[attr-defined]  # added by @api
        answer = await self._ask_versions(spoken.last)
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
            offered = {row.api_key: row.max_version for row in answer.api_keys}
            answer = await self._ask_versions(min(spoken.last, offered.get(18, 0)))
        if answer.error_code:
            raise ProtocolError(f"{self.address} does not say what it speaks: error {answer.error_code}")
        self.versions = {row.api_key: Versions(row.min_version, row.max_version) for row in answer.api_keys}
        self.features = {row.name: row.max_version_level for row in answer.finalized_features}

    async def _ask_versions(self, version: int) -> ApiVersionsResponse:
        request = ApiVersionsRequest(client_software_name="ottla", client_software_version=ottla.__version__)
        return cast(ApiVersionsResponse, await self.send(request, version))

    # --- sending ------------------------------------------------------------------------------------------------

    def _plan(self, request: object, version: int | None) -> tuple[Api, int]:
        key = declaration(type(request)).api_key
        assert key is not None, "only requests are sent"
        api = api_of(key)
        return api, self.version_of(api) if version is None else version

    def _encode(self, api: Api, request: object, version: int) -> tuple[int, list[Buffer]]:
        self._next_id = self._next_id + 1 if self._next_id < _ID_MAX else 1
        header = RequestHeader(
            request_api_key=api.key,
            request_api_version=version,
            correlation_id=self._next_id,
            client_id=self.client_id,
        )
        return self._next_id, encode_request(header, request, version)

    def _check_open(self, consequence: str) -> None:
        if self._why_closed is not None:
            raise type(self._why_closed)(f"{self._why_closed} ({consequence})")

    def _write(self, parts: list[Buffer]) -> None:
        assert self._transport is not None, "only `connect` makes a peer"
        if len(parts) > 1 and sum(len(part) for part in parts) <= _JOIN_BYTES_MAX:
            parts = [b"".join(parts)]
        for part in parts:
            self._transport.write(part)
        self._wake()

    def _has_room(self) -> bool:
        return self._is_writable and len(self._asked) < self.limits.in_flight_max

    async def _turn(self, deadline: float, late: str) -> None:
        """Wait until there is room, behind those who came before. The caller writes before it awaits anything."""
        if not self._senders and self._has_room():
            return
        turn = self._loop.create_future()
        timer = self._loop.call_at(deadline, _give_up, turn, late)
        self._senders.append(turn)
        try:
            await turn
        except BaseException:
            self._senders.remove(turn)
            self._wake()  # it may have been our turn
            raise
        finally:
            timer.cancel()
        self._senders.popleft()

    def _wake(self) -> None:
        """Tell the first sender that it is its turn. It stays the first until it has run, so nobody overtakes it."""
        if self._senders and not self._senders[0].done() and self._has_room():
            self._senders[0].set_result(None)

    # --- receiving ----------------------------------------------------------------------------------------------

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._inbox.room()

    def buffer_updated(self, count: int) -> None:
        self._has_heard = True
        try:
            for frame in self._inbox.arrived(count):
                self._answer(frame)
        except ProtocolError as error:
            self._fail(ProtocolError(f"{self.address}: {error}"))

    def _answer(self, frame: Buffer) -> None:
        if len(frame) < _ID.size:
            raise ProtocolError(f"an answer of {len(frame)} bytes")
        (correlation_id,) = _ID.unpack_from(frame)
        if not self._asked or self._asked[0].correlation_id != correlation_id:
            expected = f"{self._asked[0].correlation_id}" if self._asked else "none"
            raise ProtocolError(f"an answer to request {correlation_id}, expected was {expected}")
        asked = self._asked.popleft()
        if asked.timer is not None:
            asked.timer.cancel()
        self._wake()
        self._has_answered = self._has_answered or asked.api.response is not ApiVersionsResponse
        if asked.future.done():
            return  # nobody waits any more
        version = _version_of_answer(asked, frame)
        try:
            _, response = decode_response(asked.api.response, frame, version)
        except ProtocolError as error:
            asked.future.set_exception(ProtocolError(f"{self.address}: {error}"))
            raise
        self.throttle_time_ms = getattr(response, "throttle_time_ms", 0)
        with suppress(asyncio.InvalidStateError):  # Ctrl-C may have come while it was decoded
            asked.future.set_result(response)

    # --- life ---------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self._why_closed is not None:
            self._transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        hint = ""
        if not self._has_heard:
            hint = " without a word: perhaps this listener wants TLS or SASL"
        elif self._asked and not self._has_answered:
            hint = " at our first question: perhaps this listener wants SASL"
        self._fail(PeerClosed(f"{self.address} closed the connection{f': {error}' if error else hint}"))
        if not self._lost.done():
            self._lost.set_result(None)

    def pause_writing(self) -> None:
        self._is_writable = False

    def resume_writing(self) -> None:
        self._is_writable = True
        self._wake()

    async def close(self) -> None:
        """Fail what is under way, let leave what is written, and close."""
        self._set_closed(PeerClosed(f"we closed the connection to {self.address}"))
        if self._transport is not None:
            self._transport.close()
            await asyncio.wait((self._lost,), timeout=_CLOSE_SECONDS)
            self._transport.abort()

    def abort(self) -> None:
        """Drop the connection at once."""
        self._fail(PeerClosed(f"we closed the connection to {self.address}"))

    def _fail(self, why: Exception) -> None:
        self._set_closed(why)
        if self._transport is not None:
            self._transport.abort()

    def _set_closed(self, why: Exception) -> None:
        """Whoever waits learns why there will be no answer, and for which request."""
        if self._why_closed is not None:
            return
        self._why_closed = why
        for asked in self._asked:
            if asked.timer is not None:
                asked.timer.cancel()
            _let_down(asked.future, type(why)(f"{why} ({asked.api.name} v{asked.version} had no answer)"))
        self._asked.clear()
        for turn in self._senders:
            _let_down(turn, type(why)(str(why)))


def _let_down(future: "asyncio.Future[Any]", error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
        future.exception()  # counts as seen: a future that nobody awaits need not complain


def _give_up(future: "asyncio.Future[Any]", late: str) -> None:
    _let_down(future, RequestTimedOut(late))


def _version_of_answer(asked: _Asked, frame: Buffer) -> int:
    """As asked, except that a broker which does not know our ApiVersions answers in version 0 (KIP-511)."""
    is_refused = (
        asked.api.response is ApiVersionsResponse
        and len(frame) >= _ID.size + _ERROR_CODE.size
        and _ERROR_CODE.unpack_from(frame, _ID.size)[0] == ErrorCode.UNSUPPORTED_VERSION
    )
    return 0 if is_refused else asked.version
