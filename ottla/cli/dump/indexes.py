"""`.index`, `.timeindex` and `.txnindex` as rows, held against the segment they speak of.

An offset entry must lead to a batch; a time entry must name the batch that holds its timestamp. Indexes carry no
checksum, so this comparison is the only proof there is.
"""

import enum
import struct
from collections.abc import Callable, Iterator

from ottla.cli.dump.rows import Item, Problem, Row
from ottla.records.compression import OUTPUT_BYTES_MAX
from ottla.storage import txn_index
from ottla.storage.files import File
from ottla.storage.index import PAGE_BYTES, OffsetIndex, TimeIndex
from ottla.storage.scan import BatchAt, BrokenChain, is_intact, walk
from ottla.storage.txn_index import AbortedTxn

Fields = tuple[int, ...]
OUT_OF_ORDER = "the entry does not lie behind the one before it"


class Check(enum.Enum):
    """How closely an index is looked at, and whether its entries are shown."""

    SHOW = "show the entries, and hold each against the segment"
    ALL = "hold each against the segment, and show only what is wrong"
    LAST = "order of all entries, and the last one against the segment: what a start looks at"


def dump_offset_index(file: File, base_offset: int, log: File | None, check: Check) -> Iterator[Item]:
    return _dump(
        file,
        OffsetIndex.LAYOUT,
        check,
        row=lambda relative, place: Row("index", {"offset": base_offset + relative, "position": place}),
        follows=lambda entry, before: entry[0] > before[0] and entry[1] > before[1],
        complaint=None if log is None else lambda *entry: _against_batch(log, base_offset, *entry),
    )


def dump_time_index(file: File, base_offset: int, log: File | None, check: Check) -> Iterator[Item]:
    holders = None if log is None else _Holders(log, base_offset)
    return _dump(
        file,
        TimeIndex.LAYOUT,
        check,
        row=lambda timestamp, relative: Row(
            "timeindex", {"timestamp": timestamp, "offset": base_offset + relative}
        ),
        follows=lambda entry, before: entry[0] > before[0] and entry[1] >= before[1],
        complaint=None if holders is None else holders.against,
    )


def _dump(
    file: File,
    layout: struct.Struct,
    check: Check,
    *,
    row: Callable[[int, int], Row],
    follows: Callable[[Fields, Fields], bool],
    complaint: Callable[[int, int], str | None] | None,
) -> Iterator[Item]:
    """Entries that must each lie behind the one before, and about which the segment has no complaint."""
    entries, problems = 0, 0
    count = _used_bytes(file, layout.size) // layout.size
    before: Fields | None = None
    for position, fields in _entries(file, layout):
        entries += 1
        if check is Check.SHOW:
            yield row(*fields)
        reason = None
        if before is not None and not follows(fields, before):
            reason = OUT_OF_ORDER
        elif complaint is not None and (check is not Check.LAST or entries == count):
            reason = complaint(*fields)
        before = fields
        if reason is not None:
            problems += 1
            yield Problem(reason, position)
    if cut := _cut_entry(file, layout.size):
        problems += 1
        yield cut
    if check is not Check.SHOW:
        yield Row("check", {"entries": entries, "problems": problems})


def _against_batch(log: File, base_offset: int, relative: int, place: int) -> str | None:
    """What is wrong with an entry that says: the batch that ends at this offset starts at byte `place`."""
    offset = base_offset + relative
    where = f"the entry for offset {offset} leads to byte {place} of the segment"
    size = log.size()
    try:
        batch = next(walk(log, place, size, chunk_bytes=64), None)
    except BrokenChain:
        return f"{where}, where no batch starts"
    if batch is None:
        return f"{where}, which ends at {size}"
    if batch.last_offset == offset or _is_older_kafkas(log, batch, base_offset, offset):
        return None
    return f"{where}, where a batch ends at offset {batch.last_offset}"


def _is_older_kafkas(log: File, batch: BatchAt, base_offset: int, offset: int) -> bool:
    """Kafka before 4.0 noted the last offset of a whole append: the batch may end earlier, never later."""
    if not base_offset <= batch.last_offset < offset or batch.size > OUTPUT_BYTES_MAX:
        return False
    return is_intact(batch, log.read_at(batch.position, batch.size))


