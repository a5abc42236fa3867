"""Producer ids, and transactions: what belongs to one, how it ends, and the markers that say so in the logs.

The transaction is the coordinator's: here is decided who may ask, and what older clients are told instead. What only
looks at transactions is in `transaction_listings`, and the offsets that they commit are in `txn_offsets`.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.broker.authorizer import CLUSTER_NAME, Operation, ResourceType
from ottla.broker.call import Call
from ottla.broker.handlers.asking import asker_of, check_group, check_transactional_id, one_by_one
from ottla.broker.handlers.transaction_listings import (
    describe_producers,
    describe_transactions,
    list_transactions,
)
from ottla.broker.handlers.txn_offsets import txn_offset_commit
from ottla.controller.context import INTERNAL_TOPICS
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.protocol.messages.transactions import (
    AddedTopic,
    AddedTopicResult,
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ottla.replication.machine import Producer

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

__all__ = ["describe_producers", "describe_transactions", "list_transactions", "txn_offset_commit"]
"""Served here, as their messages are."""

FIRST_EPOCH = 0
FROM_BROKERS_SINCE = 4
"""From this version of AddPartitionsToTxn on it comes from brokers, about many transactions at once."""
_FENCED_SINCE = {22: 4, 24: 2, 25: 2, 26: 2}
"""By API: from which version on clients know PRODUCER_FENCED."""

_Transaction = AddPartitionsToTxnRequest.Transaction
_Marker = WriteTxnMarkersRequest.Marker
_Marked = WriteTxnMarkersResponse.Marker


def _told(error: KafkaError, call: Call) -> KafkaError:
    """The error in words that a client of this version understands."""
    if error.code is ErrorCode.PRODUCER_FENCED and call.version < _FENCED_SINCE[call.api_key]:
        return KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH, error.detail)
    return error


def _check_named(transactional_id: str) -> None:
    if not transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")


# --- producer ids -------------------------------------------------------------------------------------------------


async def init_producer_id(
    broker: "Broker", call: Call, request: InitProducerIdRequest
) -> InitProducerIdResponse:
    """An id for a producer that numbers its batches.

    One without a transactional id gets a new one each time, also if it brings an old one along: nobody else could
    have been using that, so there is nobody to fence.
    """
    _check_producer(broker, call, request)
    if (request.producer_id < 0) != (request.producer_epoch < 0):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"producer id {request.producer_id} and epoch {request.producer_epoch} come together or not at all",
        )
    if request.transactional_id is not None:
        return await _init_transactional(broker, call, request, request.transactional_id)
    producer_id = await broker.producer_ids.next()
    return InitProducerIdResponse(
        error_code=ErrorCode.NONE, producer_id=producer_id, producer_epoch=FIRST_EPOCH
    )


async def _init_transactional(
    broker: "Broker", call: Call, request: InitProducerIdRequest, transactional_id: str
) -> InitProducerIdResponse:
    """The id goes to whoever asks last, and all who had it before are fenced."""
    _check_named(transactional_id)
    asker = asker_of(call)
    try:
        return await broker.transactions.run(
            transactional_id, lambda shard, now: shard.decide_init(request, asker, None, now)
        )
    except KafkaError as error:
        raise _told(error, call) from None


def _check_producer(broker: "Broker", call: Call, request: InitProducerIdRequest) -> None:
    """A transactional id is guarded by itself. Without one, who may write to any topic may number its batches."""
    allows = broker.authorizer.allows
    if request.transactional_id is not None:
        check_transactional_id(broker, call, Operation.WRITE, request.transactional_id)
    elif not allows(call, Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME) and not any(
        allows(call, Operation.WRITE, ResourceType.TOPIC, name) for name in broker.metadata.topics
    ):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "no topic is theirs to write to")


# --- what belongs to a transaction --------------------------------------------------------------------------------


async def add_partitions_to_txn(
    broker: "Broker", call: Call, request: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse:
    """Up to v3 a producer asks about its own transaction, since v4 brokers about those of their clients."""
    if call.version < FROM_BROKERS_SINCE:
        check_transactional_id(broker, call, Operation.WRITE, request.v3_and_below_transactional_id)
        transaction = _Transaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
        results = await _added(broker, call, transaction)
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)
    if not broker.authorizer.allows(call, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        raise KafkaError(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "only brokers ask about others' transactions"
        )

    async def answer(transaction: _Transaction) -> AddPartitionsToTxnResponse.Transaction:
        return AddPartitionsToTxnResponse.Transaction(
            transactional_id=transaction.transactional_id,
            topic_results=await _added(broker, call, transaction),
        )

    return AddPartitionsToTxnResponse(results_by_transaction=await one_by_one(request.transactions, answer))


async def _added(broker: "Broker", call: Call, transaction: _Transaction) -> list[AddedTopicResult]:
    """All or nothing: one partition that cannot be added keeps the others out, and they are told so."""
    places = [TopicPartition(topic.name, index) for topic in transaction.topics for index in topic.partitions]
    faults = {place: _partition_fault(broker, call, place) for place in places}
    if any(faults.values()):
        codes = {place: fault or ErrorCode.OPERATION_NOT_ATTEMPTED for place, fault in faults.items()}
    else:
        try:
            codes = await _add_or_verify(broker, call, transaction, list(faults))
        except KafkaError as error:
            codes = dict.fromkeys(places, _told(error, call).code)
    return _results(transaction.topics, codes)


def _partition_fault(broker: "Broker", call: Call, place: TopicPartition) -> ErrorCode:
    """NONE if a transaction may write there. Clients leave internal topics alone; brokers have looked already."""
    if call.version < FROM_BROKERS_SINCE and (
        place.topic in INTERNAL_TOPICS
        or not broker.authorizer.allows(call, Operation.WRITE, ResourceType.TOPIC, place.topic)
    ):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    image = broker.metadata.topics.get(place.topic)
    is_known = image is not None and 0 <= place.partition < len(image.partitions)
    return ErrorCode.NONE if is_known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def _add_or_verify(
    broker: "Broker", call: Call, transaction: _Transaction, places: Sequence[TopicPartition]
) -> dict[TopicPartition, ErrorCode]:
    transactional_id = transaction.transactional_id
    _check_named(transactional_id)
    producer = Producer(transaction.producer_id, transaction.producer_epoch)
    if transaction.verify_only:
        return await broker.transactions.read(
            transactional_id, lambda shard: shard.verify_partitions(transactional_id, producer, places)
        )
    version = 2 if call.version >= FROM_BROKERS_SINCE else 0
    await broker.transactions.run(
        transactional_id,
        lambda shard, now: shard.decide_add_partitions(
            transactional_id, producer, places, version, now, api_version=call.version
        ),
    )
    return dict.fromkeys(places, ErrorCode.NONE)


def _results(topics: Sequence[AddedTopic], codes: dict[TopicPartition, ErrorCode]) -> list[AddedTopicResult]:
    return [
        AddedTopicResult(
            name=topic.name,
            results_by_partition=[
                AddedTopicResult.Partition(
                    partition_index=index, partition_error_code=codes[TopicPartition(topic.name, index)]
                )
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]


async def add_offsets_to_txn(
    broker: "Broker", call: Call, request: AddOffsetsToTxnRequest
) -> AddOffsetsToTxnResponse:
    """The offsets of a group are written to a partition like any other: the one that its coordinator leads."""
    check_transactional_id(broker, call, Operation.WRITE, request.transactional_id)
    check_group(broker, call, Operation.READ, request.group_id)
    _check_named(request.transactional_id)
    places = [TopicPartition(broker.groups.topic, broker.groups.partition_of(request.group_id))]
    producer = Producer(request.producer_id, request.producer_epoch)
    try:
        await broker.transactions.run(
            request.transactional_id,
            lambda shard, now: shard.decide_add_partitions(
                request.transactional_id, producer, places, 0, now, api_version=call.version
            ),
        )
    except KafkaError as error:
        raise _told(error, call) from None
    return AddOffsetsToTxnResponse(error_code=ErrorCode.NONE)


# --- its end ------------------------------------------------------------------------------------------------------


async def end_txn(broker: "Broker", call: Call, request: EndTxnRequest) -> EndTxnResponse:
    """Answered when the outcome is certain; the markers follow."""
    check_transactional_id(broker, call, Operation.WRITE, request.transactional_id)
    _check_named(request.transactional_id)
    asker = asker_of(call)
    try:
        return await broker.transactions.run(
            request.transactional_id, lambda shard, now: shard.decide_end(request, asker, now)
        )
    except KafkaError as error:
        raise _told(error, call) from None


async def write_txn_markers(
    broker: "Broker", call: Call, request: WriteTxnMarkersRequest
) -> WriteTxnMarkersResponse:
    """From coordinators, and from whoever aborts a transaction that hangs: they may alter the cluster."""
    allows = broker.authorizer.allows
    if not allows(call, Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME) and not allows(
        call, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME
    ):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "markers are not theirs to write")
    written = await asyncio.gather(*(_written(broker, marker) for marker in request.markers))
    return WriteTxnMarkersResponse(markers=written)


async def _written(broker: "Broker", marker: _Marker) -> _Marked:
    codes = await broker.coordination.markers.write(marker)
    return _Marked(
        producer_id=marker.producer_id,
        topics=[
            _Marked.Topic(
                name=topic.name,
                partitions=[
                    _Marked.Topic.Partition(
                        partition_index=index, error_code=codes[TopicPartition(topic.name, index)]
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in marker.topics
        ],
    )
