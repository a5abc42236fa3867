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

from ottla.core.errors import ProtocolError
from ottla.storage.check import Check as Check
from ottla.storage.check import CorruptLog as CorruptLog
from ottla.storage.check import Damage as Damage
from ottla.storage.check import Recovery as Recovery
from ottla.storage.config import TopicConfig
from ottla.storage.epochs import LeaderEpochs
from ottla.storage.files import Files, remove_all
from ottla.storage.producers import Producers
from ottla.storage.replay import restore
from ottla.storage.scan import BrokenChain
from ottla.storage.segment import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    Segment,
    offset_of,
)
from ottla.storage.segments import Segments
from ottla.storage.snapshots import Snapshots
from ottla.storage.swap import finish_swaps

logger = logging.getLogger(__name__)

LEFTOVERS = (".deleted", ".tmp")


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
    Snapshots(files, directory).remove_strays([segment.base_offset for segment in segments], clean=clean)
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
        if not Check(loaded, segment).run():
            _drop_from(files, directory, loaded, segment.base_offset + 1)
            break
    for segment in suspects:
        if segment.base_offset < loaded.segments.active.base_offset:
            segment.times.append(*segment.newest)  # as the last entry of one that was closed
    if loaded.end_offset < loaded.log_start_offset:
        _start_over(files, directory, config, loaded)
    if loaded.rebuilds_epochs:
        _rebuild_epochs(loaded)
    loaded.epochs.truncate_from_end(loaded.end_offset)
    loaded.epochs.truncate_from_start(loaded.log_start_offset)
    Snapshots(files, directory).remove_beyond(loaded.end_offset)
    _report_what_is_missing(loaded)
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


def _follows_a_hole(loaded: Recovery, segment: Segment, config: TopicConfig) -> bool:
    """Did the segment before this one lose its end, at a batch's border, while this one kept its beginning?

    A new segment starts where the log ends. Only compaction leaves room between two of them.
    """
    is_hole = loaded.end_offset < segment.base_offset and "compact" not in config.cleanup_policy
    return is_hole and loaded.end_offset >= loaded.recovery_point


def _report_what_is_missing(loaded: Recovery) -> None:
    """A file that was cut between two batches looks whole; that it once went further is what the checkpoint knows."""
    if loaded.end_offset < loaded.recovery_point and not loaded.damage:
        active = loaded.segments.active
        reason = f"the log ends at offset {loaded.end_offset}, it once reached {loaded.recovery_point}"
        loaded.damage.append(Damage(active.path, active.size, reason))
        logger.error("%s", loaded.damage[-1])


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
    Snapshots(files, directory).remove_beyond(-1)
    files.sync_directory(directory)
    loaded.producers = Producers()
    loaded.end_offset = loaded.log_start_offset


def _rebuild_epochs(loaded: Recovery) -> None:
    """Without a checkpoint, the batches themselves say who led when. One whose epoch a later one undercuts lies."""
    runs: list[tuple[int, int]] = []
    for segment in loaded.segments:
        for batch in segment.batches():
            if batch.leader_epoch >= 0 and (not runs or batch.leader_epoch != runs[-1][0]):
                runs.append((batch.leader_epoch, batch.base_offset))
    believed: list[tuple[int, int]] = []
    for run in reversed(runs):
        if not believed or run[0] <= believed[-1][0]:
            believed.append(run)
    loaded.epochs.entries = []
    for epoch, start_offset in reversed(believed):
        loaded.epochs.append(epoch, start_offset)
    if loaded.epochs.entries:
        loaded.epochs.save()
