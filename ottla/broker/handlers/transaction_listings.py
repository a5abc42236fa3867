"""What is known of transactions and of producers: by transactional id, by coordinator, by partition (KIP-664).

With these a transaction that hangs is found. Nothing here changes anything, and nobody learns of an id, or of a topic,
that they may not see.
"""

from typing import TYPE_CHECKING

from ottla.broker.authorizer import Operation, ResourceType
from ottla.broker.call import Call
from ottla.broker.handlers.asking import check_transactional_id, one_by_one
from ottla.core.clock import Moment
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import topic_name_fault
from ottla.protocol.messages.transactions import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from ottla.storage.producers import Producer
from ottla.transactions.listing import not_described, unknown_states

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

_Described = DescribeProducersResponse.Topic.Partition
_Transaction = DescribeTransactionsResponse.Transaction


# --- transactions -------------------------------------------------------------------------------------------------


async def describe_transactions(
    broker: "Broker", call: Call, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse:
    """Each transactional id by itself, with those of its topics that the caller may see."""

    async def answer(transactional_id: str) -> _Transaction:
        try:
            check_transactional_id(broker, call, Operation.DESCRIBE, transactional_id)
            found = await broker.transactions.read(
                transactional_id, lambda shard: shard.describe(transactional_id)
            )
        except KafkaError as error:
            return not_described(transactional_id, error.code)
        allows = broker.authorizer.allows
        found.topics = [
            each for each in found.topics if allows(call, Operation.DESCRIBE, ResourceType.TOPIC, each.topic)
        ]
        return found

    return DescribeTransactionsResponse(
        transaction_states=await one_by_one(request.transactional_ids, answer)
    )


async def list_transactions(
    broker: "Broker", call: Call, request: ListTransactionsRequest
) -> ListTransactionsResponse:
    """The transactions of this broker. Half of them would look like all: so none while some are being loaded."""
    if broker.transactions.is_loading:
        raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "transactions are being loaded")
    now = Moment(broker.clock.now_ms(), broker.clock.monotonic_ms())
    lists = await broker.transactions.read_all(
        lambda shard: shard.list(
            request.state_filters,
            request.producer_id_filters,
            request.duration_filter,
            request.transactional_id_pattern,
            now,
        )
    )
    return ListTransactionsResponse(
        error_code=ErrorCode.NONE,
        unknown_state_filters=unknown_states(request.state_filters),
        transaction_states=[each for found in lists for each in found if _may_see(broker, call, each)],
    )


def _may_see(broker: "Broker", call: Call, listed: ListTransactionsResponse.Transaction) -> bool:
    return broker.authorizer.allows(
        call, Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, listed.transactional_id
    )


# --- producers ----------------------------------------------------------------------------------------------------


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
