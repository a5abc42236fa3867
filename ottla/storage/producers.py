"""What the log knows of its producers: who may write next, what was a retry, which transactions are open.

This is state of the log, not of the broker: it is rebuilt from the batches themselves, so every replica and every
restart comes to the same judgement. `check` decides and changes nothing; `apply` records a batch that was written.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.core.errors import ErrorCode, KafkaError
from ottla.storage.txn_index import AbortedTxn

BATCHES_KEPT = 5  # as many as an idempotent producer may have in flight
SEQUENCE_MAX = 2**31 - 1
NO_EPOCH = -1
NO_OFFSET = -1


class Stamp(NamedTuple):
    """What a batch header says about its producer, and where the batch was or will be written."""

    producer_id: int
    epoch: int
    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int
    is_transactional: bool


class Marker(NamedTuple):
    """The end of a transaction, as a control batch in the log says it."""

    producer_id: int
    epoch: int
    is_commit: bool
    coordinator_epoch: int
    offset: int
    timestamp: int


class WrittenBatch(NamedTuple):
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta

    @property
    def first_sequence(self) -> int:
        return sequence_before(self.last_sequence, self.offset_delta)


@dataclass(slots=True)
class Producer:
    """One producer id as this log has seen it."""

    producer_id: int
    epoch: int = NO_EPOCH
    batches: list[WrittenBatch] = field(default_factory=list)
    """The latest, at most BATCHES_KEPT. There may be many producers, and a deque takes 600 bytes."""
    coordinator_epoch: int = -1
    txn_first_offset: int = NO_OFFSET
    last_timestamp: int = -1

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else -1


def sequence_after(sequence: int, count: int) -> int:
    """Sequences wrap from 2^31 - 1 to 0."""
    return (sequence + count) % (SEQUENCE_MAX + 1)


def sequence_before(sequence: int, count: int) -> int:
    return (sequence - count) % (SEQUENCE_MAX + 1) if sequence >= 0 else sequence


class Producers:
    """All producers of one log."""

    def __init__(self) -> None:
        self._producers: dict[int, Producer] = {}
        # first offset -> producer id, oldest first: offsets only grow, so insertion order is their order.
        self._open_txns: dict[int, int] = {}
        # first offset -> offset of the marker, for transactions whose end is not yet below the high watermark.
        self._unreplicated: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._producers)

    def get(self, producer_id: int) -> Producer | None:
        return self._producers.get(producer_id)

    def all(self) -> Iterable[Producer]:
        return self._producers.values()

    @property
    def first_unstable_offset(self) -> int | None:
        """Where the oldest transaction starts whose end the reader may not rely on yet."""
        first = next(iter(self._open_txns), None)
        if self._unreplicated:
            oldest = min(self._unreplicated)
            return oldest if first is None else min(first, oldest)
        return first

    def has_open_since(self, time_ms: int) -> bool:
        """Is a transaction open whose producer was last heard of at `time_ms` or before?"""
        return any(
            self._producers[producer_id].last_timestamp <= time_ms for producer_id in self._open_txns.values()
        )

    def check(self, stamp: Stamp) -> WrittenBatch | None:
        """May this producer write this batch? Returns the batch that it repeats, if it does."""
        producer = self._producers.get(stamp.producer_id)
        if producer is None:
            return None  # its state expired or was deleted with its records: any sequence is a beginning
        self.check_epoch(stamp)
        if stamp.epoch == producer.epoch and (repeated := self._find_repeated(producer, stamp)):
            return repeated
        if not self._is_in_sequence(producer, stamp):
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {stamp.producer_id} sent sequence {stamp.first_sequence} after {producer.last_sequence}",
            )
        if producer.txn_first_offset != NO_OFFSET and not stamp.is_transactional:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {stamp.producer_id} writes outside the transaction it has open",
            )
        return None

    def check_epoch(self, stamp: Stamp) -> None:
        """Raise if somebody newer has written under this id."""
        producer = self._producers.get(stamp.producer_id)
        if producer is not None and stamp.epoch < producer.epoch:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {stamp.producer_id} writes with epoch {stamp.epoch}, the log has seen {producer.epoch}",
            )

    @staticmethod
    def _find_repeated(producer: Producer, stamp: Stamp) -> WrittenBatch | None:
        for batch in producer.batches:
            if (batch.last_sequence, batch.first_sequence) == (stamp.last_sequence, stamp.first_sequence):
                return batch
        return None

    @staticmethod
    def _is_in_sequence(producer: Producer, stamp: Stamp) -> bool:
        if producer.epoch == NO_EPOCH:
            return True
        if stamp.epoch != producer.epoch:
            return stamp.first_sequence == 0
        return stamp.first_sequence == sequence_after(producer.last_sequence, 1)

    def check_marker(self, marker: Marker) -> None:
        """May this coordinator end this transaction?"""
        producer = self._producers.get(marker.producer_id)
        if producer is None:
            return
        if marker.epoch < producer.epoch:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"marker for producer {marker.producer_id} with epoch {marker.epoch}, "
                f"the log has seen {producer.epoch}",
            )
        if producer.coordinator_epoch > marker.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"coordinator epoch {marker.coordinator_epoch} is older than {producer.coordinator_epoch}",
            )

    def apply(self, stamp: Stamp) -> None:
        """A batch of this producer was written."""
        producer = self._producers.get(stamp.producer_id)
        if producer is None:
            producer = self._producers[stamp.producer_id] = Producer(stamp.producer_id)
        if producer.epoch != stamp.epoch:
            producer.epoch = stamp.epoch
            producer.batches.clear()
        delta = stamp.last_offset - stamp.first_offset
        if len(producer.batches) == BATCHES_KEPT:
            del producer.batches[0]
        producer.batches.append(WrittenBatch(stamp.last_sequence, stamp.last_offset, delta, stamp.timestamp))
        producer.last_timestamp = stamp.timestamp
        if stamp.is_transactional and producer.txn_first_offset == NO_OFFSET:
            producer.txn_first_offset = stamp.first_offset
            self._open_txns[stamp.first_offset] = stamp.producer_id

    def apply_marker(self, marker: Marker) -> AbortedTxn | None:
        """A transaction ended. Returns what the transaction index must remember, if it was aborted."""
        producer = self._producers.setdefault(marker.producer_id, Producer(marker.producer_id))
        if marker.epoch > producer.epoch:
            producer.epoch = marker.epoch
            producer.batches.clear()
        producer.coordinator_epoch = marker.coordinator_epoch
        producer.last_timestamp = marker.timestamp
        first = producer.txn_first_offset
        if first == NO_OFFSET:
            return None  # it wrote nothing here
        producer.txn_first_offset = NO_OFFSET
        self._open_txns.pop(first, None)
        self._unreplicated[first] = marker.offset
        if marker.is_commit:
            return None
        oldest_open = next(iter(self._open_txns), None)
        stable = marker.offset + 1 if oldest_open is None else oldest_open
        return AbortedTxn(marker.producer_id, first, marker.offset, stable)

    def replicated(self, high_watermark: int) -> None:
        """Transactions whose marker lies below the high watermark are settled for readers."""
        if self._unreplicated:
            self._unreplicated = {f: m for f, m in self._unreplicated.items() if m >= high_watermark}

    def forget_below(self, log_start_offset: int) -> None:
        """The log start moved: what ended before it can no longer be unstable."""
        self._unreplicated = {f: m for f, m in self._unreplicated.items() if m >= log_start_offset}

    def expire(self, now_ms: int, expiration_ms: int) -> list[int]:
        """Drop producers that were silent for too long and have no transaction open. Returns their ids."""
        late = [
            p.producer_id
            for p in self._producers.values()
            if p.txn_first_offset == NO_OFFSET and now_ms - p.last_timestamp >= expiration_ms
        ]
        for producer_id in late:
            del self._producers[producer_id]
        return late

    def restore(self, producers: Iterable[Producer]) -> None:
        """Replace everything by what a snapshot holds."""
        self._producers = {p.producer_id: p for p in producers}
        open_txns = sorted(
            (p.txn_first_offset, p.producer_id)
            for p in self._producers.values()
            if p.txn_first_offset != NO_OFFSET
        )
        self._open_txns = dict(open_txns)
        self._unreplicated = {}
