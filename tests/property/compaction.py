"""A cleaning from beginning to end, as the broker's cleaner runs it, for tests of what comes out of it."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from ottla.storage.cleaning.cleaner import clean
from ottla.storage.cleaning.job import Done, Failed, Group, Job
from ottla.storage.cleaning.plan import cleanable
from ottla.storage.config import TopicConfig
from ottla.storage.files import OsFiles
from ottla.storage.log import Log
from ottla.storage.replacement import Replacement

FILES = OsFiles(syncs=False)
LOAD_FACTOR = 0.9
ENOUGH = 1 << 16


def opened(directory: Path, config: Mapping[str, str]) -> Log:
    """The log after a clean stop, with all of it committed."""
    log = Log.open(FILES, str(directory), TopicConfig(config), clean=True)
    log.advance_high_watermark(log.end_offset)
    return log


class Cleaning(NamedTuple):
    """One run over a log: where it starts and when, with how large a map."""

    checkpoint: int | None
    now_ms: int
    map_bytes: int = ENOUGH


class Outcome(NamedTuple):
    """What both say of a run. Of the records that were read Apache does not count those of aborted transactions, and
    bytes depend on compressors."""

    end_offset: int
    records_kept: int


def compact(directory: Path, config: Mapping[str, str], cleaning: Cleaning) -> Outcome | Failed:
    """Open the log, clean it, and close it."""
    log = opened(directory, config)
    found = cleanable(log, cleaning.checkpoint, cleaning.now_ms)
    job = Job.of(
        log,
        found,
        map_bytes=cleaning.map_bytes,
        load_factor=LOAD_FACTOR,
        io_buffer_bytes=1 << 16,
        now_ms=cleaning.now_ms,
        syncs=False,
    )
    result: Outcome | Failed | None = None
    for event in clean(FILES, Job.from_json(job.to_json()), lambda count: None):
        if isinstance(event, Group):
            replacement = Replacement(log, event.base_offsets)
            replacement.prepare()
            assert replacement.commit(cleaning.now_ms)
            replacement.finish()
        elif isinstance(event, Done):
            result = Outcome(event.end_offset, event.stats.records_kept)
        elif isinstance(event, Failed):
            result = event
    assert result is not None
    log.remove_doomed(cleaning.now_ms + 10**9)
    log.close()
    return result
