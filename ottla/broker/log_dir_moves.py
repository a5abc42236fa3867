"""Moving replicas between the log directories of this broker, while they are served (KIP-113).

A move copies the log into a future log (`storage.future`) in threads, chunk by chunk, within the rate of
`replica.alter.log.dirs.io.max.bytes.per.second`. When nothing is left to copy, syncs of the log are held for a moment,
the copy is made to last, and in one turn of the event loop what came meanwhile is copied and the copy is put in place.
The `Log` stays the object that it was, so leadership, watermarks and whoever waits for them go on; readers that hold
places in the old files read on, as these stay open until they are deleted.

Whatever ends a move early leaves the log where it was. Compaction pauses meanwhile: a copy that held records from
before one, and the rest from after it, could bring back what was deleted.
"""

import asyncio
import logging
import os.path
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from ottla.broker.upkeep import FULL
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.replication.partition import Partition
from ottla.replication.throttle import RateLimit
from ottla.storage import checkpoints
from ottla.storage.future import FutureLog
from ottla.storage.log import Log
from ottla.storage.log_directory import LogDirectory

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

logger = logging.getLogger(__name__)

T = TypeVar("T")
THROTTLED_S = 0.05
"""How long to wait before the rate is looked at again."""
ROUNDS_MAX = 10
"""Attempts to put a copy in place while syncs are held: after so many, those that wait for them get their turn."""
_NAME_BYTES_MAX = 255
_FUTURE_SUFFIX_BYTES = len(".-future") + 32


class LogDirMoves:
    """The moves of one broker."""

    def __init__(self, broker: "Broker") -> None:
        self.broker = broker
        self.replicas = broker.replicas
        config = broker.config
        self.limit = RateLimit(
            windows=config.replication_quota_window_num, window_s=config.replication_quota_window_size_seconds
        )
        self.under_way: dict[TopicPartition, Move] = {}
        self._ordering = asyncio.Lock()
        self._old: dict[Log, asyncio.TimerHandle] = {}
        self.replicas.end_move = self.end
        self.replicas.end_moves = self.close

    # --- what is asked of us ------------------------------------------------------------------------------------

    async def move(self, topic_partition: TopicPartition, path: str) -> None:
        """Begin to move a replica to the directory at `path`, instead of where it is being moved to. Raises KafkaError
        if that cannot be."""
        async with self._ordering:
            partition, target = self._partition_for(topic_partition, path)
            under_way = self.under_way.get(topic_partition)
            if under_way is not None and under_way.target is not target:
                await self.end(topic_partition)
            elif under_way is not None and not under_way.has_arrived:
                return
            elif under_way is not None:
                await under_way.over()
            source = self._source_of(partition)
            if source is target:
                return
            if self.replicas.offline:  # it could have a future log there already
                detail = f"nothing is moved while {', '.join(self.replicas.offline)} is offline"
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, detail)
            await asyncio.shield(self._begin(partition, source, target).begun)

    def _partition_for(self, topic_partition: TopicPartition, path: str) -> tuple[Partition, LogDirectory]:
        if len(str(topic_partition)) + _FUTURE_SUFFIX_BYTES > _NAME_BYTES_MAX:
            detail = f"the name of {topic_partition.topic} is too long for that of a future log"
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, detail)
        target = self._directory(path)
        try:
            return self.replicas.get(*topic_partition), target
        except KafkaError as error:
            if error.code is not ErrorCode.NOT_LEADER_OR_FOLLOWER:
                raise
            self.replicas.preferred[topic_partition] = target
            detail = f"{error.detail}; if it gets one, that will be in {path}"
            raise KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE, detail) from error

    def _directory(self, path: str) -> LogDirectory:
        for directory in self.replicas.directories:
            if os.path.abspath(directory.path) == path:
                return directory
        if any(os.path.abspath(each) == path for each in self.replicas.offline):
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log directory {path} is offline")
        raise KafkaError(ErrorCode.LOG_DIR_NOT_FOUND, f"{path} is not in log.dirs")

    def _source_of(self, partition: Partition) -> LogDirectory:
        for directory in self.replicas.directories:
            if directory.logs.get(partition.topic_partition) is partition.log:
                return directory
        detail = f"{partition.topic_partition} is in no directory that is in use"
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, detail)

    def _begin(self, partition: Partition, source: LogDirectory, target: LogDirectory) -> "Move":
        move = Move(self, partition, source, target)
        self.under_way[partition.topic_partition] = move
        move.task = asyncio.create_task(move.carry_out(), name=f"move {partition.topic_partition}")
        move.task.add_done_callback(lambda _: self._ended(move))
        return move

    def _ended(self, move: "Move") -> None:
        if self.under_way.get(move.topic_partition) is move:
            del self.under_way[move.topic_partition]
        move.refuse(
            KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE, f"the move of {move.topic_partition} was given up")
        )

    def begin_anew(self, partition: Partition) -> None:
        """The last broker of these directories may have been about to move it."""
        target = self.replicas.unfinished.pop(partition.topic_partition, None)
        if target is None or partition.is_stopped or self.replicas.offline:
            return
        source = self._source_of(partition)
        if target is not source and target in self.replicas.directories:
            logger.info("the move of %s to %s begins anew", partition.topic_partition, target.path)
            self._begin(partition, source, target)

    async def end(self, topic_partition: TopicPartition) -> None:
        """Move it no further. Return when nobody works on its files any more."""
        move = self.under_way.get(topic_partition)
        if move is not None:
            move.give_up()
            await move.over()

    async def close(self) -> None:
        """Give up what is under way; the next start begins it anew."""
        for move in list(self.under_way.values()):
            move.give_up()
        while self.under_way:
            await asyncio.gather(*(move.over() for move in list(self.under_way.values())))
        for log, timer in self._old.items():
            timer.cancel()
            log.abandon()
        self._old.clear()

    def keep_for_a_while(self, log: Log) -> None:
        """Readers may hold places in the files of a log that has moved."""
        delay_s = log.config.file_delete_delay_ms / 1000
        self._old[log] = asyncio.get_running_loop().call_later(delay_s, self._let_go, log)

    def _let_go(self, log: Log) -> None:
        self._old.pop(log, None)
        log.abandon()


