"""The segments of a partition in one table: what each holds, by the headers of its batches. No checksum is computed."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from ottla.records.batch import DELETE_HORIZON_BIT
from ottla.records.compression import Codec
from ottla.storage.files import Files
from ottla.storage.inspection.layout import Layout, why
from ottla.storage.scan import BatchAt, BrokenChain, walk
from ottla.storage.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, offset_of


@dataclass(slots=True)
class SegmentRow:
    """One segment. What cannot be told is None."""

    segment: str
    base_offset: int
    last_offset: int | None = None
    size: int = 0
    batches: int = 0
    records: int | None = 0
    """None where old messages are wrapped: only opening them would tell."""
    newest_timestamp: int = -1
    index_bytes: int | None = None
    timeindex_bytes: int | None = None
    txnindex_bytes: int | None = None
    codecs: dict[str, int] = field(default_factory=dict)
    """Batches by codec."""
    magics: list[int] = field(default_factory=list)
    is_compacted: bool = False
    """Are offsets missing in it, or is a time set at which tombstones go?"""
    state: str = "closed"
    problem: str | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def rows(
    files: Files, directory: str, progress: Callable[[int], None] = lambda count: None
) -> Iterator[SegmentRow]:
    """Every segment of a partition, and those that are on their way in or out."""
    layout = Layout.of(files, directory)
    for base in layout.bases:
        row = _row(files, layout, base, "", progress)
        row.state = "active" if base == layout.bases[-1] else "closed"
        yield row
    for ending, names in layout.passing.items():
        for name in names:
            if (passing := offset_of(name.removesuffix(ending), LOG_SUFFIX)) is not None:
                row = _row(files, layout, passing, ending, progress)
                row.state = ending[1:]
                yield row


def _row(files: Files, layout: Layout, base: int, ending: str, progress: Callable[[int], None]) -> SegmentRow:
    path = layout.path(base, LOG_SUFFIX) + ending
    row = SegmentRow(path.rpartition("/")[2], base)
    sizes = [
        _size(files, layout.path(base, s) + ending)
        for s in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)
    ]
    row.index_bytes, row.timeindex_bytes, row.txnindex_bytes = sizes
    try:
        file = files.open(path)
    except OSError as error:
        row.problem = why(error)
        return row
    try:
        row.size = file.size()
        _Count(row, progress).over(walk(file, 0, row.size))
    except BrokenChain as broken:
        row.problem = f"{broken.reason} at byte {broken.position}"
    except OSError as error:
        row.problem = why(error)
    finally:
        file.close()
    return row


class _Count:
    def __init__(self, row: SegmentRow, progress: Callable[[int], None]) -> None:
        self._row, self._progress = row, progress
        self._codecs: Counter[str] = Counter()
        self._magics: set[int] = set()
        self._expected = row.base_offset

    def over(self, batches: Iterator[BatchAt]) -> None:
        try:
            for batch in batches:
                self._take(batch)
                self._progress(batch.size)
        finally:
            self._row.codecs, self._row.magics = dict(self._codecs), sorted(self._magics)

    def _take(self, batch: BatchAt) -> None:
        row, codec = self._row, batch.attributes & 7
        self._codecs[Codec(codec).name.lower() if codec <= Codec.ZSTD else f"unknown ({codec})"] += 1
        self._magics.add(batch.magic)
        row.batches += 1
        row.last_offset = batch.last_offset
        row.newest_timestamp = max(row.newest_timestamp, batch.max_timestamp)
        is_wrapper = batch.magic < 2 and codec != Codec.NONE
        row.records = None if row.records is None or is_wrapper else row.records + batch.records
        if batch.magic == 2:
            is_thin = batch.records < batch.next_offset - batch.base_offset
            row.is_compacted |= is_thin or bool(batch.attributes & DELETE_HORIZON_BIT)
        if not is_wrapper:
            row.is_compacted |= batch.base_offset > self._expected
        self._expected = batch.next_offset


def _size(files: Files, path: str) -> int | None:
    try:
        file = files.open(path)
    except OSError:
        return None
    try:
        return file.size()
    finally:
        file.close()
