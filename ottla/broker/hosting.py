"""A broker's controller host, put together from its settings."""

from typing import TYPE_CHECKING

from ottla.broker.election import ControllerHost
from ottla.broker.lines import Wires
from ottla.broker.listeners import inter_broker_listener
from ottla.broker.office import OpenSession
from ottla.broker.standing import Rebalancing
from ottla.broker.stores import session_timeout_ms
from ottla.controller.context import Policy
from ottla.controller.topics import Defaults
from ottla.core.errors import OttlaError
from ottla.metadata.embedded import EmbeddedStore
from ottla.metadata.paths import BrokerNode
from ottla.network.peer import PeerLimits, connect

if TYPE_CHECKING:
    import random

    from ottla.broker.broker import Broker

_ANSWER_MS = 2_000


def controller_host(
    broker: "Broker",
    *,
    open_session: OpenSession,
    chance: "random.Random | None",
) -> ControllerHost:
    """It reads the settings anew each time it needs them: some change while it works."""
    config = broker.config
    # A store in this process knows at once who is gone. Others believe in a life of ours that has just ended until its
    # session times out; they count from the last they heard of it, and we from now.
    is_own_store = isinstance(broker.store, EmbeddedStore)
    registration_timeout_ms = 0 if is_own_store else 2 * session_timeout_ms(config, broker.store)
    return ControllerHost(
        broker.store,
        node_id=broker.node_id,
        replicas=broker.replicas,
        metadata=broker.metadata,
        configs=broker.configs,
        clock=broker.clock,
        defaults=lambda: Defaults(config.num_partitions, config.default_replication_factor),
        default_policy=lambda: Policy(config.min_insync_replicas, config.unclean_leader_election_enable),
        rebalancing=Rebalancing(
            lambda: config.rebalance_seconds, lambda: config.leader_imbalance_per_broker_percentage
        ),
        line=Wires(
            broker.node_id,
            lambda: inter_broker_listener(config, broker.listeners).name,
            lambda: config.controller_socket_timeout_ms,
        ),
        open_session=open_session,
        registration_timeout_ms=registration_timeout_ms,
        answers=_answers,
        chance=chance,
    )


async def _answers(node: BrokerNode) -> bool:
    """Does a broker answer where this one is registered?"""
    for endpoint in node.endpoints:
        try:
            peer = await connect(endpoint.host, endpoint.port, limits=PeerLimits(timeout_ms=_ANSWER_MS))
        except (OttlaError, OSError):
            continue
        peer.abort()
        return True
    return False
