"""What brokers say to each other: the controller's orders, and what the controller is asked for by the others.

Whoever may not act for the cluster is refused. Every request names a life: of the controller by its epoch, of the
broker by its own. One that speaks for a life that is over changes nothing.
"""

from typing import TYPE_CHECKING

from ottla.broker import eligible, order_checks
from ottla.broker.authorizer import CLUSTER_NAME, Operation, ResourceType
from ottla.broker.call import Call
from ottla.broker.control_messages import Request, leader_and_isr_response, order_of, stop_replica_response
from ottla.broker.orders import Answers
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.protocol.messages.inter_broker import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlterPartitionRequest,
    AlterPartitionResponse,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    ReplicasFailedRequest,
    ReplicasFailedResponse,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from ottla.replication.exchange import BrokerLife, Proposal
from ottla.replication.state import PartitionState

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

_EPOCHS_SINCE = 3
_Asked = AlterPartitionRequest.Topic
_Answer = AlterPartitionResponse.Topic


# --- orders -------------------------------------------------------------------------------------------------------


async def leader_and_isr(broker: "Broker", call: Call, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
    """Lead or follow."""
    _check_may_act(broker, call)
    answers = await _follow(broker, request)
    return leader_and_isr_response(request, answers)


async def stop_replica(broker: "Broker", call: Call, request: StopReplicaRequest) -> StopReplicaResponse:
    """Serve these partitions no more; perhaps delete them."""
    _check_may_act(broker, call)
    answers = await _follow(broker, request)
    return stop_replica_response(answers)


async def update_metadata(
    broker: "Broker", call: Call, request: UpdateMetadataRequest
) -> UpdateMetadataResponse:
    """Know how the cluster looks."""
    _check_may_act(broker, call)
    await _follow(broker, request)
    return UpdateMetadataResponse(error_code=ErrorCode.NONE)


async def _follow(broker: "Broker", request: Request) -> Answers:
    order = order_of(broker.node_id, request)
    order_checks.check(order, broker.node_id)
    return await broker.controller.orders.follow_to_the_end(order)


# --- for the controller -------------------------------------------------------------------------------------------


async def alter_partition(
    broker: "Broker", call: Call, request: AlterPartitionRequest
) -> AlterPartitionResponse:
    """Change ISRs as their leaders propose."""
    _check_may_act(broker, call)
    proposals = [
        _proposal(broker, topic, each, call.version) for topic in request.topics for each in topic.partitions
    ]
    known = [proposal for proposal in proposals if proposal is not None]
    outcomes = await broker.controller.alter_partitions(request.broker_id, request.broker_epoch, known)
    left = iter(proposals)
    return AlterPartitionResponse(
        error_code=ErrorCode.NONE,
        topics=[
            _Answer(
                topic_id=topic.topic_id,
                partitions=[
                    _altered(each, outcomes[found.topic_partition] if (found := next(left)) else None)
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _proposal(broker: "Broker", topic: _Asked, asked: _Asked.Partition, version: int) -> Proposal | None:
    """None if no topic has that id."""
    image = broker.metadata.topic_of_id.get(topic.topic_id)
    if image is None:
        return None
    isr = [BrokerLife(member) for member in asked.new_isr]
    if version >= _EPOCHS_SINCE:
        isr = [BrokerLife(member.broker_id, member.broker_epoch) for member in asked.new_isr_with_epochs]
    partition = TopicPartition(image.name, asked.partition_index)
    return Proposal(partition, topic.topic_id, asked.leader_epoch, asked.partition_epoch, tuple(isr))


def _altered(asked: _Asked.Partition, outcome: PartitionState | KafkaError | None) -> _Answer.Partition:
    if isinstance(outcome, PartitionState):
        answer = _Answer.Partition(
            partition_index=asked.partition_index,
            error_code=ErrorCode.NONE,
            leader_id=outcome.leader,
            leader_epoch=outcome.leader_epoch,
            isr=list(outcome.isr),
            leader_recovery_state=int(outcome.is_recovering),
            partition_epoch=outcome.partition_epoch,
        )
        eligible.put(answer, outcome.elr)
        return answer
    return _Answer.Partition(
        partition_index=asked.partition_index,
        error_code=ErrorCode.UNKNOWN_TOPIC_ID if outcome is None else outcome.code,
        leader_id=-1,
        leader_epoch=-1,
        isr=[],
        partition_epoch=-1,
    )


async def controlled_shutdown(
    broker: "Broker", call: Call, request: ControlledShutdownRequest
) -> ControlledShutdownResponse:
    """Let others lead what the broker that asks leads; it asks again until nothing remains."""
    _check_may_act(broker, call)
    remaining = await broker.controller.controlled_shutdown(request.broker_id, request.broker_epoch)
    return ControlledShutdownResponse(
        error_code=ErrorCode.NONE,
        remaining_partitions=[
            ControlledShutdownResponse.Partition(topic_name=each.topic, partition_index=each.partition)
            for each in remaining
        ],
    )


async def allocate_producer_ids(
    broker: "Broker", call: Call, request: AllocateProducerIdsRequest
) -> AllocateProducerIdsResponse:
    """Give a block of ids to a broker."""
    _check_may_act(broker, call)
    _check_lives(broker, request.broker_id)
    block = await broker.controller.allocate_producer_ids(request.broker_id)
    return AllocateProducerIdsResponse(
        error_code=ErrorCode.NONE, producer_id_start=block.start, producer_id_len=len(block)
    )


async def replicas_failed(
    broker: "Broker", call: Call, request: ReplicasFailedRequest
) -> ReplicasFailedResponse:
    """A disk of the broker that asks has failed."""
    _check_may_act(broker, call)
    partitions = [
        TopicPartition(topic.topic_name, each) for topic in request.topics for each in topic.partitions
    ]
    await broker.controller.replicas_failed(partitions, BrokerLife(request.broker_id, request.broker_epoch))
    return ReplicasFailedResponse(error_code=ErrorCode.NONE)


def _check_may_act(broker: "Broker", call: Call) -> None:
    if not broker.authorizer.allows(call, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "only brokers may act for the cluster")


def _check_lives(broker: "Broker", node_id: int) -> None:
    if node_id not in broker.metadata.brokers:
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, f"broker {node_id} is not alive")