class Move:
    """One replica on its way to another directory."""

    def __init__(
        self, moves: LogDirMoves, partition: Partition, source: LogDirectory, target: LogDirectory
    ) -> None:
        self.topic_partition = partition.topic_partition
        self.source = source
        self.target = target
        self._moves = moves
        self._replicas = moves.replicas
        self._clock = moves.broker.clock
        self._partition = partition
        self._future = FutureLog(partition.topic_partition, partition.log, source, target)
        self._is_given_up = False
        self.has_arrived = False
        """Does the log lie in the other directory? What is left to do is to tidy up."""
        self.begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when there is a future log, or an error says why there is none."""
        self.task: asyncio.Task[None]

    def give_up(self) -> None:
        """Unless it has arrived. It ends soon."""
        if not self._is_given_up and not self.has_arrived:
            self._is_given_up = True
            self.task.cancel()

    async def over(self) -> None:
        await asyncio.wait([self.task])

    async def carry_out(self) -> None:
        where, cleaning = self.topic_partition, self._moves.broker.cleaning
        try:
            await cleaning.pause(where)
            try:
                await self._create()
                await self._retire(await self._copy_until_in_place())
            finally:
                cleaning.resume(where)
        except (KafkaError, OSError) as error:
            self._failed(error)
        except asyncio.CancelledError:
            if not self._is_given_up:
                raise
        except Exception as error:
            logger.exception("a failure of ours: the move of %s to %s is given up", where, self.target.path)
            self.refuse(error)
        finally:
            if not self.has_arrived:
                await self._drop_copy()

    # --- copying ------------------------------------------------------------------------------------------------

    async def _create(self) -> None:
        for step in self._future.begin(self._partition.topic_id):
            await self._in_thread(step)
            self._check()
        self._future.opened()
        self.begun.set_result(None)

    async def _copy_until_in_place(self) -> Log:
        """Returns what the log was made of before."""
        commit = self._replicas.commit_of(self._partition.log)
        while True:
            await self._catch_up()
            await self._in_thread(self._future.begin_settling())  # now, so that nobody waits for most of it
            try:
                await commit.pause()
                if (old := await self._put_in_place()) is not None:
                    return old
            finally:
                commit.resume()
                self._partition.synced()

    async def _put_in_place(self) -> Log | None:
        """While nobody else syncs the log: what is synced of it must be synced of the copy."""
        for _ in range(ROUNDS_MAX):
            await self._catch_up(is_throttled=False)
            await self._in_thread(self._future.begin_settling())
            for step in self.target.begin_checkpoint(*checkpoints.OFFSETS, always=True):
                await self._in_thread(step)
            self._check()
            if self._future.catches_up(self._clock.now_ms()):
                old = self._future.take_place()
                self.has_arrived = True
                return old
        return None

    async def _catch_up(self, *, is_throttled: bool = True) -> None:
        """Copy until nothing is left. On return there is nothing, unless somebody gets a turn."""
        limit, config = self._moves.limit, self._moves.broker.config
        while True:
            self._check()
            try:
                step = self._future.next_step(self._clock.now_ms())
                if step is None:
                    return
                limit.record(await self._in_thread(step), self._clock.monotonic_ms())
            except KafkaError:
                if not self._future.is_overtaken:  # else it follows the log first
                    raise
            limit.bytes_per_s = config.replica_alter_log_dirs_io_max_bytes_per_second
            while is_throttled and limit.is_exceeded(self._clock.monotonic_ms()):
                await asyncio.sleep(THROTTLED_S)
                self._check()

    def _check(self) -> None:
        """Raise unless the replica is still where it was, and may go where it should."""
        partition, directories = self._partition, self._replicas.directories
        if partition.is_stopped or self.source.logs.get(self.topic_partition) is not partition.log:
            raise KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE, f"{self.topic_partition} is not here any more")
        for directory in self.source, self.target:
            if directory not in directories:
                detail = f"the log directory {directory.path} is not in use any more"
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, detail)
        if partition.log.failure is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{partition.log.directory} has failed")

    # --- ending -------------------------------------------------------------------------------------------------

    async def _retire(self, old: Log) -> None:
        """What the log was made of goes; readers have it open for a while."""
        where = self.topic_partition
        logger.info("%s lies in %s now, and not in %s any more", where, self.target.path, self.source.path)
        try:
            await self._in_thread(partial(self.source.retire, where, old))
            for step in self.source.begin_checkpoint(*checkpoints.OFFSETS):
                await self._in_thread(step)
        except OSError as error:
            if error.errno not in FULL:
                self._replicas.directory_failed(self.source.path, error)
            else:
                logger.warning(
                    "in %s something is left of %s, which has moved: %s", self.source.path, where, error
                )
        finally:
            self._moves.keep_for_a_while(old)

    def _failed(self, error: KafkaError | OSError) -> None:
        logger.error("the move of %s to %s is given up: %s", self.topic_partition, self.target.path, error)
        log = self._future.log
        cause = error if log is None or log.failure is None else log.failure
        if isinstance(cause, OSError):
            if cause.errno not in FULL:
                self._replicas.directory_failed(self.target.path, cause)
            error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.target.path}: {cause}")
        self.refuse(error)

    def refuse(self, error: Exception) -> None:
        """Tell who asked for it, unless it has begun."""
        if not self.begun.done():
            self.begun.set_exception(error)
            self.begun.exception()  # counts as seen: who asked may be gone

    async def _drop_copy(self) -> None:
        """A broker that ends leaves it to the next one. So does a move whose log is out of reach: it may be all that is
        left."""
        self._future.abandon()
        directories = self._replicas.directories
        if self._replicas.is_closing or not {self.source, self.target} <= set(directories):
            return
        try:
            await self._in_thread(self._future.discard)
        except OSError as error:
            logger.warning("%s/%s could not be removed: %s", self.target.path, self._future.name, error)

    async def _in_thread(self, step: Callable[[], T]) -> T:
        """What a thread has begun on the disk is waited for, even by a move that is given up."""
        running = asyncio.ensure_future(self._replicas.in_thread(step))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            await asyncio.wait([running])
            running.cancelled() or running.exception()
            raise
