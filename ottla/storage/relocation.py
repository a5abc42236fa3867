"""A log whose directory gets another name, or that comes to lie in another directory, while it is in use.

Files that are open stay open: readers that hold a place in one of them read on. Whoever holds the `Log` need not know
that it has moved: it stays the same object, and only what it is made of is exchanged.
"""

from ottla.storage.log import Log
from ottla.storage.segment import Segment
from ottla.storage.snapshots import Snapshots


def renamed(log: Log, directory: str) -> None:
    """The directory of a log was renamed: its files are to be found there from now on."""
    for segment in [*log.segments, *log.doomed]:
        _segment_renamed(segment, directory)
    snapshots = Snapshots(log.files, directory)
    snapshots.unsynced = {_below(directory, path) for path in log.snapshots.unsynced}
    log.snapshots = snapshots
    log.epochs.renamed(directory)
    log.directory = directory


def _segment_renamed(segment: Segment, directory: str) -> None:
    segment.renamed(_below(directory, segment.path))
    for entries in segment.offsets.entries, segment.times.entries:
        entries.renamed(_below(directory, entries.path))
    segment.txns.renamed(_below(directory, segment.txns.path))


def _below(directory: str, path: str) -> str:
    return f"{directory}/{path.rpartition('/')[2]}"


def exchange(log: Log, copy: Log) -> None:
    """Let `log` lie where its `copy` does, and the copy where the log did. Both end at the same offset, and no sync of
    either is under way. What the log knows of producers and of readers stays: the copy is only what is on the disk."""
    assert log.end_offset == copy.end_offset and log.log_start_offset == copy.log_start_offset
    assert log.recovery_point <= copy.recovery_point, "what was synced stays so"
    assert log.replacement is None, "nobody compacts it meanwhile"
    log.directory, copy.directory = copy.directory, log.directory
    log.segments, copy.segments = copy.segments, log.segments
    log.epochs, copy.epochs = copy.epochs, log.epochs
    log.snapshots, copy.snapshots = copy.snapshots, log.snapshots
    log.doomed, copy.doomed = copy.doomed, log.doomed
    log._unsynced, copy._unsynced = copy._unsynced, log._unsynced
