"""Offsets committed within a transaction: they count once it commits.

The transaction must know that it writes to the partition that holds the group's offsets, for only where it knows of it
does it put its marker: offsets written elsewhere would be pending for ever. Newer clients leave it to this request to
tell the transaction; older ones have told it before, and it is asked whether they did (KIP-890). A marker that comes
while it is being asked has ended the very transaction: then the commit is too late.
"""

import dataclasses
from typing import TYPE_CHECKING

from ottla.broker.authorizer import Operation
from ottla.broker.call import Call
from ottla.broker.handlers.asking import asker_of, check_group, check_group_id, check_transactional_id
from ottla.broker.handlers.sieve import Sieve
from ottla.broker.verification import is_open
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.protocol.messages.transactions import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from ottla.replication.machine import Producer

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

ADDS_SINCE = 5
"""From this version on nobody sends AddOffsetsToTxn before it."""
ABORTABLE_SINCE = 4
LOADING_SINCE = 2
"""Older producers may crash when they are told of a coordinator that loads."""
_NOT_HEARD = {
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
"""What becomes of a transaction's coordinator that does not answer, or has not heard of the topic of offsets yet: the
client is to ask again, and need not look for anybody else."""


async def txn_offset_commit(
    broker: "Broker", call: Call, request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse:
    """As OffsetCommit, for the group that the transaction has read with."""
    check_transactional_id(broker, call, Operation.WRITE, request.transactional_id)
    check_group(broker, call, Operation.READ, request.group_id)
    sieve = Sieve(broker, call, request.topics)
    if sieve.accepted:
        try:
            accepted = dataclasses.replace(request, topics=sieve.accepted)
            sieve.fill(await _commit(broker, call, accepted))
        except KafkaError as error:
            sieve.fail(KafkaError(_told(error.code, call.version), error.detail))
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponse.Topic(name=topic.name, partitions=partitions)
            for topic, partitions in sieve.answers(TxnOffsetCommitResponse.Topic.Partition)
        ]
    )


async def _commit(broker: "Broker", call: Call, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
    check_group_id(request.group_id)
    place = TopicPartition(broker.groups.topic, broker.groups.partition_of(request.group_id))
    guards = broker.verifier.guards
    guard = guards.hold(place, Producer(request.producer_id, request.producer_epoch))
    try:
        adds = call.version >= ADDS_SINCE
        if adds or broker.config.transaction_partition_verification_enable:
            await _vouch(broker, request, place, adds=adds)
        if guard.is_broken:
            raise KafkaError(ErrorCode.TRANSACTION_ABORTABLE, f"a marker for {place} came first")
        asker = asker_of(call)
        return await broker.groups.run(
            request.group_id, lambda shard, now: shard.decide_txn_commit(request, asker, now)
        )
    finally:
        guards.release(guard)


async def _vouch(
    broker: "Broker", request: TxnOffsetCommitRequest, place: TopicPartition, *, adds: bool
) -> None:
    """Raise unless the coordinator knows that the transaction writes there. If offsets of this very transaction lie
    there already, it was asked before."""
    partition = broker.replicas.partitions.get(place)
    producer = Producer(request.producer_id, request.producer_epoch)
    if partition is not None and is_open(partition, producer):
        return
    codes = await broker.verifier.ask(request.transactional_id, producer, [place], adds=adds)
    if codes[place] != ErrorCode.NONE:
        detail = f"{request.transactional_id!r} does not vouch for producer {producer.id}"
        raise KafkaError(_NOT_HEARD.get(codes[place], codes[place]), detail)


def _told(code: ErrorCode, version: int) -> ErrorCode:
    """The error in words that a client of this version understands. One that is fenced by its epoch may go on with
    another, so it is not told that it was replaced."""
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE_SINCE:
        return ErrorCode.INVALID_TXN_STATE
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < LOADING_SINCE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return code
