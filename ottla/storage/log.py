"""A partition's log: batches in the order of their offsets, in segments, on a disk that may fail.

Steps 6 and 7 in the life of a produce, the last step in the life of a fetch. One owner writes; nothing here waits.
What is acknowledged may still be in the operating system's memory; what lies below `recovery_point` is on the disk.

    log_start_offset <= high_watermark <= end_offset        recovery_point <= end_offset

An I/O error while writing leaves the log as it was. If even that cannot be had, or a sync fails (then nobody knows
what reached the disk), the log has failed and refuses everything until it is opened again.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, NoReturn

from ottla.core.errors import ErrorCode, KafkaError, ProtocolError
from ottla.core.types import Buffer
from ottla.records.batch import BatchHeader
from ottla.storage import reading, retention, validation
from ottla.storage.config import TopicConfig
from ottla.storage.doomed import Doomed
from ottla.storage.epochs import ANY_EPOCH, LeaderEpochs
from ottla.storage.files import Files
from ottla.storage.flushing import FlushJob, Unsynced
from ottla.storage.producers import Producers
from ottla.storage.reading import Slice, TimedOffset
from ottla.storage.recovery import Recovery, load
from ottla.storage.replacement import Replacement
from ottla.storage.replay import apply_all, check_producer, rebuild_txns, restore
from ottla.storage.scan import BatchAt, BrokenChain
from ottla.storage.segment import RELATIVE_OFFSET_MAX, AppendRefused, Segment
from ottla.storage.segments import Segments
from ottla.storage.snapshots import Snapshots
from ottla.storage.txn_index import AbortedTxn, TxnIndex

logger = logging.getLogger(__name__)


class Appended(NamedTuple):
    """Where batches came to lie. `is_duplicate` if they lay there before and nothing was written."""

    first_offset: int
    last_offset: int
    log_append_time_ms: int = -1
    is_duplicate: bool = False


class Log:
    """One partition's log in one directory."""

    def __init__(
        self, files: Files, directory: str, config: TopicConfig, loaded: Recovery, high_watermark: int
    ) -> None:
        self.files = files
        self.directory = directory
        self.config = config
        self.recovery = loaded
        self.segments: Segments = loaded.segments
        self.producers: Producers = loaded.producers
        self.epochs: LeaderEpochs = loaded.epochs
        self.snapshots = Snapshots(files, directory)
        self.log_start_offset = loaded.log_start_offset
        self.end_offset = loaded.end_offset
        self._unsynced = Unsynced(min(loaded.recovery_point, self.end_offset), loaded.rewritten_from)
        self.high_watermark = max(self.log_start_offset, min(high_watermark, self.end_offset))
        self.failure: OSError | BrokenChain | None = None
        self.before_truncation: Callable[[], None] = lambda: None
        self.before_cut: Callable[[int], None] = lambda offset: None
        self.producers.replicated(self.high_watermark)
        self.doomed = Doomed()
        self.replacement: Replacement | None = None
        self._reads = reading.ReadErrors(self._check_health, self._failed)

    @classmethod
    def open(
        cls,
        files: Files,
        directory: str,
        config: TopicConfig,
        *,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        high_watermark: int = 0,
        clean: bool = False,
    ) -> "Log":
        """Open what is there, or start a new log. Without a `clean` shutdown everything above `recovery_point` is
        read and checked; `log.recovery` tells what was found."""
        files.make_directory(directory)
        loaded = load(files, directory, config, recovery_point, log_start_offset, clean=clean)
        return cls(files, directory, config, loaded, high_watermark)

    # --- writing ------------------------------------------------------------------------------------------------

    def append(self, data: Buffer, leader_epoch: int, now_ms: int, *, client: bool = True) -> Appended:
        """Write a producer's batches as leader: they get the next offsets, in place if `data` is writable.

        A retry of a batch that is here already writes nothing and gets the offsets it got the first time. `client`
        is False for what a broker writes itself: markers of transactions, and what coordinators remember.
        """
        if self.failure is not None:
            self._check_health()
        view = memoryview(data)
        if view.readonly:
            view = memoryview(bytearray(data))
        batches = validation.place(view, self.end_offset, leader_epoch, self.config, now_ms, client=client)
        if not batches:
            raise KafkaError(ErrorCode.INVALID_RECORD, "no batch to append")
        numbered = len(batches) > 1 or batches[0].producer_id >= 0
        if numbered and (repeated := check_producer(self.producers, batches, view, client)) is not None:
            return Appended(repeated.first_offset, repeated.last_offset, is_duplicate=True)
        self._write(view, batches, now_ms)
        appended_at = now_ms if self.config.message_timestamp_type == "LogAppendTime" else -1
        return Appended(batches[0].base_offset, self.end_offset - 1, appended_at)

    def append_fetched(self, data: Buffer, now_ms: int, epoch_max: int = ANY_EPOCH) -> Appended | None:
        """Write what a follower fetched: batches keep offsets and epochs. A batch cut off at the end is left out."""
        self._check_health()
        view, start, end = memoryview(data), self.log_start_offset, self.end_offset
        batches = validation.accept(view, end, self.epochs.latest, epoch_max, is_empty=end == start)
        if not batches:
            return None
        if starts_inside := batches[0].base_offset < start:  # as the leader's log does, after DeleteRecords
            self.restart_at(batches[0].base_offset)
        self._write(view[: sum(batch.size for batch in batches)], batches, now_ms)
        if starts_inside:
            self.advance_high_watermark(start)
            self._start_at(start)
        return Appended(batches[0].base_offset, self.end_offset - 1)

    def _write(self, data: memoryview, batches: list[BatchHeader], now_ms: int) -> None:
        last, segment = batches[-1], self.segments.active
        is_usual = len(batches) == 1 and last.leader_epoch == self.epochs.latest
        if not (is_usual and segment.takes(len(data), last)):
            segment = self._prepare(len(data), batches, now_ms)
        try:
            segment.append(data, batches)
        except AppendRefused as refused:
            self._unsynced.cut_back(segment.base_offset)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.directory}: {refused}") from refused
        except OSError as error:
            raise self._failed(error) from error
        self.end_offset = last.base_offset + last.last_offset_delta + 1
        if len(batches) > 1 or last.producer_id >= 0:
            self._account(segment, data, batches)
        self._unsynced.append(now_ms)

    def _prepare(self, size: int, batches: list[BatchHeader], now_ms: int) -> Segment:
        """The segment to write to, with the epoch on the disk before the first batch that carries it.

        An error in here is no harm: half a roll is done again by the next append.
        """
        try:
            segment = self._segment_for(size, batches, now_ms)
            for batch in batches:
                self.epochs.follow(batch.leader_epoch, batch.base_offset)
        except OSError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.directory}: {error}") from error
        return segment

    def _account(self, segment: Segment, data: memoryview, batches: list[BatchHeader]) -> None:
        """Let the producers' state follow what was written."""
        try:
            apply_all(self.producers, segment.txns, batches, data)
        except OSError as error:
            raise self._failed(error) from error  # the marker is written, its index entry is not

    def _segment_for(self, size: int, batches: list[BatchHeader], now_ms: int) -> Segment:
        active = self.segments.active
        is_old = active.is_old_at(batches[0].max_timestamp, now_ms)
        if not is_old and active.has_room_for(size, batches[-1].last_offset):
            return active
        # A segment starts where the log ends, so that a hole between two is known for what it is; only a gap that its
        # indexes could not express moves it.
        is_far = batches[-1].last_offset - self.end_offset > RELATIVE_OFFSET_MAX
        return self.roll(batches[0].base_offset if is_far else None)

    def roll(self, base_offset: int | None = None) -> Segment:
        """Close the active segment and start a new one at the end of the log."""
        active = self.segments.active
        base_offset = self.end_offset if base_offset is None else base_offset
        if active.base_offset >= base_offset:  # it is empty, or holds nothing but damage that was kept
            return active
        active.seal()
        self._snapshot()
        segment = self._create_segment(base_offset)
        self.segments.add(segment)
        return segment

    def _snapshot(self) -> None:
        self.snapshots.take(self.end_offset, self.producers.all())
        self._unsynced.change_names()

    def _create_segment(self, base_offset: int) -> Segment:
        """All its files or none: an empty log at this offset would tell the next start that the log ends here."""
        self._unsynced.change_names()
        try:
            return Segment.create(self.files, self.directory, base_offset, self.config)
        except OSError:
            with self._fatal_errors():
                Segment(self.files, self.directory, base_offset, self.config).remove()
            raise

    # --- reading ------------------------------------------------------------------------------------------------

    def read(
        self, offset: int, bytes_max: int, limit: int | None = None, *, at_least_one: bool = True
    ) -> Slice:
        """The batches from the one that holds `offset` on, up to `bytes_max` and below `limit`, in one segment.

        The slice may end within a batch; readers wait for the rest. With `at_least_one` a first batch that is larger
        than `bytes_max` comes whole.
        """
        end = self.end_offset if limit is None else min(limit, self.end_offset)
        if not self.log_start_offset <= offset <= self.end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset} is not within {self.log_start_offset} to {self.end_offset}",
            )
        if offset >= end:
            return Slice(offset, None, 0, 0)
        with self._reads:
            return reading.slice_from(
                self.segments, offset, bytes_max, end, self.end_offset, at_least_one=at_least_one
            )

    def load(self, found: Slice) -> bytes:
        with self._reads:
            return found.read()

    def find_by_time(self, timestamp: int, offset_min: int = 0) -> BatchAt | None:
        """The first batch that reaches `offset_min` and, by its header, has a record of `timestamp` or later."""
        with self._reads:
            return reading.batch_by_time(self.segments, timestamp, max(offset_min, self.log_start_offset))

    def offset_by_time(self, timestamp: int) -> TimedOffset | None:
        """The first record of `timestamp` or later."""
        with self._reads:
            return reading.record_by_time(self.segments, timestamp, self.log_start_offset)

    def newest_timestamp(self) -> int:
        """The largest timestamp of all records; -1 if there is none."""
        with self._reads:
            return reading.newest_timestamp(self.segments, self.log_start_offset)

    def aborted_txns(self, start: int, end: int) -> list[AbortedTxn]:
        """The aborted transactions that wrote anything in [start, end)."""
        found: list[AbortedTxn] = []
        with self._reads:
            for segment in self.segments.from_offset(start):
                found += self._txns_of(segment).overlapping(start, end)
                # Once everything below `end` was stable, no later marker speaks of it.
                if any(aborted.last_stable_offset >= end for aborted in segment.txns.entries):
                    break
        return found

    def _txns_of(self, segment: Segment) -> TxnIndex:
        """The transaction index of a segment, built anew from the log if the file makes no sense."""
        try:
            segment.txns.load()
        except ProtocolError as error:
            logger.warning("%s; it is rebuilt from the log", error)
            rebuild_txns(self.files, self.directory, self.segments, segment)
        return segment.txns

    @property
    def last_stable_offset(self) -> int:
        """Below this, every transaction has ended and its end is replicated."""
        unstable = self.producers.first_unstable_offset
        if unstable is None:
            return self.high_watermark
        return min(self.high_watermark, max(unstable, self.log_start_offset))

    def advance_high_watermark(self, offset: int) -> None:
        offset = min(offset, self.end_offset)
        if offset > self.high_watermark:
            self.high_watermark = offset
            self.producers.replicated(offset)

    # --- cutting ------------------------------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> None:
        """Forget the batch that reaches `offset`, and all behind it: they were never committed. Lasts on return."""
        self._check_health()
        if offset < self.log_start_offset:
            return self.restart_at(offset)
        with self._reads:
            border = reading.border_before(self.segments, offset)
        if border < self.log_start_offset:
            return self.restart_at(self.log_start_offset)
        with self._fatal_errors():
            if border < self.end_offset:
                self._cut_at(border)
            # Even if no batch goes: an epoch that began at the end and wrote nothing may be another leader's.
            self.epochs.truncate_from_end(border)
        return None

    def _cut_at(self, offset: int) -> None:
        self._lower_recovery_point(offset)
        self._remove(self.segments.drop_from(offset))
        self._txns_of(self.segments.active)
        self.segments.active.truncate_to(offset)
        self.segments.active.sync()
        self.end_offset = self.segments.active.next_offset()
        self._after_truncation()

    def restart_at(self, offset: int) -> None:
        """Forget everything; the next batch gets `offset`."""
        self._check_health()
        with self._fatal_errors():
            # A crash on the way may leave any part of what was there: none of it counts as safe any more.
            self._lower_recovery_point(min(offset, self.segments[0].base_offset))
            for segment in self.segments:
                segment.close()
            # The new segment comes first: without any, the next start would give out offsets that were given before.
            old = self.segments.replace_all(Segment.create(self.files, self.directory, offset, self.config))
            self.files.sync_directory(self.directory)
            self._remove([segment for segment in old if segment.base_offset != offset])
            self.log_start_offset = self.end_offset = self.high_watermark = offset
            self.epochs.truncate_from_end(0)
            self.snapshots.remove_beyond(-1)
            self._after_truncation()

    def advance_log_start(self, offset: int) -> None:
        """Records before `offset` are not to be read any more; their segments go when retention next runs."""
        if offset > self.high_watermark:
            detail = f"offset {offset} lies beyond the high watermark {self.high_watermark}"
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, detail)
        self._start_at(offset)
        self._forget_epochs()

    def _start_at(self, offset: int) -> None:
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.producers.forget_below(offset)

    def _forget_epochs(self) -> None:
        """If the disk refuses: a file that knows older epochs does no harm, and is corrected at the next start."""
        try:
            self.epochs.truncate_from_start(self.log_start_offset)
        except OSError as error:
            logger.warning("%s keeps epochs from before its start: %s", self.directory, error)

    def delete_old(self, now_ms: int, monotonic_ms: int | None = None, count_max: int = retention.ALL) -> int:
        """Drop the segments that retention lets go, at most `count_max`; how many. Files wait by `monotonic_ms`."""
        start, end, mark = self.log_start_offset, self.end_offset, self.high_watermark
        with self._reads:  # nothing has been touched yet: damage in an old segment must not stop the newest
            count = retention.expired(self.segments, self.config, now_ms, mark, start, end, count_max)
        with self._fatal_errors():
            if count == len(self.segments) and not self._roll_if_there_is_room():
                count -= 1
            if count and self._unsynced.has_new_names:  # what stays must last before what goes is renamed
                self.files.sync_directory(self.directory)
                self._unsynced.names_synced()
            if self.replacement is not None and self.replacement.is_made_of(list(self.segments)[:count]):
                self.replacement.cancel()  # with it, a crash would bring back what is about to go
            self._doom(self.segments.drop_first(count), now_ms if monotonic_ms is None else monotonic_ms)
        if count:
            self._unsynced.drop_names()
            self._start_at(self.segments[0].base_offset)
        if count < count_max:  # the last of several calls
            self._forget_epochs()
        return count

    def replace(self, old: list[Segment], put_in_place: Callable[[], Segment], monotonic_ms: int) -> None:
        """Let one segment that was cleaned stand for those it was made from. It starts where the first of them does."""
        self._check_health()
        with self._fatal_errors():
            self._doom(old, monotonic_ms, is_replaced=True)
            self.segments.replace(old, put_in_place())
        self._unsynced.change_names()

    def _doom(self, segments: list[Segment], monotonic_ms: int, *, is_replaced: bool = False) -> None:
        for segment in segments:
            segment.doom(is_replaced=is_replaced)
            self.snapshots.remove(segment.base_offset)
            self.doomed.add(segment, monotonic_ms)

    def _roll_if_there_is_room(self) -> bool:
        """A full disk must not keep older segments from being deleted."""
        active = self.segments.active
        try:
            return self.roll() is not active
        except OSError as error:
            logger.warning("%s keeps its newest segment: %s", self.directory, error)
            return False

    def remove_doomed(self, now_ms: int) -> None:
        """Remove the files of segments that were deleted long enough ago."""
        for segment in self.take_doomed(now_ms):
            segment.remove()

    def take_doomed(self, now_ms: int) -> list[Segment]:
        """Segments that were deleted long enough ago: the caller removes them, in a thread if need be."""
        return self.doomed.take(now_ms, self.config.file_delete_delay_ms)

    def _lower_recovery_point(self, offset: int) -> None:
        """What will be written in place of the cut batches is not on the disk, whatever the checkpoint says now."""
        if self.replacement is not None:
            self.replacement.cancel()  # it may hold what is about to be cut
        self.before_cut(offset)
        if self._unsynced.truncate(offset):
            self.before_truncation()

    def _after_truncation(self) -> None:
        self.high_watermark = min(self.high_watermark, self.end_offset)
        self.snapshots.remove_beyond(self.end_offset)
        self.producers = restore(self.files, self.directory, self.segments, self.end_offset)
        self.producers.replicated(self.high_watermark)

    def _remove(self, segments: list[Segment]) -> None:
        """Newest first, so that a crash in between leaves a log that simply ends earlier."""
        for segment in reversed(segments):
            segment.remove()
        if segments:
            self.files.sync_directory(self.directory)

    # --- lasting ------------------------------------------------------------------------------------------------

    def is_flush_due(self, now_ms: int) -> bool:
        """Does the flush policy of the topic ask for a sync now?"""
        return self._unsynced.is_due(
            self.end_offset, self.config.flush_messages, self.config.flush_ms, now_ms
        )

    @property
    def has_closed_unsynced(self) -> bool:
        """Was a segment closed since the last flush? Syncing it in the background keeps the next recovery short."""
        return self.recovery_point < self.segments.active.base_offset

    @property
    def recovery_point(self) -> int:
        """Everything below is on the disk."""
        return self._unsynced.recovery_point

    def flush(self) -> None:
        """Return when everything is on the disk."""
        self._check_health()
        try:
            job = self.begin_flush()
            job.run(self.files)
        except OSError as error:
            self.flush_failed(error)
        self.end_flush(job)

    def begin_flush(self) -> FlushJob:
        self._check_health()
        segments = self._unsynced.segments(self.segments)
        try:
            for segment in segments:
                segment.flush_indexes()
        except OSError as error:  # nothing was lost: the entries stay in memory until the disk takes them
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.directory}: {error}") from error
        return self._unsynced.begin(segments, self.snapshots.unsynced, self.directory, self.end_offset)

    def end_flush(self, job: FlushJob) -> None:
        self.snapshots.unsynced.difference_update(job.snapshots)
        self._unsynced.end(job)

    def flush_failed(self, error: OSError) -> NoReturn:
        """Never tried again: the kernel may have dropped the very pages it could not write."""
        raise self._failed(error) from error

    def close(self) -> None:
        """Flush, and leave a snapshot at the end so that the next start replays nothing."""
        try:
            if self.failure is None:
                with self._fatal_errors():
                    self.segments.active.seal()
                    self._snapshot()
                self.flush()
                with self._fatal_errors():
                    for segment in self.segments:
                        segment.close()
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Let go of the files as they are: the log is about to be deleted, or has failed."""
        for segment in [*self.segments, *self.doomed]:
            segment.abandon()

    # --- failing ------------------------------------------------------------------------------------------------

    def _check_health(self) -> None:
        if self.failure is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.directory} has failed: {self.failure}")

    @contextmanager
    def _fatal_errors(self) -> Iterator[None]:
        """An error in here leaves files and memory in disagreement: only opening the log again helps."""
        try:
            yield
        except (OSError, BrokenChain) as error:
            raise self._failed(error) from error

    def _failed(self, error: OSError | BrokenChain) -> KafkaError:
        self.failure = error
        logger.error("%s has failed and takes no more requests: %s", self.directory, error)
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.directory} has failed: {error}")
