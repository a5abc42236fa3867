"""What a broker does while nobody asks: it lets old records go, makes written ones last, and notes how far it is.

Each duty goes over the logs of all directories, a few at a time so that requests are served in between, and leaves the
waiting for a disk to threads. Duties do not wait for each other, and one that crashes is tried again at its next turn.
A disk that fails is reported, and taken out of service by whoever owns it. A disk that is full is not: what it holds
can still be read, and retention may make room.

Old segments are looked for at intervals, and at once in the logs of topics whose settings changed or whose records were
deleted. Nothing is deleted because somebody set the clock: see `SoberClock`.
"""

import asyncio
import errno
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, Protocol
from weakref import WeakSet

from ottla.broker.sober_clock import NOTED_EVERY_MS, SoberClock, write_note
from ottla.core.clock import Clock
from ottla.core.errors import KafkaError
from ottla.core.ids import TopicPartition
from ottla.storage import checkpoints
from ottla.storage.files import Files
from ottla.storage.flushing import GroupCommit
from ottla.storage.log import Log
from ottla.storage.scan import BrokenChain
from ottla.storage.segment import Segment

logger = logging.getLogger(__name__)

FIRST_RETENTION_MS = 30_000  # after the start: clients come first
FLUSH_LOOK_MS = 1_000  # how often logs are asked whether they want a sync, if no setting says oftener
WAIT_S_MAX = 86_400.0
LOGS_AT_A_TIME = 50  # some 0.3 ms of work before requests get their turn
SEGMENTS_AT_A_TIME = 20  # some 5 ms: each has three or four files to rename
PAUSE_MS_MIN = 1_000
FUTURE_MS = 86_400_000  # so far ahead, a timestamp is worth mentioning
FULL = {errno.ENOSPC, errno.EDQUOT}


class Directory(Protocol):
    """As much of a LogDirectory as is looked after here."""

    path: str
    logs: dict[TopicPartition, Log]

    def begin_checkpoint(self, *names: str) -> list[Callable[[], None]]: ...

    def deleted(self) -> list[str]: ...

    def remove_deleted(self, names: list[str]) -> int: ...


class Keeper(Protocol):
    """Who owns the directories, and acts when one fails."""

    @property
    def directories(self) -> Sequence[Directory]: ...

    def directory_failed(self, path: str, error: OSError) -> object: ...

    def commit_of(self, log: Log) -> GroupCommit:
        """Who syncs this log, for producers that wait for it, too."""


class Settings(Protocol):
    """As much of a BrokerConfig as is read here, by the names of the keys."""

    def __getitem__(self, name: str) -> Any: ...


class Duty(NamedTuple):
    """Something to do again and again: what, and how long to wait before the first and between two turns."""

    do: Callable[[], Awaitable[None]]
    interval_ms: Callable[[], int]
    first_ms_max: int = 2**63 - 1

    @property
    def name(self) -> str:
        return getattr(self.do, "__name__", "duty").replace("_", " ")


