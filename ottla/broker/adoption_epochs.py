"""Epochs that a killed broker of Apache Kafka had no time to note.

We write a leader's epoch to `leader-epoch-checkpoint` before its first batch to the log: a recovery takes a batch
with an unknown epoch for a damaged one, and cuts the log there. Kafka writes the file some time later, and believes the
batches. So before the logs of a broker that was killed are opened for the first time, the file is brought up to them.
"""

import logging
import os
from collections.abc import Iterable

from ottla.core.errors import ProtocolError
from ottla.core.ids import TopicPartition
from ottla.storage.checkpoints import CLEAN_SHUTDOWN, RECOVERY_POINT, read_offsets
from ottla.storage.epochs import LeaderEpochs
from ottla.storage.files import Files
from ottla.storage.scan import BrokenChain, Scanner, is_intact
from ottla.storage.segment import LOG_SUFFIX, offset_of

logger = logging.getLogger(__name__)


def note_epochs(files: Files, partitions: Iterable[tuple[TopicPartition, str]]) -> int:
    """Bring the files of these partitions, and where they lie, up to their logs; how many were behind."""
    recovery_points: dict[str, dict[TopicPartition, int]] = {}
    behind = 0
    for partition, path in partitions:
        directory = os.path.dirname(path)
        if files.exists(f"{directory}/{CLEAN_SHUTDOWN}"):
            continue
        if directory not in recovery_points:
            recovery_points[directory] = _recovery_points(files, directory)
        behind += _note(files, path, recovery_points[directory].get(partition, 0))
    if behind:
        logger.info("the leader epochs of %d partitions were not noted yet", behind)
    return behind


def _recovery_points(files: Files, directory: str) -> dict[TopicPartition, int]:
    try:
        return read_offsets(files, f"{directory}/{RECOVERY_POINT}")
    except ProtocolError:
        return {}  # all is checked then, and all must be known


def _note(files: Files, path: str, recovery_point: int) -> bool:
    epochs = LeaderEpochs(files, path)
    try:
        epochs.load()
    except (FileNotFoundError, NotADirectoryError, ProtocolError):
        return False  # without the file, recovery believes the batches, too
    before = epochs.entries
    bases = sorted(base for name in files.names(path) if (base := offset_of(name, LOG_SUFFIX)) is not None)
    for base, following in zip(bases, [*bases[1:], None], strict=False):
        if following is None or following >= recovery_point:  # as recovery looks at them
            _read(files, f"{path}/{base:020}{LOG_SUFFIX}", epochs)
    if epochs.entries is before:
        return False
    epochs.save()
    return True


def _read(files: Files, path: str, epochs: LeaderEpochs) -> None:
    """Follow the batches of a segment as far as they are whole."""
    file = files.open(path)
    try:
        scanner = Scanner(file, file.size())
        while (found := scanner.next()) is not None:
            batch, data = found
            if not is_intact(batch, data):
                return
            if batch.magic == 2:
                epochs.append(batch.leader_epoch, batch.base_offset)
    except BrokenChain:
        pass  # a torn end
    finally:
        file.close()
