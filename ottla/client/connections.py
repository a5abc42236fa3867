"""The connections of one client: to each broker at most one for each purpose, opened when somebody asks.

A broker answers in order, so what may be held back (a fetch that waits for records, a join that waits for members)
has connections of its own. A broker that did not take a connection is left alone for a growing while, and whoever asks
for it meanwhile waits with the others. Errors of the network leave here as the client's own.

A broker may limit how long an authentication holds (KIP-368), and drops a connection that goes on after that. Such a
connection is not handed out any more some time before; another takes its place, and it is closed when its last answer
is there. So nobody notices.
"""

import asyncio
import logging
import random
import ssl
from collections.abc import Callable
from typing import Any

from ottla.client.config import ClientConfig
from ottla.client.deadline import Backoff, Deadline
from ottla.client.errors import (
    AuthenticationError,
    ClosedError,
    KafkaTimeoutError,
    NetworkError,
    ProtocolMismatch,
    UnsupportedVersionError,
)
from ottla.client.security import (
    handshake_failed,
    is_alert,
    refused_certificate,
    speaks_plain,
    speaks_tls,
    takes_tls,
    tls_context,
)
from ottla.core.errors import ProtocolError
from ottla.core.hosts import Address
from ottla.network.peer import Peer, PeerClosed, PeerLimits, RequestTimedOut, connect
from ottla.protocol.apis import api_of
from ottla.protocol.schema import declaration

logger = logging.getLogger(__name__)

ANSWER_BYTES_MAX = 256 * 1024 * 1024
"""Far above any answer that was asked for: a broker may send more than `fetch.max.bytes`, if one batch is larger."""
_KEPT_BYTES_MAX = 16 * 1024 * 1024 + 64 * 1024
"""Of a connection that brings records, between two fetches: as much as 16 partitions give at a time, and what is around
it. To receive 1 KB records into fresh pages takes as long as all the rest of reading them."""
GENERAL, COORDINATOR, DATA = "general", "coordinator", "data"
"""Purposes: short questions; what belongs to a group or a transaction; records."""
SESSION_SHARE = (0.85, 0.95)
"""Of an authentication's lifetime, after which a connection is replaced: by chance between these, as in Java."""
_IDLE_CHECK_SECONDS = 0.05
_HUNG_UP = ConnectionResetError | ConnectionAbortedError | BrokenPipeError


