"""The cleaner: which log is compacted next, and the life of the workers that do it.

Every `log.cleaner.backoff.ms`, and at once when there is a reason, it looks over the logs whose `cleanup.policy` names
`compact`, and has the filthiest that is due cleaned: by workers beside the event loop (`cleaning_worker`), at most
`log.cleaner.threads` at a time, which come when there is work and go when there is none. `cleaning_run` is the way of
one log from job to checkpoint, `cleaning_state` what is remembered of each.

A log whose cleaning fails stays as it was: one message says so, and it is tried again after a pause that grows.
"""

import asyncio
import contextlib
import errno
import logging
import time
from collections.abc import Coroutine, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.broker.cleaning_run import LogChanged, Run
from ottla.broker.cleaning_state import CHANGES_MAX, CleaningStatus, LogState, State
from ottla.broker.cleaning_worker import NoWorker, Worker, WorkerProcess, WorkerThread, has_real_files
from ottla.broker.config import BrokerConfig
from ottla.broker.upkeep import FULL, LOGS_AT_A_TIME
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.storage.cleaning.job import Done, Failed, Job
from ottla.storage.cleaning.plan import Cleanable, cleanable, is_due, wants_roll
from ottla.storage.files import OsFiles
from ottla.storage.log import Log
from ottla.storage.log_directory import LogDirectory
from ottla.storage.scan import BrokenChain

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

logger = logging.getLogger(__name__)

IDLE_S = 30.0
"""How long a worker that has nothing to do is kept: its memory is wanted back."""
_SCARCE = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN}
"""What a process may lack while its disk is in order."""


class Candidate(NamedTuple):
    """A log that can be cleaned."""

    partition: TopicPartition
    directory: LogDirectory
    log: Log
    found: Cleanable


