"""Connections of this broker to others, over the listener between brokers: one for each purpose, opened when needed."""

from typing import TYPE_CHECKING

from ottla.broker.listeners import inter_broker_listener
from ottla.network.peer import Peer, PeerClosed, PeerLimits, connect

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


class Peers:
    """Who talks to whom. A purpose is any object: it owns at most one connection."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._open: dict[object, tuple[str, Peer]] = {}

    async def to(self, broker_id: int, purpose: object) -> Peer:
        """A connection to that broker, where it is reached now. Raises PeerClosed or RequestTimedOut."""
        host, port = self._address(broker_id)
        address = f"{broker_id}@{host}:{port}"
        known = self._open.get(purpose)
        if known is not None:
            if known[0] == address and known[1].is_open:
                return known[1]
            self.drop(purpose)
        limits = PeerLimits(timeout_ms=self._broker.config.replica_socket_timeout_ms)
        peer = await connect(host, port, client_id=f"broker-{self._broker.node_id}", limits=limits)
        self._open[purpose] = address, peer
        return peer

    def _address(self, broker_id: int) -> tuple[str, int]:
        broker = self._broker
        image = broker.metadata.brokers.get(broker_id)
        if image is None:
            raise PeerClosed(f"broker {broker_id} is not alive")
        listener = inter_broker_listener(broker.config, broker.listeners).name
        endpoint = image.endpoint(listener)
        if endpoint is None:
            raise PeerClosed(f"broker {broker_id} has no listener {listener}")
        return endpoint.host, endpoint.port

    def drop(self, purpose: object) -> None:
        """Close its connection, if there is one; whatever waits for an answer on it is let down."""
        known = self._open.pop(purpose, None)
        if known is not None:
            known[1].abort()

    def close(self) -> None:
        for purpose in list(self._open):
            self.drop(purpose)
