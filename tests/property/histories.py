"""Random histories of a partition, for tests of compaction: what was written, batch by batch, into which segments.

All of it a broker could have written: producers with and without ids, transactions that were committed, aborted or
left open, tombstones, headers, every codec, several leader epochs, and a few records without a key from before the
topic was compacted. The same seed gives the same bytes.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.records.builder import build
from ottla.records.compression import Codec
from ottla.records.control import ControlType, build_marker
from ottla.records.record import Record
from ottla.storage.log import Log

START_MS = 1_700_000_000_000


class Written(NamedTuple):
    """One append. `rolls` if the active segment is closed behind it."""

    data: bytes
    is_client: bool
    leader_epoch: int
    now_ms: int
    rolls: bool


@dataclass
class Writer:
    """A producer with an id."""

    id: int
    is_transactional: bool
    epoch: int = 0
    sequence: int = 0
    is_open: bool = False
    """Has it written anything since its last marker?"""

    def next_epoch(self) -> None:
        self.epoch, self.sequence = self.epoch + 1, 0


@dataclass
class History:
    """Goes on as long as one likes; `now_ms` is the time of the last append."""

    source: random.Random
    now_ms: int = START_MS
    leader_epoch: int = 1
    writers: list[Writer] = field(default_factory=list)

    def __post_init__(self) -> None:
        pick = self.source
        self.writers = [Writer(1000 + number, number % 3 > 0) for number in range(pick.randint(0, 6))]
        self.key_count = pick.choice([1, 3, 8, 8, 40])
        self.codecs = pick.choice([[Codec.NONE], list(Codec), [pick.choice(list(Codec))]])
        self.tombstones = pick.choice([0.0, 0.2, 0.6])
        self.keyless = pick.choice([0.0, 0.0, 0.05])
        self.rolls = pick.choice([0.05, 0.15, 0.4])

    def go_on(self, count: int) -> Iterator[Written]:
        pick = self.source
        for _ in range(count):
            self.now_ms += pick.choice([0, 1, 10, 400])
            self.leader_epoch += pick.random() < 0.03
            data, is_client = self._batch()
            yield Written(data, is_client, self.leader_epoch, self.now_ms, pick.random() < self.rolls)

    def end_transactions(self) -> Iterator[Written]:
        """Markers for all that is open, and a roll: then everything may be cleaned."""
        for writer in self.writers:
            if writer.is_open:
                yield Written(self._marker(writer), False, self.leader_epoch, self.now_ms, False)
        last = build(self._records(1), codec=self.source.choice(self.codecs))
        yield Written(last, True, self.leader_epoch, self.now_ms, True)

    def _batch(self) -> tuple[bytes, bool]:
        pick = self.source
        writer = pick.choice([None, *self.writers])
        if (
            writer is not None
            and writer.is_transactional
            and pick.random() < (0.4 if writer.is_open else 0.1)
        ):
            return self._marker(writer), False
        if writer is not None and not writer.is_open and pick.random() < 0.1:
            writer.next_epoch()
        records = self._records(pick.choice([1, 1, 2, 3, 5]))
        codec = pick.choice(self.codecs)
        if writer is None:
            return build(records, codec=codec), True
        who = {"producer_id": writer.id, "producer_epoch": writer.epoch, "base_sequence": writer.sequence}
        writer.sequence += len(records)
        writer.is_open = writer.is_transactional
        return build(records, codec=codec, is_transactional=writer.is_transactional, **who), True

    def _marker(self, writer: Writer) -> bytes:
        pick = self.source
        if pick.random() < 0.5:  # in newer transactions the marker already has the next epoch
            writer.next_epoch()
        writer.is_open = False
        kind = pick.choice([ControlType.COMMIT, ControlType.COMMIT, ControlType.ABORT])
        return build_marker(
            kind,
            producer_id=writer.id,
            producer_epoch=writer.epoch,
            coordinator_epoch=3,
            timestamp=self.now_ms,
        )

    def _records(self, count: int) -> list[Record]:
        pick = self.source
        found = []
        for number in range(count):
            key = None if pick.random() < self.keyless else f"key {pick.randrange(self.key_count)}".encode()
            value = None if pick.random() < self.tombstones else b"value" * pick.choice([0, 1, 2, 30])
            headers = (("h", b"x"), ("empty", None)) if pick.random() < 0.2 else ()
            found.append(Record(number, self.now_ms - pick.choice([0, 0, 0, 7, 1000]), key, value, headers))
        return found


def write(log: Log, written: list[Written]) -> None:
    """Append all of it, as the leader of the partition did."""
    for each in written:
        log.append(each.data, each.leader_epoch, each.now_ms, client=each.is_client)
        if each.rolls:
            log.roll()
    log.advance_high_watermark(log.end_offset)
