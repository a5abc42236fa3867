"""Which reader reads which file: one table."""

import os
from collections.abc import Callable, Iterator

from ottla.cli.dump.files import Dumped, open_file
from ottla.cli.dump.indexes import Check, dump_offset_index, dump_time_index, dump_txn_index
from ottla.cli.dump.output import say
from ottla.cli.dump.rows import Item, Problem
from ottla.cli.dump.segments import Options, dump_segment
from ottla.cli.dump.states import dump_checkpoint, dump_epochs, dump_partition_metadata, dump_snapshot
from ottla.storage import checkpoints, epochs, snapshots
from ottla.storage.files import File
from ottla.storage.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX

Reader = Callable[[Dumped, Options, Check], Iterator[Item]]


def read(target: Dumped, options: Options, check: Check) -> Iterator[Item]:
    """The rows and problems of a file; OSError if it cannot be read."""
    return _READERS[target.kind](target, options, check)


def _segment(target: Dumped, options: Options, check: Check) -> Iterator[Item]:
    file = open_file(target.path)
    try:
        yield from dump_segment(file, target.base_offset, options)
    finally:
        file.close()


def _txn_index(target: Dumped, options: Options, check: Check) -> Iterator[Item]:
    file = open_file(target.path)
    try:
        yield from dump_txn_index(file, check)
    finally:
        file.close()


def _index(target: Dumped, options: Options, check: Check) -> Iterator[Item]:
    file = open_file(target.path)
    log: File | None = None
    base_offset = target.base_offset
    assert base_offset is not None, "the names of indexes were checked with the command line"
    try:
        if os.path.exists(target.log_path):
            log = open_file(target.log_path)
        elif check is Check.SHOW:
            say(f"{target.path}: not checked, there is no {target.log_path}")
        else:
            yield Problem(f"there is no {target.log_path} to check the entries against")
        dump = dump_offset_index if target.kind == INDEX_SUFFIX else dump_time_index
        yield from dump(file, base_offset, log, check)
    finally:
        file.close()
        if log is not None:
            log.close()


def _small(dump: Callable[[str], Iterator[Item]]) -> Reader:
    return lambda target, options, check: dump(target.path)


_READERS: dict[str, Reader] = {
    LOG_SUFFIX: _segment,
    INDEX_SUFFIX: _index,
    TIME_INDEX_SUFFIX: _index,
    TXN_INDEX_SUFFIX: _txn_index,
    snapshots.SUFFIX: _small(dump_snapshot),
    epochs.FILE_NAME: _small(dump_epochs),
    checkpoints.PARTITION_METADATA: _small(dump_partition_metadata),
    checkpoints.RECOVERY_POINT: _small(dump_checkpoint),
    checkpoints.LOG_START: _small(dump_checkpoint),
    checkpoints.HIGH_WATERMARK: _small(dump_checkpoint),
    checkpoints.CLEANER: _small(dump_checkpoint),
}
