"""Brokers and their controller over real connections: whoever is asked, the controller decides."""

import asyncio
import functools
from unittest.mock import patch

import pytest

from ottla.broker import to_controller
from ottla.controller.commands import ConfigResource, NewTopic, ResourceType
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.metadata.store import SessionState
from ottla.protocol.messages.configs import IncrementalAlterConfigsRequest
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.topics import (
    AlterPartitionReassignmentsRequest,
    CreateTopicsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
)
from tests.unit.broker.controlled import until
from tests.unit.broker.several import cluster_of

TOPIC = ConfigResource(ResourceType.TOPIC, "t")


def run_with(count: int, **settings: object):
    def decorate(test):
        @functools.wraps(test)
        def run() -> None:
            async def inner() -> None:
                async with cluster_of(count, **settings) as cluster:
                    await test(cluster)

            asyncio.run(inner())

        del run.__wrapped__
        return run

    return decorate


@run_with(3)
async def test_a_topic_is_on_all_brokers_when_its_creation_returns(cluster):
    await cluster.controller.controller.create_topics([NewTopic("t", 3, 3)])
    for node in cluster.nodes.values():
        assert len(node.replicas.partitions) == 3
        leaders = {state.leader for state in node.metadata.topics["t"].partitions}
        assert leaders == {0, 1, 2}
        assert node.metadata.controller_id == cluster.controller.node_id


@run_with(2)
async def test_admin_requests_are_for_the_controller_and_the_answer_says_so(cluster):
    (other,) = cluster.others
    topic = CreateTopicsRequest.Topic(
        name="t", num_partitions=1, replication_factor=1, assignments=[], configs=[]
    )
    async with await cluster.peer(other) as peer:
        answer = await peer.send(CreateTopicsRequest(topics=[topic]))
        assert answer.topics[0].error_code == ErrorCode.NOT_CONTROLLER
        answer = await peer.send(ElectLeadersRequest(topic_partitions=None))
        assert answer.error_code == ErrorCode.NOT_CONTROLLER
        answer = await peer.send(ListPartitionReassignmentsRequest())
        assert answer.error_code == ErrorCode.NOT_CONTROLLER


@run_with(2)
async def test_producer_ids_of_two_brokers_are_different(cluster):
    ids = [await node.producer_ids.next() for node in cluster.nodes.values()]
    assert sorted(ids) == [0, 1000]


@run_with(2)
async def test_a_topic_that_somebody_asks_another_broker_for_is_created_by_the_controller(cluster):
    (other,) = cluster.others
    request = MetadataRequest(topics=[MetadataRequest.Topic(name="new")], allow_auto_topic_creation=True)
    async with await cluster.peer(other) as peer:
        answer = await peer.send(request)
    assert answer.topics[0].error_code == ErrorCode.NONE
    assert "new" in cluster.controller.metadata.topics
    again = await other.to_controller.create_topics([NewTopic("new")])
    assert again["new"].code is ErrorCode.TOPIC_ALREADY_EXISTS


@run_with(2)
async def test_settings_can_be_changed_at_any_broker_and_hold_at_all(cluster):
    await cluster.controller.controller.create_topics([NewTopic("t", 1, 2)])
    (other,) = cluster.others
    resource = IncrementalAlterConfigsRequest.Resource
    change = resource.Setting(name="retention.ms", config_operation=0, value="1234")
    asked = resource(resource_type=2, resource_name="t", configs=[change])
    async with await cluster.peer(other) as peer:
        answer = await peer.send(IncrementalAlterConfigsRequest(resources=[asked], validate_only=False))
    assert answer.responses[0].error_code == ErrorCode.NONE
    await until(lambda: all(n.configs.topic("t").retention_ms == 1234 for n in cluster.nodes.values()))
    await other.to_controller.alter_configs(TOPIC, {"segment.ms": "99"}, replace=True)
    await until(lambda: other.controller.configs_of(*TOPIC) == {"segment.ms": "99"})
    with pytest.raises(KafkaError, match="INVALID_CONFIG"):
        await other.to_controller.alter_configs(TOPIC, {"segment.ms": "no number"})


