"""What a start finds of replicas that were being moved between directories when the last one ended (KIP-113).

A copy that was not put in place is not believed: it is removed, and its move begins anew. If the log that it was copied
from is nowhere to be found it may be all that is left, and is kept: under another name, so that nobody takes it for a
copy of a log of that name which comes later.

A copy that was put in place just before the end may have left the log in both directories. The two were equal then, and
only one of them has been written to since, in a later leader epoch: the one whose last record has the larger epoch and,
in the same epoch, the larger offset is in charge. The other goes.
"""

import logging
from collections.abc import Sequence

from ottla.core.errors import ProtocolError
from ottla.core.ids import TopicPartition
from ottla.storage.check import CorruptLog
from ottla.storage.log import Log
from ottla.storage.log_directory import LogDirectory

logger = logging.getLogger(__name__)


def settle(directories: Sequence[LogDirectory], *, are_all_here: bool) -> dict[TopicPartition, LogDirectory]:
    """Leave one log of each partition, and no copies. Returns the moves that are to begin anew, and where to.

    Copies are left alone where their log may be in a directory that is not here now."""
    for partition in _doubled(directories):
        left = [each for each in directories if _holds(each, partition)]
        while left:
            same = [d for d in left if _is_same_topic(left[0], str(partition), d, str(partition))]
            left = [d for d in left[1:] if d not in same]
            if len(same) > 1:
                _settle_doubled(partition, same)
    moves: dict[TopicPartition, LogDirectory] = {}
    for directory in directories:
        for name, partition in directory.left_futures().items():
            source = next((each for each in directories if _holds(each, partition)), None)
            elsewhere = None if source is directory else source
            if elsewhere is not None and _is_same_topic(elsewhere, str(partition), directory, name):
                moves[partition] = directory
            try:
                _settle_copy(directory, name, has_log=source is not None, are_all_here=are_all_here)
            except OSError as error:
                logger.error("%s/%s stays where it is: %s", directory.path, name, error)
                moves.pop(partition, None)
    return moves


def _settle_copy(directory: LogDirectory, name: str, *, has_log: bool, are_all_here: bool) -> None:
    if has_log:
        directory.remove_deleted([directory.discard(name, "delete")])
    elif are_all_here:
        kept = directory.discard(name, "stray")
        logger.warning("%s was a copy of a log that is nowhere now; it is kept as %s", name, kept)


def _holds(directory: LogDirectory, partition: TopicPartition) -> bool:
    return partition in directory.logs or partition in directory.damaged


def _doubled(directories: Sequence[LogDirectory]) -> list[TopicPartition]:
    seen: set[TopicPartition] = set()
    doubled: dict[TopicPartition, None] = {}
    for directory in directories:
        for partition in [*directory.logs, *directory.damaged]:
            if partition in seen:
                doubled[partition] = None
            seen.add(partition)
    return list(doubled)


def _is_same_topic(one: LogDirectory, name: str, other: LogDirectory, other_name: str) -> bool:
    """Logs of an earlier topic of that name are no concern of ours: who knows the topics leaves them alone."""
    try:
        return one.topic_id(name) == other.topic_id(other_name)
    except (OSError, ProtocolError):
        return False


def _settle_doubled(partition: TopicPartition, same: list[LogDirectory]) -> None:
    damaged = [each for each in same if partition in each.damaged]
    if damaged:  # which of them was in charge cannot be told
        where = ", ".join(each.path for each in same)
        for directory in same:
            if partition in directory.logs:
                directory.set_aside(partition, CorruptLog(f"it lies in {where}, and one of them is damaged"))
        return
    chosen = max(same, key=lambda each: _progress(each.logs[partition]))
    for directory in same:
        if directory is not chosen:
            _put_away(partition, directory, chosen)


def _progress(log: Log) -> tuple[int, int, int]:
    return _last_epoch(log), log.end_offset, log.log_start_offset


def _last_epoch(log: Log) -> int:
    epoch = log.epochs.epoch_at(log.end_offset - 1)
    return -1 if epoch is None else epoch


def _put_away(partition: TopicPartition, directory: LogDirectory, chosen: LogDirectory) -> None:
    """What the other has, too, can go. What has something of its own is kept, out of the way."""
    log, other = directory.logs[partition], chosen.logs[partition]
    end = other.epochs.end_of(_last_epoch(log), other.end_offset)
    is_contained = log.end_offset == log.log_start_offset or (
        end is not None and end.epoch == _last_epoch(log) and log.end_offset <= end.end_offset
    )
    directory.release(partition)
    try:
        kept = directory.discard(str(partition), "delete" if is_contained else "stray")
    except OSError as error:
        logger.error("%s/%s stays where it is, and is not served: %s", directory.path, partition, error)
        return
    logger.warning(
        "%s was being moved when the broker ended: it is in %s now, and what lay in %s is called %s",
        *(partition, chosen.path, directory.path, kept),
    )
