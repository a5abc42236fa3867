"""Telling a client that asked the wrong broker where the right one is (KIP-951): it need not ask for metadata."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar

from ottla.broker.call import Call
from ottla.core.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

HINTED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
_N = TypeVar("_N")


def leader_of(broker: "Broker", topic: str, index: int) -> tuple[int, int] | None:
    """Leader and epoch of a partition, as far as this broker was told."""
    image = broker.metadata.topics.get(topic)
    if image is None or not 0 <= index < len(image.partitions):
        return None
    state = image.partitions[index]
    return state.leader, state.leader_epoch


def endpoints_of(broker: "Broker", call: Call, nodes: Iterable[int], make: type[_N]) -> list[_N]:
    """Where these brokers are reached on the listener that the client came by."""
    found = []
    for node in sorted(set(nodes)):
        image = broker.metadata.brokers.get(node)
        endpoint = None if image is None else image.endpoint(call.connection.listener)
        if image is not None and endpoint is not None:
            found.append(make(node_id=node, host=endpoint.host, port=endpoint.port, rack=image.rack))  # type: ignore[call-arg]  # Produce's and Fetch's NodeEndpoint are alike
    return found
