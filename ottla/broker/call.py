"""One request on its way through the broker: who asked, what, and in which version."""

from asyncio import Future
from typing import Protocol


class Caller(Protocol):
    """As much of a connection as handlers may know."""

    listener: str
    peer_host: str
    principal: str
    appending: Future[None] | None
    """Done when the last append that this connection asked for has its offsets."""

    def close(self, reason: str | None = None) -> None: ...

    def mute(self, seconds: float) -> None: ...


class Call:
    """What a request's header and its connection tell."""

    __slots__ = ("api_key", "client_id", "connection", "correlation_id", "version")

    def __init__(
        self, connection: Caller, api_key: int, version: int, correlation_id: int, client_id: str | None
    ) -> None:
        self.connection = connection
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
