"""One cleaning of one log, from the job to the checkpoint.

A worker writes replacements beside the segments and never touches these; the broker, which owns the log, swaps them in,
group by group. Whatever ends a run early leaves the log as the last group left it, and no file of the rest.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from ottla.broker.cleaning_worker import Worker
from ottla.core.ids import TopicPartition
from ottla.storage.cleaning.job import Done, Event, Failed, Group, Job, Mapped, Progress
from ottla.storage.files import Files, remove_all
from ottla.storage.log import Log
from ottla.storage.log_directory import LogDirectory
from ottla.storage.replacement import Replacement
from ottla.storage.swap import CLEANED_SUFFIX

logger = logging.getLogger(__name__)

T = TypeVar("T")


class LogChanged(Exception):
    """Segments that were being cleaned were deleted, or cut, or the log is gone."""


class Run:
    """A cleaning that is under way."""

    def __init__(
        self,
        partition: TopicPartition,
        directory: LogDirectory,
        log: Log,
        job: Job,
        circumstances: tuple[Any, ...],
        in_thread: Callable[[Callable[[], Any]], Awaitable[Any]],
    ) -> None:
        self.partition = partition
        self.directory = directory
        self.log = log
        self.job = job
        self.circumstances = circumstances
        self._in_thread = in_thread
        self._cuts = directory.cuts[partition]
        self.mapped: Mapped | None = None
        self.done_bytes = self.total_bytes = 0
        self.worker: Worker | None = None
        self.is_abandoned = False
        """The broker was killed: files stay as they are, as they would after the end of its process."""

    async def carry_out(self, worker: Worker, files: Files, monotonic_ms: Callable[[], int]) -> Done | Failed:
        """Raises LogChanged if it became pointless on the way, OSError if the disk refused a swap."""
        self.worker = worker
        has_ended = False
        try:
            async with contextlib.aclosing(worker.clean(self.job)) as events:
                async for event in events:
                    if isinstance(event, Done | Failed):
                        has_ended = isinstance(event, Done)
                        return event
                    await self._follow(event, monotonic_ms)
            raise AssertionError("a cleaning ends with Done or Failed")
        finally:
            self.worker = None
            if not has_ended and not self.is_abandoned:
                await worker.close()
                with contextlib.suppress(OSError):  # the next start would remove them too
                    await self.in_thread(lambda: _remove_cleaned(files, self.log.directory))

    async def _follow(self, event: Event, monotonic_ms: Callable[[], int]) -> None:
        if isinstance(event, Mapped):
            self.mapped = event
        elif isinstance(event, Progress):
            self.done_bytes, self.total_bytes = event
        elif isinstance(event, Group):
            await self._swap_in(Replacement(self.log, event.base_offsets), monotonic_ms)

    async def _swap_in(self, replacement: Replacement, monotonic_ms: Callable[[], int]) -> None:
        is_committed = False
        try:
            await self.in_thread(replacement.prepare)
            is_committed = self.is_current and replacement.commit(monotonic_ms())
            if not is_committed:
                raise LogChanged
        finally:
            if not is_committed and not self.is_abandoned:  # the cleaned files, too, would be in the way
                with contextlib.suppress(OSError):
                    await self.in_thread(replacement.cancel)
        await self.in_thread(replacement.finish)

    @property
    def is_current(self) -> bool:
        """Is the log still there, in service, and to be compacted? One that was cut may have got other batches since:
        what its worker has seen says nothing about it, not even about the segments that were not cut."""
        is_here = self.directory.logs.get(self.partition) is self.log and self.log.failure is None
        is_whole = self.directory.cuts[self.partition] == self._cuts
        return is_here and is_whole and "compact" in self.log.config.cleanup_policy

    @property
    def has_its_segments(self) -> bool:
        """Are those that it was about to clean still in the log? If not, a file that is missing is no wonder."""
        here = {segment.base_offset for segment in self.log.segments}
        return all(base in here for base, _ in self.job.segments)

    async def in_thread(self, step: Callable[[], T]) -> T:
        """What a thread has begun on the disk is waited for, even by a run that is given up."""
        running = asyncio.ensure_future(self._in_thread(step))
        try:
            result: T = await asyncio.shield(running)
        except asyncio.CancelledError:
            if not self.is_abandoned:
                await asyncio.wait([running])
            running.add_done_callback(lambda done: done.cancelled() or done.exception())
            raise
        return result


def _remove_cleaned(files: Files, directory: str) -> None:
    names = [name for name in files.names(directory) if name.endswith(CLEANED_SUFFIX)]
    remove_all(files, (f"{directory}/{name}" for name in names))
