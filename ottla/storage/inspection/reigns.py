"""Who led when, as the batches say it and as `leader-epoch-checkpoint` says it; and who is right where they differ.

Neither lies under a checksum. The one that fewer batches contradict is believed: a flipped bit in a batch stands
against all of its neighbours, one in the checkpoint against all batches of a reign. Where one batch stands against one
entry, the smaller epoch is believed: a log that knows a larger one than its leader takes no more writes.
"""

from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from ottla.storage.epochs import EpochStart
from ottla.storage.scan import BatchAt

REIGNS_MAX = 100_000


class Reign(NamedTuple):
    """Batches of one epoch that follow each other."""

    epoch: int
    start_offset: int
    last_offset: int
    """Where its last batch begins."""
    batches: int
    path: str
    position: int


class Reigns:
    """Gathers the epochs of batches as they go by."""

    def __init__(self) -> None:
        self.runs: list[Reign] = []
        self.is_complete = True

    def take(self, batch: BatchAt, path: str) -> None:
        epoch = batch.leader_epoch
        if epoch < 0:
            return
        if self.runs and self.runs[-1].epoch == epoch:
            last = self.runs[-1]
            self.runs[-1] = last._replace(last_offset=batch.base_offset, batches=last.batches + 1)
        elif len(self.runs) < REIGNS_MAX:
            self.runs.append(Reign(epoch, batch.base_offset, batch.base_offset, 1, path, batch.position))
        else:
            self.is_complete = False


def epoch_at(entries: list[EpochStart], offset: int) -> int | None:
    at = bisect_right(entries, offset, key=lambda entry: entry.start_offset) - 1
    return entries[at].epoch if at >= 0 else None


def contradicting(runs: list[Reign], entries: list[EpochStart]) -> list[Reign]:
    """The runs with a batch whose epoch is not the one that `entries` have for its offset."""
    found = []
    for run in runs:
        ends = (epoch_at(entries, run.start_offset), epoch_at(entries, run.last_offset))
        if any(epoch not in (None, run.epoch) for epoch in ends):
            found.append(run)
    return found


def rebuilt(runs: list[Reign]) -> list[EpochStart]:
    """A checkpoint from the batches alone: the rising epochs that most of them bear out."""
    ranks = {epoch: rank for rank, epoch in enumerate(sorted({run.epoch for run in runs}), 1)}
    # For each rank the best up to it: batches, as few changes of the epoch as possible, the last epoch and run.
    tree: list[tuple[int, int, int, int]] = [(0, 0, -1, -1)] * (len(ranks) + 1)
    before = [-1] * len(runs)
    for number, run in enumerate(runs):
        most, changes, epoch, before[number] = max(tree[rank] for rank in _below(ranks[run.epoch]))
        best = most + run.batches, changes - (epoch != run.epoch), run.epoch, number
        for rank in _above(ranks[run.epoch], len(tree)):
            tree[rank] = max(tree[rank], best)
    number = max(tree[rank] for rank in _below(len(ranks)))[3]
    believed: list[Reign] = []
    while number >= 0:
        believed.append(runs[number])
        number = before[number]
    entries: list[EpochStart] = []
    for run in reversed(believed):
        if not entries or run.epoch > entries[-1].epoch:
            entries.append(EpochStart(run.epoch, run.start_offset))
    return entries


def _below(rank: int) -> Iterator[int]:
    """The nodes of a Fenwick tree that together cover all ranks up to this one; node 0 stands for none."""
    yield 0
    while rank > 0:
        yield rank
        rank &= rank - 1


def _above(rank: int, size: int) -> Iterator[int]:
    """The nodes that cover this rank."""
    while rank < size:
        yield rank
        rank += rank & -rank


def believe(runs: list[Reign], checkpoint: list[EpochStart] | None) -> list[EpochStart]:
    """The epochs to go by: those of the checkpoint, unless it makes no sense or more batches contradict it."""
    made = rebuilt(runs)
    if checkpoint is None:
        return made
    against, against_made = _batches(contradicting(runs, checkpoint)), _batches(contradicting(runs, made))
    if against == 1 and against_made == 0:
        return checkpoint if _latest(checkpoint) <= _latest(made) else made
    return checkpoint if against <= against_made else made


def _batches(runs: list[Reign]) -> int:
    return sum(run.batches for run in runs)


def _latest(entries: list[EpochStart]) -> int:
    return entries[-1].epoch if entries else -1