class _Holders:
    """Finds the batches that hold rising offsets, in one walk over the segment."""

    def __init__(self, log: File, base_offset: int) -> None:
        self._base_offset = base_offset
        self._batches = walk(log, 0, log.size())
        self._batch: BatchAt | None = None
        self._broken: BrokenChain | None = None

    def against(self, timestamp: int, relative: int) -> str | None:
        """What is wrong with an entry that says: the batch with this offset brought the timestamp `timestamp`."""
        offset = self._base_offset + relative
        batch = self._reach(offset)
        if batch is None and self._broken is not None:
            return f"the entry names offset {offset}, and the segment breaks at byte {self._broken.position}"
        if batch is None:
            return f"the entry names offset {offset}, and the segment ends before it"
        if batch.magic == 2 and batch.base_offset > offset:
            return f"the entry names offset {offset}, which no batch holds"
        if batch.max_timestamp != timestamp:
            return f"the entry names timestamp {timestamp}, and the batch of offset {offset} has {batch.max_timestamp}"
        return None

    def _reach(self, offset: int) -> BatchAt | None:
        try:
            while self._batch is None or self._batch.last_offset < offset:
                self._batch = next(self._batches)
        except BrokenChain as broken:
            self._broken, self._batch = broken, None
        except StopIteration:
            self._batch = None
        return self._batch


def dump_txn_index(file: File, check: Check) -> Iterator[Item]:
    """Aborted transactions, in the order of their markers. No segment is asked: compaction may outlive a marker."""
    entries, problems = 0, list[Problem]()
    before: AbortedTxn | None = None
    for position, (version, *fields) in _entries(file, txn_index.ENTRY, padded=False):
        aborted = AbortedTxn(*fields)
        problem = _txn_problem(version, aborted, before, position)
        if check is Check.SHOW and not (problem and problem.stops):
            yield Row("txnindex", {"version": version, **aborted._asdict()})
        if problem is not None:
            problems.append(problem)
            yield problem
            if problem.stops:
                break
        entries, before = entries + 1, aborted
    else:
        if cut := _cut_entry(file, txn_index.ENTRY.size):
            problems.append(cut)
            yield cut
    if check is not Check.SHOW:
        yield Row("check", {"entries": entries, "problems": len(problems)})


def _txn_problem(
    version: int, aborted: AbortedTxn, before: AbortedTxn | None, position: int
) -> Problem | None:
    if version != txn_index.VERSION:
        return Problem(f"an entry of version {version}, which is not known", position, stops=True)
    if aborted.first_offset > aborted.last_offset:
        return Problem("the transaction ends before it starts", position)
    if before is not None and aborted.last_offset <= before.last_offset:
        return Problem(OUT_OF_ORDER, position)
    return None


def _entries(file: File, layout: struct.Struct, *, padded: bool = True) -> Iterator[tuple[int, Fields]]:
    """Where each whole entry of a file lies, and its fields; a page at a time."""
    used = _used_bytes(file, layout.size) if padded else file.size()
    page = PAGE_BYTES // layout.size * layout.size
    for start in range(0, used // layout.size * layout.size, page):
        data = file.read_at(start, min(page, used - start))
        for at in range(0, len(data) - layout.size + 1, layout.size):
            yield start + at, layout.unpack_from(data, at)


def _used_bytes(file: File, entry_size: int) -> int:
    """Bytes up to the last entry that is not zero: Kafka allocates the rest of an index ahead."""
    end = file.size()
    while end > 0:
        start = max(0, end - PAGE_BYTES)
        kept = len(file.read_at(start, end - start).rstrip(b"\0"))
        if kept:
            whole = -(-(start + kept) // entry_size) * entry_size
            return min(whole, file.size())
        end = start
    return 0


def _cut_entry(file: File, entry_size: int) -> Problem | None:
    """The complaint about a file that ends within an entry."""
    size = file.size()
    if not size % entry_size:
        return None
    position = size - size % entry_size
    return Problem(f"the file ends within an entry of {entry_size} bytes", position, stops=True)
