"""Making records last: syncs leave the event loop for a thread, and requests that arrive together share one.

A sync has three parts, so that the log itself is touched by its owner only: `Log.begin_flush` says what is to be
synced, `FlushJob.run` syncs it (in a thread, if need be), `Log.end_flush` moves the recovery point.
"""

import asyncio
from typing import NamedTuple, NoReturn, Protocol

from ottla.core.errors import ErrorCode, KafkaError
from ottla.storage.files import Files
from ottla.storage.segment import Segment


class FlushJob(NamedTuple):
    """What has to reach the disk for everything below `end_offset` to last."""

    segments: tuple[Segment, ...]
    snapshots: tuple[str, ...]
    directory: str | None
    end_offset: int
    truncations: int
    directory_changes: int

    def run(self, files: Files) -> None:
        """Bytes first, then the names that lead to them."""
        for segment in self.segments:
            segment.sync()
        for path in self.snapshots:
            _sync_if_there(files, path)
        if self.directory is not None:
            files.sync_directory(self.directory)


def _sync_if_there(files: Files, path: str) -> None:
    try:
        file = files.open(path)
    except FileNotFoundError:
        return  # removed meanwhile, together with its segment
    try:
        file.sync()
    finally:
        file.close()


class Flushable(Protocol):
    """As much of a Log as a group commit needs."""

    recovery_point: int
    end_offset: int

    def begin_flush(self) -> FlushJob: ...

    def end_flush(self, job: FlushJob) -> None: ...

    def flush_failed(self, error: OSError) -> NoReturn: ...


class GroupCommit:
    """Flush before acknowledging: everything that was appended while one sync runs shares the next."""

    def __init__(self, log: Flushable, files: Files) -> None:
        self._log = log
        self._files = files
        self._running: asyncio.Task[None] | None = None

    async def reach(self, offset: int) -> None:
        """Return when all records below `offset` are on the disk.

        Raises KafkaError when the disk refuses, and when the records were cut off meanwhile.
        """
        while self._log.recovery_point < offset:
            if offset > self._log.end_offset:
                detail = f"records below {offset} were truncated before they were on the disk"
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, detail)
            if self._running is None:
                self._running = asyncio.create_task(self._flush(), name="flush")
            # Shielded: a caller that gives up must not take the sync away from the others.
            await asyncio.shield(self._running)

    async def _flush(self) -> None:
        try:
            job = self._log.begin_flush()
            try:
                await asyncio.to_thread(job.run, self._files)
            except OSError as error:
                self._log.flush_failed(error)
            self._log.end_flush(job)
        finally:
            self._running = None
