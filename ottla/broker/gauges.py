"""What a broker shows of its state when somebody looks at its metrics: nothing of it is counted, or costs, before."""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.reign import Reign

_LATE_MS = 300_000
"""Beyond the longest timeout, before an open transaction is called late."""


def follow_gauges(broker: "Broker") -> None:
    """Let the gauges of a broker that is being made look at its parts."""
    metrics, server = broker.metrics, broker.server
    _follow_partitions(broker)
    _follow_controller(broker)
    metrics.connections.labels().follow(lambda: len(server.connections))
    metrics.connections_accepted.labels().follow(lambda: server.accepted)
    metrics.connections_refused.labels().follow(lambda: server.refused)
    metrics.bytes_in.labels().follow(lambda: server.hub.bytes_in)
    metrics.bytes_out.labels().follow(lambda: server.hub.bytes_out)
    metrics.fetch_sessions.labels().follow(
        lambda: len(broker.fetch_sessions) if "fetch_sessions" in broker.__dict__ else 0
    )


def _follow_partitions(broker: "Broker") -> None:
    metrics, replicas = broker.metrics, broker.replicas
    metrics.partitions.labels().follow(lambda: len(replicas.partitions))
    metrics.partitions_led.labels().follow(
        lambda: sum(partition.is_leader for partition in replicas.partitions.values())
    )
    metrics.offline_directories.labels().follow(lambda: len(replicas.offline))
    metrics.late_transactions.labels().follow(lambda: _late_transactions(broker))


def _follow_controller(broker: "Broker") -> None:
    """The controller is made while the broker starts."""
    metrics = broker.metrics

    def reign(count: "Callable[[Reign], int]") -> Callable[[], int]:
        return lambda: count(broker.controller.reign) if hasattr(broker, "controller") else 0

    metrics.active_controller.labels().follow(
        lambda: hasattr(broker, "controller") and broker.controller.is_controller
    )
    metrics.offline_partitions.labels().follow(reign(lambda reign: reign.offline_partitions))
    metrics.elections.labels().follow(reign(lambda reign: reign.elections))
    metrics.unclean_elections.labels().follow(reign(lambda reign: reign.unclean_elections))


def _late_transactions(broker: "Broker") -> int:
    """A transaction that its coordinator knows is aborted in time; one that it does not know stays (KIP-664)."""
    latest = broker.clock.now_ms() - broker.config.transaction_max_timeout_ms - _LATE_MS
    return sum(
        partition.is_leader and partition.log.producers.has_open_since(latest)
        for partition in broker.replicas.partitions.values()
    )
