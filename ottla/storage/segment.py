"""One segment: a stretch of the log in one file, with its indexes beside it.

    00000000000000000042.log         batches, exactly as they travel
    00000000000000000042.index       last offset of a batch -> where it starts, every few KiB
    00000000000000000042.timeindex   largest timestamp so far -> last offset of its batch
    00000000000000000042.txnindex    aborted transactions, only where there are any

The file's name is the first offset it may hold. The log's bytes are the truth, indexes are hints: a look-up checks the
batch that an entry leads to, and rebuilds the indexes where the two disagree.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ottla.core.errors import OttlaError
from ottla.core.types import Buffer
from ottla.records.batch import HEADER_SIZE, LENGTH_OVERHEAD, BatchHeader
from ottla.storage.config import TopicConfig
from ottla.storage.files import File, Files, remove_all
from ottla.storage.index import CorruptIndex, OffsetIndex, TimeIndex
from ottla.storage.scan import BatchAt, BrokenChain, batch_at, find_batch, parse_header, walk
from ottla.storage.txn_index import TxnIndex

LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX = ".log", ".index", ".timeindex", ".txnindex"
DELETED_SUFFIX = ".deleted"
NO_TIMESTAMP = -1
RELATIVE_OFFSET_MAX = 2**31 - 1
RECENT_MAX = 16  # batches that a segment remembers


def file_name(offset: int, suffix: str) -> str:
    """Twenty digits, so that names sort as offsets do."""
    return f"{offset:020d}{suffix}"


def offset_of(name: str, suffix: str) -> int | None:
    """The offset in a file's name, or None if the name is not of that kind."""
    stem = name[: -len(suffix)]
    if name.endswith(suffix) and len(stem) == 20 and stem.isascii() and stem.isdigit():
        return int(stem)
    return None


class AppendRefused(OttlaError):
    """The disk did not take the bytes; the segment is as it was before."""


class Newest(NamedTuple):
    """The largest timestamp in a segment, and the last offset of the batch that holds it."""

    timestamp: int
    offset: int


