"""Is a batch part of a transaction that its coordinator knows of? (KIP-890)

A producer that was declared dead may still have a batch on its way. Written after the marker that ended its
transaction, it would open another one that nobody ends, and hold back readers for good. So the first batch that a
transaction sends to a partition is written only when the coordinator has confirmed that the partition belongs to it. A
marker that comes while the coordinator is being asked breaks the guard: then the batch is too late after all.

Newer producers do not announce partitions: their first batch does, and the coordinator adds the partition.
"""

import asyncio
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.core.types import Buffer
from ottla.records.batch import HEADER
from ottla.replication.machine import Producer
from ottla.replication.partition import Partition
from ottla.storage.producers import NO_OFFSET

if TYPE_CHECKING:
    from ottla.broker.coordinators import Coordinator
    from ottla.broker.remote_verification import RemoteVerification
    from ottla.transactions.shard import TransactionShard

ADDS_SINCE = 12
"""From this version of Produce on, a batch announces its partition by itself."""
ABORTABLE_SINCE = 11
"""From this version of Produce on, clients know TRANSACTION_ABORTABLE."""
_ADDING_VERSION = 2  # of transactions
_BUSY_ATTEMPTS, _BUSY_SECONDS = 5, 0.02  # for the markers of the transaction before
_BUSY = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.OPERATION_NOT_ATTEMPTED,  # the coordinator has not heard of another partition of the request yet
}
"""Worth another try, which a producer makes when it hears NOT_ENOUGH_REPLICAS."""


class Guard:
    """Holds from before the coordinator is asked until the batch is written, unless a marker breaks it."""

    __slots__ = ("is_broken", "place", "producer")

    def __init__(self, place: TopicPartition, producer: Producer) -> None:
        self.place = place
        self.producer = producer
        self.is_broken = False


class Guards:
    """Who is being verified at the moment."""

    def __init__(self) -> None:
        self._held: dict[tuple[TopicPartition, int], list[Guard]] = {}

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, place: TopicPartition, producer: Producer) -> Guard:
        guard = Guard(place, producer)
        self._held.setdefault((place, producer.id), []).append(guard)
        return guard

    def release(self, guard: Guard) -> None:
        key = guard.place, guard.producer.id
        held = self._held.get(key)
        if held is not None and guard in held:
            held.remove(guard)
            if not held:
                del self._held[key]

    def end(self, place: TopicPartition, producer: Producer) -> None:
        """A marker was written: what was verified for this producer, up to its epoch, counts no more. One of a later
        epoch belongs to the next transaction, which newer producers begin while the markers of the last are written."""
        for guard in self._held.get((place, producer.id), ()):
            if guard.producer.epoch <= producer.epoch:
                guard.is_broken = True


class TransactionalBatch:
    """What the header of a transactional batch says about its producer."""

    __slots__ = ("first_sequence", "guard", "is_due", "producer")

    def __init__(self, producer: Producer, first_sequence: int) -> None:
        self.producer = producer
        self.first_sequence = first_sequence
        self.guard: Guard | None = None
        self.is_due = False
        """Must the coordinator be asked first?"""

    @classmethod
    def of(cls, records: Buffer) -> "TransactionalBatch":
        """For records of which `is_transactional` holds."""
        header = HEADER.unpack_from(records)
        return cls(Producer(header[9], header[10]), header[11])

    def check(self) -> None:
        """Raise if its transaction ended since it came, while it was opened or the coordinator was asked."""
        if self.guard is not None and self.guard.is_broken:
            detail = f"the transaction of producer {self.producer.id} ended before this batch came"
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, detail)


def is_open(partition: Partition, producer: Producer) -> bool:
    """Has the log seen a batch of this transaction, and no end of it?"""
    known = partition.log.producers.get(producer.id)
    return known is not None and known.txn_first_offset != NO_OFFSET and known.epoch == producer.epoch


class Verifier:
    """Asks coordinators on behalf of the partitions that this broker leads."""

    def __init__(
        self,
        transactions: "Coordinator[TransactionShard]",
        guards: Guards,
        is_enabled: Callable[[], bool],
        elsewhere: "RemoteVerification | None" = None,
    ) -> None:
        """`elsewhere` finds coordinators that are on other brokers."""
        self._elsewhere = elsewhere
        self._transactions = transactions
        self._is_enabled = is_enabled
        self.guards = guards

    def is_due(self, partition: Partition, batch: TransactionalBatch, version: int) -> bool:
        """Must the coordinator be asked before this batch is written?"""
        if version < ADDS_SINCE and not self._is_enabled():
            return False
        return not is_open(partition, batch.producer)

    def check_sequence(self, partition: Partition, batch: TransactionalBatch, version: int) -> None:
        """Where each transaction has an epoch of its own, what the log knows nothing of begins with 0: anything else
        would have lost its beginning."""
        if version < ADDS_SINCE or batch.first_sequence == 0:
            return
        if partition.log.producers.get(batch.producer.id) is None:
            detail = f"producer {batch.producer.id} begins with sequence {batch.first_sequence}"
            raise KafkaError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, detail)

    async def verify(
        self, transactional_id: str, producer: Producer, places: Collection[TopicPartition], version: int
    ) -> dict[TopicPartition, KafkaError]:
        """Why which of these partitions may not be written to; nothing about those that may."""
        codes = await self.ask(transactional_id, producer, places, adds=version >= ADDS_SINCE)
        return {
            place: _told(code, producer, version) for place, code in codes.items() if code != ErrorCode.NONE
        }

    async def ask(
        self, transactional_id: str, producer: Producer, places: Collection[TopicPartition], *, adds: bool
    ) -> dict[TopicPartition, ErrorCode]:
        """What the coordinator says about these partitions, which it `adds` or only verifies. To be added, they wait
        a moment for the transaction before to end."""
        for _ in range(_BUSY_ATTEMPTS if adds else 0):
            codes = await self._ask(transactional_id, producer, places, adds=adds)
            if ErrorCode.CONCURRENT_TRANSACTIONS not in codes.values():
                return codes
            await asyncio.sleep(_BUSY_SECONDS)
        return await self._ask(transactional_id, producer, places, adds=adds)

    async def _ask(
        self, transactional_id: str, producer: Producer, places: Collection[TopicPartition], *, adds: bool
    ) -> dict[TopicPartition, ErrorCode]:
        if self._elsewhere is not None:
            coordinator = self._elsewhere.coordinator_of(transactional_id)
            if coordinator is not None:
                return await self._elsewhere.ask(coordinator, transactional_id, producer, places, adds=adds)
        try:
            if not adds:
                return await self._transactions.read(
                    transactional_id,
                    lambda shard: shard.verify_partitions(transactional_id, producer, places),
                )
            await self._transactions.run(
                transactional_id,
                lambda shard, now: shard.decide_add_partitions(
                    transactional_id, producer, places, _ADDING_VERSION, now
                ),
            )
        except KafkaError as error:
            return dict.fromkeys(places, error.code)
        return dict.fromkeys(places, ErrorCode.NONE)


def _told(code: ErrorCode, producer: Producer, version: int) -> KafkaError:
    """The error as a producer of this version understands it."""
    if code in _BUSY:
        return KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, f"the transaction's coordinator answers {code.name}")
    if code is ErrorCode.PRODUCER_FENCED:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    if code in (ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE):
        is_known = version >= ABORTABLE_SINCE
        code = ErrorCode.TRANSACTION_ABORTABLE if is_known else ErrorCode.INVALID_TXN_STATE
    return KafkaError(code, f"the coordinator does not vouch for producer {producer.id}")