class Connections:
    """Used by everything of a client that asks brokers."""

    def __init__(self, config: ClientConfig) -> None:
        self._config = config
        self._limits = PeerLimits(
            frame_bytes_max=ANSWER_BYTES_MAX,
            timeout_ms=config.socket_connection_setup_timeout_ms,
            kept_bytes_max=_KEPT_BYTES_MAX,
        )
        self._tls = tls_context(config) if config.is_tls else None
        self._open: dict[tuple[Address, str], Peer] = {}
        self._opening: dict[tuple[Address, str], asyncio.Task[Peer]] = {}
        self._backoffs: dict[Address, tuple[Backoff, float]] = {}
        self._timers: dict[Peer, asyncio.TimerHandle] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._is_closed = False

    async def to(self, address: Address, purpose: str = GENERAL) -> Peer:
        """An open connection. Raises NetworkError, ProtocolMismatch or AuthenticationError."""
        key = address, purpose
        peer = self._open.get(key)
        if peer is not None:
            if peer.is_open:
                return peer
            del self._open[key]
            self._forget_session(peer)
        if self._is_closed:
            raise ClosedError("the client was closed")
        opening = self._opening.get(key)
        if opening is None:
            opening = asyncio.ensure_future(self._connect(key))
            self._opening[key] = opening
            opening.add_done_callback(lambda done: self._was_opened(key, done))
        # Whoever gives up waiting does not take the connection away from the others.
        return await asyncio.shield(opening)

    def _was_opened(self, key: tuple[Address, str], opening: "asyncio.Task[Peer]") -> None:
        self._opening.pop(key, None)
        if not opening.cancelled():
            opening.exception()  # counts as seen: everybody who asked may have gone meanwhile

    def existing(self, address: Address, purpose: str) -> Peer | None:
        """The connection, if it is open now."""
        peer = self._open.get((address, purpose))
        return peer if peer is not None and peer.is_open else None

    def opening(self) -> list[Address]:
        """Where a connection is asked for that has not come about yet."""
        return sorted({address for address, _ in self._opening})

    def drop(self, address: Address, purpose: str) -> None:
        """Close it at once; whatever waits for an answer on it is let down."""
        peer = self._open.pop((address, purpose), None)
        if peer is not None:
            self._forget_session(peer)
            peer.abort()

    async def close(self) -> None:
        self._is_closed = True
        for opening in list(self._opening.values()):
            opening.cancel()
        await asyncio.gather(*self._opening.values(), return_exceptions=True)
        for timer in self._timers.values():
            timer.cancel()
        peers, self._open, self._timers = {*self._open.values(), *self._timers}, {}, {}
        await asyncio.gather(*(peer.close() for peer in peers), *self._closing)

    async def _connect(self, key: tuple[Address, str]) -> Peer:
        address, _ = key
        backoff, not_before = self._backoffs.get(address) or (self._new_backoff(), 0.0)
        loop = asyncio.get_running_loop()
        if (pause := not_before - loop.time()) > 0:
            await asyncio.sleep(pause)
        try:
            peer, lifetime_ms = await self._opened(address)
        except BaseException as error:
            if address not in self._backoffs and isinstance(error, Exception):
                logger.warning("%s", error)  # once: whoever waits for long should know for what
            self._backoffs[address] = backoff, loop.time() + backoff.next_ms() / 1000
            raise
        self._backoffs.pop(address, None)
        self._open[key] = peer
        if lifetime_ms > 0:
            pause = lifetime_ms / 1000 * random.uniform(*SESSION_SHARE)
            self._timers[peer] = loop.call_later(pause, self._retire, key, peer)
        return peer

    def _retire(self, key: tuple[Address, str], peer: Peer) -> None:
        """Its authentication is about to end: hand out another, and close this one when nothing is under way."""
        if self._open.get(key) is peer:
            del self._open[key]
        loop = asyncio.get_running_loop()
        self._timers[peer] = loop.call_later(_IDLE_CHECK_SECONDS, self._close_when_idle, peer)

    def _forget_session(self, peer: Peer) -> None:
        if (timer := self._timers.pop(peer, None)) is not None:
            timer.cancel()

    def _close_when_idle(self, peer: Peer) -> None:
        if peer.in_flight and peer.is_open:
            loop = asyncio.get_running_loop()
            self._timers[peer] = loop.call_later(_IDLE_CHECK_SECONDS, self._close_when_idle, peer)
            return
        del self._timers[peer]
        closing = asyncio.ensure_future(peer.close())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    def _new_backoff(self) -> Backoff:
        return Backoff(self._config.reconnect_backoff_ms, self._config.reconnect_backoff_max_ms)

    async def _opened(self, address: Address) -> tuple[Peer, int]:
        """A connection, and for how many milliseconds we are authenticated on it; 0 is for ever."""
        deadline = Deadline(self._limits.timeout_ms)
        try:
            peer = await self._connected(address, self._tls, negotiate=not self._config.is_sasl)
            try:
                if not self._config.is_sasl:
                    return peer, 0
                from ottla.client.sasl import authenticate  # its messages cost those who need them

                return peer, await authenticate(peer, self._config, deadline)
            except BaseException:
                peer.abort()
                raise
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError) as error:
            await self._check_tls(address, deadline)
            raise NetworkError(f"{address} hung up during the TLS handshake") from error
        except ssl.SSLError as error:
            handshake_failed(address, error)
        except PeerClosed as error:
            if is_alert(str(error)):
                raise AuthenticationError(refused_certificate(address, error)) from error
            if isinstance(error.__cause__, _HUNG_UP | None):
                await self._check_tls(address, deadline)
            raise translated(error) from error
        except ProtocolError as error:
            if self._tls is None:
                await self._check_tls(address, deadline)
            raise translated(error) from error
        except RequestTimedOut as error:
            raise translated(error) from error

    async def _connected(self, address: Address, tls: ssl.SSLContext | None, *, negotiate: bool) -> Peer:
        try:
            return await connect(
                address.host,
                address.port,
                client_id=self._config.client_id,
                limits=self._limits,
                tls=tls,
                negotiate=negotiate,
            )
        except ssl.SSLError:
            raise
        except (ValueError, OverflowError) as error:  # brokers name each other, and may name anything
            raise NetworkError(f"{address} is no address: {error}") from error

    async def _check_tls(self, address: Address, deadline: Deadline) -> None:
        """A broker hung up before it said a word. Raises ProtocolMismatch if that is because of TLS: because it talks
        only to those who speak in plain, or only to those who do not."""
        try:
            async with asyncio.timeout(deadline.left_seconds()):
                if self._tls is None:
                    is_other = await takes_tls(address.host, address.port)
                else:
                    await (await self._connected(address, None, negotiate=True)).close()
                    is_other = True
        except (OSError, PeerClosed, RequestTimedOut, ProtocolError):
            return
        if is_other:
            raise ProtocolMismatch(speaks_tls(address) if self._tls is None else speaks_plain(address))


async def ask(
    peer: Peer,
    request: object,
    *,
    timeout_ms: float,
    version: int | None = None,
    version_max: int | None = None,
    then: Callable[[], None] | None = None,
) -> Any:
    """The answer of one broker. A broker that does not answer in time loses the connection (`then` is told)."""
    try:
        if version is None and version_max is not None:
            version = min(version_of(peer, type(request)), version_max)
        return await peer.send(request, version, timeout_ms=max(1, int(timeout_ms)))
    except RequestTimedOut as error:
        peer.abort()  # its answers come in order: nothing behind this one would be in time
        raise translated(error) from error
    except (PeerClosed, ProtocolError) as error:
        raise translated(error) from error
    finally:
        if then is not None and not peer.is_open:
            then()


def version_of(peer: Peer, request: type) -> int:
    """The highest version of a request that both sides speak. Raises UnsupportedVersionError."""
    key = declaration(request).api_key
    assert key is not None, "only requests are sent"
    try:
        return peer.version_of(api_of(key))
    except ProtocolError as error:
        raise UnsupportedVersionError(str(error)) from error


def translated(error: Exception) -> Exception:
    """An error of the network as clients know it."""
    if isinstance(error, RequestTimedOut):
        return KafkaTimeoutError(str(error))
    if isinstance(error, PeerClosed):
        return NetworkError(str(error))
    if isinstance(error, ProtocolError):
        text = str(error)
        # The last is ours: a field was set that the version both speak has no room for.
        is_version = any(each in text for each in (" does not offer ", ", we speak ", " does not have it"))
        return (UnsupportedVersionError if is_version else ProtocolMismatch)(text)
    return error