class Upkeep:
    """The duties of one broker. `start` and `stop` it, or `run_once` where a test wants no waiting."""

    def __init__(
        self, keeper: Keeper, settings: Settings, clock: Clock, files: Files, sober: SoberClock | None = None
    ) -> None:
        self._keeper = keeper
        self._settings = settings
        self._clock = clock
        self._files = files
        self._sober = sober or SoberClock(clock)
        self._noted_at = clock.monotonic_ms() - NOTED_EVERY_MS
        self._hurried: set[str] = set()  # topics that cannot wait for the next turn
        self._hurry = asyncio.Event()
        self._mentioned: WeakSet[Log] = WeakSet()  # logs that hold records from the future
        self._deleted_seen: dict[str, int] = {}  # path of a deleted partition -> when it was first seen
        self._full: set[str] = set()  # directories whose disk was full at the last attempt
        self._stopping = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def duties(self) -> list[Duty]:
        def every(key: str, ms_max: int = 2**63 - 1, ms_min: int = 1) -> Callable[[], int]:
            # 0 may be set, and means soon: not without a pause.
            return lambda: max(ms_min, min(self._settings[key] or PAUSE_MS_MIN, ms_max))

        return [
            Duty(self.flush_due_logs, every("log.flush.scheduler.interval.ms", FLUSH_LOOK_MS)),
            Duty(self.note_high_watermarks, every("replica.high.watermark.checkpoint.interval.ms")),
            Duty(self.note_recovery_points, every("log.flush.offset.checkpoint.interval.ms")),
            Duty(self.note_log_starts, every("log.flush.start.offset.checkpoint.interval.ms")),
            Duty(self.delete_old_segments, every("log.retention.check.interval.ms"), FIRST_RETENTION_MS),
            Duty(self.expire_producers, every("producer.id.expiration.check.interval.ms")),
            Duty(self.remove_deleted_partitions, every("log.segment.delete.delay.ms", ms_min=PAUSE_MS_MIN)),
            Duty(self.note_clock, lambda: NOTED_EVERY_MS, FIRST_RETENTION_MS),
        ]

    def start(self) -> None:
        self._hurried.clear()  # the settings that were found at the start are no changes
        self._tasks = [asyncio.create_task(self._repeat(duty), name=duty.name) for duty in self.duties]
        self._tasks.append(asyncio.create_task(self._delete_when_due(), name="delete when due"))

    async def stop(self) -> None:
        """Return when nothing is under way any more: what a thread syncs must not be closed under its hands."""
        self._stopping.set()
        self._hurry.set()
        await asyncio.gather(*self._tasks)
        await self._run(Duty(partial(self.note_clock, always=True), lambda: 0))

    def kill(self) -> None:
        """Drop everything, as the end of the process would."""
        for task in self._tasks:
            task.cancel()

    async def run_once(self) -> None:
        """Every duty once, one after the other."""
        for duty in self.duties:
            await self._run(duty)

    async def _repeat(self, duty: Duty) -> None:
        wait_ms = min(duty.interval_ms(), duty.first_ms_max)
        while not await self._is_stopping_within(wait_ms):
            await self._run(duty)
            wait_ms = duty.interval_ms()

    async def _is_stopping_within(self, wait_ms: int, woken: asyncio.Event | None = None) -> bool:
        """Wait for so long, or until somebody wakes us."""
        with suppress(TimeoutError):
            await asyncio.wait_for((woken or self._stopping).wait(), min(max(wait_ms, 1) / 1000, WAIT_S_MAX))
        return self._stopping.is_set()

    async def _run(self, duty: Duty) -> None:
        try:
            await duty.do()
        except Exception:
            logger.exception("a failure of ours: could not %s; it is tried again later", duty.name)

    # --- duties -------------------------------------------------------------------------------------------------

    async def delete_old_segments(self, topics: Collection[str] | None = None) -> None:
        """What `retention.ms` and `retention.bytes` let go; its files follow after `file.delete.delay.ms`."""
        monotonic_ms = self._clock.monotonic_ms()

        async def delete_old(log: Log) -> bool:
            count = log.delete_old(self._sober.now_ms(), monotonic_ms, SEGMENTS_AT_A_TIME)
            if doomed := log.take_doomed(monotonic_ms):
                await asyncio.to_thread(_remove, doomed)  # large files take their time
            elif count:
                await asyncio.sleep(0)  # requests get their turn
            else:
                self._mention_future(log)
            # Fewer were all. What has come since, of a producer whose records are old as they come, waits for its turn.
            return count == SEGMENTS_AT_A_TIME

        await self._for_each_log(delete_old, topics)
        self._hurry.set()  # there may be files to remove later

    def _mention_future(self, log: Log) -> None:
        """A record from the future keeps everything behind it: whoever wonders about a full disk should be told."""
        config = log.config
        if len(log.segments) < 2 or config.retention_ms < 0 or "delete" not in config.cleanup_policy:
            return
        ahead_ms = log.segments[0].newest_ms - self._clock.now_ms()
        if ahead_ms > FUTURE_MS and log not in self._mentioned:
            self._mentioned.add(log)
            logger.warning(
                "%s holds records from %d days ahead; by their age, nothing of it is deleted before that",
                log.directory,
                ahead_ms // FUTURE_MS,
            )

    def look_at(self, topics: Iterable[str]) -> None:
        """Something changed that retention goes by: do not wait for the next turn with the logs of these topics."""
        self._hurried.update(topics)
        self._hurry.set()

    async def _delete_when_due(self) -> None:
        """Old segments of topics that cannot wait, and files whose delay has passed."""
        while not await self._is_stopping_within(self._removal_wait_ms(), self._hurry):
            self._hurry.clear()
            due, self._hurried = self._hurried | self._topics_to_remove_from(), set()
            if due:
                await self._run(Duty(partial(self.delete_old_segments, due), lambda: 0))

    def _removal_wait_ms(self) -> int:
        """How long until the next file has to go. Never at once: whatever is wrong with it, it can wait that long."""
        waits = (wait_ms for _, wait_ms in self._removals())
        return max(PAUSE_MS_MIN, min(waits, default=2**63 - 1))

    def _topics_to_remove_from(self) -> set[str]:
        return {partition.topic for partition, wait_ms in self._removals() if wait_ms == 0}

    def _removals(self) -> Iterator[tuple[TopicPartition, int]]:
        """Partitions that have files of deleted segments, and how long these have to stay."""
        now_ms = self._clock.monotonic_ms()
        for directory in self._keeper.directories:
            for partition, log in directory.logs.items():
                wait_ms = log.doomed.wait_ms(now_ms, log.config.file_delete_delay_ms)
                if wait_ms is not None and log.failure is None:
                    yield partition, wait_ms

    async def flush_due_logs(self) -> None:
        """Sync logs whose policy asks for it, and closed segments, so that a recovery need not read them."""
        now_ms = self._clock.now_ms()

        def flush(log: Log) -> Awaitable[None] | None:
            if log.has_closed_unsynced or log.is_flush_due(now_ms):
                return self._keeper.commit_of(log).reach(log.end_offset)
            return None

        await self._for_each_log(flush)

    async def expire_producers(self) -> None:
        """Forget idempotent producers that were silent for `producer.id.expiration.ms`."""
        now_ms = self._sober.now_ms()

        def expire(log: Log) -> None:
            log.producers.expire(now_ms, log.config.producer_id_expiration_ms)

        await self._for_each_log(expire)

    async def note_clock(self, *, always: bool = False) -> None:
        """What time it is: the next start must not believe in a clock that was set ahead meanwhile."""
        now_ms = self._clock.monotonic_ms()
        directory = next(iter(self._keeper.directories), None)
        if directory is None or (now_ms - self._noted_at < NOTED_EVERY_MS and not always):
            return
        try:
            await asyncio.to_thread(write_note, self._files, directory.path, self._sober.noted)
        except OSError as error:
            self._disk_refused(directory, error)
        else:
            self._noted_at = now_ms

    async def note_high_watermarks(self) -> None:
        await self._checkpoint(checkpoints.HIGH_WATERMARK)

    async def note_recovery_points(self) -> None:
        await self._checkpoint(checkpoints.RECOVERY_POINT)

    async def note_log_starts(self) -> None:
        await self._checkpoint(checkpoints.LOG_START)

    async def remove_deleted_partitions(self) -> None:
        """The files of deleted partitions, once they lay there for `log.segment.delete.delay.ms`."""
        now_ms = self._clock.monotonic_ms()
        delay_ms = self._settings["log.segment.delete.delay.ms"]
        seen: dict[str, int] = {}
        for directory in list(self._keeper.directories):
            try:
                names = await asyncio.to_thread(directory.deleted)
                since = {n: self._deleted_seen.get(f"{directory.path}/{n}", now_ms) for n in names}
                due = [name for name, at_ms in since.items() if now_ms - at_ms >= delay_ms]
                await asyncio.to_thread(directory.remove_deleted, due)
            except OSError as error:
                self._disk_refused(directory, error)
                continue
            seen |= {f"{directory.path}/{name}": at_ms for name, at_ms in since.items() if name not in due}
        self._deleted_seen = seen

    async def _checkpoint(self, name: str) -> None:
        for directory in list(self._keeper.directories):
            try:
                for write in directory.begin_checkpoint(name):
                    await asyncio.to_thread(write)
            except OSError as error:
                self._disk_refused(directory, error)
            else:
                self._full.discard(directory.path)

    # --- going over the logs, and what goes wrong there ----------------------------------------------------------

    async def _for_each_log(
        self, do: Callable[[Log], Awaitable[bool | None] | None], topics: Collection[str] | None = None
    ) -> None:
        """Whatever `do` returns is waited for; if that is True, there is more to do. Logs that failed, or are gone by
        then, are left alone."""
        for directory in list(self._keeper.directories):
            for count, (partition, log) in enumerate(list(directory.logs.items()), 1):
                if count % LOGS_AT_A_TIME == 0:
                    await asyncio.sleep(0)
                if topics is not None and partition.topic not in topics:
                    continue
                try:
                    while log.failure is None and self._is_kept(directory, partition, log):
                        if (waiting := do(log)) is None or not await waiting:
                            break
                except (KafkaError, BrokenChain, OSError) as error:
                    if self._is_kept(directory, partition, log):
                        self._log_refused(directory, log, error)

    def _is_kept(self, directory: Directory, partition: TopicPartition, log: Log) -> bool:
        """Is it still there, and its directory in service?"""
        return directory.logs.get(partition) is log and directory in self._keeper.directories

    def _log_refused(self, directory: Directory, log: Log, error: KafkaError | BrokenChain | OSError) -> None:
        cause: BaseException | None = error
        if isinstance(error, KafkaError):
            # Compiled code sets no __cause__, but both know in the midst of what an error was raised.
            cause = log.failure or error.__context__
        if isinstance(cause, OSError):
            self._disk_refused(directory, cause, is_fatal=log.failure is not None)
        else:
            logger.warning("%s: %s", log.directory, error)

    def _disk_refused(self, directory: Directory, error: OSError, *, is_fatal: bool = False) -> None:
        if error.errno not in FULL or is_fatal:
            self._keeper.directory_failed(directory.path, error)
        elif directory.path not in self._full:
            self._full.add(directory.path)
            logger.error("the disk of %s is full: nothing more can be written there", directory.path)


def _remove(segments: list[Segment]) -> None:
    for segment in segments:
        segment.remove()
