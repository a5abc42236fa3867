"""The controller reaches brokers over the listener that is theirs, and each life over a connection of its own."""

import asyncio
import functools

import pytest

from ottla.broker.lines import Wires
from ottla.broker.orders import Order
from ottla.controller.decision import LeaderAndIsr, StopReplicas, UpdateMetadata
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.network.peer import PeerClosed
from ottla.replication.state import BrokerImage, Endpoint
from tests.unit.broker.several import cluster_of
from tests.unit.controller.helpers import state


def alone(test):
    """With one real broker, and lines that somebody pulls to it."""

    @functools.wraps(test)
    def run() -> None:
        async def inner() -> None:
            async with cluster_of(1) as cluster:
                (node,) = cluster.nodes.values()
                wires = Wires(9, lambda: "PLAINTEXT", lambda: 10_000)
                endpoint = Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", node.port)
                await test(node, wires, BrokerImage(0, node.controller.broker_epoch, (endpoint,)))
                await wires.close()

        asyncio.run(inner())

    del run.__wrapped__
    return run


def order(effect, image, epoch=5):
    return Order(effect, 9, epoch, image.epoch)


@alone
async def test_orders_are_followed_and_answered(node, wires, image):
    led = state(0, "0", "0")
    answers = await wires.ask(image, order(LeaderAndIsr(0, (led._replace(is_new=True),)), image))
    assert answers == {led.topic_partition: ErrorCode.NONE}
    assert led.topic_partition in node.replicas.partitions
    live = UpdateMetadata(0, brokers=(image, BrokerImage(9, 1, image.endpoints)))
    assert await wires.ask(image, order(live, image)) == {}
    assert sorted(node.metadata.brokers) == [0, 9] and node.metadata.controller_id == 9
    gone = TopicPartition(led.topic, led.partition)
    assert await wires.ask(image, order(StopReplicas(0, {gone: True}), image)) == {gone: ErrorCode.NONE}
    assert len(node.server.connections) == 1


@alone
async def test_a_refusal_of_the_whole_is_raised(node, wires, image):
    await wires.ask(image, order(UpdateMetadata(0), image))
    with pytest.raises(KafkaError) as refusal:
        await wires.ask(image, order(UpdateMetadata(0), image, epoch=4))
    assert refusal.value.code is ErrorCode.STALE_CONTROLLER_EPOCH
    former = order(UpdateMetadata(0), image)._replace(broker_epoch=image.epoch - 1)
    with pytest.raises(KafkaError) as refusal:
        await wires.ask(image, former)
    assert refusal.value.code is ErrorCode.STALE_BROKER_EPOCH


@alone
async def test_a_broker_without_the_listener_cannot_be_reached(node, wires, image):
    with pytest.raises(PeerClosed, match="has no listener PLAINTEXT"):
        await wires.ask(image._replace(endpoints=()), order(UpdateMetadata(0), image))


@alone
async def test_another_life_gets_another_connection(node, wires, image):
    await wires.ask(image, order(UpdateMetadata(0), image))
    (first,) = wires._peers.values()
    later = image._replace(epoch=image.epoch + 1)
    await wires.ask(later, order(UpdateMetadata(0), later))
    (second,) = wires._peers.values()
    assert not first.is_open and second.is_open