class Segment:
    """A stretch of a log. Only the last one of a log is appended to."""

    def __init__(
        self, files: Files, directory: str, base_offset: int, config: TopicConfig, suffix: str = ""
    ) -> None:
        """`suffix` stands behind the names of one that is not part of its log yet."""
        self._files = files
        self._config = config
        self.base_offset = base_offset
        stem = f"{directory}/{file_name(base_offset, '')}"
        self.path = stem + LOG_SUFFIX + suffix
        bytes_max = config.segment_index_bytes
        self.offsets = OffsetIndex(files, stem + INDEX_SUFFIX + suffix, base_offset, bytes_max)
        self.times = TimeIndex(files, stem + TIME_INDEX_SUFFIX + suffix, base_offset, bytes_max)
        self.txns = TxnIndex(files, stem + TXN_INDEX_SUFFIX + suffix)
        self.size = 0
        self._file: File | None = None
        self._indexed = False  # are the indexes loaded?
        self._removed = False
        self._is_index_full = False
        self._unindexed_bytes = 0
        self._newest = self._timed = Newest(NO_TIMESTAMP, base_offset)  # the second is in the time index
        self._first_timestamp: int | None = None
        self._untimed_since: int | None = None
        self._recent: dict[int, tuple[int, BatchHeader]] = {}
        """The last batches written, by first offset: readers at the end of a log need not look for them."""
        self._next: dict[int, int] = {}
        """Where the batches behind the last ones found begin, by first offset: readers mostly go on from there."""

    @classmethod
    def create(
        cls, files: Files, directory: str, base_offset: int, config: TopicConfig, suffix: str = ""
    ) -> "Segment":
        """An empty segment, whatever lay under its names before."""
        segment = cls(files, directory, base_offset, config, suffix)
        segment._file = files.open(segment.path, create=True)
        segment._file.truncate(0)
        segment.offsets.entries.create()
        segment.times.entries.create()
        segment.txns.clear()
        segment._indexed = True
        return segment

    @classmethod
    def open(cls, files: Files, directory: str, base_offset: int, config: TopicConfig) -> "Segment":
        """Nothing but the size is read: the indexes wait for the first look-up."""
        segment = cls(files, directory, base_offset, config)
        segment.size = files.size(segment.path)
        return segment

    @property
    def file(self) -> File:
        if self._file is None:
            self._file = self._files.open(self.path)
        return self._file

    @property
    def paths(self) -> list[str]:
        return [self.path, self.offsets.entries.path, self.times.entries.path, self.txns.path]

    @property
    def newest(self) -> Newest:
        self._load_indexes()
        return self._newest

    @property
    def newest_ms(self) -> int:
        """How young it is: records of the oldest format have no time, so the file's must do."""
        timestamp = self.newest.timestamp
        return timestamp if timestamp >= 0 else self._files.modified_ms(self.path)

    @property
    def first_timestamp(self) -> int:
        """Of the first batch that has one: by it a segment is old enough to be followed by a new one."""
        if self._first_timestamp is None:
            if self.size == 0:
                return NO_TIMESTAMP
            first = next(walk(self.file, 0, self.size)).max_timestamp
            self._first_timestamp = first if first >= 0 else self._first_indexed_timestamp()
        return self._first_timestamp

    def _first_indexed_timestamp(self) -> int:
        """A segment may have begun with records of the oldest format: the time index knows the first with a time."""
        newest = self.newest.timestamp
        return self.times.entries.entry(0)[0] if self.times.entries.count else newest

    def is_old_at(self, timestamp: int, now_ms: int) -> bool:
        """Does a record of that time belong into another segment? Where none has a time, it counts from the first of
        them that this broker wrote: otherwise such a segment would grow, and stay, for as long as somebody writes."""
        if (first := self.first_timestamp) >= 0:
            return (timestamp if timestamp >= 0 else now_ms) - first > self._config.segment_ms
        if self._untimed_since is None:
            self._untimed_since = now_ms
        return self.size > 0 and now_ms - self._untimed_since > self._config.segment_ms

    def has_room_for(self, size: int, last_offset: int) -> bool:
        """Can `size` bytes up to `last_offset` follow, or must a new segment start?"""
        if last_offset - self.base_offset > RELATIVE_OFFSET_MAX:
            return False
        if self.size == 0:
            return True
        if not self._indexed:
            self._load_indexes()
        return self.size + size <= self._config.segment_bytes and not self._is_index_full

    def takes(self, size: int, batch: BatchHeader) -> bool:
        """Can this batch follow, by the numbers at hand? If they say no, `is_old_at` and `has_room_for` decide."""
        first, config, newest = self._first_timestamp, self._config, batch.max_timestamp
        return (
            first is not None
            and 0 <= first <= newest <= first + config.segment_ms
            and self.size + size <= config.segment_bytes
            and batch.base_offset + batch.last_offset_delta - self.base_offset <= RELATIVE_OFFSET_MAX
            and self._indexed
            and not self._is_index_full
        )

    def append(self, data: Buffer, batches: Sequence[BatchHeader]) -> None:
        """Write batches that carry their offsets already. All of them or, with AppendRefused, none."""
        if not self._indexed:
            self._load_indexes()
        position = self.size
        file = self._file or self.file
        try:
            file.write_at(position, data)
        except OSError as error:
            file.truncate(position)  # half a batch must not stay; if this fails too, so does the log
            raise AppendRefused(str(error)) from error
        for batch in batches:
            size = batch.length + LENGTH_OVERHEAD
            self.note(batch.base_offset + batch.last_offset_delta, position, size, batch.max_timestamp)
            self._recent[batch.base_offset] = position, batch
            position += size
        self.size = position
        while len(self._recent) > RECENT_MAX:
            del self._recent[next(iter(self._recent))]

    def note(self, last_offset: int, position: int, size: int, max_timestamp: int) -> None:
        """Take a batch of this segment into account, and into the indexes if the last entry is far enough."""
        if max_timestamp > self._newest.timestamp:
            self._newest = Newest(max_timestamp, last_offset)
            if self._first_timestamp is None or self._first_timestamp < 0:
                self._first_timestamp = max_timestamp
        if self._unindexed_bytes > self._config.index_interval_bytes and not self._is_index_full:
            self.offsets.entries.append(last_offset - self.base_offset, position)
            if self._newest is not self._timed:
                self.times.append(*self._newest)
                self._timed = self._newest
            self._is_index_full = self.offsets.is_full or self.times.is_full
            self._unindexed_bytes = 0
        self._unindexed_bytes += size

    def find(self, offset: int) -> BatchAt | None:
        """The first batch that reaches `offset`; None if all end before it."""
        if (recent := self._recent.get(offset)) is not None:
            return batch_at(*recent)
        start = self._next.pop(offset, None)
        found = find_batch(self.file, self._start_for(offset) if start is None else start, self.size, offset)
        if found is not None:
            self._next[found.last_offset + 1] = found.position + found.size
            if len(self._next) > RECENT_MAX:
                del self._next[next(iter(self._next))]
        return found

    def find_by_time(self, timestamp: int, offset_min: int = 0) -> BatchAt | None:
        """The first batch that reaches `offset_min` and has a record of `timestamp` or later; None if there is none."""
        if self.newest.timestamp < timestamp:
            return None
        for batch in self._walk_from_time_index(timestamp):
            if batch.max_timestamp >= timestamp and batch.last_offset >= offset_min:
                return batch
        return None

    def batches(self, position: int = 0) -> Iterator[BatchAt]:
        """The batches from the one at byte `position` on."""
        return walk(self.file, position, self.size)

    def next_offset(self) -> int:
        """Behind the last batch. Raises BrokenChain if the headers do not lead exactly to the end of the file."""
        behind = self.base_offset
        for batch in self.batches(self._start_for(self.base_offset + RELATIVE_OFFSET_MAX)):
            behind = batch.next_offset
        return behind

    def rebuild_indexes(self) -> None:
        """Write offset and time index anew from the headers of the batches."""
        self._indexed = False  # until all of it is there: what fails half-way is done again
        self._start_indexes()
        expected = self.base_offset
        for batch in self.batches():
            # A damaged batch that was kept may lie about its offsets: it is walked over, but nothing leads to it.
            if batch.base_offset >= expected and batch.last_offset - self.base_offset <= RELATIVE_OFFSET_MAX:
                self.note(batch.last_offset, batch.position, batch.size, batch.max_timestamp)
                expected = batch.next_offset
        self._indexed = True

    def start_over(self) -> None:
        """Empty indexes, for a recovery that will `note` every batch it finds good."""
        self._start_indexes()
        self._indexed = True
        self.txns.clear()

    def cut(self, position: int) -> None:
        """Drop everything from byte `position` on. Indexes are the caller's."""
        self._recent.clear()
        self._next.clear()
        self.file.truncate(position)
        self.size = position
        if position == 0:
            self._first_timestamp = None

    def truncate_to(self, offset: int) -> None:
        """Drop the batch that reaches `offset` and all that follow."""
        batch = self.find(offset)
        if batch is None:
            return
        self.offsets.truncate_to_position(batch.position)
        self.times.truncate_to_offset(batch.base_offset)
        self.txns.truncate_to_offset(batch.base_offset)
        self.cut(batch.position)
        try:
            self._take_stock()
        except CorruptIndex:
            self.rebuild_indexes()

    def seal(self) -> None:
        """The segment will not grow any more: its newest timestamp goes into the time index."""
        self._recent.clear()
        self._load_indexes()
        self.times.append(self._newest.timestamp, self._newest.offset)
        self.flush_indexes()

    def flush_indexes(self) -> None:
        self.offsets.entries.flush()
        self.times.entries.flush()
        self.txns.flush()

    def sync(self) -> None:
        """Make it last. May run in a thread, after `flush_indexes` on the owner's, who may remove it meanwhile."""
        try:
            self.file.sync()
            self.offsets.entries.sync()
            self.times.entries.sync()
            self.txns.sync()
        except FileNotFoundError:
            if not self._removed:
                raise

    def close(self) -> None:
        try:
            self.offsets.entries.close()
            self.times.entries.close()
            self.txns.flush()
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Let go of the files as they are; index entries that were not flushed are lost, and rebuilt when missed."""
        self.offsets.entries.abandon()
        self.times.entries.abandon()
        self.txns.close()
        if self._file is not None:
            self._file.close()
            self._file = None

    def doom(self, *, is_replaced: bool = False) -> list[str]:
        """Rename the files so that no start finds them again; they can be removed later. Returns their paths.

        The log goes first: indexes without a log are tidied away, but a log without its transaction index would
        come back as one in which nothing was aborted. If another segment waits to take its name, the log goes last:
        that one will not come back, but an index without a log would be taken for the other's.
        """
        suffix = self._deleted_suffix()
        if not is_replaced:
            self._doom_log(suffix)
        self.offsets.entries.rename(self.offsets.entries.path + suffix)
        self.times.entries.rename(self.times.entries.path + suffix)
        self.txns.rename(self.txns.path + suffix)
        if is_replaced:
            self._doom_log(suffix)
        return self.paths

    def _deleted_suffix(self) -> str:
        """Compaction lets one segment after the other have the same name: those that wait for their end must not."""
        suffix, number = DELETED_SUFFIX, 0
        while self._files.exists(self.path + suffix):
            number += 1
            suffix = f".{number}{DELETED_SUFFIX}"
        return suffix

    def _doom_log(self, suffix: str) -> None:
        if self._file is not None:
            self._file.rename(self.path + suffix)
        else:
            self._files.rename(self.path, self.path + suffix)
        self.path += suffix

    def renamed(self, path: str) -> None:
        """The directory around its log was renamed; indexes are the caller's."""
        self.path = path
        if self._file is not None:
            self._file.path = path

    def remove(self) -> None:
        self._removed = True
        self.abandon()
        remove_all(self._files, self.paths)

    def _load_indexes(self) -> None:
        if self._indexed:
            return
        try:
            self.offsets.entries.load()
            self.times.entries.load()
            self._take_stock()
            self._indexed = True
        except (CorruptIndex, FileNotFoundError):
            self.rebuild_indexes()

    def _take_stock(self) -> None:
        """Check the last entries against their batches, and walk over what they do not speak of.

        Nothing before the last time entry is newer than it, so the walk finds the newest timestamp even if entries
        are missing. Where an offset entry should be and is not, the index was cut.
        """
        start, newest = 0, Newest(NO_TIMESTAMP, self.base_offset)
        indexed_to = self._position_of_last_entry()
        if (last := self.times.last) is not None:
            batch = self._find_from(indexed_to if self._is_behind(last.offset) else 0, last.offset)
            if batch is None or batch.max_timestamp != last.timestamp:
                raise CorruptIndex(f"{self.times.entries.path} contradicts the log")
            start, newest = batch.position, Newest(*last)
        unindexed, last_offset = 0, self.base_offset - 1
        is_full = self.offsets.is_full or self.times.is_full
        for batch in walk(self.file, min(start, indexed_to), self.size):
            if batch.max_timestamp > newest.timestamp:
                newest = Newest(batch.max_timestamp, batch.last_offset)
            if batch.position >= indexed_to:
                if unindexed > self._config.index_interval_bytes and not is_full:
                    raise CorruptIndex(f"{self.offsets.entries.path} lacks entries")
                unindexed += batch.size
            last_offset = batch.last_offset
        if (entry := self.offsets.last) is not None and entry.offset > last_offset:
            raise CorruptIndex(f"{self.offsets.entries.path} speaks of offsets behind the last batch")
        self._newest, self._unindexed_bytes = newest, unindexed
        self._is_index_full = is_full

    def _position_of_last_entry(self) -> int:
        if (last := self.offsets.last) is None:
            return 0
        if not self._leads_to_a_batch(last.position, last.offset):
            raise CorruptIndex(f"{self.offsets.entries.path} contradicts the log")
        return last.position

    def _is_behind(self, offset: int) -> bool:
        """Does `offset` lie behind the last entry of the offset index?"""
        return (last := self.offsets.last) is not None and offset >= last.offset

    def _find_from(self, position: int, offset: int) -> BatchAt | None:
        if position == 0 and (entry := self.offsets.look_up(offset)) is not None:
            position = entry.position
        return next((b for b in walk(self.file, position, self.size) if b.last_offset >= offset), None)

    def _start_indexes(self) -> None:
        self.offsets.entries.create()
        self.times.entries.create()
        self._is_index_full, self._unindexed_bytes = False, 0
        self._newest, self._first_timestamp = Newest(NO_TIMESTAMP, self.base_offset), None

    def _start_for(self, offset: int) -> int:
        """Where a walk to `offset` starts: at the index entry before it, if that leads to a batch."""
        if not self._indexed:
            self._load_indexes()
        entry = self.offsets.look_up(offset)
        if entry is None:
            return 0
        if not self._leads_to_a_batch(entry.position, entry.offset):
            self.rebuild_indexes()
            entry = self.offsets.look_up(offset)
        return 0 if entry is None else entry.position

    def _leads_to_a_batch(self, position: int, last_offset: int) -> bool:
        """Kafka before 4.0 noted the last offset of a whole append, so the batch may end earlier, never later."""
        header = self.file.read_at(position, min(HEADER_SIZE, max(0, self.size - position)))
        try:
            batch = parse_header(header, 0, position, self.size, self.path)
        except BrokenChain:
            return False
        return self.base_offset <= batch.base_offset and batch.last_offset <= last_offset

    def _walk_from_time_index(self, timestamp: int) -> Iterator[BatchAt]:
        """The batches from the last entry older than `timestamp` on, if the batch it names has that timestamp."""
        entry = self.times.look_up(timestamp - 1)
        if entry is None:
            return self.batches()
        batch = self.find(entry.offset)
        if batch is None or batch.max_timestamp != entry.timestamp:
            self.rebuild_indexes()
            entry = self.times.look_up(timestamp - 1)
            batch = self.find(entry.offset) if entry else None
        return self.batches() if batch is None else walk(self.file, batch.position, self.size)
