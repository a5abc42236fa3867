"""The first moments of a broker in its cluster: registered, but not told yet by the controller who leads what.

Its listeners are open then, for the controller comes that way. Whoever else comes waits: an answer out of ignorance
("there is no such topic") would be believed. A broker that the controller cannot reach, or that would send others to
their own loopback, says so and is none.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Any

from ottla.broker.call import Call
from ottla.broker.listeners import Listener, host_towards, inter_broker_listener
from ottla.broker.metadata import NO_CONTROLLER
from ottla.broker.stored import load_brokers
from ottla.core.errors import ConfigError, OttlaError
from ottla.core.hosts import LOOPBACK, is_loopback, parse_address
from ottla.metadata.store import MetadataStore

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.config import BrokerConfig

ALWAYS_SERVED = frozenset({4, 5, 6, 18})
"""LeaderAndIsr, StopReplica, UpdateMetadata: so we are told. ApiVersions, which comes before them."""
_ZOOKEEPER_PORT = 2181


class Debut:
    """From the registration until the controller has told everything. `over` returns then."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._told = asyncio.Event()
        orders = broker.controller.orders
        # Then we have told ourselves. One that has the office, but was interrupted before it took over, has not.
        if broker.controller.is_controller and orders.was_told:
            self._begin()
        else:
            orders.on_told = self._begin
            broker.dispatch.faults.append(self)

    def _begin(self) -> None:
        self._broker.begin_coordinating()
        self._told.set()
        if self in self._broker.dispatch.faults:
            self._broker.dispatch.faults.remove(self)

    async def over(self) -> None:
        """Raises OttlaError if the controller does not reach us in time."""
        broker = self._broker
        timeout_ms = broker.config.initial_broker_registration_timeout_ms
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._told.wait()
        except TimeoutError:
            raise OttlaError(self._why_untold(timeout_ms)) from None

    def __call__(self, call: Call, request: Any) -> Awaitable[Any] | None:
        return None if call.api_key in ALWAYS_SERVED else self._told.wait()

    def _why_untold(self, timeout_ms: int) -> str:
        broker = self._broker
        listener = inter_broker_listener(broker.config, broker.listeners)
        controller = broker.metadata.controller_id
        if controller == NO_CONTROLLER:
            return f"no controller was elected within {timeout_ms} ms: the metadata store may be away, or other brokers"
        return (
            f"the controller, broker {controller}, has not reached this broker at {listener.name}://"
            f"{listener.advertised} within {timeout_ms} ms: other brokers must be able to connect there; "
            "advertised.listeners and inter.broker.listener.name say where they are sent"
        )


async def check_endpoint(config: "BrokerConfig", store: MetadataStore, listeners: Sequence[Listener]) -> None:
    """Can other brokers find us where we would send them, as far as one can know? Raises ConfigError."""
    ours = inter_broker_listener(config, listeners)
    for other in await load_brokers(store):
        if other.node_id == config.node_id:
            continue
        taken = {(each.host, each.port) for each in other.endpoints}
        for listener in listeners:
            if tuple(listener.advertised) in taken:
                raise ConfigError(
                    f"{listener.advertised} is where broker {other.node_id} is found: two brokers cannot have "
                    "one address; listeners and advertised.listeners say which this one has"
                )
        theirs = other.endpoint(ours.name)
        if theirs is None:
            named = ", ".join(each.listener for each in other.endpoints)
            raise ConfigError(
                f"broker {other.node_id} has no listener {ours.name}, over which this broker would talk to it (it has "
                f"{named}): inter.broker.listener.name must be the same in a cluster"
            )
        if is_loopback(ours.advertised_host) and not is_loopback(theirs.host):
            raise ConfigError(
                f"this broker would be found at {ours.advertised}, but broker {other.node_id} is at {theirs.host}, "
                "another machine, which cannot connect there: listeners and advertised.listeners say where it can"
            )


async def default_host(config: "BrokerConfig") -> str:
    """Where to listen if the settings do not say: on the loopback, or where those are who share our ZooKeeper."""
    if not config.zookeeper_connect:
        return LOOPBACK
    first = config.zookeeper_connect.partition("/")[0].partition(",")[0].strip()
    if ":" not in first:
        first = f"{first}:{_ZOOKEEPER_PORT}"
    try:
        return await host_towards(parse_address(first, "zookeeper.connect"))
    except ConfigError:  # whoever connects there will say so
        return LOOPBACK
