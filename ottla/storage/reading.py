"""Finding things in the segments of a log: by offset, by time. The last step in the life of a fetch.

What is found is a place in a file. Nothing is parsed or copied on the way to it, except where a single record is asked
for by its time.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from ottla.core.errors import ErrorCode, KafkaError
from ottla.records import frames
from ottla.records.record import Record
from ottla.storage.files import File
from ottla.storage.scan import BatchAt, BrokenChain
from ottla.storage.segment import NO_TIMESTAMP, Segment
from ottla.storage.segments import Segments


class Slice(NamedTuple):
    """A stretch of a segment's file, from the start of the batch that holds `offset`."""

    offset: int
    file: File | None
    position: int
    size: int

    def read(self) -> bytes:
        return b"" if self.file is None else self.file.read_at(self.position, self.size)

    def read_into(self, start: int, buffer: memoryview) -> int:
        """Fill `buffer` with what lies from byte `start` of the slice on; how many bytes there were."""
        return 0 if self.file is None else self.file.read_into(self.position + start, buffer)


class TimedOffset(NamedTuple):
    """The answer to "from which offset on are records this new?"."""

    timestamp: int
    offset: int
    leader_epoch: int


class ReadErrors:
    """A disk that cannot be read has failed; batches that cannot be told apart are damage, and the rest is not.

    A class, and not a generator with a decorator, since every fetch passes here.
    """

    def __init__(self, check_health: Callable[[], None], failed: Callable[[OSError], KafkaError]) -> None:
        self._check_health = check_health
        self._failed = failed

    def __enter__(self) -> None:
        self._check_health()

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, OSError):
            raise self._failed(error) from error
        if isinstance(error, BrokenChain):
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error


def slice_from(
    segments: Segments, offset: int, bytes_max: int, end: int, log_end_offset: int, *, at_least_one: bool
) -> Slice:
    """The batches from the one that holds `offset` on, up to `bytes_max` and below `end`, in one segment."""
    for segment in segments.from_offset(offset):
        if segment.base_offset >= end:
            break
        if (batch := segment.find(offset)) is None:
            continue
        file_end = segment.size
        if end < segments.end_of(segment, log_end_offset) and (beyond := segment.find(end)) is not None:
            file_end = beyond.position
        size = min(max(bytes_max, batch.size if at_least_one else 0), file_end - batch.position)
        if size > 0:
            return Slice(batch.base_offset, segment.file, batch.position, size)
        break
    return Slice(offset, None, 0, 0)


def border_before(segments: Segments, offset: int) -> int:
    """Where what precedes the batch that reaches `offset` ends; `offset` itself if there is no such batch.

    Mostly that batch starts there. But compaction leaves gaps, and a wrapper of an old format names only the last
    offset that it holds.
    """
    for segment in segments.from_offset(offset):
        if (batch := segment.find(offset)) is not None:
            border = _end_before(segment, batch.position)
            before = next(iter(segments.from_offset(border - 1)))
            return border if border > segment.base_offset else min(border, _end_before(before, before.size))
    return offset


def _end_before(segment: Segment, position: int) -> int:
    behind = segment.base_offset
    for batch in segment.batches():
        if batch.position >= position:
            break
        behind = batch.next_offset
    return behind


def batch_by_time(segments: Segments, timestamp: int, log_start_offset: int) -> BatchAt | None:
    """The first batch that has a record of `timestamp` or later."""
    for segment in segments.from_offset(log_start_offset):
        if (batch := segment.find_by_time(timestamp, log_start_offset)) is not None:
            return batch
    return None


def record_by_time(segments: Segments, timestamp: int, log_start_offset: int) -> TimedOffset | None:
    """The first record of `timestamp` or later."""
    for segment in segments.from_offset(log_start_offset):
        batch = segment.find_by_time(timestamp, log_start_offset)
        while batch is not None:
            for record in _records(segment, batch):
                if record.timestamp >= timestamp and record.offset >= log_start_offset:
                    return TimedOffset(record.timestamp, record.offset, batch.leader_epoch)
            # The record that made the batch promising lies before the start of the log.
            batch = next((b for b in segment.batches(batch.end) if b.max_timestamp >= timestamp), None)
    return None


def newest_timestamp(segments: Segments, log_start_offset: int) -> int:
    """The largest timestamp of all records, -1 if there is none. The first that has it is the newest (KIP-734)."""
    return max(_newest_ms(s, log_start_offset) for s in segments.from_offset(log_start_offset))


def _newest_ms(segment: Segment, log_start_offset: int) -> int:
    if segment.base_offset >= log_start_offset:
        return segment.newest.timestamp
    if (first := segment.find(log_start_offset)) is None:
        return NO_TIMESTAMP
    within = [r.timestamp for r in _records(segment, first) if r.offset >= log_start_offset]
    return max(
        [*within, *(batch.max_timestamp for batch in segment.batches(first.end))], default=NO_TIMESTAMP
    )


def _records(segment: Segment, batch: BatchAt) -> Iterator[Record]:
    data = segment.file.read_at(batch.position, batch.size)
    return frames.records_of(data, frames.read_frame(data))
