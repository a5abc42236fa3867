"""How far moves are, and who is asked again when a broker does not answer."""

import asyncio

import pytest

from ottla.cli import cluster_moving
from ottla.cli.cluster_moving import Copied, Waiting, alter, copied, progress, sizes_of
from ottla.cli.cluster_state import Move
from ottla.cli.remote import Failed, cluster
from ottla.core.errors import ErrorCode
from ottla.core.hosts import Address
from ottla.core.ids import TopicPartition
from ottla.protocol.messages.topics import (
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsResponse,
)
from tests.unit.cli.cluster_states import nodes, partition, snapshot_of
from tests.unit.cli.fake_cluster import fake_cluster
from tests.unit.cli.several import several_brokers
from tests.unit.cli.states import Asked
from tests.unit.cli.test_remote import scenario

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
MOVE = Move((2, 3, 1), (2, 3), (1,))


def test_what_is_copied_is_measured_against_the_leader():
    sizes = {(A0, 1): 100, (A0, 2): 30, (A0, 3): 500}
    assert copied(MOVE, 1, A0, sizes) == Copied(130, 200)
    assert copied(MOVE, -1, A0, sizes) == Copied(0, 0)


def test_progress_counts_partitions_alike_and_bytes_of_those_that_move():
    seen = snapshot_of(nodes(1, 2, 3), partition("a", 0, 1, (2, 3, 1)))
    found = progress({A0: MOVE}, seen, {(A0, 1): 100, (A0, 2): 100}, 2)
    assert (found.fraction, found.done_bytes, found.total_bytes) == (0.75, 100, 200)
    assert str(found) == "1 moving, 1 done"
    assert progress({A1: MOVE}, seen, {}, 2).fraction == 0.5, "a partition that nobody shows has nothing yet"


def test_sizes_are_those_on_the_disks_of_all_brokers():
    with several_brokers(2) as several:
        several.create("a", (0, 1))
        leader = several.cluster.nodes[0]
        Asked(f"127.0.0.1:{leader.port}").produce("a", 5)

        async def work():
            async with cluster([Address("127.0.0.1", leader.port)], 10_000) as asked:
                return await sizes_of(asked, [A0])

        sizes = asyncio.run(work())
        assert sizes[A0, 0] > 0
        assert set(sizes) == {(A0, 0), (A0, 1)}


@scenario
async def test_what_the_controller_has_against_a_move_is_told_for_each():
    def answer(_, request):
        row = AlterPartitionReassignmentsResponse.Topic
        refused = row.Partition(
            partition_index=0, error_code=ErrorCode.INVALID_REPLICA_ASSIGNMENT, error_message="no"
        )
        return AlterPartitionReassignmentsResponse(
            error_code=0, responses=[row(name="a", partitions=[refused])]
        )

    async with (
        fake_cluster(answer, controller=1) as fake,
        cluster([Address("127.0.0.1", fake.ports[1])], 10_000) as asked,
    ):
        found = await alter(asked, {A0: (1,), A1: None})
        assert found == {A0: "INVALID_REPLICA_ASSIGNMENT: no", A1: "the controller said nothing of it"}
        assert fake.asked[0][1].topics[0].partitions[1].replicas is None


@scenario
async def test_a_cluster_that_does_not_answer_is_waited_for_until_the_timeout(monkeypatch):
    monkeypatch.setattr(cluster_moving, "PAUSES", (0.01,))
    with pytest.raises(Failed, match="cannot connect") as caught:
        await Waiting([A0], 0.1).follow([Address("127.0.0.1", 1)], None)
    assert caught.value.exit_code == 6


@scenario
async def test_waiting_ends_when_nothing_of_it_moves_and_says_once_who_is_missed(monkeypatch, capsys):
    monkeypatch.setattr(cluster_moving, "PAUSES", (0.01,))
    row = ListPartitionReassignmentsResponse.Topic
    moving = row.Partition(partition_index=0, replicas=[2, 1], adding_replicas=[2], removing_replicas=[1])
    other = row.Partition(partition_index=1, replicas=[2, 1], adding_replicas=[2], removing_replicas=[1])
    lost = row.Partition(partition_index=0, replicas=[9, 1], adding_replicas=[9], removing_replicas=[1])
    answers = [[moving, other], [lost, other], [lost, other], [other]]

    def answer(_, request):
        if type(request).__name__ != "ListPartitionReassignmentsRequest":
            return ErrorCode.NONE  # nothing that can be encoded: the connection breaks
        return ListPartitionReassignmentsResponse(
            error_code=0, topics=[row(name="a", partitions=answers.pop(0))]
        )

    async def no_sizes(*_):
        return {}

    async def then(asked):
        return 42

    monkeypatch.setattr(cluster_moving, "sizes_of", no_sizes)
    async with fake_cluster(answer, controller=1, topics={"a": {0: 1, 1: 1}}) as fake:
        addresses = [Address("127.0.0.1", fake.ports[1])]
        assert await Waiting([A0], 10.0).follow(addresses, then) == 42
    assert answers == []
    assert capsys.readouterr().err == "ottla: broker 9 is not alive: moves wait for it\n"
