"""A partition's log as a list: what `ReplicaLog` asks for, and what is left of it when the lights go out.

Every record is a batch of its own. What the log knows of producers and leader epochs is kept by the classes that the
real log has; it is truncated together with the log. A kill leaves everything that was written, for the page cache is
the kernel's. A power loss leaves what was flushed, and of the rest some part that the seed decides.
"""

import random
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from ottla.core.errors import ErrorCode, KafkaError
from ottla.storage.epochs import ANY_EPOCH, LeaderEpochs
from ottla.storage.log import Appended
from ottla.storage.producers import Marker, Producers, Stamp
from ottla.storage.txn_index import AbortedTxn

_NO_FILES: Any = None


class Kind(IntEnum):
    """What a record is."""

    DATA = 0
    IN_TRANSACTION = 1
    COMMIT = 2
    ABORT = 3


class Record(NamedTuple):
    """One record; `epoch` is that of the leader that wrote it, -1 before it is written."""

    value: str
    producer_id: int = -1
    producer_epoch: int = 0
    sequence: int = -1
    kind: Kind = Kind.DATA
    epoch: int = -1
    offset: int = -1

    @property
    def is_marker(self) -> bool:
        return self.kind >= Kind.COMMIT


class Config:
    """The settings of a topic that a partition looks at."""

    def __init__(self, min_insync_replicas: int = 1, *, flushes_before_ack: bool = False) -> None:
        self.min_insync_replicas = min_insync_replicas
        self.flush_messages = 1 if flushes_before_ack else 1 << 62


class ObjectEpochs(LeaderEpochs):
    """Leader epochs that are on the disk as soon as they are known: the real file is synced before the record."""

    def __init__(self) -> None:
        super().__init__(_NO_FILES, "")

    def save(self) -> None: ...


