"""One directory of `log.dirs`: the logs of many partitions, and the files that speak of all of them.

The order of things at start and stop carries the promise that nothing acknowledged is lost: the marker of a clean
shutdown is taken away before anything is opened, and written after everything is flushed. In between, a recovery
point never reaches the disk before the bytes below it, and goes down before a truncation, not after.
"""

import functools
import logging
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from ottla.core.errors import KafkaError, ProtocolError
from ottla.core.ids import DirectoryState, PartitionDirectory, TopicPartition
from ottla.storage import checkpoints, relocation
from ottla.storage.config import TopicConfig
from ottla.storage.files import Files
from ottla.storage.log import Log
from ottla.storage.meta import METADATA_DIRECTORY
from ottla.storage.recovery import CorruptLog

logger = logging.getLogger(__name__)


class LogDirectory:
    """The logs below one path."""

    def __init__(self, files: Files, path: str, config_of: Callable[[str], TopicConfig]) -> None:
        self._files = files
        self.path = path
        self._config_of = config_of
        self.logs: dict[TopicPartition, Log] = {}
        self.damaged: dict[TopicPartition, CorruptLog] = {}
        self.futures: dict[TopicPartition, Log] = {}
        """Copies of logs in other directories, which are to lie here."""
        self.clean_broker_epoch: int | None = None
        self._recovery_points: dict[TopicPartition, int] = {}
        self._log_starts: dict[TopicPartition, int] = {}
        self._high_watermarks: dict[TopicPartition, int] = {}
        self._cleaned: dict[TopicPartition, int] = {}
        self.cuts: Counter[TopicPartition] = Counter()
        """How often a log has lost its end: what somebody has read of it before may not be there any more."""
        self.on_cut: dict[TopicPartition, Callable[[int], None]] = {}
        """Who copies a log is told before it loses what lies at an offset and behind it."""
        self._offset_files = {
            name: checkpoints.OffsetFile(files, f"{path}/{name}") for name in checkpoints.OFFSETS
        }

    @classmethod
    def open(
        cls,
        files: Files,
        path: str,
        config_of: Callable[[str], TopicConfig],
        on_progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> "LogDirectory":
        """Open every log in `path`. One that is damaged below its recovery point is set aside in `damaged`."""
        directory = cls(files, path, config_of)
        files.make_directory(path)
        directory.clean_broker_epoch = checkpoints.take_clean_shutdown(files, path)
        directory._recovery_points = directory._read(checkpoints.RECOVERY_POINT)
        directory._log_starts = directory._read(checkpoints.LOG_START)
        directory._high_watermarks = directory._read(checkpoints.HIGH_WATERMARK)
        directory._cleaned = directory._read(checkpoints.CLEANER)
        partitions = list(directory._partitions())
        for done, partition in enumerate(partitions):
            on_progress(done, len(partitions))
            try:
                directory._open(partition)
            except FileExistsError:
                logger.warning("%s/%s is no directory; it is left alone", path, partition)
        on_progress(len(partitions), len(partitions))
        return directory

    @property
    def was_clean(self) -> bool:
        return self.clean_broker_epoch is not None

    def create(self, partition: TopicPartition, topic_id: uuid.UUID | None = None) -> Log:
        """A new, empty log. Lasts when this returns."""
        for step in self.begin_create(partition, topic_id):
            step()
        return self.end_create(partition)

    def begin_create(
        self, partition: TopicPartition, topic_id: uuid.UUID | None = None
    ) -> list[Callable[[], None]]:
        """The same without waiting for the disk: a thread has to run what this returns, then the owner `end_create`."""
        make = functools.partial(self._make, partition, topic_id, f"{self.path}/{partition}")
        return [*self._begin_to_forget(partition), make]

    def _begin_to_forget(self, partition: TopicPartition) -> list[Callable[[], None]]:
        """Nothing is to be known of an earlier partition of that name: a start that lies beyond the end of the new log
        would let the next start drop all of its records."""
        assert partition not in self.logs and partition not in self.futures, f"{partition} is here already"
        for offsets in (self._recovery_points, self._log_starts, self._high_watermarks, self._cleaned):
            offsets.pop(partition, None)
        stale = [name for name, file in self._offset_files.items() if file.may_name(partition)]
        return self.begin_checkpoint(*stale, always=True)

    def _make(self, partition: TopicPartition, topic_id: uuid.UUID | None, path: str) -> None:
        live = f"{self.path}/{partition}"
        if self._files.exists(live) and not self._is_begun_only(live):
            self._rename(
                partition, "stray"
            )  # of a topic that had this name before: it is kept, out of the way
        self._files.make_directory(path)
        if topic_id is not None:
            checkpoints.write_partition_metadata(self._files, path, topic_id)

    def _is_begun_only(self, path: str) -> bool:
        """Was it made for a log that was never opened? Whoever ordered it may have hung up in between."""
        try:
            names = self._files.names(path)
        except OSError:
            return False
        return all(name.startswith(checkpoints.PARTITION_METADATA) for name in names)

    def end_create(self, partition: TopicPartition) -> Log:
        log = self._open(partition)
        assert log is not None, "an empty log is not damaged"
        return log

    def begin_future(
        self, partition: TopicPartition, topic_id: uuid.UUID | None, path: str
    ) -> list[Callable[[], None]]:
        """A directory for a copy of a log that lies elsewhere: a thread has to run what this returns."""
        return [*self._begin_to_forget(partition), functools.partial(self._make, partition, topic_id, path)]

    def put_in_place(self, partition: TopicPartition, log: Log, source: "LogDirectory") -> Log:
        """Let our future log be the partition's, in one step that lasts on return: `log`, which lay in `source`, lies
        here from now on. Returns what it was made of before, which still has its name in `source`.

        Raises OSError if the disk refuses; then all is as before, as far as anybody can tell."""
        future = self.futures[partition]
        path, before = f"{self.path}/{partition}", future.directory
        if self._is_begun_only(path):  # of a partition that was ordered once, and never came
            self._remove_whole(str(partition))
        self._files.rename(before, path)
        try:
            self._files.sync_directory(self.path)
        except OSError:
            self._files.rename(path, before)
            raise
        relocation.renamed(future, path)
        relocation.exchange(log, future)
        del self.futures[partition], source.logs[partition]
        source._cleaned.pop(partition, None)
        self._own(partition, log)
        return future

    def note_cleaned_elsewhere(self, partition: TopicPartition, source: "LogDirectory") -> None:
        """Our future log is compacted as far as the one that it is copied from."""
        offset = source._cleaned.get(partition)
        if offset is not None:
            self._cleaned[partition] = offset

    def retire(self, partition: TopicPartition, log: Log) -> str:
        """What a log was made of before it moved goes out of the way; it lasts on return. May run in a thread."""
        path = self._rename(partition, "delete")
        relocation.renamed(log, path)
        return path

    def discard(self, name: str, state: DirectoryState) -> str:
        """Rename a directory of ours so that nobody takes it for a log; it lasts on return. Returns its new name."""
        found = PartitionDirectory.parse(name)
        assert found is not None, f"{name} is a directory of a partition"
        renamed = str(found._replace(state=state, unique=uuid.uuid4().hex))
        self._files.rename(f"{self.path}/{name}", f"{self.path}/{renamed}")
        self._files.sync_directory(self.path)
        return renamed

    def has(self, name: str) -> bool:
        return self._files.exists(f"{self.path}/{name}")

    def left_futures(self) -> dict[str, TopicPartition]:
        """The names of copies that were never put in place, and what they are copies of."""
        found = ((name, PartitionDirectory.parse(name)) for name in self._files.names(self.path))
        return {name: each.partition for name, each in found if each is not None and each.state == "future"}

    def topic_id(self, partition: TopicPartition | str) -> uuid.UUID | None:
        """Of a live log, or of a directory that has another name. Raises ProtocolError if that makes no sense."""
        return checkpoints.read_partition_metadata(self._files, f"{self.path}/{partition}")

    def delete(self, partition: TopicPartition) -> str:
        """Take a log out of the way, in one step; `remove_deleted` removes its files. Returns the new path."""
        path = self.begin_delete(partition)()
        self.checkpoint()
        return path

    def begin_delete(self, partition: TopicPartition) -> Callable[[], str]:
        """The same without waiting for the disk: a thread has to run what this returns, and a checkpoint is due."""
        self.release(partition)
        return functools.partial(self._rename, partition, "delete")

    def release(self, partition: TopicPartition) -> None:
        """Let a log lie as it is: it is nobody's."""
        self._cleaned.pop(partition, None)
        if self.damaged.pop(partition, None) is None:
            self.logs.pop(partition).abandon()

    def set_aside(self, partition: TopicPartition, why: CorruptLog) -> None:
        """Let a log lie as it is: whose it is cannot be told."""
        self.release(partition)
        self.damaged[partition] = why

    def _rename(self, partition: TopicPartition, state: DirectoryState) -> str:
        path = f"{self.path}/{PartitionDirectory(partition, state, uuid.uuid4().hex)}"
        self._files.rename(f"{self.path}/{partition}", path)
        self._files.sync_directory(self.path)
        return path

    def deleted(self) -> list[str]:
        """The names under which deleted partitions still lie here."""
        return [name for name in self._files.names(self.path) if _is_deleted(name)]

    def remove_deleted(self, names: Iterable[str] | None = None) -> int:
        """Remove the files of deleted partitions, or of those in `names`; how many. May run in a thread."""
        doomed = self.deleted() if names is None else list(names)
        for name in doomed:
            self._remove_whole(name)
        return len(doomed)

    def _remove_whole(self, name: str) -> None:
        for file in self._files.names(f"{self.path}/{name}"):
            self._files.remove(f"{self.path}/{name}/{file}")
        self._files.remove_directory(f"{self.path}/{name}")

    def checkpoint(self) -> None:
        """Write down recovery points, starts and high watermarks of all logs, and up to where they are compacted."""
        for name, file in self._offset_files.items():
            file.write(self._offsets(name))

    def begin_checkpoint(self, *names: str, always: bool = False) -> list[Callable[[], None]]:
        """The same for some of the files, without waiting for the disk: a thread has to run what this returns.
        Nothing, if nothing has moved, unless it is `always` to be waited for."""
        begun = [self._offset_files[name].begin(self._offsets(name), always=always) for name in names]
        return [write for write in begun if write is not None]

    def _offsets(self, name: str) -> dict[TopicPartition, int]:
        logs = (
            self.logs | self.futures if self.futures else self.logs
        )  # what becomes of a copy must be known before it is put in place
        if name == checkpoints.RECOVERY_POINT:
            points = {p: log.recovery_point for p, log in logs.items()}
            return self._of_damaged(self._recovery_points) | points
        if name == checkpoints.CLEANER:
            known = logs.keys() | self.damaged.keys()
            return {p: offset for p, offset in self._cleaned.items() if p in known}
        if name == checkpoints.LOG_START:
            # A start that the names of the files tell anyway need not be written.
            moved = {
                p: log.log_start_offset
                for p, log in logs.items()
                if log.log_start_offset > log.segments[0].base_offset
            }
            return self._of_damaged(self._log_starts) | moved
        marks = {p: log.high_watermark for p, log in logs.items()}
        return self._of_damaged(self._high_watermarks) | marks

    def cleaned_to(self, partition: TopicPartition) -> int | None:
        """Up to where a log is compacted, None if it never was.

        A checkpoint that cannot be right is corrected: only what is compacted once more is lost by that.
        """
        offset, log = self._cleaned.get(partition), self.logs[partition]
        if offset is None or log.log_start_offset <= offset <= log.end_offset:
            return offset
        # That retention moves the start past what was compacted is in the order of things.
        if offset > log.end_offset or "delete" not in log.config.cleanup_policy:
            logger.warning(
                "%s: its checkpoint says that it is compacted up to offset %d, but it reaches from %d to %d; "
                "compaction begins at its start again",
                *(partition, offset, log.log_start_offset, log.end_offset),
            )
        self._cleaned[partition] = log.log_start_offset
        return log.log_start_offset

    def note_cleaned(self, partition: TopicPartition, offset: int) -> list[Callable[[], None]]:
        """A log is compacted up to `offset`. A thread has to run what this returns for it to last."""
        self._cleaned[partition] = offset
        return self.begin_checkpoint(checkpoints.CLEANER)

    def close(self, broker_epoch: int = -1) -> None:
        """Flush everything and say so. If a log has failed there is no clean shutdown to speak of."""
        is_clean = not self.damaged and all(log.failure is None for log in self.logs.values())
        for partition, log in self.logs.items():
            try:
                log.close()
            except KafkaError as error:
                logger.error("%s was not closed cleanly: %s", partition, error)
                is_clean = False
        self.checkpoint()
        if is_clean:
            checkpoints.write_clean_shutdown(self._files, self.path, broker_epoch)

    def _partitions(self) -> Iterator[TopicPartition]:
        for name in self._files.names(self.path):
            found = PartitionDirectory.parse(name)
            if found is not None and found.state == "live" and name != METADATA_DIRECTORY:
                yield found.partition

    def _open(self, partition: TopicPartition) -> Log | None:
        try:
            log = Log.open(
                self._files,
                f"{self.path}/{partition}",
                self._config_of(partition.topic),
                recovery_point=self._recovery_points.get(partition, 0),
                log_start_offset=self._log_starts.get(partition, 0),
                high_watermark=self._high_watermarks.get(partition, 0),
                clean=self.was_clean,
            )
        except CorruptLog as error:
            logger.error("%s is set aside: %s", partition, error)
            self.damaged[partition] = error
            return None
        self._own(partition, log)
        self.cleaned_to(partition)  # judged now: a log that lost its end may soon have grown beyond it again
        return log

    def _own(self, partition: TopicPartition, log: Log) -> None:
        log.before_truncation = self._checkpoint_recovery_points
        log.before_cut = functools.partial(self._before_cut, partition)
        self.logs[partition] = log

    def _checkpoint_recovery_points(self) -> None:
        self._offset_files[checkpoints.RECOVERY_POINT].write(self._offsets(checkpoints.RECOVERY_POINT))

    def _before_cut(self, partition: TopicPartition, offset: int) -> None:
        """What will be written in place of the cut batches was never compacted."""
        self.cuts[partition] += 1
        if (told := self.on_cut.get(partition)) is not None:
            told(offset)
        if self._cleaned.get(partition, 0) > offset:
            self._cleaned[partition] = offset
            self._offset_files[checkpoints.CLEANER].write(self._offsets(checkpoints.CLEANER))

    def _of_damaged(self, offsets: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        """What was known of logs set aside stays known: without it the next start would cut what this one kept."""
        return {p: offset for p, offset in offsets.items() if p in self.damaged}

    def _read(self, name: str) -> dict[TopicPartition, int]:
        """A checkpoint that cannot be read is as good as none: everything is checked from the start."""
        try:
            return self._offset_files[name].read()
        except ProtocolError as error:
            logger.warning("%s; it is ignored", error)
            return {}


def _is_deleted(name: str) -> bool:
    if not name.endswith("-delete"):
        return False  # almost all of them: looked at again and again, while they are thousands
    found = PartitionDirectory.parse(name)
    return found is not None and found.state == "delete"
