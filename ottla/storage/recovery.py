"""Opening a log: what is there, is it whole, and what does it say?

After a clean shutdown the files are believed. After any other, every batch above the recovery point is read and
checked, and the log is cut at the first one that is not whole: it was being written when the machine stopped. What
lies below the recovery point was on the disk and is not cut while anything readable follows it: damage there is
reported, and where batches can no longer be told apart the log refuses to open.

Not every flip of a bit can be seen. Base offset, length and leader epoch of a batch lie outside its checksum. A wrong
length breaks the chain. A wrong base offset or epoch is seen where the neighbours or the epoch checkpoint contradict
it. A base offset that grew, in the very last batch of the log, looks like a gap that compaction may leave.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.core.errors import OttlaError, ProtocolError
from ottla.records.batch import read_header
from ottla.storage.config import TopicConfig
from ottla.storage.epochs import LeaderEpochs
from ottla.storage.files import Files, remove_all
from ottla.storage.producers import Producers
from ottla.storage.replay import apply, restore, snapshot_offsets
from ottla.storage.scan import BatchAt, BrokenChain, find_intact, is_intact, walk_whole
from ottla.storage.segment import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    RELATIVE_OFFSET_MAX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    Segment,
    file_name,
    offset_of,
)
from ottla.storage.segments import Segments
from ottla.storage.snapshots import SUFFIX as SNAPSHOT_SUFFIX
from ottla.storage.swap import finish_swaps

logger = logging.getLogger(__name__)

LEFTOVERS = (".deleted", ".tmp")


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


def load(
    files: Files,
    directory: str,
    config: TopicConfig,
    recovery_point: int,
    log_start_offset: int,
    *,
    clean: bool,
) -> Recovery:
    """The parts of the log in `directory`; a new one if it is empty."""
    try:
        return _load(files, directory, config, recovery_point, log_start_offset, clean=clean)
    except BrokenChain as broken:  # in a segment that was not to be checked: it was once whole
        raise CorruptLog(f"{broken}; it lies below the recovery point, nothing was cut") from broken


def _load(
    files: Files,
    directory: str,
    config: TopicConfig,
    recovery_point: int,
    log_start_offset: int,
    *,
    clean: bool,
) -> Recovery:
    finish_swaps(files, directory)  # first: indexes that already have their name still wait for their log
    _tidy(files, directory)
    segments = _open_segments(files, directory, config, log_start_offset)
    loaded = Recovery(segments, LeaderEpochs(files, directory), recovery_point=recovery_point)
    loaded.log_start_offset = max(log_start_offset, segments[0].base_offset)
    loaded.rebuilds_epochs = not _load_epochs(loaded.epochs)
    suspects = _suspects(segments, recovery_point, clean=clean)
    loaded.end_offset = suspects[0].base_offset if suspects else segments.active.next_offset()
    loaded.rewritten_from = loaded.end_offset
    loaded.producers = restore(files, directory, segments, loaded.end_offset)
    for segment in suspects:
        if _follows_a_hole(loaded, segment, config):
            _drop_from(files, directory, loaded, segment.base_offset)
            break
        if not _Check(loaded, segment).run():
            _drop_from(files, directory, loaded, segment.base_offset + 1)
            break
    if loaded.end_offset < loaded.log_start_offset:
        _start_over(files, directory, config, loaded)
    if loaded.rebuilds_epochs:
        _rebuild_epochs(loaded)
    loaded.epochs.truncate_from_end(loaded.end_offset)
    loaded.epochs.truncate_from_start(loaded.log_start_offset)
    _remove_stray_snapshots(files, directory, loaded)
    loaded.recovery_point = min(recovery_point, loaded.end_offset)
    return loaded


def _tidy(files: Files, directory: str) -> None:
    """Finish or undo what a crash interrupted."""
    names = files.names(directory)
    remove_all(files, (f"{directory}/{n}" for n in names if n.endswith(LEFTOVERS)))
    bases = {offset_of(n, LOG_SUFFIX) for n in names}
    for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX):
        orphans = (n for n in names if (o := offset_of(n, suffix)) is not None and o not in bases)
        remove_all(files, (f"{directory}/{n}" for n in orphans))


def _open_segments(files: Files, directory: str, config: TopicConfig, log_start_offset: int) -> Segments:
    bases = sorted(b for n in files.names(directory) if (b := offset_of(n, LOG_SUFFIX)) is not None)
    if not bases:
        return Segments([Segment.create(files, directory, log_start_offset, config)])
    return Segments([Segment.open(files, directory, base, config) for base in bases])


def _load_epochs(epochs: LeaderEpochs) -> bool:
    try:
        epochs.load()
        return True
    except FileNotFoundError:
        return False
    except ProtocolError as error:
        logger.warning("%s; it is rebuilt from the log", error)
        return False


def _suspects(segments: Segments, recovery_point: int, *, clean: bool) -> list[Segment]:
    """The segments that must be checked batch by batch."""
    if not clean:
        # Where a segment starts at the recovery point, the one before may have kept bytes that were cut off it.
        return list(segments.from_offset(recovery_point - 1))
    try:
        segments.active.next_offset()
    except (BrokenChain, OSError):
        return [segments.active]
    return []


class _Check:
    """One pass over one segment: judges every batch, rebuilds its indexes and what the log knows of producers."""

    def __init__(self, loaded: Recovery, segment: Segment) -> None:
        self.loaded = loaded
        self.segment = segment
        self.limit = loaded.segments.end_of(segment, segment.base_offset + RELATIVE_OFFSET_MAX + 1)
        self.broken: BrokenChain | None = None

    def run(self) -> bool:
        """False if the segment was cut, so that nothing may follow it."""
        segment, loaded = self.segment, self.loaded
        segment.start_over()
        loaded.end_offset = max(loaded.end_offset, segment.base_offset)
        loaded.checked_bytes += segment.size
        batches = walk_whole(segment.file, 0, segment.size)
        held = self._next(batches)
        while held is not None:
            following = self._next(batches)
            if (fault := self._fault(*held, following[0] if following else None)) is None:
                self._take(*held)
            elif not self._is_safe_on_disk():
                self._cut(held[0].position, fault)
                return False
            else:
                self._report(held[0].position, fault)
                self._step_over(held[0], following[0] if following else None)
            held = following
        return self._end()

    def _next(self, batches: Iterator[tuple[BatchAt, memoryview]]) -> tuple[BatchAt, memoryview] | None:
        try:
            return next(batches, None)
        except BrokenChain as broken:
            self.broken = broken
            return None

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

    def _end(self) -> bool:
        if self.broken is None:
            return True
        position, reason = self.broken.position, self.broken.reason
        if self._is_safe_on_disk():
            segment = self.segment
            if find_intact(segment.file, position + 1, segment.size, self.loaded.end_offset) is not None:
                raise CorruptLog(f"{self.broken}; whole batches follow, nothing was cut")
            self._report(position, f"the log ends too early, {reason}")
        self._cut(position, reason)
        return False

    def _cut(self, position: int, reason: str) -> None:
        logger.warning("%s: %s at byte %d; the log is cut there", self.segment.path, reason, position)
        self.loaded.cut_bytes += self.segment.size - position
        self.segment.cut(position)
        self.segment.file.sync()  # else the next crash could bring the tail back, in front of newer batches

    def _report(self, position: int, reason: str) -> None:
        damage = Damage(self.segment.path, position, reason)
        logger.error("%s; it lies below the recovery point and is kept as it is", damage)
        self.loaded.damage.append(damage)


def _follows_a_hole(loaded: Recovery, segment: Segment, config: TopicConfig) -> bool:
    """Did the segment before this one lose its end, at a batch's border, while this one kept its beginning?

    A new segment starts where the log ends. Only compaction leaves room between two of them.
    """
    is_hole = loaded.end_offset < segment.base_offset and "compact" not in config.cleanup_policy
    return is_hole and loaded.end_offset >= loaded.recovery_point


def _drop_from(files: Files, directory: str, loaded: Recovery, offset: int) -> None:
    """Nothing may follow the place where a log was cut."""
    for dropped in reversed(loaded.segments.drop_from(offset)):
        logger.warning("%s follows the place where the log was cut; it is removed", dropped.path)
        loaded.cut_bytes += dropped.size
        dropped.remove()
    files.sync_directory(directory)


def _start_over(files: Files, directory: str, config: TopicConfig, loaded: Recovery) -> None:
    """The log lost its end back to before its start: none of it may be read, and offsets must not be given twice."""
    logger.warning("%s ends at %d, before its start", directory, loaded.end_offset)
    fresh = Segment.create(files, directory, loaded.log_start_offset, config)
    for dropped in reversed(loaded.segments.replace_all(fresh)):
        loaded.cut_bytes += dropped.size
        dropped.remove()
    stale = (f"{directory}/{file_name(o, SNAPSHOT_SUFFIX)}" for o in snapshot_offsets(files, directory))
    remove_all(files, stale)
    files.sync_directory(directory)
    loaded.producers = Producers()
    loaded.end_offset = loaded.log_start_offset


def _rebuild_epochs(loaded: Recovery) -> None:
    """Without a checkpoint, the batches themselves say who led when."""
    loaded.epochs.entries = []
    for segment in loaded.segments:
        for batch in segment.batches():
            loaded.epochs.append(batch.leader_epoch, batch.base_offset)
    if loaded.epochs.entries:
        loaded.epochs.save()


def _remove_stray_snapshots(files: Files, directory: str, loaded: Recovery) -> None:
    """A snapshot from beyond the end speaks of batches that are gone."""
    beyond = [offset for offset in snapshot_offsets(files, directory) if offset > loaded.end_offset]
    remove_all(files, (f"{directory}/{file_name(offset, SNAPSHOT_SUFFIX)}" for offset in beyond))
    if beyond:  # one that came back after the next crash would speak for batches written since
        files.sync_directory(directory)
