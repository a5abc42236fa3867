"""The three indexes of a segment, each held against the batches as they go by: one pass over both, a page at a time.

An offset entry must lead to the start of a batch that ends at its offset. (Kafka before 4.0 noted the last offset of a
whole append: then a later batch ends there.) A time entry must name a batch that brought its timestamp, the largest so
far. A transaction entry must be what the batches say was aborted.
"""

import struct
from collections.abc import Iterator

from ottla.storage import txn_index
from ottla.storage.files import File
from ottla.storage.index import PAGE_BYTES, OffsetIndex, TimeIndex
from ottla.storage.inspection.findings import Findings
from ottla.storage.scan import BatchAt
from ottla.storage.txn_index import AbortedTxn

Entry = tuple[int, tuple[int, ...]]


def entries(file: File, layout: struct.Struct, *, padded: bool) -> Iterator[Entry]:
    """Where each whole entry lies, and its fields. Zeros at the end are room that Kafka allocates ahead."""
    used = used_bytes(file, layout.size) if padded else file.size()
    page = PAGE_BYTES // layout.size * layout.size
    for start in range(0, used // layout.size * layout.size, page):
        data = file.read_at(start, min(page, used - start))
        for at in range(0, len(data) - layout.size + 1, layout.size):
            yield start + at, layout.unpack_from(data, at)


def used_bytes(file: File, entry_size: int) -> int:
    """Bytes up to the last entry that is not all zeros."""
    size = end = file.size()
    while end > 0:
        start = max(0, end - PAGE_BYTES)
        if kept := len(file.read_at(start, end - start).rstrip(b"\0")):
            return min(-(-(start + kept) // entry_size) * entry_size, size)
        end = start
    return 0


class Cursor:
    """Goes through one index. `is_good` until it contradicted the segment."""

    def __init__(self, file: File, layout: struct.Struct, findings: Findings, *, padded: bool = True) -> None:
        self.path = file.path
        self.is_good = True
        self._findings = findings
        self._entries = entries(file, layout, padded=padded)
        self.entry: Entry | None = None
        if extra := file.size() % layout.size:
            self.complain(file.size() - extra, f"the file ends within an entry of {layout.size} bytes")
        self.advance()

    def advance(self) -> None:
        self.entry = next(self._entries, None)

    def complain(self, position: int | None, reason: str) -> None:
        self.is_good = False
        self._findings.stale(self.path, position, reason)


class OffsetCursor(Cursor):
    """`.index`, met by batches in the order of their positions."""

    def __init__(self, file: File, base_offset: int, findings: Findings) -> None:
        self._base_offset = base_offset
        self._ends: tuple[int, int] | None = None  # an entry that a later batch must confirm, and its offset
        super().__init__(file, OffsetIndex.LAYOUT, findings)

    def meet(self, batch: BatchAt) -> None:
        while self.entry is not None and self.entry[1][1] < batch.position:
            self._complain_of_place()
        self._confirm(batch)
        if self.entry is not None and self.entry[1][1] == batch.position:
            position, (relative, _) = self.entry
            offset = self._base_offset + relative
            if self._ends is not None:
                self._refuse_end()
            if offset < batch.last_offset:
                self.complain(
                    position, f"leads to a batch that ends at offset {batch.last_offset}, not at {offset}"
                )
            elif offset > batch.last_offset:
                self._ends = position, offset
            self.advance()

    def _confirm(self, batch: BatchAt) -> None:
        if self._ends is not None and batch.last_offset >= self._ends[1]:
            if batch.last_offset > self._ends[1]:
                self._refuse_end()
            self._ends = None

    def _refuse_end(self) -> None:
        assert self._ends is not None
        self.complain(self._ends[0], f"speaks of offset {self._ends[1]}, at which no batch ends")
        self._ends = None

    def _complain_of_place(self) -> None:
        assert self.entry is not None
        position, (_, place) = self.entry
        self.complain(position, f"leads to byte {place} of the segment, where no batch starts")
        self.advance()

    def step_over(self, end: int) -> None:
        """Bytes up to `end` are damaged: what the entries say of them is not held against the index."""
        while self.entry is not None and self.entry[1][1] < end:
            self.advance()
        self._ends = None

    def finish(self, *, growing: bool) -> None:
        """The segment ends here; if it is `growing`, only its part that was looked at."""
        if growing:
            return
        if self._ends is not None:
            self._refuse_end()
        while self.entry is not None:
            self._complain_of_place()


class TimeCursor(Cursor):
    """`.timeindex`, met by batches in the order of their offsets."""

    def __init__(self, file: File, base_offset: int, findings: Findings) -> None:
        self._base_offset = base_offset
        self._before: tuple[int, ...] | None = None
        self._newest = -1
        super().__init__(file, TimeIndex.LAYOUT, findings)

    def meet(self, batch: BatchAt) -> None:
        self._newest = max(self._newest, batch.max_timestamp)
        while self.entry is not None and self._base_offset + self.entry[1][1] <= batch.last_offset:
            position, fields = self.entry
            if (reason := self._fault(fields, batch)) is not None:
                self.complain(position, reason)
            self._before = fields
            self.advance()

    def _fault(self, fields: tuple[int, ...], batch: BatchAt) -> str | None:
        timestamp, offset = fields[0], self._base_offset + fields[1]
        if self._before is not None and (timestamp <= self._before[0] or fields[1] < self._before[1]):
            return "does not lie behind the entry before it"
        if batch.magic == 2 and offset < batch.base_offset:
            return f"names offset {offset}, which no batch holds"
        if timestamp != batch.max_timestamp:
            return f"names timestamp {timestamp}, and the batch of offset {offset} has {batch.max_timestamp}"
        if timestamp < self._newest:
            return f"names timestamp {timestamp} as the largest so far, which is {self._newest}"
        return None

    def step_over(self, next_offset: int) -> None:
        while self.entry is not None and self._base_offset + self.entry[1][1] < next_offset:
            self._before = self.entry[1]
            self.advance()

    def finish(self, *, growing: bool) -> None:
        while self.entry is not None and not growing:
            position, fields = self.entry
            self.complain(position, f"names offset {self._base_offset + fields[1]}, behind the last batch")
            self.advance()


class TxnCursor:
    """`.txnindex`, or its absence, met by aborted transactions in the order of their markers."""

    def __init__(
        self, file: File | None, path: str, base_offset: int, limit: int, findings: Findings
    ) -> None:
        self.path = path
        self.is_good = True
        self._findings = findings
        self._is_there = file is not None
        self._is_silent = False
        self._range = base_offset, limit
        self._entries = iter(()) if file is None else entries(file, txn_index.ENTRY, padded=False)
        self._before = -1
        self.entry: tuple[int, AbortedTxn] | None = None
        if file is not None and (extra := file.size() % txn_index.ENTRY.size):
            self._complain(
                file.size() - extra, f"the file ends within an entry of {txn_index.ENTRY.size} bytes"
            )
        self._advance()

    def meet(self, aborted: AbortedTxn, *, exact: bool, growing: bool) -> None:
        """The batches tell of this one; all they tell if `exact`, else earlier ones may be missing. If the segment is
        `growing`, the last entry may be on its way."""
        while self.entry is not None and self.entry[1].last_offset < aborted.last_offset:
            self._surplus(exact=exact)
        if self.entry is not None and self.entry[1].last_offset == aborted.last_offset:
            position, entry = self.entry
            if entry.producer_id != aborted.producer_id or (exact and entry != aborted):
                self._complain(position, f"says {_said(entry)}, and the segment {_said(aborted)}")
            self._advance()
        elif not self._is_silent and not (growing and self.entry is None):
            where = None if self.entry is None else self.entry[0]
            self._is_silent = not self._is_there  # a file that is not there lacks them all
            self._complain(
                where, f"lacks a transaction: {_said(aborted)}" if self._is_there else _absent(aborted)
            )

    def finish(self, end_offset: int, exact_until: int | None, *, growing: bool) -> None:
        """The segment ends here. Behind `exact_until` the file may know more than the batches that are left."""
        while self.entry is not None:
            last = self.entry[1].last_offset
            if growing and last >= end_offset:
                return
            self._surplus(exact=exact_until is None or last < exact_until)

    def _surplus(self, *, exact: bool) -> None:
        assert self.entry is not None
        position, entry = self.entry
        first, limit = self._range
        if exact:
            self._complain(position, f"knows a transaction that the segment does not: {_said(entry)}")
        elif not first <= entry.last_offset < limit:
            self._complain(position, f"speaks of offset {entry.last_offset}, which is not in this segment")
        self._advance()

    def _advance(self) -> None:
        found = next(self._entries, None)
        self.entry = None
        if found is None:
            return
        position, (version, *fields) = found
        entry = AbortedTxn(*fields)
        if version != txn_index.VERSION:
            fault = f"an entry of version {version}, which is not known"
        elif not 0 <= entry.first_offset <= entry.last_offset:
            fault = "the transaction ends before it starts"
        elif entry.last_offset <= self._before:
            fault = "does not lie behind the entry before it"
        else:
            self._before, self.entry = entry.last_offset, (position, entry)
            return
        self._complain(position, fault)
        self._entries, self._is_silent = iter(()), True  # nothing behind it can be trusted

    def _complain(self, position: int | None, reason: str) -> None:
        self.is_good = False
        self._findings.stale(self.path, position, reason)


def _said(aborted: AbortedTxn) -> str:
    return (
        f"producer {aborted.producer_id} aborted offsets {aborted.first_offset} to {aborted.last_offset},"
        f" last stable offset {aborted.last_stable_offset}"
    )


def _absent(aborted: AbortedTxn) -> str:
    return f"is missing, and with it a transaction: {_said(aborted)}"
