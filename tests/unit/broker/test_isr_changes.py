"""Leaders ask for other ISRs, and what becomes of it. The controller is one that we make up."""

import asyncio

import pytest

from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.network.peer import PeerClosed
from tests.unit.broker.cluster import cluster, scenario, within

ORDERS = TopicPartition("orders", 0)


class Controller:
    """Says yes to everything, unless it is told what to do instead."""

    def __init__(self, brokers):
        self.brokers = brokers
        self.asked = []
        self.failures = []
        self.refusals = []
        self.gate = asyncio.Event()
        self.gate.set()

    def install(self, node):
        node.controller.alter_partitions = self.alter_partitions

    async def alter_partitions(self, broker_id, broker_epoch, proposals):
        self.asked.append((broker_id, broker_epoch, list(proposals)))
        await self.gate.wait()
        failure = self.failures.pop(0) if self.failures else None
        if failure is not None:
            raise failure
        if self.refusals:
            return dict.fromkeys((p.topic_partition for p in proposals), self.refusals.pop(0))
        return {proposal.topic_partition: self._accept(proposal) for proposal in proposals}

    def _accept(self, proposal):
        state = self.brokers.states[proposal.topic_partition]
        isr = tuple(life.broker for life in proposal.isr)
        state = state._replace(isr=isr, partition_epoch=state.partition_epoch + 1)
        self.brokers.states[proposal.topic_partition] = state
        return state

    async def settled(self, partition, isr):
        """Wait until the leader believes in this ISR."""
        while partition.isr != frozenset(isr):
            await asyncio.sleep(0.001)


async def controlled(brokers):
    controller = Controller(brokers)
    controller.install(brokers[1])
    return controller


@scenario
async def test_a_follower_that_has_caught_up_is_let_in_at_once():
    async with cluster() as brokers:
        controller = await controlled(brokers)
        await brokers.lead(1, 2, isr=(1,))
        brokers.put(1, b"a")
        await within(controller.settled(brokers.partition(1), {1, 2}))
        ((broker, epoch, (proposal,)),) = controller.asked
        assert (broker, epoch) == (1, brokers[1].controller.broker_epoch)
        assert [life.broker for life in proposal.isr] == [1, 2]
        assert [life.epoch for life in proposal.isr] == [brokers[id].controller.broker_epoch for id in (1, 2)]


@scenario
async def test_a_follower_that_is_silent_for_too_long_leaves():
    async with cluster(1, replica_lag_time_max_ms=200, replica_fetch_wait_max_ms=50) as brokers:
        controller = await controlled(brokers)
        await brokers.lead(1, 2)
        brokers.put(1, b"a")
        await within(controller.settled(brokers.partition(1), {1}))
        assert brokers.partition(1).high_watermark.value == 1


@scenario
async def test_all_partitions_go_into_one_request_and_one_is_under_way():
    async with cluster() as brokers:
        controller = await controlled(brokers)
        controller.gate.clear()
        await brokers.lead(1, 2, isr=(1,), topic="first")
        changes = brokers[1].replication.isr_changes
        while not controller.asked:
            await asyncio.sleep(0.001)
        for index in range(3):
            await brokers.lead(1, 2, isr=(1,), index=index)
            brokers.put(1, b"a", index=index)
            await brokers.has(2, 1, index=index)
        while len(changes._due) < 3:
            await asyncio.sleep(0.001)
        assert len(controller.asked) == 1
        controller.gate.set()
        for index in range(3):
            await within(controller.settled(brokers.partition(1, index=index), {1, 2}))
        assert [len(proposals) for _, _, proposals in controller.asked] == [1, 3]


@pytest.mark.parametrize(
    "failure",
    [
        PeerClosed("gone"),
        KafkaError(ErrorCode.NOT_CONTROLLER),
        KafkaError(ErrorCode.STALE_BROKER_EPOCH),
        KafkaError(ErrorCode.REQUEST_TIMED_OUT),
        RuntimeError("a mistake"),
    ],
    ids=["connection lost", "not controller", "another life", "timeout", "mistake"],
)
@scenario
async def test_a_proposal_whose_fate_nobody_knows_is_made_again_the_very_same(failure):
    async with cluster() as brokers:
        controller = await controlled(brokers)
        controller.failures = [failure]
        await brokers.lead(1, 2, isr=(1,))
        brokers.put(1, b"a")
        partition = brokers.partition(1)
        while not controller.asked:
            await asyncio.sleep(0.001)
        assert partition.leading.maximal_isr == {1, 2}, "it may have been done"
        await within(controller.settled(partition, {1, 2}))
        first, second = (proposals for _, _, proposals in controller.asked)
        assert first == second


@scenario
async def test_a_controller_that_has_not_heard_of_the_topic_yet_is_asked_again_soon():
    async with cluster() as brokers:
        controller = await controlled(brokers)
        controller.refusals = [KafkaError(ErrorCode.UNKNOWN_TOPIC_ID), KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)]
        await brokers.lead(1, 2, isr=(1,))
        await within(controller.settled(brokers.partition(1), {1, 2}))
        first, *others = [proposals for _, _, proposals in controller.asked]
        assert others == [first, first]


@scenario
async def test_nothing_is_asked_while_our_session_is_in_doubt():
    async with cluster() as brokers:
        controller = await controlled(brokers)
        changes = brokers[1].replication.isr_changes
        looks, is_sure = [], False

        def may_change():
            looks.append(is_sure)
            return is_sure

        changes.may_change = may_change
        await brokers.lead(1, 2, isr=(1,))
        brokers.put(1, b"a")
        while len(looks) < 3:
            await asyncio.sleep(0.001)
        assert controller.asked == [] and brokers.partition(1).leading.proposal is None
        is_sure = True
        await within(controller.settled(brokers.partition(1), {1, 2}))


@scenario
async def test_without_a_controller_it_is_tried_again_until_there_is_one():
    async with cluster() as brokers:
        controller = await controlled(brokers)
        await brokers.lead(2, 1, isr=(2,), to=[])
        for node in brokers.nodes.values():
            node.metadata.update(controller_id=-1)
        controller.install(brokers[2])
        await brokers[2].replicas.leader_and_isr(100, [brokers.states[ORDERS]])
        await brokers[1].replicas.leader_and_isr(100, [brokers.states[ORDERS]])
        while brokers.partition(2).leading.proposal is None:
            await asyncio.sleep(0.001)
        brokers[2].metadata.update(controller_id=2)
        await within(controller.settled(brokers.partition(2), {1, 2}))
