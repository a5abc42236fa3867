"""`leader-epoch-checkpoint`: at which offset each leader's reign began.

Replicas compare these to find where their logs part (KIP-101, KIP-279). An epoch is written to the file, and synced,
before the first record of that epoch reaches the log: a batch whose epoch the file does not know is a damaged batch.
"""

from bisect import bisect_right
from itertools import pairwise
from typing import NamedTuple

from ottla.core.errors import ErrorCode, KafkaError, ProtocolError
from ottla.storage.checkpoints import is_number, parse_lines, render_lines
from ottla.storage.files import Files, write_whole

FILE_NAME = "leader-epoch-checkpoint"
ANY_EPOCH = (1 << 31) - 1
"""As a limit: none."""


class EpochStart(NamedTuple):
    epoch: int
    start_offset: int


class EpochEnd(NamedTuple):
    """The answer to "where does this epoch end?": the largest epoch not above the asked one, and its end."""

    epoch: int
    end_offset: int


class LeaderEpochs:
    """The reigns in one log, oldest first; epochs and offsets both grow."""

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._path = f"{directory}/{FILE_NAME}"
        self.entries: list[EpochStart] = []

    def load(self) -> None:
        """Read the file; raises ProtocolError if it makes no sense, FileNotFoundError if there is none."""
        entries = [EpochStart(*row) for row in _parse(self._files.read(self._path), self._path)]
        for before, after in pairwise(entries):
            if before.epoch >= after.epoch or before.start_offset > after.start_offset:
                raise ProtocolError(f"{self._path}: epoch {after.epoch} does not follow {before.epoch}")
        self.entries = entries

    def renamed(self, directory: str) -> None:
        """The directory was renamed, and the file with it."""
        self._path = f"{directory}/{FILE_NAME}"

    @property
    def latest(self) -> int | None:
        return self.entries[-1].epoch if self.entries else None

    def follow(self, epoch: int, base_offset: int) -> None:
        """A batch of `epoch` is about to be written at `base_offset`. One of an older leader is refused."""
        latest = self.entries[-1].epoch if self.entries else -1
        if epoch == latest or epoch < 0:
            return
        if epoch < latest:
            raise KafkaError(
                ErrorCode.FENCED_LEADER_EPOCH, f"batch of epoch {epoch} in a log of epoch {latest}"
            )
        self.assign(epoch, base_offset)

    def assign(self, epoch: int, start_offset: int) -> None:
        """From `start_offset` on, batches carry `epoch`. Lasts when this returns."""
        before = self.entries
        self.append(epoch, start_offset)
        if self.entries is not before:
            try:
                self.save()
            except OSError:
                self.entries = before  # what is not on the disk must not be believed in memory
                raise

    def append(self, epoch: int, start_offset: int) -> None:
        """Like assign, in memory only. An epoch that is not newer changes nothing."""
        if epoch >= 0 and (not self.entries or epoch > self.entries[-1].epoch):
            earlier = [e for e in self.entries if e.start_offset < start_offset]
            self.entries = [*earlier, EpochStart(epoch, start_offset)]

    def epoch_at(self, offset: int) -> int | None:
        """The epoch of the batch at `offset`, as far as the file knows."""
        at = bisect_right(self.entries, offset, key=_start) - 1
        return self.entries[at].epoch if at >= 0 else None

    def reign_at(self, offset: int) -> tuple[int, int | None]:
        """The epoch of batches at `offset` (-1 if it is not known), and the offset at which the next one begins."""
        at = bisect_right(self.entries, offset, key=_start)
        until = self.entries[at].start_offset if at < len(self.entries) else None
        return self.entries[at - 1].epoch if at > 0 else -1, until

    def end_of(self, epoch: int, log_end_offset: int) -> EpochEnd | None:
        """Where `epoch` ends, or the largest smaller one if it never ruled here.

        None if it is newer than all, or no epoch at all.
        """
        if not self.entries or not 0 <= epoch <= self.entries[-1].epoch:
            return None
        if epoch == self.entries[-1].epoch:
            return EpochEnd(epoch, log_end_offset)
        at = bisect_right([e.epoch for e in self.entries], epoch) - 1
        known = self.entries[at].epoch if at >= 0 else epoch  # older than all: it ended where the first began
        return EpochEnd(known, self.entries[at + 1].start_offset)

    def truncate_from_end(self, end_offset: int) -> None:
        """Forget the epochs that began at `end_offset` or later."""
        kept = [e for e in self.entries if e.start_offset < end_offset]
        if len(kept) < len(self.entries):
            self.entries = kept
            self.save()

    def truncate_from_start(self, start_offset: int) -> None:
        """The log starts at `start_offset` now: the reign that holds it begins there."""
        at = bisect_right(self.entries, start_offset, key=_start) - 1
        if at < 0 or (at == 0 and self.entries[0].start_offset == start_offset):
            return
        first = EpochStart(self.entries[at].epoch, start_offset)
        self.entries = [first, *self.entries[at + 1 :]]
        self.save()

    def save(self) -> None:
        rows = [f"{e.epoch} {e.start_offset}" for e in self.entries]
        write_whole(self._files, self._path, render_lines(rows))


def _start(entry: EpochStart) -> int:
    return entry.start_offset


def _parse(data: bytes, path: str) -> list[tuple[int, int]]:
    rows = []
    for line in parse_lines(data, path):
        fields = line.split()
        if len(fields) != 2 or not all(map(is_number, fields)):
            raise ProtocolError(f"{path}: not an epoch and an offset: {line[:80]!r}")
        rows.append((int(fields[0]), int(fields[1])))
    return rows
