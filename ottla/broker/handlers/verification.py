"""Whether a transaction knows of the partitions that it is about to write to (KIP-890).

Only where it knows of them will it put its markers: what is written elsewhere would hang there for ever.
"""

from collections.abc import Collection
from typing import TYPE_CHECKING

from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.replication.machine import Producer

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


async def add_to_transaction(
    broker: "Broker", transactional_id: str, producer: Producer, partitions: Collection[TopicPartition]
) -> None:
    """For clients of transaction version 2, whose first write to a partition makes it part of the transaction."""
    try:
        await broker.transactions.run(
            transactional_id,
            lambda shard, now: shard.decide_add_partitions(transactional_id, producer, partitions, now),
        )
    except KafkaError as error:
        raise KafkaError(_told(error.code, knows_abortable=True), error.detail) from error


async def verify_in_transaction(
    broker: "Broker",
    transactional_id: str,
    producer: Producer,
    partitions: Collection[TopicPartition],
    *,
    knows_abortable: bool,
) -> None:
    """For clients that have added the partitions before. Raises the first fault that there is."""
    faults = await broker.transactions.read(
        transactional_id, lambda shard: shard.verify_partitions(transactional_id, producer, partitions)
    )
    for partition, code in faults.items():
        if code != ErrorCode.NONE:
            raise KafkaError(_told(code, knows_abortable=knows_abortable), f"{partition} in a transaction")


def _told(code: ErrorCode, *, knows_abortable: bool) -> ErrorCode:
    """A producer that writes can be fenced by epoch only: it may go on with a new one. And the code for a transaction
    that must be aborted is young."""
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and not knows_abortable:
        return ErrorCode.INVALID_TXN_STATE
    return code
