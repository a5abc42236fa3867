"""What metrics say of a cluster whose brokers come and go."""

import asyncio

from ottla.broker.broker import Broker
from ottla.controller.commands import NewTopic
from tests.unit.broker.controlled import until
from tests.unit.broker.several import cluster_of


def shown(broker: Broker, name: str) -> float:
    """The number of a metric without labels."""
    (line,) = [each for each in broker.registry.expose().splitlines() if each.startswith(f"{name} ")]
    return float(line.rpartition(" ")[2])


def test_one_broker_is_the_active_controller_and_counts_elections_and_offline_partitions():
    async def scenario():
        async with cluster_of(3, broker_session_timeout_ms=1000) as cluster:
            controller = cluster.controller
            assert [shown(node, "ottla_active_controller") for node in [controller, *cluster.others]] == [
                1,
                0,
                0,
            ]
            victim, other = cluster.others
            await controller.controller.create_topics(
                [
                    NewTopic("alone", assignments={0: [victim.node_id]}),
                    NewTopic("shared", assignments={0: [victim.node_id, other.node_id]}),
                ]
            )
            assert shown(controller, "ottla_offline_partitions") == 0
            assert shown(controller, "ottla_leader_elections_total") == 0
            await cluster.kill(victim.node_id)
            await until(lambda: shown(controller, "ottla_offline_partitions") == 1)
            assert shown(controller, "ottla_leader_elections_total") == 1
            assert shown(controller, "ottla_unclean_leader_elections_total") == 0
            assert shown(other, "ottla_offline_partitions") == 0

    asyncio.run(scenario())


def test_a_broker_that_has_not_started_shows_zeros():
    from ottla.broker.config import BrokerConfig
    from ottla.testing.disk import SimDisk

    broker = Broker(BrokerConfig(), files=SimDisk())
    assert shown(broker, "ottla_active_controller") == shown(broker, "ottla_partitions") == 0
    broker.openers.shutdown()
