"""Leaders and replicas elsewhere: ElectLeaders, AlterPartitionReassignments, ListPartitionReassignments.

The controller decides; here requests become its commands, and its word for each partition the reply.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ottla.broker.authorizer import CLUSTER_NAME, Operation, ResourceType
from ottla.broker.call import Call
from ottla.controller.preferred import ElectionType
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.protocol.messages.topics import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from ottla.replication.state import PartitionState

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

_Elected = ElectLeadersResponse.Topic
_Moved = AlterPartitionReassignmentsResponse.Topic
_Moving = ListPartitionReassignmentsResponse.Topic


async def elect_leaders(broker: "Broker", call: Call, request: ElectLeadersRequest) -> ElectLeadersResponse:
    """Elect in the partitions that are named; null names all, and those that need no election are left out."""
    _check(broker, call, Operation.ALTER)
    if request.election_type not in tuple(ElectionType):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"there is no election of type {request.election_type}")
    wanted = None
    if request.topic_partitions is not None:
        wanted = [
            TopicPartition(topic.topic, index)
            for topic in request.topic_partitions
            for index in topic.partitions
        ]
    answers = await broker.controller.elect_leaders(ElectionType(request.election_type), wanted)
    return ElectLeadersResponse(replica_election_results=_elected(answers))


def _elected(answers: Mapping[TopicPartition, KafkaError | None]) -> list[_Elected]:
    topics: dict[str, _Elected] = {}
    for partition, error in answers.items():
        topic = topics.setdefault(partition.topic, _Elected(topic=partition.topic, partition_result=[]))
        topic.partition_result.append(
            _Elected.Partition(
                partition_id=partition.partition, error_code=_code(error), error_message=_message(error)
            )
        )
    return list(topics.values())


async def alter_partition_reassignments(
    broker: "Broker", call: Call, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Answers when the moves are on record and the replicas have been told; they go on after that."""
    _check(broker, call, Operation.ALTER)
    wanted: dict[TopicPartition, list[int] | None] = {}
    twice: dict[TopicPartition, KafkaError | None] = {}
    for topic in request.topics:
        for each in topic.partitions:
            partition = TopicPartition(topic.name, each.partition_index)
            if partition in wanted:
                twice[partition] = KafkaError(
                    ErrorCode.INVALID_REQUEST, f"{partition} is named more than once"
                )
            wanted[partition] = each.replicas
    for partition in twice:
        del wanted[partition]
    answers = await broker.controller.reassign(
        wanted, allow_factor_change=request.allow_replication_factor_change
    )
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_code=ErrorCode.NONE,
        responses=_moved({**answers, **twice}),
    )


def _moved(answers: Mapping[TopicPartition, KafkaError | None]) -> list[_Moved]:
    topics: dict[str, _Moved] = {}
    for partition, error in answers.items():
        topic = topics.setdefault(partition.topic, _Moved(name=partition.topic, partitions=[]))
        topic.partitions.append(
            _Moved.Partition(
                partition_index=partition.partition, error_code=_code(error), error_message=_message(error)
            )
        )
    return list(topics.values())


async def list_partition_reassignments(
    broker: "Broker", call: Call, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """What is on the move; what does not move is left out, be it named or not."""
    _check(broker, call, Operation.DESCRIBE)
    among = None
    if request.topics is not None:
        among = [
            TopicPartition(topic.name, index) for topic in request.topics for index in topic.partition_indexes
        ]
    moving = await broker.controller.reassignments(among)
    return ListPartitionReassignmentsResponse(error_code=ErrorCode.NONE, topics=_moving(moving.values()))


def _moving(states: Iterable[PartitionState]) -> list[_Moving]:
    topics: dict[str, _Moving] = {}
    for state in states:
        topic = topics.setdefault(state.topic, _Moving(name=state.topic, partitions=[]))
        topic.partitions.append(
            _Moving.Partition(
                partition_index=state.partition,
                replicas=list(state.replicas),
                adding_replicas=list(state.adding),
                removing_replicas=list(state.removing),
            )
        )
    return list(topics.values())


def _check(broker: "Broker", call: Call, operation: Operation) -> None:
    if not broker.authorizer.allows(call, operation, ResourceType.CLUSTER, CLUSTER_NAME):
        raise KafkaError(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED, f"{operation.name} of the cluster is not allowed"
        )


def _code(error: KafkaError | None) -> ErrorCode:
    return ErrorCode.NONE if error is None else error.code


def _message(error: KafkaError | None) -> str | None:
    return None if error is None else error.detail or error.code.meaning
