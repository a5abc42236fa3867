"""Producer ids, and what a partition knows of its producers."""

from typing import TYPE_CHECKING

from ottla.broker.authorizer import CLUSTER_NAME, Operation, ResourceType
from ottla.broker.call import Call
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import topic_name_fault
from ottla.protocol.messages.transactions import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from ottla.storage.producers import Producer

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

FIRST_EPOCH = 0

_Described = DescribeProducersResponse.Topic.Partition


async def init_producer_id(
    broker: "Broker", call: Call, request: InitProducerIdRequest
) -> InitProducerIdResponse:
    """An id for a producer that numbers its batches.

    One without a transactional id gets a new one each time, also if it brings an old one along: nobody else could
    have been using that, so there is nobody to fence.
    """
    _check_permission(broker, call, request)
    if (request.producer_id < 0) != (request.producer_epoch < 0):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"producer id {request.producer_id} and epoch {request.producer_epoch} come together or not at all",
        )
    if request.transactional_id is not None:
        if not request.transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "this broker coordinates no transactions")
    producer_id = await broker.producer_ids.next()
    return InitProducerIdResponse(
        error_code=ErrorCode.NONE, producer_id=producer_id, producer_epoch=FIRST_EPOCH
    )


def _check_permission(broker: "Broker", call: Call, request: InitProducerIdRequest) -> None:
    """A transactional id is guarded by itself. Without one, who may write to any topic may number its batches."""
    allows = broker.authorizer.allows
    if request.transactional_id is not None:
        if not allows(call, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "the id is not theirs to use")
    elif not allows(call, Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME) and not any(
        allows(call, Operation.WRITE, ResourceType.TOPIC, name) for name in broker.metadata.topics
    ):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "no topic is theirs to write to")


def describe_producers(
    broker: "Broker", call: Call, request: DescribeProducersRequest
) -> DescribeProducersResponse:
    """Who has written to these partitions lately, and has a transaction open."""
    topics = []
    for topic in request.topics:
        partitions = [_described(broker, call, topic.name, index) for index in topic.partition_indexes]
        topics.append(DescribeProducersResponse.Topic(name=topic.name, partitions=partitions))
    return DescribeProducersResponse(topics=topics)


def _described(broker: "Broker", call: Call, topic: str, index: int) -> _Described:
    described = _Described(partition_index=index, error_code=ErrorCode.NONE, active_producers=[])
    try:
        if not broker.authorizer.allows(call, Operation.READ, ResourceType.TOPIC, topic):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"READ of {topic!r} is not allowed")
        if fault := topic_name_fault(topic):
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"the name {topic!r} {fault}")
        partition = broker.replicas.get(topic, index)
        partition.check_leader()
        described.active_producers = [_active(each) for each in partition.log.producers.all()]
    except KafkaError as error:
        described.error_code, described.error_message = error.code, error.detail
    return described


def _active(producer: Producer) -> _Described.Producer:
    return _Described.Producer(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        last_sequence=producer.last_sequence,
        last_timestamp=producer.last_timestamp,
        coordinator_epoch=producer.coordinator_epoch,
        current_txn_start_offset=producer.txn_first_offset,
    )
