"""A broker's controller host, put together from its settings."""

from typing import TYPE_CHECKING

from ottla.broker.election import ControllerHost
from ottla.broker.lines import Wires
from ottla.broker.listeners import inter_broker_listener
from ottla.broker.office import OpenSession
from ottla.broker.standing import Rebalancing
from ottla.controller.context import Policy
from ottla.controller.topics import Defaults

if TYPE_CHECKING:
    import random

    from ottla.broker.broker import Broker


def controller_host(
    broker: "Broker",
    *,
    open_session: OpenSession,
    registration_timeout_ms: int,
    chance: "random.Random | None",
) -> ControllerHost:
    """It reads the settings anew each time it needs them: some change while it works."""
    config = broker.config
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
        chance=chance,
    )