class ObjectLog:
    """The records from `log_start_offset` to `end_offset`, and the flushed part of them."""

    def __init__(self, config: Config, *, flushes_before_ack: bool = False) -> None:
        self.config: Any = config
        self.records: list[Record] = []
        self.epochs = ObjectEpochs()
        self.producers = Producers()
        self.aborted: list[AbortedTxn] = []
        self.log_start_offset = 0
        self.end_offset = 0
        self.high_watermark = 0
        self.flushed = 0
        """Up to here the records survive a power loss."""
        self.checkpoint = 0
        """The high watermark that was written to the disk last."""
        self.shortest = 0
        """How short the log has been since somebody looked: below this it is what it was."""
        self.flushes_before_ack = flushes_before_ack
        self.failure: OSError | None = None

    # --- writing ------------------------------------------------------------------------------------------------

    def append(self, data: Any, leader_epoch: int, now_ms: int, *, client: bool = True) -> Appended:
        """Write a producer's record as leader. A retry writes nothing, and gets the offset of the first time."""
        record: Record = data
        offset = self.end_offset
        if record.is_marker:
            self.producers.check_marker(_marker(record, offset))
        elif record.producer_id >= 0:
            repeated = self.producers.check(_stamp(record, offset))
            if repeated is not None:
                return Appended(repeated.first_offset, repeated.last_offset, is_duplicate=True)
        self._write(record._replace(epoch=leader_epoch, offset=offset))
        return Appended(offset, offset)

    def append_fetched(self, data: Any, now_ms: int, epoch_max: int = ANY_EPOCH) -> Appended | None:
        """Write what a follower fetched: records keep their offsets and epochs."""
        records: Sequence[Record] = data
        if not records:
            return None
        base = records[0].offset
        if base != self.end_offset:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, f"{base} does not follow {self.end_offset}"
            )
        for record in records:
            self._write(record)
        return Appended(base, self.end_offset - 1)

    def _write(self, record: Record) -> None:
        self.epochs.follow(record.epoch, self.end_offset)
        self._account(record, self.end_offset)
        self.records.append(record)
        self.end_offset += 1
        if self.flushes_before_ack:
            self.flushed = self.end_offset

    def _account(self, record: Record, offset: int) -> None:
        if record.is_marker:
            aborted = self.producers.apply_marker(_marker(record, offset))
            if aborted is not None:
                self.aborted.append(aborted)
        elif record.producer_id >= 0:
            self.producers.apply(_stamp(record, offset))

    # --- reading ------------------------------------------------------------------------------------------------

    def slice(self, offset: int, end: int, count_max: int) -> tuple[Record, ...]:
        """Records from `offset` on, below `end`: what `append_fetched` takes."""
        if not self.log_start_offset <= offset <= self.end_offset:
            detail = f"offset {offset} is not within {self.log_start_offset} to {self.end_offset}"
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, detail)
        return tuple(self.records[offset : min(end, offset + count_max)])

    def read(
        self, offset: int, bytes_max: int, limit: int | None = None, *, at_least_one: bool = True
    ) -> Any:
        return self.slice(offset, self.end_offset if limit is None else limit, max(1, bytes_max))

    def load(self, found: Any) -> Any:
        return found

    @property
    def last_stable_offset(self) -> int:
        """Below this, every transaction has ended and its end is replicated."""
        unstable = self.producers.first_unstable_offset
        return self.high_watermark if unstable is None else min(self.high_watermark, unstable)

    def advance_high_watermark(self, offset: int) -> None:
        offset = min(offset, self.end_offset)
        if offset > self.high_watermark:
            self.high_watermark = offset
            self.producers.replicated(offset)

    @property
    def recovery_point(self) -> int:
        return self.flushed

    # --- cutting ------------------------------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> None:
        """Forget the record at `offset`, and all behind it. Lasts on return."""
        if offset < self.end_offset:
            self._cut_at(max(offset, 0))
            self.flushed = min(self.flushed, self.end_offset)
        self.epochs.truncate_from_end(offset)

    def restart_at(self, offset: int) -> None:
        """Forget everything. Offsets are places in the list, so what lies before `offset` is kept as holes."""
        self._cut_at(0)
        self.epochs.truncate_from_end(0)
        self.records = [Record("")] * offset
        self.log_start_offset = self.end_offset = self.high_watermark = self.flushed = offset

    def advance_log_start(self, offset: int) -> None:
        """Records before `offset` are not to be read any more."""
        if offset > self.high_watermark:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{offset} lies beyond {self.high_watermark}")
        self.log_start_offset = max(self.log_start_offset, offset)

    def _cut_at(self, offset: int) -> None:
        del self.records[offset:]
        self.end_offset = offset
        self.shortest = min(self.shortest, offset)
        self.high_watermark = min(self.high_watermark, offset)
        self.checkpoint = min(self.checkpoint, offset)
        self.producers, self.aborted = Producers(), []
        for at, record in enumerate(self.records):
            self._account(record, at)
        self.producers.replicated(self.high_watermark)

    # --- lives --------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        self.flushed = self.end_offset

    def write_checkpoint(self) -> None:
        self.checkpoint = self.high_watermark

    def lose_power(self, chance: random.Random) -> int:
        """Some part of what was not flushed is gone; how many records."""
        kept = chance.randint(self.flushed, self.end_offset)
        lost = self.end_offset - kept
        if lost:
            self._cut_at(kept)
            self.epochs.truncate_from_end(kept)
        return lost

    def reopen(self) -> "ObjectLog":
        """The log as the next life of its broker finds it: producers are rebuilt, the watermark is the one on disk."""
        again = ObjectLog(self.config, flushes_before_ack=self.flushes_before_ack)
        again.records, again.end_offset = self.records, self.end_offset
        again.epochs.entries = self.epochs.entries
        again.log_start_offset, again.shortest = self.log_start_offset, self.shortest
        again.flushed = self.flushed  # reading a log again syncs nothing
        again.high_watermark = again.checkpoint = max(
            self.log_start_offset, min(self.checkpoint, self.end_offset)
        )
        for at, record in enumerate(again.records):
            again._account(record, at)
        again.producers.replicated(again.high_watermark)
        return again


def _stamp(record: Record, offset: int) -> Stamp:
    is_transactional = record.kind is Kind.IN_TRANSACTION
    return Stamp(
        record.producer_id,
        record.producer_epoch,
        record.sequence,
        record.sequence,
        offset,
        offset,
        0,
        is_transactional,
    )


def _marker(record: Record, offset: int) -> Marker:
    return Marker(
        record.producer_id,
        record.producer_epoch,
        record.kind is Kind.COMMIT,
        coordinator_epoch=0,
        offset=offset,
        timestamp=0,
    )