@run_with(3)
async def test_whoever_stops_lets_others_lead_first(cluster):
    await cluster.controller.controller.create_topics([NewTopic("t", 6, 3)])
    leaving = cluster.others[0].node_id
    await cluster.stop(leaving)
    states = cluster.controller.metadata.topics["t"].partitions
    assert all(state.leader not in (leaving, -1) for state in states)
    await cluster.agreed()
    clean = await cluster.start(leaving)
    await until(lambda: "t" in clean.metadata.topics)
    image = clean.controller.store
    node = await image.get(f"/brokers/ids/{leaving}")
    assert b'"previous_epoch"' in node.data, "its shutdown was a clean one"


@run_with(3)
async def test_when_the_controller_stops_another_goes_on(cluster):
    await cluster.controller.controller.create_topics([NewTopic("t", 3, 3)])
    await cluster.stop(cluster.controller.node_id)
    await until(lambda: any(node.controller.is_controller for node in cluster.nodes.values()))
    await cluster.agreed()
    boss = cluster.controller
    await until(lambda: all(n.metadata.controller_id == boss.node_id for n in cluster.nodes.values()))
    answers = await cluster.others[0].to_controller.create_topics([NewTopic("u", 1, 2)])
    assert not isinstance(answers["u"], KafkaError)
    assert len({await node.producer_ids.next() // 1000 for node in cluster.nodes.values()}) == 2


@run_with(3)
async def test_a_broker_that_dies_is_led_for_and_is_told_everything_when_it_is_back(cluster):
    await cluster.controller.controller.create_topics([NewTopic("t", 3, 3)])
    dead = cluster.others[0].node_id
    await cluster.kill(dead)
    await cluster.agreed()
    for node in cluster.nodes.values():
        assert all(state.leader not in (dead, -1) for state in node.metadata.topics["t"].partitions)
    again = await cluster.start(dead)
    await until(lambda: len(again.replicas.partitions) == 3)


@run_with(3, auto_leader_rebalance_enable=False, replica_lag_time_max_ms=500)
async def test_preferred_leaders_lead_again_when_somebody_asks(cluster):
    await cluster.controller.controller.create_topics([NewTopic("t", assignments={0: [1, 0, 2]})])
    boss = cluster.controller
    await cluster.stop(1)
    await cluster.agreed()
    await cluster.start(1)
    where = TopicPartition("t", 0)
    await until(lambda: 1 in boss.metadata.topics["t"].partitions[0].isr)
    assert boss.metadata.topics["t"].partitions[0].leader != 1
    async with await cluster.peer(boss) as peer:
        named = [ElectLeadersRequest.Topic(topic=where.topic, partitions=[0, 7])]
        answer = await peer.send(ElectLeadersRequest(topic_partitions=named))
        (topic,) = answer.replica_election_results
        codes = {each.partition_id: each.error_code for each in topic.partition_result}
        assert codes == {0: ErrorCode.NONE, 7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        answer = await peer.send(ElectLeadersRequest(topic_partitions=named, election_type=9))
        assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert boss.metadata.topics["t"].partitions[0].leader == 1


@run_with(3)
async def test_a_partition_moves_to_another_broker(cluster):
    boss = cluster.controller
    await boss.controller.create_topics([NewTopic("t", assignments={0: [0, 1]})])
    asked = AlterPartitionReassignmentsRequest.Topic
    move = asked.Partition(partition_index=0, replicas=[2, 0])
    async with await cluster.peer(boss) as peer:
        answer = await peer.send(
            AlterPartitionReassignmentsRequest(topics=[asked(name="t", partitions=[move])])
        )
        assert answer.responses[0].partitions[0].error_code == ErrorCode.NONE
        await until(lambda: set(boss.metadata.topics["t"].partitions[0].replicas) == {0, 2})
        answer = await peer.send(ListPartitionReassignmentsRequest())
        assert answer.topics == []
        twice = AlterPartitionReassignmentsRequest(topics=[asked(name="t", partitions=[move, move])])
        answer = await peer.send(twice)
        assert answer.responses[0].partitions[0].error_code == ErrorCode.INVALID_REQUEST
    await until(lambda: TopicPartition("t", 0) not in cluster.nodes[1].replicas.partitions)


@run_with(2)
async def test_a_disk_that_fails_under_another_broker_is_known_to_the_controller(cluster):
    (other,) = cluster.others
    boss = cluster.controller
    await boss.controller.create_topics([NewTopic("t", assignments={0: [other.node_id, boss.node_id]})])
    await other.to_controller.replicas_failed([TopicPartition("t", 0)])
    state = boss.metadata.topics["t"].partitions[0]
    assert (state.leader, state.offline) == (boss.node_id, (other.node_id,))


@run_with(2)
async def test_a_disk_that_fails_while_the_controller_cannot_be_reached_is_reported_when_it_can(cluster):
    (other,) = cluster.others
    boss = cluster.controller
    await boss.controller.create_topics([NewTopic("t", assignments={0: [other.node_id, boss.node_id]})])
    report, failures = other.to_controller.replicas_failed, 2

    async def cut_off(partitions):
        nonlocal failures
        failures -= 1
        if failures >= 0:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "no controller answers")
        await report(partitions)

    other.to_controller.replicas_failed = cut_off
    other.replicas.on_failed([TopicPartition("t", 0)])
    await until(lambda: boss.metadata.topics["t"].partitions[0].leader == boss.node_id)


@run_with(2)
async def test_nobody_waits_longer_for_a_connection_than_for_an_answer(cluster):
    (other,) = cluster.others

    async def never(broker_id, purpose):
        await asyncio.Event().wait()

    other.to_controller._peers.to = never
    asking = [
        other.to_controller._ask(lambda host: host.allocate_producer_ids(), object, int, patience=0.01)
        for _ in range(3)
    ]
    for answer in await asyncio.gather(*asking, return_exceptions=True):
        assert isinstance(answer, KafkaError) and answer.code is ErrorCode.REQUEST_TIMED_OUT


@run_with(3)
async def test_a_new_topic_has_its_settings_before_anything_is_written_to_it(cluster):
    for node in cluster.others:
        node.controller._office.ring = lambda *paths: None  # no notice gets through
    settings = {"message.timestamp.type": "LogAppendTime"}
    await cluster.controller.controller.create_topics([NewTopic("t", 1, 3, configs=settings)])
    for node in cluster.nodes.values():
        partition = node.replicas.partitions[TopicPartition("t", 0)]
        assert partition.config.message_timestamp_type == "LogAppendTime"


@run_with(2)
async def test_producer_ids_are_waited_for_until_the_controller_knows_who_asks(cluster):
    (other,) = cluster.others
    known = cluster.controller.metadata.brokers
    us = known.pop(other.node_id)
    asking = asyncio.ensure_future(other.producer_ids.next())
    await until(lambda: other.to_controller._peers._open or asking.done())
    await asyncio.wait([asking], timeout=0.02)
    known[other.node_id] = us
    assert await asking >= 0


@run_with(2, controlled_shutdown_retry_backoff_ms=3_600_000)
async def test_who_stops_while_the_store_is_away_asks_once_for_leave(cluster):
    """There is no controller then, nor will there be one soon."""
    (other,) = cluster.others
    for node in cluster.nodes.values():
        node.store._state = SessionState.SUSPENDED
    with patch.object(to_controller, "PATIENCE_TO_LEAVE_SECONDS", 0.01):
        await other.to_controller.leave()