class Cleaning:
    """The cleaner of one broker."""

    def __init__(self, broker: "Broker") -> None:
        self._replicas = broker.replicas
        self._files = broker.files
        self._config = broker.config
        self._clock = broker.clock
        self._sober = broker.sober_clock
        self._upkeep = broker.upkeep
        self._metrics = broker.metrics
        self._states: dict[TopicPartition, LogState] = {}
        self._runs: dict[TopicPartition, tuple[Run, asyncio.Task[None]]] = {}
        self._given_up: set[Run] = set()
        self._idle: dict[Worker, asyncio.TimerHandle] = {}
        self._farewells: set[asyncio.Task[None]] = set()
        self._looking: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._is_stopping = False
        self._last_run_ms: int | None = None
        self._unfollow = [
            self._config.on_change(BrokerConfig.log_cleaner_enable, self._reconsider),
            self._config.on_change(BrokerConfig.log_cleaner_threads, self._reconsider),
            self._config.on_change(BrokerConfig.log_cleaner_backoff_ms, self._reconsider),
            self._config.on_change(BrokerConfig.log_cleaner_dedupe_buffer_size, self._reconsider),
            self._config.on_change(BrokerConfig.log_cleaner_io_max_bytes_per_second, self._reconsider),
        ]
        self._follow_gauges()

    # --- life ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to look for logs to clean; at once. Once is enough."""
        if self._looking is None and not self._is_stopping:
            self._looking = asyncio.create_task(self._look_again_and_again(), name="clean logs")

    async def stop(self) -> None:
        """Give up what is under way. On return no file of it is left, nor a process."""
        self._end()
        for partition in list(self._runs):
            self.give_up(partition)
        for worker in list(self._idle):
            self._dismiss(worker)
        if self._looking is not None:
            await asyncio.wait([self._looking])
        while self._runs or self._farewells:
            await asyncio.wait([*(task for _, task in self._runs.values()), *self._farewells])

    def kill(self) -> None:
        """Drop everything, as the end of the process would."""
        self._end()
        for run, task in self._runs.values():
            run.is_abandoned = True
            if run.worker is not None:
                run.worker.kill()
            task.cancel()
        for worker in list(self._idle):
            worker.kill()
            self._dismiss(worker)

    def _end(self) -> None:
        self._is_stopping = True
        while self._unfollow:
            self._unfollow.pop()()
        if self._looking is not None:
            self._looking.cancel()

    # --- what others ask ----------------------------------------------------------------------------------------

    def request(self, topic_partition: TopicPartition) -> None:
        """Clean a log now, the active segment too: it is closed for that. Raises KafkaError if it cannot be compacted.

        A log that is being cleaned is cleaned once more after that."""
        directory, log = self._log_of(topic_partition)
        if "compact" not in log.config.cleanup_policy:
            detail = f"the cleanup.policy of {topic_partition.topic} does not name compact"
            raise KafkaError(ErrorCode.INVALID_CONFIG, detail)
        if not self._config.log_cleaner_enable:
            raise KafkaError(ErrorCode.INVALID_CONFIG, "compaction is paused: log.cleaner.enable is false")
        if self._config.log_cleaner_threads == 0:
            raise KafkaError(ErrorCode.INVALID_CONFIG, "nobody compacts: log.cleaner.threads is 0")
        try:
            log.roll()
        except OSError as error:
            self._disk_refused(directory, error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{log.directory}: {error}") from error
        state = self._state(topic_partition, log)
        state.requested_to, state.failure = log.end_offset, None
        self.start()
        self._wake.set()

    def status(self, topic_partition: TopicPartition) -> CleaningStatus:
        """How it stands with a log. Raises KafkaError if it is not here."""
        directory, log = self._log_of(topic_partition)
        state = self._state(topic_partition, log)
        checkpoint = directory.cleaned_to(topic_partition)
        try:
            found = cleanable(log, checkpoint, self._sober.now_ms())
        except BrokenChain:  # whoever looks for work says so
            found = Cleanable(checkpoint or log.log_start_offset, log.log_start_offset, 0, 0, False)
        if topic_partition not in self._runs:
            return state.status(self._state_at_rest(state, found), found)
        run, _ = self._runs[topic_partition]
        phase: State = "mapping" if run.mapped is None else "copying"
        return state.status(
            phase if self._config.log_cleaner_enable else "paused",
            found,
            done_bytes=run.done_bytes,
            total_bytes=run.total_bytes,
        )

    def _state_at_rest(self, state: LogState, found: Cleanable) -> State:
        if state.pauses:
            return "paused"
        if state.failure is not None:
            return "uncleanable"
        is_waiting = state.is_wanted(found) or is_due(found, state.log.config)
        if not is_waiting or "compact" not in state.log.config.cleanup_policy:
            return "idle"
        return "waiting" if self._config.log_cleaner_enable else "paused"

    async def pause(self, topic_partition: TopicPartition) -> None:
        """Return when nobody cleans this log, and nobody will until `resume`. Who pauses twice resumes twice."""
        _, log = self._log_of(topic_partition)
        self._state(topic_partition, log).pauses += 1
        await self.end(topic_partition)

    def resume(self, topic_partition: TopicPartition) -> None:
        state = self._states.get(topic_partition)
        if state is not None and state.pauses > 0:
            state.pauses -= 1
            self._wake.set()

    def give_up(self, topic_partition: TopicPartition) -> None:
        """Clean this log no further. What is under way ends soon, and leaves no files."""
        run, task = self._runs.get(topic_partition, (None, None))
        if run is not None and task is not None and run not in self._given_up:
            self._given_up.add(run)  # a second cancellation would disturb the tidying up
            task.cancel()

    async def end(self, topic_partition: TopicPartition) -> None:
        """Give up, and return when nobody works on the files of this log any more."""
        if topic_partition in self._runs:
            _, task = self._runs[topic_partition]
            self.give_up(topic_partition)
            await asyncio.wait([task])

    def _log_of(self, topic_partition: TopicPartition) -> tuple[LogDirectory, Log]:
        log = self._replicas.get(*topic_partition).log
        for directory in self._replicas.directories:
            if directory.logs.get(topic_partition) is log:
                return directory, log
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log of {topic_partition} is not in service")

    def _state(self, topic_partition: TopicPartition, log: Log) -> LogState:
        state = self._states.get(topic_partition)
        if state is None or state.log is not log:
            state = self._states[topic_partition] = LogState(log)
        return state

    # --- looking ------------------------------------------------------------------------------------------------

    def _reconsider(self, _: object) -> None:
        self._share_rate()
        self._wake.set()

    async def _look_again_and_again(self) -> None:
        while not self._is_stopping:
            self._wake.clear()
            try:
                await self.look()
            except Exception:
                logger.exception(
                    "a failure of ours: could not look for logs to clean; it is tried again later"
                )
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._config.cleaner_backoff_s):
                    await self._wake.wait()

    async def look(self) -> None:
        """Have the filthiest logs cleaned, those first that somebody asked for, as many as there are workers for."""
        self._forget_what_is_gone()
        now_ms = self._sober.now_ms()
        due: list[tuple[bool, float, Candidate]] = []
        dirtiest = 0.0
        for number, (partition, directory, log) in enumerate(list(self._compacted()), 1):
            if number % LOGS_AT_A_TIME == 0:
                await asyncio.sleep(0)
            if not self._is_served(partition, directory, log):
                continue
            try:
                found = self._look_at(partition, directory, log, now_ms)
            except (OSError, KafkaError) as error:
                cause = log.failure or error
                if isinstance(cause, OSError):
                    self._disk_refused(directory, cause)
                continue
            except BrokenChain as damage:
                self._remember(partition, log, Failed(str(damage)), ())
                continue
            dirtiest = max(dirtiest, found.ratio)
            is_wanted = self._state(partition, log).is_wanted(found)
            if is_wanted or is_due(found, log.config):
                due.append((is_wanted, found.ratio, Candidate(partition, directory, log, found)))
        self._metrics.cleaner_dirty_ratio.labels().set(dirtiest)
        for _, _, candidate in sorted(due, key=lambda each: each[:2], reverse=True):
            if not self._config.log_cleaner_enable or len(self._runs) >= self._config.log_cleaner_threads:
                return
            self._consider(candidate)

    def _look_at(
        self, partition: TopicPartition, directory: LogDirectory, log: Log, now_ms: int
    ) -> Cleanable:
        if self._config.log_cleaner_enable and wants_roll(log, now_ms):
            state, elapsed_ms = self._state(partition, log), self._clock.monotonic_ms()
            if state.may_roll(elapsed_ms):
                log.roll()
                state.rolled_ms = elapsed_ms
        return cleanable(log, directory.cleaned_to(partition), now_ms)

    def _compacted(self) -> Iterator[tuple[TopicPartition, LogDirectory, Log]]:
        for directory in self._replicas.directories:
            for partition, log in directory.logs.items():
                if "compact" in log.config.cleanup_policy:
                    yield partition, directory, log

    def _is_served(self, partition: TopicPartition, directory: LogDirectory, log: Log) -> bool:
        """By whom it is led does not matter, every replica has a log of its own. One that is about to go is not."""
        replica = self._replicas.partitions.get(partition)
        if replica is None or replica.log is not log or replica.is_stopped:
            return False
        return directory in self._replicas.directories and log.failure is None

    def _forget_what_is_gone(self) -> None:
        partitions = self._replicas.partitions
        gone = [
            p
            for p, state in self._states.items()
            if p not in partitions or partitions[p].log is not state.log
        ]
        for partition in gone:
            del self._states[partition]

    def _consider(self, candidate: Candidate) -> None:
        partition, directory, log, found = candidate
        state = self._state(partition, log)
        if partition in self._runs or state.pauses or not self._is_served(partition, directory, log):
            return
        circumstances = self._circumstances(log, found)
        if not state.may_try(circumstances, self._clock.monotonic_ms()):
            return
        try:
            job = self._job(log, found)
        except OSError as error:
            self._disk_refused(directory, error)
            return
        run = Run(partition, directory, log, job, circumstances, self._replicas.in_thread)
        task = asyncio.create_task(self._clean(run), name=f"clean {partition}")
        task.add_done_callback(lambda _: self._ended(run))  # one that is given up early never begins
        self._runs[partition] = run, task

    def _circumstances(self, log: Log, found: Cleanable) -> tuple[Any, ...]:
        """What must change for a cleaning that failed to be worth another try at once."""
        config = self._config
        means = (config.log_cleaner_dedupe_buffer_size, config.log_cleaner_threads)
        topic = (log.config.segment_bytes, log.config.max_message_bytes)
        first = log.segments[0].base_offset
        return (*means, config.log_cleaner_io_buffer_load_factor, *topic, first, found.first_dirty_offset)

    def _job(self, log: Log, found: Cleanable) -> Job:
        config, threads = self._config, max(1, self._config.log_cleaner_threads)
        return Job.of(
            log,
            found,
            map_bytes=config.log_cleaner_dedupe_buffer_size // threads,
            load_factor=config.log_cleaner_io_buffer_load_factor,
            io_buffer_bytes=config.log_cleaner_io_buffer_size // threads,
            now_ms=self._sober.now_ms(),
            syncs=not isinstance(self._files, OsFiles) or self._files.syncs,
        )

    # --- cleaning -----------------------------------------------------------------------------------------------

    async def _clean(self, run: Run) -> None:
        began = time.monotonic()
        try:
            worker = await self._hire()
            run.worker = worker
            self._share_rate()
            outcome = await run.carry_out(worker, self._files, self._clock.monotonic_ms)
            if isinstance(outcome, Done):
                self._rest(worker)
                await self._done(run, outcome, time.monotonic() - began)
            else:
                self._failed(run, outcome)
        except LogChanged:
            self._changed(run)
        except NoWorker as error:
            self._failed(run, Failed(str(error)))
        except OSError as error:
            self._failed(run, Failed(str(error), error.errno))
        except KafkaError as error:
            cause = run.log.failure or error.__context__  # compiled code sets no __cause__
            self._failed(run, Failed(error.detail, cause.errno if isinstance(cause, OSError) else None))
        except Exception as error:
            logger.exception("a failure of ours: could not clean %s", run.partition)
            self._failed(run, Failed(f"a failure of ours: {error!r}"))

    def _ended(self, run: Run) -> None:
        del self._runs[run.partition]
        self._given_up.discard(run)
        self._share_rate()
        self._wake.set()

    async def _done(self, run: Run, outcome: Done, seconds: float) -> None:
        if not run.is_current:
            return
        if outcome.end_offset <= run.job.first_dirty_offset:  # it would be done over and over
            self._failed(run, Failed(f"it did not get beyond offset {outcome.end_offset}"))
            return
        offset = min(outcome.end_offset, run.log.end_offset)
        for write in run.directory.note_cleaned(run.partition, offset):
            await run.in_thread(write)
        self._upkeep.look_at([run.partition.topic])  # the files of what was replaced go after their delay
        stats, metrics = outcome.stats, self._metrics
        self._state(run.partition, run.log).succeeded(stats, self._clock.now_ms())
        self._last_run_ms = self._clock.monotonic_ms()
        metrics.cleaner_runs.labels().add()
        metrics.cleaner_bytes_read.labels().add(stats.bytes_read)
        metrics.cleaner_bytes_kept.labels().add(stats.bytes_kept)
        metrics.cleaner_records_read.labels().add(stats.records_read)
        metrics.cleaner_records_kept.labels().add(stats.records_kept)
        if run.mapped is not None and run.mapped.keys_max:
            metrics.cleaner_map_utilization.labels().set(run.mapped.keys / run.mapped.keys_max)
        logger.info(
            "compacted %s up to offset %d: %d of %d bytes and %d of %d records are left, in %.1f s",
            *(run.partition, offset, stats.bytes_kept, stats.bytes_read),
            *(stats.records_kept, stats.records_read, seconds),
        )

    def _failed(self, run: Run, outcome: Failed) -> None:
        if not run.is_current and run.log.failure is None:
            return  # it was deleted meanwhile, or is not to be compacted any more
        if outcome.errno == errno.ENOENT and not run.has_its_segments:
            self._changed(run)
            return
        if outcome.errno is not None and outcome.errno not in FULL | _SCARCE:
            self._replicas.directory_failed(run.directory.path, OSError(outcome.errno, outcome.reason))
            return
        self._remember(run.partition, run.log, outcome, run.circumstances)

    def _remember(
        self, partition: TopicPartition, log: Log, outcome: Failed, circumstances: tuple[Any, ...]
    ) -> None:
        self._metrics.cleaner_failures.labels().add()
        is_news = self._state(partition, log).failed(
            outcome.reason,
            is_full=outcome.errno in FULL,
            circumstances=circumstances,
            now_ms=self._clock.monotonic_ms(),
        )
        if is_news:
            logger.error(
                "%s cannot be compacted: %s; it stays as it is, and is tried again later",
                *(partition, outcome.reason),
            )

    def _changed(self, run: Run) -> None:
        """Retention was faster: what is left is looked at again. Not for ever, if there is no end of it."""
        if run.is_current:
            state = self._state(run.partition, run.log)
            state.changes += 1
            if state.changes > CHANGES_MAX:
                self._failed(run, Failed("its segments change while it is being compacted"))

    def _disk_refused(self, directory: LogDirectory, error: OSError) -> None:
        """A full disk is told of by the first who has to write there."""
        if error.errno not in FULL:
            self._replicas.directory_failed(directory.path, error)

    # --- workers ------------------------------------------------------------------------------------------------

    @property
    def workers(self) -> list[Worker]:
        """Those that are at work, then those that wait for some."""
        return [run.worker for run, _ in self._runs.values() if run.worker is not None] + list(self._idle)

    async def _hire(self) -> Worker:
        for worker in list(self._idle):
            self._idle.pop(worker).cancel()
            if worker.is_usable:
                return worker
            self._part(worker.close())
        if has_real_files(self._files):
            return await WorkerProcess.start()
        return WorkerThread(self._files, self._replicas.in_thread)

    def _rest(self, worker: Worker) -> None:
        """Keep it for a while: another log may be due."""
        if self._is_stopping:
            self._part(worker.close())
        else:
            self._idle[worker] = asyncio.get_running_loop().call_later(IDLE_S, self._dismiss, worker)

    def _dismiss(self, worker: Worker) -> asyncio.Task[None]:
        self._idle.pop(worker).cancel()
        return self._part(worker.close())

    def _part(self, closing: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(closing, name="dismiss a cleaner")
        self._farewells.add(task)
        task.add_done_callback(self._farewells.discard)
        return task

    def _share_rate(self) -> None:
        """All workers together keep to the limit; nobody gets anything while the cleaner is paused."""
        workers = [run.worker for run, _ in self._runs.values() if run.worker is not None]
        whole = self._config.cleaner_rate if self._config.log_cleaner_enable else 0.0
        for worker in workers:
            worker.set_rate(None if whole is None else whole / len(workers))

    # --- numbers ------------------------------------------------------------------------------------------------

    def _follow_gauges(self) -> None:
        metrics = self._metrics
        metrics.cleaner_running.labels().follow(lambda: len(self._runs))
        metrics.cleaner_uncleanable.labels().follow(
            lambda: sum(state.failure is not None for state in self._states.values())
        )
        metrics.cleaner_idle_seconds.labels().follow(self._idle_seconds)

    def _idle_seconds(self) -> float:
        if self._last_run_ms is None:
            return -1.0
        return (self._clock.monotonic_ms() - self._last_run_ms) / 1000
