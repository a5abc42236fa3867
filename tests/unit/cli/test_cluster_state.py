"""The cluster as its brokers tell it, whatever some of them do not tell."""

import asyncio

import pytest

from ottla.cli.cluster_state import (
    Eligible,
    Move,
    eligible,
    fault_of,
    min_insync,
    moves_if_told,
    numbered,
    snapshot,
)
from ottla.cli.remote import cluster
from ottla.core.errors import ErrorCode
from ottla.core.hosts import Address
from ottla.core.ids import TopicPartition
from ottla.protocol.messages.metadata import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from ottla.protocol.messages.topics import ListPartitionReassignmentsResponse
from ottla.protocol.schema import NULL_UUID
from tests.unit.cli.fake_cluster import fake_cluster
from tests.unit.cli.several import several_brokers
from tests.unit.cli.test_remote import scenario

LIST_REASSIGNMENTS, DESCRIBE_TOPIC_PARTITIONS = 46, 75


def test_a_snapshot_has_brokers_and_partitions_and_topics_tell_how_many_must_be_in_sync():
    with several_brokers(2) as several:
        several.create("a", (0, 1), (1, 0), min_insync_replicas=2)
        several.create("b", (0,))

        async def work():
            address = Address("127.0.0.1", several.cluster.nodes[1].port)
            async with cluster([address], 10_000) as asked:
                return await snapshot(asked), await min_insync(asked, ["a", "b", "nope"])

        seen, needed = asyncio.run(work())
        assert sorted(seen.nodes) == [0, 1]
        assert seen.controller == several.cluster.controller.node_id
        assert seen.partitions[TopicPartition("a", 0)].replicas == (0, 1)
        assert seen.partitions[TopicPartition("a", 1)].is_led_as_preferred
        assert needed == {"a": 2, "b": 1}


@scenario
async def test_a_leader_that_is_not_alive_is_none():
    async with (
        fake_cluster(lambda *_: None, topics={"a": {0: 9, 1: 2}}, controller=9) as fake,
        cluster([Address("127.0.0.1", fake.ports[1])], 10_000) as asked,
    ):
        seen = await snapshot(asked)
        assert [each.leader for each in seen.partitions.values()] == [-1, 2]
        assert seen.controller is None


@scenario
async def test_eligible_leaders_are_read_page_by_page():
    topic = DescribeTopicPartitionsResponse.Topic

    def answer(_, request):
        assert isinstance(request, DescribeTopicPartitionsRequest)
        number = 0 if request.cursor is None else request.cursor.partition_index
        row = topic.Partition(
            error_code=0,
            partition_index=number,
            leader_id=-1,
            replica_nodes=[],
            isr_nodes=[],
            eligible_leader_replicas=[number],
            last_known_elr=None,
            offline_replicas=[],
        )
        more = Cursor(topic_name="a", partition_index=number + 1) if number < 2 else None
        page = topic(error_code=0, name="a", topic_id=NULL_UUID, partitions=[row])
        return DescribeTopicPartitionsResponse(topics=[page], next_cursor=more)

    async with (
        fake_cluster(answer) as fake,
        cluster([Address("127.0.0.1", fake.ports[1])], 10_000) as asked,
    ):
        found = await eligible(asked, ["a", "a"])
        assert found == {TopicPartition("a", number): Eligible((number,), ()) for number in range(3)}


@scenario
async def test_brokers_that_are_too_old_say_nothing_and_that_is_no_failure():
    versions = {LIST_REASSIGNMENTS: None, DESCRIBE_TOPIC_PARTITIONS: None}
    async with (
        fake_cluster(lambda *_: None, versions=versions, controller=1) as fake,
        cluster([Address("127.0.0.1", fake.ports[1])], 10_000) as asked,
    ):
        assert await eligible(asked, ["a"]) == {}
        assert await moves_if_told(asked) == {}


@scenario
async def test_who_may_not_ask_for_moves_hears_of_none():
    def answer(*_):
        return ListPartitionReassignmentsResponse(
            error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, topics=[]
        )

    async with (
        fake_cluster(answer, controller=2) as fake,
        cluster([Address("127.0.0.1", fake.ports[1])], 10_000) as asked,
    ):
        assert await moves_if_told(asked) == {}


def test_a_move_knows_where_it_comes_from_and_where_it_goes():
    move = Move((3, 2, 1), (3,), (1,))
    assert (move.before, move.target) == ((2, 1), (3, 2))


def test_what_is_said_names_the_error():
    assert fault_of(0, "x") is None
    assert fault_of(ErrorCode.INVALID_REQUEST, "too much") == "INVALID_REQUEST: too much"
    assert fault_of(ErrorCode.NOT_CONTROLLER, None) == "NOT_CONTROLLER: This broker is not the controller."


@pytest.mark.parametrize(("ids", "words"), [([3], "broker 3"), ([3, 4], "brokers 3, 4")])
def test_brokers_are_named_in_words(ids, words):
    assert numbered("broker", ids) == words
