"""Connections that must be replaced, and what a failed handshake leaves behind."""

import asyncio
import contextlib
from typing import Any

import pytest

from ottla.client import connections as connections_module
from ottla.client.config import ClientConfig
from ottla.client.connections import GENERAL, Connections
from ottla.client.errors import AuthenticationError, NetworkError, ProtocolMismatch
from ottla.core.hosts import Address
from ottla.protocol.messages.metadata import ApiVersionsRequest
from ottla.protocol.messages.sasl import SaslAuthenticateResponse, SaslHandshakeResponse
from tests.unit.network.test_peer import Asking, api_versions

SPOKEN = {17: (0, 1), 18: (0, 3), 36: (0, 2)}


class Broker:
    """Answers ApiVersions and PLAIN. Each authentication holds for `lifetime_ms`; ApiVersions waits while `held`."""

    def __init__(self, lifetime_ms: int = 0, error_code: int = 0) -> None:
        self.lifetime_ms, self.error_code = lifetime_ms, error_code
        self.connected = self.left = 0
        self.held = asyncio.Event()
        self.held.set()

    async def __aenter__(self) -> "Broker":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.address = Address("127.0.0.1", self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await until(lambda: self.left == self.connected)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connected += 1
        asking = Asking(reader, writer)
        try:
            while True:
                header, request = await asking.next()
                await self.held.wait()
                await asking.answer(header, self._answer(request))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
            self.left += 1

    def _answer(self, request: Any) -> Any:
        if isinstance(request, ApiVersionsRequest):
            return api_versions(SPOKEN)
        if hasattr(request, "mechanism"):
            return SaslHandshakeResponse(error_code=0, mechanisms=["PLAIN"])
        return SaslAuthenticateResponse(
            error_code=self.error_code, auth_bytes=b"", session_lifetime_ms=self.lifetime_ms
        )


async def until(condition: Any) -> None:
    while not condition():
        await asyncio.sleep(0)


def settings(protocol: str = "SASL_PLAINTEXT") -> ClientConfig:
    values = {"security.protocol": protocol, "reconnect.backoff.ms": 0}
    return ClientConfig({**values, "sasl.plain.username": "a", "sasl.plain.password": "b"})


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections_module, "_IDLE_CHECK_SECONDS", 0.001)


def test_a_connection_whose_authentication_ends_is_replaced_and_closed_when_idle():
    async def run() -> None:
        async with Broker(lifetime_ms=50) as broker:
            connections = Connections(settings())
            first = await connections.to(broker.address)
            broker.held.clear()
            asked = await first.post(ApiVersionsRequest(), 0)
            await until(lambda: connections.existing(broker.address, GENERAL) is None)
            assert first.is_open and not asked.done()
            broker.held.set()
            await asked
            await until(lambda: not first.is_open)
            second = await connections.to(broker.address)
            assert second is not first and second.is_open
            await connections.close()

    asyncio.run(run())


def test_an_authentication_without_an_end_is_kept():
    async def run() -> None:
        async with Broker() as broker:
            connections = Connections(settings())
            first = await connections.to(broker.address)
            assert not connections._timers
            assert await connections.to(broker.address) is first
            await connections.close()

    asyncio.run(run())


def test_connections_that_wait_for_their_last_answer_are_closed_with_the_client():
    async def run() -> None:
        async with Broker(lifetime_ms=20) as broker:
            connections = Connections(settings())
            first = await connections.to(broker.address)
            broker.held.clear()
            asked = await first.post(ApiVersionsRequest(), 0)
            await until(lambda: connections.existing(broker.address, GENERAL) is None)
            await connections.close()
            assert not first.is_open and asked.done()
            broker.held.set()

    asyncio.run(run())


def test_a_connection_that_is_dropped_leaves_no_timer():
    async def run() -> None:
        async with Broker(lifetime_ms=3_600_000) as broker:
            connections = Connections(settings())
            await connections.to(broker.address)
            connections.drop(broker.address, GENERAL)
            assert not connections._timers
            peer = await connections.to(broker.address)
            peer.abort()
            await connections.to(broker.address)
            assert len(connections._timers) == 1
            await connections.close()

    asyncio.run(run())


def test_a_refused_authentication_leaves_no_connection():
    async def run() -> None:
        async with Broker(error_code=58) as broker:
            connections = Connections(settings())
            with pytest.raises(AuthenticationError, match="refused our credentials"):
                await connections.to(broker.address)
            await until(lambda: broker.left == broker.connected == 1)
            await connections.close()

    asyncio.run(run())


@pytest.mark.parametrize("speaks_plain", [True, False], ids=["plain", "restarting"])
def test_a_broker_that_hangs_up_on_tls_is_asked_in_plain_before_it_is_given_up(speaks_plain):
    """One that merely restarts hangs up too: that is tried again."""

    async def run() -> None:
        count = 0

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal count
            count += 1
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                if count == 2 and speaks_plain:
                    await Asking(reader, writer).answer_versions(SPOKEN)
                    await reader.read()
                else:
                    await reader.readexactly(5)  # the beginning of a TLS handshake
            writer.transport.abort()

        listening = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with listening:
            connections = Connections(settings("SSL"))
            address = Address("127.0.0.1", listening.sockets[0].getsockname()[1])
            expected = ProtocolMismatch if speaks_plain else NetworkError
            with pytest.raises(expected) as caught:
                await connections.to(address)
            assert caught.value.retriable != speaks_plain
            await connections.close()

    asyncio.run(run())


def test_a_broker_that_refuses_is_left_alone_for_a_growing_while_and_all_wait_together():
    async def run() -> None:
        async with Broker() as broker:
            address = broker.address
        config = ClientConfig({"reconnect.backoff.ms": 5, "reconnect.backoff.max.ms": 1_000_000})
        connections = Connections(config)
        pauses = []
        for _ in range(4):
            results = await asyncio.gather(
                *(connections.to(address) for _ in range(10)), return_exceptions=True
            )
            assert all(isinstance(each, NetworkError) for each in results)
            assert len({id(each) for each in results}) == 1, "one attempt, for all of them"
            _, not_before = connections._backoffs[address]
            pauses.append(not_before - asyncio.get_running_loop().time())
        assert pauses == sorted(pauses)
        await connections.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    "address", [Address("a" * 100, 1), Address("a\0b", 1), Address("a..b", 1), Address("127.0.0.1", 1 << 20)]
)
def test_a_broker_that_names_another_which_cannot_be_is_a_broker_that_is_not_reached(address):
    async def run() -> None:
        connections = Connections(ClientConfig({}))
        with pytest.raises(NetworkError, match="is no address"):
            await connections.to(address)
        await connections.close()

    asyncio.run(run())
