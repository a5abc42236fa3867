"""The controller's lines to other brokers: its orders as Kafka's requests, over the listener between brokers.

What it takes is imported when the first order goes out: a broker that is alone never needs it.
"""

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.broker.orders import Answers, Order
from ottla.core.errors import KafkaError
from ottla.replication.exchange import BrokerLife
from ottla.replication.state import BrokerImage

if TYPE_CHECKING:
    from ottla.network.peer import Peer


class Wires:
    """One connection to each broker, opened when there is something to say."""

    def __init__(self, node_id: int, listener: Callable[[], str], timeout_ms: Callable[[], int]) -> None:
        self._client_id = f"controller-{node_id}"
        self._listener = listener
        """The name of the listener over which brokers come: it is the same for all."""
        self._timeout_ms = timeout_ms
        self._peers: dict[BrokerLife, Peer] = {}

    async def ask(self, broker: BrokerImage, order: Order) -> Answers:
        from ottla.broker.control_messages import answers_of, request_of

        peer = await self._to(broker)
        request = request_of(order)
        try:
            response = await peer.send(request, timeout_ms=self._timeout_ms())
        except BaseException:
            # Whether it was heard is not known. Over a new connection the next cannot be taken for its answer.
            peer.abort()
            raise
        if response.error_code:
            raise KafkaError.of(response.error_code, f"broker {broker.node_id} at {peer.address}")
        return answers_of(request, response)

    async def _to(self, broker: BrokerImage) -> "Peer":
        from ottla.network.peer import PeerClosed, PeerLimits, connect

        life = BrokerLife(broker.node_id, broker.epoch)
        for other in [known for known in self._peers if known.broker == life.broker]:
            if other == life and self._peers[other].is_open:
                return self._peers[other]
            self._peers.pop(other).abort()
        endpoint = broker.endpoint(self._listener())
        if endpoint is None:
            raise PeerClosed(f"broker {broker.node_id} has no listener {self._listener()}")
        limits = PeerLimits(timeout_ms=self._timeout_ms())
        peer = await connect(endpoint.host, endpoint.port, client_id=self._client_id, limits=limits)
        self._peers[life] = peer
        return peer

    async def close(self) -> None:
        peers, self._peers = self._peers, {}
        for peer in peers.values():
            with contextlib.suppress(OSError):
                await peer.close()
