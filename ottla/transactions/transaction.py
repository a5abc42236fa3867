"""A transactional id: who owns it, and how far its transaction is. A value; every step makes a new one.

Steps keep the table of `states.py`, and they keep epochs: within one producer id an epoch never goes back, and a new id
starts at 0. A step is written as one record that holds all there is to know, so the last one replays to the same value.
"""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from ottla.core.errors import OttlaError
from ottla.core.ids import TopicPartition
from ottla.protocol.messages.coordinator_records import TransactionLogKey, TransactionLogValue
from ottla.replication.machine import Entry, Producer
from ottla.transactions.states import PREDECESSORS, State

NO_PRODUCER_ID = -1
NO_EPOCH = -1
NO_TIMESTAMP = -1
EPOCH_MAX = 32767
LAST_EPOCH = EPOCH_MAX - 1
"""The last one a client gets. The one above is the coordinator's own, so that it can always fence."""
BUMPING_VERSION = 2
"""The transaction version from which on every end of a transaction raises the epoch (KIP-890)."""


class NoProducerIds(OttlaError):
    """The block of producer ids is used up. Nothing was changed: fetch another block, and decide again."""


class Transaction(NamedTuple):
    """The state of one transactional id."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: State
    partitions: frozenset[TopicPartition]
    last_update_ms: int
    start_ms: int = NO_TIMESTAMP
    previous_producer_id: int = NO_PRODUCER_ID
    """The producer id before the last step; another one if epochs had run out."""
    next_producer_id: int = NO_PRODUCER_ID
    """The one to go on with when all markers are written, if epochs have run out."""
    client_version: int = 0
    """The transaction version that the client speaks, as far as its last request told."""

    @property
    def producer(self) -> Producer:
        return Producer(self.producer_id, self.producer_epoch)

    @property
    def is_exhausted(self) -> bool:
        """Whether the next owner needs another producer id."""
        return self.producer_epoch >= LAST_EPOCH

    @property
    def bumped_from(self) -> Producer | None:
        """What the client called itself in the transaction that ended last, if its end raised the epoch."""
        if self.client_version < BUMPING_VERSION or not (self.state.is_prepared or self.state.is_complete):
            return None
        if self.state.is_complete and self.producer_epoch == 0:
            return Producer(self.previous_producer_id, LAST_EPOCH)
        return Producer(self.producer_id, self.producer_epoch - 1)

    def step(self, state: State, **changes: object) -> "Transaction":
        """The same id, one step on."""
        assert self.state in PREDECESSORS[state], (
            f"{self.transactional_id}: {self.state.name} -> {state.name}"
        )
        changes.setdefault("previous_producer_id", self.producer_id)
        after = self._replace(state=state, **changes)  # type: ignore[arg-type]  # callers name fields
        assert after.producer_id != self.producer_id or after.producer_epoch >= self.producer_epoch
        assert 0 <= after.producer_epoch <= EPOCH_MAX
        return after

    def bumped(self, producer: Producer, timeout_ms: int, now_ms: int) -> "Transaction":
        """Its owner, old or new, goes by this id and epoch from now on."""
        return self.step(
            State.EMPTY,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            start_ms=NO_TIMESTAMP,
            last_update_ms=now_ms,
            next_producer_id=NO_PRODUCER_ID,
        )

    def added(self, partitions: Collection[TopicPartition], version: int, now_ms: int) -> "Transaction":
        """Partitions join; the first ones start the transaction."""
        return self.step(
            State.ONGOING,
            partitions=self.partitions | frozenset(partitions),
            start_ms=now_ms if self.state.is_idle else self.start_ms,
            last_update_ms=now_ms,
            client_version=version,
        )

    def prepared(self, is_commit: bool, version: int, next_producer_id: int, now_ms: int) -> "Transaction":
        """The outcome is decided. Where the version says so, the epoch of the transaction is over with it."""
        has_begun = self.state is State.ONGOING
        return self.step(
            State.PREPARE_COMMIT if is_commit else State.PREPARE_ABORT,
            # Never above the highest, even if a log says that somebody was given that one.
            producer_epoch=min(self.producer_epoch + (version >= BUMPING_VERSION), EPOCH_MAX),
            next_producer_id=next_producer_id,
            start_ms=self.start_ms if has_begun else now_ms,
            last_update_ms=now_ms,
            client_version=version,
        )

    def completed(self, now_ms: int) -> "Transaction":
        """Every partition has its marker."""
        rotates = self.next_producer_id != NO_PRODUCER_ID
        return self.step(
            State.COMPLETE_COMMIT if self.state is State.PREPARE_COMMIT else State.COMPLETE_ABORT,
            producer_id=self.next_producer_id if rotates else self.producer_id,
            producer_epoch=0 if rotates else self.producer_epoch,
            next_producer_id=NO_PRODUCER_ID,
            partitions=frozenset(),
            last_update_ms=now_ms,
        )

    def to_entry(self) -> Entry:
        """The record that holds this state, byte for byte as Kafka 4.3 writes it: with no list at all when empty."""
        topics = [
            TransactionLogValue.Topic(topic=topic, partition_ids=numbers)
            for topic, numbers in by_topic(self.partitions).items()
        ]
        value = TransactionLogValue(
            producer_id=self.producer_id,
            previous_producer_id=self.previous_producer_id,
            next_producer_id=self.next_producer_id,
            producer_epoch=self.producer_epoch,
            transaction_timeout_ms=self.timeout_ms,
            transaction_status=int(self.state),
            transaction_partitions=None if self.state is State.EMPTY else topics,
            transaction_last_update_timestamp_ms=self.last_update_ms,
            transaction_start_timestamp_ms=self.start_ms,
            client_transaction_version=self.client_version,
        )
        return Entry(TransactionLogKey(transactional_id=self.transactional_id), value)


def of_record(transactional_id: str, value: TransactionLogValue) -> Transaction | None:
    """The state that a record holds, or None when it is one that no coordinator leaves behind."""
    try:
        state = State(value.transaction_status)
    except ValueError:
        return None
    if state in (State.DEAD, State.PREPARE_EPOCH_FENCE) or value.producer_id < 0 or value.producer_epoch < 0:
        return None
    return Transaction(
        transactional_id,
        value.producer_id,
        value.producer_epoch,
        value.transaction_timeout_ms,
        state,
        frozenset(
            TopicPartition(topic.topic, number)
            for topic in value.transaction_partitions or ()
            for number in topic.partition_ids
        ),
        value.transaction_last_update_timestamp_ms,
        value.transaction_start_timestamp_ms,
        value.previous_producer_id,
        value.next_producer_id,
        value.client_transaction_version,
    )


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Numbers of partitions by topic, both in order."""
    numbers: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        numbers.setdefault(topic, []).append(number)
    return numbers
