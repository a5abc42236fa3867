"""Making records last: syncs leave the event loop for a thread, and requests that arrive together share one.

A sync has three parts, so that the log itself is touched by its owner only: `Log.begin_flush` says what is to be
synced, `FlushJob.run` syncs it (in a thread, if need be), `Log.end_flush` moves the recovery point.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import NamedTuple, NoReturn, Protocol

from ottla.core.errors import ErrorCode, KafkaError
from ottla.storage.files import Files
from ottla.storage.segment import Segment
from ottla.storage.segments import Segments


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


class Unsynced:
    """What of a log has yet to reach the disk, and what of that is under way."""

    def __init__(self, recovery_point: int, rewritten_from: int) -> None:
        self.recovery_point = recovery_point
        self._from = min(rewritten_from, recovery_point)  # a recovery writes indexes below its point anew
        self._since_ms: int | None = None
        self._truncations = 0
        # Changes of names in the directory, and how many of them a sync of it has made to last.
        self._changes, self._changes_synced = 1, 0
        self._created = 1  # the last of these changes that brought a name

    def append(self, now_ms: int) -> None:
        if self._since_ms is None:
            self._since_ms = now_ms

    def change_names(self) -> None:
        """Files were created, renamed or removed."""
        self._changes += 1
        self._created = self._changes

    def drop_names(self) -> None:
        """Files were only put out of the way: if a crash brings them back, nothing is lost."""
        self._changes += 1

    @property
    def has_new_names(self) -> bool:
        """Could a crash take away the name of a file that belongs to the log?"""
        return self._changes_synced < self._created

    def names_synced(self) -> None:
        """The directory, as it is now, is on the disk."""
        self._changes_synced = self._changes

    def truncate(self, offset: int) -> bool:
        """Batches at `offset` and behind it are about to go. True if the recovery point had to go down."""
        self._truncations += 1
        is_lower = offset < self.recovery_point
        self.recovery_point = min(self.recovery_point, offset)
        return is_lower

    def cut_back(self, base_offset: int) -> None:
        """Half a batch was cut off the segment at `base_offset` again. Until that is synced too, a crash may bring it
        back: in front of newer segments, if the log has rolled since."""
        self._truncations += 1
        self._from = min(self._from, base_offset)

    def is_due(self, end_offset: int, records_max: int, wait_ms_max: int, now_ms: int) -> bool:
        """Counted from the recovery point: records whose sync is under way are not on the disk yet."""
        if end_offset - self.recovery_point >= records_max:
            return True
        return self._since_ms is not None and now_ms - self._since_ms >= wait_ms_max

    def segments(self, segments: Segments) -> tuple[Segment, ...]:
        return tuple(segments.from_offset(min(self.recovery_point, self._from)))

    def begin(
        self, segments: tuple[Segment, ...], snapshots: Iterable[str], directory: str, end_offset: int
    ) -> FlushJob:
        self._since_ms = None
        changed = directory if self._changes > self._changes_synced else None
        return FlushJob(segments, tuple(snapshots), changed, end_offset, self._truncations, self._changes)

    def end(self, job: FlushJob) -> None:
        """The job is done. If the log was truncated meanwhile, what it synced is not what is there now."""
        self._changes_synced = max(self._changes_synced, job.directory_changes)
        if job.truncations == self._truncations:
            self.recovery_point = self._from = max(self.recovery_point, job.end_offset)


class Flushable(Protocol):
    """As much of a Log as a group commit needs."""

    end_offset: int

    @property
    def recovery_point(self) -> int: ...

    def is_flush_due(self, now_ms: int) -> bool: ...

    def begin_flush(self) -> FlushJob: ...

    def end_flush(self, job: FlushJob) -> None: ...

    def flush_failed(self, error: OSError) -> NoReturn: ...


class GroupCommit:
    """Flush before acknowledging: everything that was appended while one sync runs shares the next."""

    def __init__(self, log: Flushable, files: Files) -> None:
        self._log = log
        self._files = files
        self._running: asyncio.Task[None] | None = None
        self._has_ended = False
        self._paused: asyncio.Event | None = None
        self.on_synced: Callable[[], object] = lambda: None
        """Called when more of the log is on the disk."""

    async def settle(self, offset: int, now_ms: int) -> None:
        """Return when the topic's flush policy lets records below `offset` be acknowledged."""
        if self._log.is_flush_due(now_ms):
            await self.reach(offset)

    async def reach(self, offset: int) -> None:
        """Return when all records below `offset` are on the disk.

        Raises KafkaError when the disk refuses, and when the records were cut off meanwhile.
        """
        while self._log.recovery_point < offset:
            if offset > self._log.end_offset:
                detail = f"records below {offset} were truncated before they were on the disk"
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, detail)
            if self._running is None:
                if self._has_ended:
                    raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the log is not in use any more")
                if self._paused is not None:
                    await self._paused.wait()
                    continue
                self._running = asyncio.create_task(self._flush(), name="flush")
            # Shielded: a caller that gives up must not take the sync away from the others.
            await asyncio.shield(self._running)

    async def pause(self) -> None:
        """Return when no sync is under way. Whoever asks for one waits for `resume`."""
        if self._paused is None:
            self._paused = asyncio.Event()
        if self._running is not None:
            await asyncio.wait([self._running])

    def resume(self) -> None:
        paused, self._paused = self._paused, None
        if paused is not None:
            paused.set()

    async def end(self) -> None:
        """Begin no more syncs, and return when none is under way."""
        self._has_ended = True
        self.resume()
        if self._running is not None:
            await asyncio.wait([self._running])

    async def _flush(self) -> None:
        try:
            job = self._log.begin_flush()
            try:
                await asyncio.to_thread(job.run, self._files)
            except OSError as error:
                self._log.flush_failed(error)
            self._log.end_flush(job)
            self.on_synced()
        finally:
            self._running = None
