"""Throttles name what Kafka's tool names, and are found again to be removed."""

import asyncio

import pytest

from ottla.cli.cluster_plan import Planned
from ottla.cli.cluster_throttles import Throttled, remove, throttle, throttled, words
from ottla.cli.remote import cluster
from ottla.core.hosts import Address
from ottla.core.ids import TopicPartition
from tests.unit.cli.several import several_brokers

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def test_leaders_hold_back_for_all_that_there_are_and_followers_where_they_are_new():
    planned = [Planned(A0, (1, 2), (2, 3)), Planned(A1, (1, 2), (4, 5)), Planned(B0, (1, 2), (2, 1))]
    assert words(planned) == {"a": ("0:1,0:2,1:1,1:2", "0:3,1:4,1:5")}


@pytest.fixture
def several():
    with several_brokers(3) as running:
        running.create("a", (0, 1), (1, 0))
        running.create("b", (0,))
        yield running


def test_what_is_throttled_is_found_and_removed(several):
    async def work():
        async with cluster([Address("127.0.0.1", several.cluster.nodes[2].port)], 10_000) as asked:
            await asked.topics([])
            assert not await throttled(asked, ["a", "b"])
            set_ = await throttle(asked, [Planned(A0, (0, 1), (1, 2))], 4711)
            assert set_ == Throttled((0, 1, 2), ("a",))
            while await throttled(asked, ["a", "b"]) != set_:
                await asyncio.sleep(0.01)
            assert (await remove(asked, ["b"])) == Throttled((0, 1, 2), ())
            while await throttled(asked, ["a", "b"]) != Throttled((), ("a",)):
                await asyncio.sleep(0.01)
            assert (await remove(asked, ["a"])).topics == ("a",)
            while await throttled(asked, ["a", "b"]):
                await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(work(), 60))


def test_brokers_hear_the_rate_and_topics_the_replicas(several):
    async def work():
        async with cluster([Address("127.0.0.1", several.cluster.nodes[0].port)], 10_000) as asked:
            await asked.topics([])
            await throttle(asked, [Planned(A0, (0, 1), (1, 2))], 4711)

    asyncio.run(asyncio.wait_for(work(), 60))
    nodes = several.cluster.nodes.values()
    several.until(
        lambda: all(node.configs.broker.follower_replication_throttled_rate == 4711 for node in nodes)
    )
    several.until(
        lambda: all(
            node.configs.topic("a").follower_replication_throttled_replicas == ("0:2",)
            and node.configs.topic("a").leader_replication_throttled_replicas == ("0:0", "0:1")
            for node in nodes
        )
    )
