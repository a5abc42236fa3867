"""The partitions that this broker has replicas of, and the directories they lie in: step 4 in the life of a produce.

Partitions come and go by the controller's word only: `leader_and_isr` and `stop_replicas` are what its requests call.
A directory whose disk fails goes offline alone, with its partitions; the others serve on.
"""

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from ottla.broker.upkeep import FULL
from ottla.core.errors import ConfigError, ErrorCode, KafkaError, ProtocolError
from ottla.core.ids import TopicPartition
from ottla.replication.leading import LAG_MS
from ottla.replication.partition import Partition
from ottla.replication.state import NO_EPOCH, PartitionState
from ottla.storage import checkpoints, leftovers
from ottla.storage.check import CorruptLog
from ottla.storage.config import TopicConfig
from ottla.storage.files import Files
from ottla.storage.flushing import GroupCommit
from ottla.storage.log import Log
from ottla.storage.log_directory import LogDirectory

logger = logging.getLogger(__name__)

T = TypeVar("T")
Progress = Callable[[int, int], None]
_Made = Log | KafkaError
_AT_ONCE = 8
"""Partitions whose logs are made side by side."""


class Replicas:
    """This broker's partitions, by topic and number."""

    def __init__(
        self,
        broker_id: int,
        files: Files,
        config_of: Callable[[str], TopicConfig],
        is_known: Callable[[TopicPartition], bool],
        monotonic_ms: Callable[[], int] = lambda: 0,
    ) -> None:
        self._broker_id = broker_id
        self._monotonic_ms = monotonic_ms
        self.lag_ms = LAG_MS
        """How long a follower may be behind before it is out of sync."""
        self.broker_epoch: Callable[[], int] = lambda: NO_EPOCH
        """The life that this broker is in."""
        self._files = files
        self._config_of = config_of
        self._is_known = is_known
        """Does the cluster have such a partition, here or elsewhere?"""
        self.partitions: dict[TopicPartition, Partition] = {}
        self._by_topic: dict[str, dict[int, Partition]] = {}
        self.directories: list[LogDirectory] = []
        self.offline: dict[str, str] = {}
        """Directories that failed, and why."""
        self._offline_partitions: dict[TopicPartition, str] = {}
        self._commits: dict[Log, GroupCommit] = {}
        self._changing = asyncio.Lock()
        self._steps: set[asyncio.Future[Any]] = set()
        """What threads do on the disk."""
        self.is_closing = False
        self._controller_epoch = -1
        self.on_failed: Callable[[list[TopicPartition]], object] = lambda partitions: None
        """Called with the partitions of a directory that has failed, while others are left."""
        self.on_all_failed: Callable[[], object] = lambda: None
        self.on_deleted: Callable[[str], object] = lambda topic: None
        """Called when the last replica of a topic was deleted here."""
        self.on_moved: Callable[[Partition], object] = lambda partition: None
        """Called when this broker may have become leader of a partition, or ceased to be it."""
        self.before_release: Callable[[TopicPartition], Awaitable[None]] = _nothing
        """Called before a log is let go: returns when nobody works on its files behind our back."""
        self.end_move: Callable[[TopicPartition], Awaitable[None]] = _nothing
        """Called before that: a replica that goes is not moved any more."""
        self.end_moves: Callable[[], Awaitable[None]] = _no_moves
        """Called when the directories are to be let go."""
        self.preferred: dict[TopicPartition, LogDirectory] = {}
        """Where replicas are to be created that are not here yet, for those that somebody named a directory for."""
        self.unfinished: dict[TopicPartition, LogDirectory] = {}
        """Replicas that were being moved when the last broker of these directories ended, and where to."""
        self._topic_ids: dict[TopicPartition, uuid.UUID] = {}
        """Of the logs that were found at the start."""

    # --- opening and closing ------------------------------------------------------------------------------------

    def open(self, paths: Sequence[str], on_progress: Progress = lambda done, total: None) -> None:
        """Open every directory, recovering what needs it. One that cannot be opened is offline from the start.

        Raises ConfigError if none can."""
        for path in paths:
            try:
                directory = LogDirectory.open(self._files, path, self._config_of, on_progress)
            except OSError as error:
                logger.error("the log directory %s cannot be used: %s", path, error)
                self.offline[path] = str(error)
            else:
                self.directories.append(directory)
        if not self.directories:
            reasons = "; ".join(f"{path}: {reason}" for path, reason in self.offline.items())
            raise ConfigError(f"no log directory can be used: {reasons}")
        self.unfinished = leftovers.settle(self.directories, are_all_here=not self.offline)

    @property
    def was_clean(self) -> bool:
        """Was the last shutdown of every directory a clean one?"""
        return all(directory.was_clean for directory in self.directories)

    @property
    def clean_epoch(self) -> int:
        """The broker epoch in which every directory was shut down cleanly; NO_EPOCH if there is no such."""
        epochs = {directory.clean_broker_epoch for directory in self.directories}
        epoch = epochs.pop() if len(epochs) == 1 and not self.offline else None
        return NO_EPOCH if epoch is None else epoch

    def forget_strays(
        self,
        topic_ids: Mapping[str, uuid.UUID],
        lost: Mapping[tuple[int, uuid.UUID], Collection[int]] | None = None,
    ) -> list[TopicPartition]:
        """Leave alone what lies here but belongs to no topic of the cluster: it is not served, and not deleted.

        Only what we are known to have `lost`, by broker and topic id, is: it was taken from us while we were away."""
        strays = []
        for directory in self.directories:
            for topic_partition in [*directory.logs, *directory.damaged]:
                known = topic_ids.get(topic_partition.topic)
                try:
                    found = directory.topic_id(topic_partition)
                except (OSError, ProtocolError) as error:
                    logger.error("%s is set aside: %s", topic_partition, error)
                    directory.set_aside(topic_partition, CorruptLog(str(error)))
                    continue
                if lost and found and topic_partition.partition in lost.get((self._broker_id, found), ()):
                    self._delete_lost(directory, topic_partition)
                elif known is None or found not in (None, known):
                    directory.release(topic_partition)
                    strays.append(topic_partition)
                elif found is not None:
                    self._topic_ids[topic_partition] = found
        if strays:
            logger.warning(
                "%d partitions on the disk belong to no topic and are not served: %s", *_few(strays)
            )
        return strays

    def _delete_lost(self, directory: LogDirectory, topic_partition: TopicPartition) -> None:
        logger.info("%s was taken from this broker and is deleted", topic_partition)
        try:
            directory.delete(topic_partition)
        except OSError as error:  # it is let go already, and a stray from now on
            logger.error("%s cannot be deleted: %s", topic_partition, error)

    async def end_syncs(self) -> None:
        """Return when no thread works on the disk any more: a sync that fails must be known before logs are closed."""
        await self.end_moves()
        for commit in list(self._commits.values()):
            await commit.end()
        while self._steps:
            await asyncio.wait(self._steps)

    def close(self, broker_epoch: int) -> None:
        """Flush everything and say so."""
        for directory in self.directories:
            try:
                directory.close(broker_epoch)
            except OSError as error:
                logger.error("%s was not closed cleanly: %s", directory.path, error)

    async def abandon(self) -> None:
        """Let go of everything as it is, as a crash would. Orders that are still being followed touch nothing more: the
        directories may be another broker's by then."""
        directories, self.directories = self.directories, []
        await self.end_syncs()  # what a thread has handed to the kernel cannot be taken back
        for directory in directories:
            for log in directory.logs.values():
                log.abandon()

    # --- finding ------------------------------------------------------------------------------------------------

    def get(self, topic: str, index: int) -> Partition:
        """The partition, whoever leads it. Raises 3, 6 or 56 if it is not here."""
        by_index = self._by_topic.get(topic)
        partition = None if by_index is None else by_index.get(index)
        if partition is None:
            raise self._absent(TopicPartition(topic, index))
        return partition

    def _absent(self, topic_partition: TopicPartition) -> KafkaError:
        if topic_partition in self._offline_partitions:
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, self._offline_partitions[topic_partition])
        if self._is_known(topic_partition):
            detail = f"broker {self._broker_id} has no replica of {topic_partition}"
            return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, detail)
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no {topic_partition}")

    def reconfigured(self, topics: Collection[str]) -> None:
        """It takes another number of replicas or syncs now to commit what these topics hold."""
        for topic in topics:
            for partition in self._by_topic.get(topic, {}).values():
                partition.reconfigured()

    def commit_of(self, log: Log) -> GroupCommit:
        """Who syncs this log, one that is in use, for all that wait for it.

        There is one only. Of two syncs at once the kernel tells one that it failed, and the other that all is well.
        """
        commit = self._commits.get(log)
        if commit is None:
            commit = self._commits[log] = GroupCommit(log, self._files)
        return commit

    # --- what the controller says -------------------------------------------------------------------------------

    async def leader_and_isr(
        self, controller_epoch: int, states: Sequence[PartitionState]
    ) -> dict[TopicPartition, ErrorCode]:
        """Become leader or follower of these partitions; create the logs of those that are new here."""
        results: dict[TopicPartition, ErrorCode] = {}
        async with self._changing:
            if self._is_stale(controller_epoch):
                return {state.topic_partition: ErrorCode.STALE_CONTROLLER_EPOCH for state in states}
            for first in range(0, len(states), _AT_ONCE):
                some = states[first : first + _AT_ONCE]
                if self.is_closing:  # the next start creates what is missing
                    results |= dict.fromkeys(
                        (s.topic_partition for s in some), ErrorCode.BROKER_NOT_AVAILABLE
                    )
                    continue
                made = await self._create_logs(some)
                for state in some:
                    results[state.topic_partition] = self._follow_orders(state, made)
        return results

    def _is_stale(self, controller_epoch: int) -> bool:
        """Is this the word of a controller that has been replaced, though it does not know yet?"""
        if controller_epoch < self._controller_epoch:
            return True
        self._controller_epoch = controller_epoch
        return False

    def _follow_orders(self, state: PartitionState, made: Mapping[TopicPartition, _Made]) -> ErrorCode:
        topic_partition = state.topic_partition
        partition = self.partitions.get(topic_partition)
        if partition is None:
            try:
                partition = self._add(state, made.get(topic_partition))
            except KafkaError as error:
                self._offline_partitions[topic_partition] = error.detail
                return error.code
        elif partition.topic_id != state.topic_id:
            return ErrorCode.INCONSISTENT_TOPIC_ID
        partition.lag_ms, partition.broker_epoch = self.lag_ms, self.broker_epoch()
        try:
            is_news = partition.follow_orders(state, self._monotonic_ms())
        except KafkaError as error:  # a follower may have to cut its log
            self.note_failure(partition)
            return error.code
        if not is_news:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        self.on_moved(partition)
        return ErrorCode.NONE

    def _add(self, state: PartitionState, made: _Made | None) -> Partition:
        topic_partition = state.topic_partition
        log = self._find_log(topic_partition) if made is None else made
        if isinstance(log, KafkaError):
            raise log
        assert log is not None, "what was not here was made"
        partition = Partition(self._broker_id, topic_partition, state.topic_id, log)
        self.commit_of(log).on_synced = partition.synced
        self.partitions[topic_partition] = partition
        self._by_topic.setdefault(topic_partition.topic, {})[topic_partition.partition] = partition
        self._offline_partitions.pop(topic_partition, None)
        return partition

    def _find_log(self, topic_partition: TopicPartition) -> Log | None:
        for directory in self.directories:
            if (log := directory.logs.get(topic_partition)) is not None:
                return log
            if (damage := directory.damaged.get(topic_partition)) is not None:
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{topic_partition} is damaged: {damage}")
        return None

    async def _create_logs(self, states: Sequence[PartitionState]) -> dict[TopicPartition, _Made]:
        """The logs that are new here, or why there is none. They are made side by side: each waits for the disk."""
        for state in states:
            await self._delete_former(state)
        missing = [state for state in states if not self._is_here(state.topic_partition)]
        counts = {directory: len(directory.logs) for directory in self.directories}
        steps = [self._create_log(state, counts) for state in missing]
        made = await asyncio.gather(*steps)
        return {state.topic_partition: log for state, log in zip(missing, made, strict=True)}

    async def _delete_former(self, state: PartitionState) -> None:
        """When we started, another topic had this name. It was deleted before anybody knew that we are back: its log is
        not to be taken for the new one's."""
        found = self._topic_ids.pop(state.topic_partition, state.topic_id)
        if found != state.topic_id and state.topic_partition not in self.partitions:
            await self._delete(state.topic_partition)

    def _is_here(self, topic_partition: TopicPartition) -> bool:
        if topic_partition in self.partitions:
            return True
        return any(
            topic_partition in each.logs or topic_partition in each.damaged for each in self.directories
        )

    async def _create_log(self, state: PartitionState, counts: dict[LogDirectory, int]) -> _Made:
        """In the directory with the fewest partitions; `counts` knows of those that are under way, too."""
        topic_partition = state.topic_partition
        if self.offline and not state.is_new:  # an empty log in its place would look like lost records
            detail = f"{topic_partition} may be in {', '.join(self.offline)}, which has failed"
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, detail)
        if not counts:
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "every log directory has failed")
        if not state.is_new:
            logger.warning("%s should be here and is not: it starts empty", topic_partition)
        directory = self.preferred.pop(topic_partition, None)
        if directory not in counts:
            directory = min(counts, key=lambda each: counts[each])
        counts[directory] += 1
        try:
            await self._run(directory, directory.begin_create(topic_partition, state.topic_id))
            return directory.end_create(topic_partition)
        except KafkaError as error:
            return error
        except OSError as error:
            detail = f"{topic_partition} cannot be created in {directory.path}: {error}"
            logger.error(detail)
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, detail)

    async def stop_replicas(
        self, controller_epoch: int, partitions: Mapping[TopicPartition, bool]
    ) -> dict[TopicPartition, ErrorCode]:
        """Stop serving these partitions; where the value is True, delete them."""
        results = {}
        async with self._changing:
            if self._is_stale(controller_epoch):
                return dict.fromkeys(partitions, ErrorCode.STALE_CONTROLLER_EPOCH)
            for topic_partition, is_deleted in partitions.items():
                await self._let_go(topic_partition)
                self._offline_partitions.pop(topic_partition, None)
                results[topic_partition] = (
                    await self._delete(topic_partition) if is_deleted else ErrorCode.NONE
                )
            for directory in list(self.directories):
                await self._try(directory, directory.begin_checkpoint(*checkpoints.OFFSETS, always=True))
        return results

    async def _let_go(self, topic_partition: TopicPartition) -> None:
        """Serve it no more, and let its last sync end: one whose file is moved away would look like a broken disk."""
        partition = self.partitions.get(topic_partition)
        if partition is not None:
            partition.stop()
            self.on_moved(partition)
            await self.end_move(topic_partition)
            await self.before_release(topic_partition)
            await self.commit_of(partition.log).end()
            self._forget(topic_partition)

    async def _delete(self, topic_partition: TopicPartition) -> ErrorCode:
        code = ErrorCode.NONE
        for directory in list(self.directories):
            is_here = topic_partition in directory.logs or topic_partition in directory.damaged
            if is_here and not await self._try(directory, [directory.begin_delete(topic_partition)]):
                code = ErrorCode.KAFKA_STORAGE_ERROR
        if topic_partition.topic not in self._by_topic:
            self.on_deleted(topic_partition.topic)
        return code

    async def _try(self, directory: LogDirectory, steps: Iterable[Callable[[], object]]) -> bool:
        """Do on the disk what deleting takes. False if the disk has failed; one that is full has not: who deletes
        wants to make room."""
        try:
            await self._run(directory, steps)
        except OSError as error:
            if error.errno not in FULL:
                self.directory_failed(directory.path, error)
                return False
            logger.warning("in %s something is deleted, which could not be noted: %s", directory.path, error)
        except KafkaError:
            return False
        return True

    async def _run(self, directory: LogDirectory, steps: Iterable[Callable[[], object]]) -> None:
        """Step by step, as long as the directory is in use."""
        for step in steps:
            await self.in_thread(step)
            if directory not in self.directories:
                detail = f"the log directory {directory.path} is not in use any more"
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, detail)

    async def in_thread(self, step: Callable[[], T]) -> T:
        """Have a thread do what waits for the disk, while others are served. Who waits may give up; what a thread does
        ends all the same, and no directory is let go before."""
        running = asyncio.ensure_future(asyncio.to_thread(step))
        self._steps.add(running)
        running.add_done_callback(self._steps.discard)
        return await asyncio.shield(running)

    def _forget(self, topic_partition: TopicPartition) -> None:
        partition = self.partitions.pop(topic_partition, None)
        if partition is None:
            return
        partition.stop()
        self.on_moved(partition)
        self._commits.pop(partition.log, None)
        rest = self._by_topic[topic_partition.topic]
        del rest[topic_partition.partition]
        if not rest:
            del self._by_topic[topic_partition.topic]

    async def note_log_start(self, partition: Partition) -> None:
        """Return when records that were deleted stay so after a crash. Raises 56 if the disk fails."""
        for directory in list(self.directories):
            if directory.logs.get(partition.topic_partition) is partition.log:
                steps = directory.begin_checkpoint(checkpoints.LOG_START, always=True)
                if not await self._try(directory, steps):
                    raise self._absent(partition.topic_partition)

    # --- failing ------------------------------------------------------------------------------------------------

    def note_failure(self, partition: Partition) -> None:
        """A request to this partition met an error of the disk: if its log has failed, so has its directory.

        Damage within the log is its own: the others in the directory are as good as before.
        """
        if isinstance(partition.log.failure, OSError):
            for directory in self.directories:
                if directory.logs.get(partition.topic_partition) is partition.log:
                    self.directory_failed(directory.path, partition.log.failure)
                    return

    def directory_failed(self, path: str, error: BaseException) -> None:
        """Take a directory offline, with all its partitions."""
        directory = next((each for each in self.directories if each.path == path), None)
        if directory is None:
            return
        logger.error("the log directory %s has failed and goes offline: %s", path, error)
        self.directories.remove(directory)
        self.offline[path] = str(error)
        lost = self._partitions_in(directory)
        for topic_partition in lost:
            self._offline_partitions[topic_partition] = f"the log directory {path} has failed: {error}"
            self._forget(topic_partition)
        for log in directory.logs.values():
            self._commits.pop(log, None)
            log.abandon()
        if self.directories:
            self.on_failed(lost)
        else:
            logger.critical("no log directory is left")
            self.on_all_failed()

    def _partitions_in(self, directory: LogDirectory) -> list[TopicPartition]:
        return [tp for tp, partition in self.partitions.items() if directory.logs.get(tp) is partition.log]


async def _nothing(topic_partition: TopicPartition) -> None:
    """Nobody does."""


async def _no_moves() -> None:
    """There are none."""


def _few(partitions: Sequence[TopicPartition]) -> tuple[int, str]:
    more = ", ..." if len(partitions) > 5 else ""
    return len(partitions), ", ".join(map(str, partitions[:5])) + more
