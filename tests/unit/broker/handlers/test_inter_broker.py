"""What brokers tell each other is believed only from who is entitled to say it, and only in this life."""

import asyncio
import uuid

import pytest

from ottla.broker.authorizer import Operation
from ottla.broker.orders import Order, Orders
from ottla.controller.decision import UpdateMetadata
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.protocol.messages.inter_broker import (
    AlterPartitionRequest,
    LeaderAndIsrRequest,
    LeaderAndIsrState,
    ReplicasFailedRequest,
)
from tests.unit.broker.controlled import FakeConfigs, FakeReplicas
from tests.unit.broker.handlers.fakes import ask, broker_with, refusal, topic

CONTROL = {"controller_id": 2, "controller_epoch": 5, "broker_epoch": 10}


class Host:
    """A controller that writes down what it is asked."""

    def __init__(self, broker) -> None:
        self.replicas = FakeReplicas([])
        self.orders = Orders(1, self.replicas, broker.metadata, FakeConfigs([]))
        self.orders.broker_epoch = 10
        self.asked = []
        self.outcomes = {}

    async def alter_partitions(self, broker_id, broker_epoch, proposals):
        self.asked += proposals
        return {each.topic_partition: self.outcomes[each.topic_partition] for each in proposals}

    async def controlled_shutdown(self, broker_id, broker_epoch):
        self.asked.append((broker_id, broker_epoch))
        return [TopicPartition("t", 3)]

    async def allocate_producer_ids(self, broker_id):
        return range(2000, 3000)

    async def replicas_failed(self, partitions, life):
        self.asked.append((list(partitions), life))


@pytest.fixture
def broker():
    broker = broker_with(topic("t", 2))
    broker.node_id = 1
    broker.controller = Host(broker)
    return broker


def led(epoch=3):
    state = LeaderAndIsrState(
        partition_index=0,
        controller_epoch=5,
        leader=1,
        leader_epoch=epoch,
        isr=[1],
        partition_epoch=epoch,
        replicas=[1, 2],
    )
    return [LeaderAndIsrRequest.Topic(topic_name="t", topic_id=uuid.UUID(int=9), partition_states=[state])]


def test_a_broker_leads_what_it_is_told_to(broker):
    answer = ask(broker, "LeaderAndIsr", 7, topic_states=led(), live_leaders=[], **CONTROL)
    assert answer.error_code == ErrorCode.NONE
    assert answer.topics[0].partition_errors[0].error_code == ErrorCode.NONE
    assert broker.controller.replicas.states[TopicPartition("t", 0)].leader == 1


@pytest.mark.parametrize(
    ("api", "version", "fields"),
    [
        ("LeaderAndIsr", 7, {"topic_states": [], "live_leaders": []}),
        ("StopReplica", 4, {"topic_states": []}),
        ("UpdateMetadata", 8, {"topic_states": [], "live_brokers": []}),
    ],
)
def test_orders_of_a_former_controller_or_for_a_former_life_are_refused(broker, api, version, fields):
    ask(broker, api, version, **fields, **CONTROL)
    stale = {**CONTROL, "controller_epoch": 4}
    assert refusal(broker, api, version, **fields, **stale) is ErrorCode.STALE_CONTROLLER_EPOCH
    former = {**CONTROL, "broker_epoch": 9}
    assert refusal(broker, api, version, **fields, **former) is ErrorCode.STALE_BROKER_EPOCH
    later = {**CONTROL, "broker_epoch": 11}
    ask(broker, api, version, **fields, **later)


@pytest.mark.parametrize(
    ("api", "version", "fields"),
    [
        ("LeaderAndIsr", 7, {"topic_states": [], "live_leaders": [], **CONTROL}),
        ("StopReplica", 4, {"topic_states": [], **CONTROL}),
        ("UpdateMetadata", 8, {"topic_states": [], "live_brokers": [], **CONTROL}),
        ("AlterPartition", 3, {"broker_id": 1, "topics": []}),
        ("ControlledShutdown", 3, {"broker_id": 1}),
        ("AllocateProducerIds", 0, {"broker_id": 1}),
        ("ReplicasFailed", 0, {"broker_id": 1, "topics": []}),
    ],
)
def test_only_brokers_may_act_for_the_cluster(broker, api, version, fields):
    broker.authorizer.deny(Operation.CLUSTER_ACTION)
    assert refusal(broker, api, version, **fields) is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_proposals_are_answered_one_by_one(broker):
    known_topic = broker.metadata.topics["t"]
    first, second = TopicPartition("t", 0), TopicPartition("t", 1)
    broker.controller.outcomes = {
        first: known_topic.partitions[0]._replace(isr=(1, 2), partition_epoch=8),
        second: KafkaError(ErrorCode.FENCED_LEADER_EPOCH, "there is another leader"),
    }
    asked = AlterPartitionRequest.Topic
    member = asked.Partition.Broker(broker_id=2, broker_epoch=77)

    def wanted(index):
        return asked.Partition(
            partition_index=index, leader_epoch=4, partition_epoch=7, new_isr_with_epochs=[member]
        )

    answer = ask(
        broker,
        "AlterPartition",
        3,
        broker_id=1,
        broker_epoch=10,
        topics=[
            asked(topic_id=uuid.UUID(int=404), partitions=[wanted(0)]),
            asked(topic_id=known_topic.topic_id, partitions=[wanted(0), wanted(1)]),
        ],
    )
    unknown, known = answer.topics
    assert unknown.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert (known.partitions[0].isr, known.partitions[0].partition_epoch) == ([1, 2], 8)
    assert known.partitions[1].error_code == ErrorCode.FENCED_LEADER_EPOCH
    proposal = broker.controller.asked[0]
    assert (proposal.leader_epoch, proposal.partition_epoch, proposal.isr) == (4, 7, ((2, 77),))


def test_a_broker_that_leaves_learns_what_it_still_leads(broker):
    answer = ask(broker, "ControlledShutdown", 3, broker_id=4, broker_epoch=12)
    assert [(p.topic_name, p.partition_index) for p in answer.remaining_partitions] == [("t", 3)]
    assert broker.controller.asked == [(4, 12)]


def test_a_block_of_producer_ids_goes_to_brokers_that_live(broker):
    answer = ask(broker, "AllocateProducerIds", 0, broker_id=1, broker_epoch=1)
    assert (answer.producer_id_start, answer.producer_id_len) == (2000, 1000)
    assert refusal(broker, "AllocateProducerIds", 0, broker_id=5) is ErrorCode.STALE_BROKER_EPOCH


def test_a_failed_disk_is_reported_with_the_life_that_had_it(broker):
    named = [ReplicasFailedRequest.Topic(topic_name="t", partitions=[0, 1])]
    ask(broker, "ReplicasFailed", 0, broker_id=3, broker_epoch=8, topics=named)
    assert broker.controller.asked == [([TopicPartition("t", 0), TopicPartition("t", 1)], (3, 8))]


def test_a_topic_that_is_gone_takes_its_settings_along():
    broker = broker_with(topic("t", 1))
    configs = FakeConfigs([])
    orders = Orders(1, FakeReplicas([]), broker.metadata, configs)
    asyncio.run(orders.follow(Order(UpdateMetadata(1, deleted=("t",)), 2, 1)))
    assert broker.metadata.topics == {}
    assert configs.calls == ["forget_topic"]
