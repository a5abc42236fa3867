"""How an offset is found, with every step shown.

    1. bisect over the first offsets of the segments, which are in their names
    2. bisect over the entries of that segment's index; then from header to header until a batch reaches the offset

The steps are those of a fetch. Nothing is written: where an index entry is wrong a broker rebuilds the index, and this
walks from the start of the segment and says so.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.core.errors import OttlaError
from ottla.core.ids import TopicPartition
from ottla.records import frames
from ottla.records.errors import RecordError
from ottla.records.record import Record
from ottla.storage import checkpoints
from ottla.storage.files import File, Files
from ottla.storage.index import PAGE_BYTES, CorruptIndex, OffsetIndex, SortedEntries, TimeIndex
from ottla.storage.inspection.layout import SMALL_BYTES_MAX, Layout, read_fully, read_small
from ottla.storage.scan import BatchAt, BrokenChain, is_intact, walk
from ottla.storage.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX


class NoSegmentsError(OttlaError):
    """A directory without a segment, in which nothing can be looked up."""


class IndexHit(NamedTuple):
    """The entry from which the walk starts."""

    entries: int
    pages: int
    page: int
    entry: int
    key: int
    """The offset, or the timestamp, that the entry speaks of."""
    position: int


@dataclass(slots=True)
class LookUp:
    """What was looked at on the way to an offset or a time."""

    wanted: int
    by_time: bool = False
    segments: int = 0
    compared: list[int] = field(default_factory=list)
    """First offsets that the wanted one was compared with, in that order."""
    segment: str | None = None
    hit: IndexHit | None = None
    index_note: str | None = None
    """Why the index was not used."""
    start: int = 0
    scanned_bytes: int = 0
    scanned_batches: int = 0
    batch: BatchAt | None = None
    is_intact: bool | None = None
    record: Record | None = None
    explanation: str = ""


def find_offset(files: Files, directory: str, offset: int) -> LookUp:
    """The two steps to an offset, and what lies there."""
    layout = _layout(files, directory)
    seen = LookUp(offset, segments=len(layout.bases))
    at = _bisect(layout.bases, offset, seen.compared)
    if at < 0:
        seen.explanation = f"the log begins at offset {layout.bases[0]}: what was before it has been deleted"
        return seen
    for base in layout.bases[at:]:
        if _find_in(files, layout, base, seen, offset):
            _explain(files, directory, layout, seen, is_next=base != layout.bases[at])
            return seen
        if seen.explanation:
            return seen
    seen.explanation = f"the log ends before offset {offset}: it has not been written yet, or was cut off"
    return seen


def find_time(files: Files, directory: str, timestamp: int) -> LookUp:
    """The first record of that time or later: through the segments in order, past those that are too old."""
    layout = _layout(files, directory)
    seen = LookUp(timestamp, by_time=True, segments=len(layout.bases))
    for base in layout.bases:
        seen.compared.append(base)
        if _find_time_in(files, layout, base, seen, timestamp):
            found = "no record of it is as new as its header says" if seen.record is None else "found"
            seen.explanation = found
            return seen
    seen.explanation = "no record is as new as that"
    return seen


def _layout(files: Files, directory: str) -> Layout:
    layout = Layout.of(files, directory.rstrip("/") or "/")
    if not layout.bases:
        raise NoSegmentsError(f"{directory} holds no segment; name the directory of one partition")
    return layout


def _bisect(bases: list[int], offset: int, compared: list[int]) -> int:
    """The number of the last segment that starts at or before `offset`; -1 if there is none."""
    low, high = 0, len(bases)
    while low < high:
        middle = (low + high) // 2
        compared.append(bases[middle])
        if bases[middle] <= offset:
            low = middle + 1
        else:
            high = middle
    return low - 1


def _find_in(files: Files, layout: Layout, base: int, seen: LookUp, offset: int) -> bool:
    path = layout.path(base, LOG_SUFFIX)
    log = files.open(path)
    try:
        size = log.size()
        seen.segment, seen.scanned_bytes, seen.scanned_batches = path.rpartition("/")[2], 0, 0
        index = OffsetIndex(files, layout.path(base, INDEX_SUFFIX), base, SMALL_BYTES_MAX)
        seen.hit, seen.index_note = _entry(files, index.entries, offset - base, base)
        seen.start = _trusted_start(log, size, base, seen)
        for batch in walk(log, seen.start, size):
            seen.scanned_batches += 1
            if batch.last_offset >= offset:
                seen.scanned_bytes = batch.position - seen.start
                _open_batch(log, batch, seen, lambda record: record.offset == offset)
                return True
            seen.scanned_bytes = batch.end - seen.start
    except BrokenChain as broken:
        seen.explanation = (
            f"the segment is damaged: {broken.reason} at byte {broken.position}; see `ottla log verify`"
        )
    finally:
        log.close()
    return False


def _entry(files: Files, entries: SortedEntries, key: int, base: int) -> tuple[IndexHit | None, str | None]:
    """The last entry at or below `key`, by the same bisection that a fetch uses."""
    try:
        file = files.open(entries.path)
        try:
            if (size := file.size()) > SMALL_BYTES_MAX:
                return None, f"the index has {size} bytes, far more than one can need"
        finally:
            file.close()
        entries.load()
        if (number := entries.floor(key)) < 0:
            return None, "no entry lies before it" if entries.count else "the index has no entries"
        per_page = PAGE_BYTES // entries.layout.size
        found, position = entries.entry(number)
        pages = -(-entries.count // per_page)
        return IndexHit(entries.count, pages, number // per_page, number, found, position), None
    except FileNotFoundError:
        return None, "there is no index"
    except (CorruptIndex, OSError) as error:
        return None, str(error)
    finally:
        entries.abandon()


def _trusted_start(log: File, size: int, base: int, seen: LookUp) -> int:
    """Where the walk starts: where the entry leads, if a batch starts there that ends no later than it says."""
    if seen.hit is None:
        return 0
    try:
        batch = next(walk(log, seen.hit.position, size, chunk_bytes=64), None)
    except BrokenChain:
        batch = None
    if batch is None or batch.base_offset < base or batch.last_offset > base + seen.hit.key:
        seen.index_note = "the entry contradicts the segment; a broker would rebuild the index"
        return 0
    return seen.hit.position


def _find_time_in(files: Files, layout: Layout, base: int, seen: LookUp, timestamp: int) -> bool:
    path = layout.path(base, LOG_SUFFIX)
    log = files.open(path)
    try:
        size = log.size()
        index = TimeIndex(files, layout.path(base, TIME_INDEX_SUFFIX), base, SMALL_BYTES_MAX)
        seen.hit, seen.index_note = _entry(files, index.entries, timestamp - 1, base)
        seen.segment, seen.start = path.rpartition("/")[2], 0
        if seen.hit is not None:
            by_offset = OffsetIndex(files, layout.path(base, INDEX_SUFFIX), base, SMALL_BYTES_MAX)
            near, _ = _entry(files, by_offset.entries, seen.hit.position, base)
            seen.start = 0 if near is None else _trusted_start(log, size, base, LookUp(0, hit=near))
        seen.scanned_batches = 0
        for batch in walk(log, seen.start, size):
            seen.scanned_batches += 1
            seen.scanned_bytes = batch.position - seen.start
            if batch.max_timestamp >= timestamp:
                _open_batch(log, batch, seen, lambda record: record.timestamp >= timestamp)
                return True
    except BrokenChain as broken:
        seen.index_note = f"the segment is damaged: {broken.reason} at byte {broken.position}"
    finally:
        log.close()
    return False


def _open_batch(log: File, batch: BatchAt, seen: LookUp, is_wanted: Callable[[Record], bool]) -> None:
    """Look into the batch that was found, if it is not too large to be held."""
    seen.batch = batch
    if batch.size > SMALL_BYTES_MAX:
        return
    data = read_fully(log, batch.position, batch.size)
    seen.is_intact = len(data) == batch.size and is_intact(batch, data)
    if not seen.is_intact:
        return
    try:
        records = frames.records_of(data, frames.read_frame(data))
        seen.record = next((record for record in records if is_wanted(record)), None)
    except RecordError as error:
        seen.explanation = f"its records cannot be read: {error.detail}"


def _explain(files: Files, directory: str, layout: Layout, seen: LookUp, *, is_next: bool) -> None:
    """What the batch that was found means for the offset that was wanted."""
    batch, wanted = seen.batch, seen.wanted
    assert batch is not None
    if seen.explanation:
        return
    start = _log_start(files, directory)
    if wanted < start:
        seen.explanation = (
            f"it lies before the start of the log, {start}: deleted, and not to be read any more"
        )
    elif batch.magic == 2 and wanted < batch.base_offset:
        behind = "the next segment begins with" if is_next else "the next batch begins with"
        seen.explanation = f"it lies in a gap: {behind} offset {batch.base_offset}, a reader goes on there"
    elif seen.is_intact is False:
        seen.explanation = "the batch fails its checksum; see `ottla log verify`"
    elif seen.record is None and seen.is_intact is None:
        seen.explanation = "the batch is too large to be opened here"
    elif seen.record is None:
        seen.explanation = "it is gone from its batch: compacted away, a reader goes on behind it"
    else:
        seen.explanation = (
            "found" if not batch.is_control else "found: a control record, which no consumer sees"
        )


def _log_start(files: Files, directory: str) -> int:
    """What the checkpoint in the directory above says, if there is one."""
    parent, _, name = directory.rstrip("/").rpartition("/")
    path = f"{parent or '.'}/{checkpoints.LOG_START}"
    try:
        read_small(files, path)
        return checkpoints.read_offsets(files, path).get(TopicPartition.parse(name), 0)
    except (OSError, OttlaError, ValueError):
        return 0
