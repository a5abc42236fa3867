"""The pass over a segment that decides what of it is whole.

Every batch is judged by its checksum, by its neighbours' offsets and by the epoch checkpoint. Indexes and the state of
producers are built anew on the way. A batch that stands behind a gap is judged by the one that follows it as well:
only that one can tell whether an offset jumped ahead because of compaction or of a flipped bit.
"""

import logging
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.core.errors import OttlaError
from ottla.records.batch import read_header
from ottla.storage.epochs import LeaderEpochs
from ottla.storage.producers import Producers
from ottla.storage.replay import apply
from ottla.storage.scan import BatchAt, BrokenChain, Scanner, find_intact, is_intact
from ottla.storage.segment import RELATIVE_OFFSET_MAX, Segment
from ottla.storage.segments import Segments

logger = logging.getLogger(__name__)


class CorruptLog(OttlaError):
    """Bytes that were safely on the disk are damaged, and what follows them cannot be read without a repair."""


class Damage(NamedTuple):
    """A place that is not what was once written there, or a tail that is missing."""

    path: str
    position: int
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason} at byte {self.position}"


@dataclass(slots=True)
class Recovery:
    """A log's parts as they were loaded, and what had to be done to them."""

    segments: Segments
    epochs: LeaderEpochs
    producers: Producers = field(default_factory=Producers)
    log_start_offset: int = 0
    end_offset: int = 0
    recovery_point: int = 0
    rewritten_from: int = 0  # from here on, indexes were written anew and are not on the disk yet
    rebuilds_epochs: bool = False
    checked_bytes: int = 0
    cut_bytes: int = 0
    damage: list[Damage] = field(default_factory=list)


class Check:
    """One pass over one segment: judges every batch, rebuilds its indexes and what the log knows of producers."""

    def __init__(self, loaded: Recovery, segment: Segment) -> None:
        self.loaded = loaded
        self.segment = segment
        self.limit = loaded.segments.end_of(segment, segment.base_offset + RELATIVE_OFFSET_MAX + 1)
        self._alive: BatchAt | None = None  # a whole batch behind the damage that was last seen

    def run(self) -> bool:
        """False if the segment was cut, so that nothing may follow it."""
        segment, loaded = self.segment, self.loaded
        segment.start_over()
        loaded.end_offset = max(loaded.end_offset, segment.base_offset)
        loaded.checked_bytes += segment.size
        scanner = Scanner(segment.file, segment.size)
        try:
            while True:
                self._skim(scanner)
                if (found := scanner.next()) is None:
                    return True
                if not self._judge(*found, self._peek(scanner)):
                    return False
        except BrokenChain as broken:
            return self._end_at(broken)

    def _skim(self, scanner: Scanner) -> None:
        """Most batches are like the one before; they are passed over as fast as their checksums can be computed."""
        loaded = self.loaded
        if loaded.rebuilds_epochs or not loaded.epochs.entries:
            return
        epoch, until = loaded.epochs.reign_at(loaded.end_offset)
        limit = self.limit if until is None else min(self.limit, until)
        loaded.end_offset = scanner.skim(loaded.end_offset, limit, epoch, self.segment.note)

    @staticmethod
    def _peek(scanner: Scanner) -> BatchAt | None:
        try:
            return scanner.peek()
        except BrokenChain:
            return None  # `next` will stumble over it too, when this batch has been judged

    def _judge(self, batch: BatchAt, data: memoryview, following: BatchAt | None) -> bool:
        """Take a batch that is whole, step over one that is damaged but safe. False if the log ends before it."""
        fault = self._fault(batch, data, following)
        if fault is None:
            self._take(batch, data)
        elif self._is_tail(batch.position):
            self._cut(batch.position, fault)
            return False
        else:
            self._report(batch.position, fault)
            self._step_over(batch, following)
        return True

    def _fault(self, batch: BatchAt, data: memoryview, following: BatchAt | None) -> str | None:
        """What is wrong with a batch, judged by itself, its neighbours and the epoch checkpoint."""
        if not is_intact(batch, data):
            return "a batch fails its checksum"
        if not self._is_in_order(batch, following):
            return f"offset {batch.base_offset} stands where {self.loaded.end_offset} was expected"
        if batch.leader_epoch >= 0 and self.loaded.epochs.entries and not self.loaded.rebuilds_epochs:
            expected = self.loaded.epochs.epoch_at(batch.base_offset)
            if expected is not None and expected != batch.leader_epoch:
                return f"leader epoch {batch.leader_epoch} stands where {expected} was expected"
        return None if batch.leader_epoch >= -1 else f"leader epoch {batch.leader_epoch} cannot be"

    def _is_in_order(self, batch: BatchAt, following: BatchAt | None) -> bool:
        """Offsets grow. A batch behind a gap is believed unless the next one starts before its end."""
        expected = self.loaded.end_offset
        if batch.base_offset < expected or batch.last_offset >= self.limit:
            return False
        gap = batch.base_offset > expected
        return not (gap and following is not None and following.base_offset < batch.next_offset)

    def _take(self, batch: BatchAt, data: memoryview) -> None:
        self.segment.note(batch.last_offset, batch.position, batch.size, batch.max_timestamp)
        self.loaded.end_offset = batch.next_offset
        if self.loaded.rebuilds_epochs:
            self.loaded.epochs.append(batch.leader_epoch, batch.base_offset)
        if batch.magic == 2 and batch.producer_id >= 0:
            apply(self.loaded.producers, self.segment.txns, read_header(data), data)

    def _is_safe_on_disk(self) -> bool:
        return self.loaded.end_offset < self.loaded.recovery_point

    def _step_over(self, batch: BatchAt, following: BatchAt | None) -> None:
        """A damaged batch stays where it is; its offsets count if its neighbours agree with them."""
        if self._is_in_order(batch, following) and (
            following is None or following.base_offset > batch.last_offset
        ):
            self.loaded.end_offset = batch.next_offset

    def _end_at(self, broken: BrokenChain) -> bool:
        if not self._is_tail(broken.position):
            raise CorruptLog(f"{broken}; whole batches follow, nothing was cut")
        self._cut(broken.position, broken.reason)
        return False

    def _is_tail(self, position: int) -> bool:
        """May the log end here? Above the recovery point it may end anywhere: all behind was still being written.

        Below it only if nothing whole follows, as when the last file was cut short or its end filled with zeros.
        """
        if not self._is_safe_on_disk():
            return True
        if self.segment is not self.loaded.segments.active:
            return False
        alive, offset_min = self._alive, self.loaded.end_offset
        if alive is None or alive.position <= position or alive.base_offset < offset_min:
            self._alive = find_intact(self.segment.file, position + 1, self.segment.size, offset_min)
        return self._alive is None

    def _cut(self, position: int, reason: str) -> None:
        if self._is_safe_on_disk():
            self._report(position, f"the log ends here, {reason}")
        logger.warning("%s is cut at byte %d: %s", self.segment.path, position, reason)
        self.loaded.cut_bytes += self.segment.size - position
        self.segment.cut(position)
        self.segment.file.sync()  # else the next crash could bring the tail back, in front of newer batches

    def _report(self, position: int, reason: str) -> None:
        damage = Damage(self.segment.path, position, reason)
        logger.error("%s, below the recovery point", damage)
        self.loaded.damage.append(damage)
