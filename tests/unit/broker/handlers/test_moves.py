"""Requests to elect and to move become commands of the controller, and its word for each partition the reply."""

import pytest

from ottla.broker.authorizer import Operation
from ottla.controller.preferred import ElectionType
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.protocol.messages.topics import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
)
from tests.unit.broker.handlers.fakes import ask, broker_with, refusal, topic

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)
REFUSED = KafkaError(ErrorCode.ELECTION_NOT_NEEDED, "it leads already")


class Host:
    def __init__(self) -> None:
        self.asked = None

    async def elect_leaders(self, kind, partitions):
        self.asked = kind, partitions
        return {FIRST: None, SECOND: REFUSED}

    async def reassign(self, wanted, *, allow_factor_change=True):
        self.asked = wanted, allow_factor_change
        return dict.fromkeys(wanted)

    async def reassignments(self, among=None):
        self.asked = among
        (state,) = topic("t").partitions
        return {FIRST: state._replace(replicas=(1, 2, 3), adding=(3,), removing=(1,))}


@pytest.fixture
def broker():
    broker = broker_with(topic("t", 2))
    broker.controller = Host()
    return broker


@pytest.mark.parametrize("version", [0, 1, 2])
def test_each_election_has_its_result(broker, version):
    named = [ElectLeadersRequest.Topic(topic="t", partitions=[0, 1])]
    answer = ask(broker, "ElectLeaders", version, topic_partitions=named)
    assert broker.controller.asked == (ElectionType.PREFERRED, [FIRST, SECOND])
    (found,) = answer.replica_election_results
    assert [(p.partition_id, p.error_code, p.error_message) for p in found.partition_result] == [
        (0, ErrorCode.NONE, None),
        (1, ErrorCode.ELECTION_NOT_NEEDED, "it leads already"),
    ]


def test_an_election_everywhere_may_be_an_unclean_one(broker):
    ask(broker, "ElectLeaders", 2, topic_partitions=None, election_type=1)
    assert broker.controller.asked == (ElectionType.UNCLEAN, None)
    assert refusal(broker, "ElectLeaders", 2, topic_partitions=None, election_type=2) is (
        ErrorCode.INVALID_REQUEST
    )


def test_moves_are_begun_and_taken_back(broker):
    asked = AlterPartitionReassignmentsRequest.Topic
    move = asked.Partition(partition_index=0, replicas=[2, 3])
    back = asked.Partition(partition_index=1, replicas=None)
    answer = ask(
        broker,
        "AlterPartitionReassignments",
        1,
        topics=[asked(name="t", partitions=[move, back])],
        allow_replication_factor_change=False,
    )
    assert broker.controller.asked == ({FIRST: [2, 3], SECOND: None}, False)
    assert [p.error_code for p in answer.responses[0].partitions] == [ErrorCode.NONE] * 2
    assert not answer.allow_replication_factor_change


def test_a_partition_that_is_named_twice_does_not_move(broker):
    asked = AlterPartitionReassignmentsRequest.Topic
    move = asked.Partition(partition_index=0, replicas=[2, 3])
    answer = ask(broker, "AlterPartitionReassignments", 0, topics=[asked(name="t", partitions=[move, move])])
    assert broker.controller.asked == ({}, True)
    (partition,) = answer.responses[0].partitions
    assert partition.error_code == ErrorCode.INVALID_REQUEST


def test_what_moves_is_listed(broker):
    answer = ask(broker, "ListPartitionReassignments", 0, topics=None)
    assert broker.controller.asked is None
    (partition,) = answer.topics[0].partitions
    assert (partition.replicas, partition.adding_replicas, partition.removing_replicas) == (
        [1, 2, 3],
        [3],
        [1],
    )
    named = [ListPartitionReassignmentsRequest.Topic(name="t", partition_indexes=[1])]
    ask(broker, "ListPartitionReassignments", 0, topics=named)
    assert broker.controller.asked == [SECOND]


@pytest.mark.parametrize(
    ("api", "fields", "operation"),
    [
        ("ElectLeaders", {"topic_partitions": None}, Operation.ALTER),
        ("AlterPartitionReassignments", {"topics": []}, Operation.ALTER),
        ("ListPartitionReassignments", {}, Operation.DESCRIBE),
    ],
)
def test_whoever_may_not_is_refused(broker, api, fields, operation):
    broker.authorizer.deny(operation)
    assert refusal(broker, api, 0, **fields) is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert broker.controller.asked is None
