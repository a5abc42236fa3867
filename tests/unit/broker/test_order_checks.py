"""What no controller would ever say is refused before anything has changed; what one says is not."""

import asyncio
import uuid

import pytest

from ottla.broker.order_checks import check
from ottla.broker.orders import Order
from ottla.controller.commands import NewTopic
from ottla.controller.decision import LeaderAndIsr, StopReplicas, UpdateMetadata
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.protocol.messages.inter_broker import LeaderAndIsrRequest, LeaderAndIsrState
from ottla.replication.state import BrokerImage, PartitionState, TopicImage
from tests.unit.broker.several import cluster_of

SANE = PartitionState("t", uuid.UUID(int=1), 0, 1, 5, 6, (1, 2), (1,), elr=(2,))


def order(effect, controller_id=0, controller_epoch=3):
    return Order(effect, controller_id, controller_epoch)


def image(*states, name="t"):
    return TopicImage(name, uuid.UUID(int=1), states)


@pytest.mark.parametrize(
    "effect",
    [
        LeaderAndIsr(1, (SANE, SANE._replace(partition=1, leader=-1, isr=()))),
        LeaderAndIsr(1, (SANE._replace(replicas=(1, 2, 3), adding=(3,), removing=(2,)),)),
        StopReplicas(1, {TopicPartition("t", 0): True}),
        UpdateMetadata(1, (image(SANE),), ("u",), (BrokerImage(1, -1, ()),)),
        UpdateMetadata(1, (image(SANE._replace(replicas=(4,), leader=-1, leader_epoch=-1, isr=(), elr=())),)),
    ],
)
def test_what_controllers_say_makes_sense(effect):
    check(order(effect), 1)


@pytest.mark.parametrize(
    "nonsense",
    [
        {"topic": "../../t"},
        {"topic": ""},
        {"partition": -1},
        {"topic_id": uuid.UUID(int=0)},
        {"replicas": (), "isr": (), "elr": (), "leader": -1},
        {"replicas": (1, 1, 2)},
        {"replicas": (1, 2, -5)},
        {"leader": 3},
        {"leader": -2},
        {"isr": (1, 9)},
        {"isr": (1, 1)},
    ],
)
def test_partitions_that_cannot_be_are_refused(nonsense):
    state = SANE._replace(**nonsense)
    for effect in (LeaderAndIsr(1, (state,)), UpdateMetadata(1, (image(state, name=state.topic),))):
        with pytest.raises(KafkaError, match="makes no sense"):
            check(order(effect), 1)


@pytest.mark.parametrize(
    "effect",
    [
        LeaderAndIsr(1, (SANE, SANE)),
        LeaderAndIsr(1, (SANE._replace(leader_epoch=-1),)),
        LeaderAndIsr(1, (SANE._replace(partition_epoch=-1),)),
        LeaderAndIsr(1, (SANE._replace(replicas=(2, 3), leader=2, isr=(2,)),)),
        StopReplicas(1, {TopicPartition("../t", 0): True}),
        StopReplicas(1, {TopicPartition("t", -1): True}),
        UpdateMetadata(1, (image(SANE),), ("t",)),
        UpdateMetadata(1, brokers=(BrokerImage(-1, -1, ()),)),
        UpdateMetadata(1, brokers=(BrokerImage(2, -1, ()), BrokerImage(2, -1, ()))),
    ],
)
def test_orders_that_nobody_gives_are_refused(effect):
    with pytest.raises(KafkaError, match="makes no sense"):
        check(order(effect), 1)


def test_an_order_is_somebodys():
    for whose in ({"controller_id": -1}, {"controller_epoch": -1}):
        with pytest.raises(KafkaError, match="no controller"):
            check(order(StopReplicas(1, {}), **whose), 1)


def test_nothing_is_made_outside_of_the_log_directory():
    async def scene():
        async with cluster_of(1) as cluster:
            node = cluster.controller
            await node.controller.create_topics([NewTopic("t")])
            state = LeaderAndIsrState(
                partition_index=0,
                controller_epoch=9,
                leader=0,
                leader_epoch=0,
                isr=[0],
                partition_epoch=0,
                replicas=[0],
            )
            topic = LeaderAndIsrRequest.Topic(
                topic_name="../../t", topic_id=uuid.UUID(int=5), partition_states=[state]
            )
            request = LeaderAndIsrRequest(
                controller_id=0, controller_epoch=9, broker_epoch=-1, topic_states=[topic], live_leaders=[]
            )
            async with await cluster.peer(node) as peer:
                assert (await peer.send(request)).error_code == ErrorCode.INVALID_REQUEST
            assert list(node.replicas.partitions) == [TopicPartition("t", 0)]
            assert await node.controller.create_topics([NewTopic("u")]), (
                "the epoch has not been believed either"
            )
            assert len(node.replicas.partitions) == 2

    asyncio.run(scene())
