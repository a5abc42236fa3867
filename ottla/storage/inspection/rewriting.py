"""A segment written anew: without what is damaged, and with indexes that fit.

The new one is written beside the old as `.cleaned`, synced, renamed to `.swap`, and put in place as a compaction's
result is. A crash on the way leaves the old segment or the new one.
"""

from collections.abc import Iterator

from ottla.records.batch import (
    ATTRIBUTES_AT,
    HEADER,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    NO_LEADER_EPOCH,
    assign_offsets,
)
from ottla.records.checksum import crc32c
from ottla.storage.config import TopicConfig
from ottla.storage.epochs import EpochStart
from ottla.storage.files import File, Files
from ottla.storage.inspection.layout import Layout
from ottla.storage.inspection.pieces import Piece, Pieces, Window
from ottla.storage.inspection.quarantine import Quarantine, copy
from ottla.storage.inspection.reigns import epoch_at
from ottla.storage.scan import SCAN_BYTES, parse_header
from ottla.storage.segment import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    NO_TIMESTAMP,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    Segment,
)
from ottla.storage.swap import CLEANED_SUFFIX, SWAP_SUFFIX

DEFAULTS = TopicConfig()
"""The topic's own settings are not known here, and an index may have any density."""
_SUFFIXES = (TXN_INDEX_SUFFIX, TIME_INDEX_SUFFIX, INDEX_SUFFIX, LOG_SUFFIX)  # the log comes last


def rebuild_indexes(files: Files, layout: Layout, base: int) -> None:
    """Offset and time index of a whole segment. An index that a crash cuts short is a shorter index."""
    segment = Segment.open(files, layout.directory, base, DEFAULTS)
    try:
        segment.rebuild_indexes()
        segment.seal()
        segment.sync()
    finally:
        segment.abandon()


class Rewriting:
    """One segment on its way to being whole again."""

    def __init__(
        self,
        files: Files,
        layout: Layout,
        base: int,
        expected: int,
        epochs: list[EpochStart],
        quarantine: Quarantine,
        owner: str,
    ) -> None:
        self._files, self._layout, self._base = files, layout, base
        self._expected = expected
        self._epochs = epochs
        self._quarantine, self._owner = quarantine, owner
        self._path = layout.path(base, LOG_SUFFIX)
        self._stem = self._path.removesuffix(LOG_SUFFIX)
        self._end: int | None = None
        """Where the batches that stay end, if more were lost behind them."""

    def run(self) -> None:
        self._write()
        self._rename(CLEANED_SUFFIX, SWAP_SUFFIX)
        # It replaces one segment, which has its name: unlike in a compaction, nothing else is to go.
        self._rename(SWAP_SUFFIX, "")

    def _rename(self, ending: str, to: str) -> None:
        self._files.sync_directory(self._layout.directory)
        for suffix in _SUFFIXES:
            if self._files.exists(f"{self._stem}{suffix}{ending}"):
                self._files.rename(f"{self._stem}{suffix}{ending}", f"{self._stem}{suffix}{to}")
        self._files.sync_directory(self._layout.directory)

    def _write(self) -> None:
        """The new segment, beside the old one, on the disk."""
        log = self._files.open(self._path)
        new = Segment.create(self._files, self._layout.directory, self._base, DEFAULTS, CLEANED_SUFFIX)
        try:
            self._copy_batches(log, new)
            new.seal()
            new.sync()
        finally:
            log.close()
            new.abandon()
        # Old records have no time of their own: how long they are kept is counted from that of the file.
        self._files.set_modified(f"{self._path}{CLEANED_SUFFIX}", self._files.modified_ms(self._path))
        self._copy_txns()

    def _copy_batches(self, log: File, segment: Segment) -> None:
        new, written, gathered = segment.file, 0, bytearray()
        for piece, mended in self._kept(log):
            batch = piece.batch
            assert batch is not None
            segment.note(batch.last_offset, written + len(gathered), batch.size, batch.max_timestamp)
            if mended is None and piece.data is None:
                new.write_at(written, gathered)
                written += len(gathered)
                gathered.clear()
                copy(log, piece.start, piece.end, new, written)
                written += batch.size
            else:
                gathered += mended if mended is not None else piece.data or b""
            if len(gathered) >= SCAN_BYTES:
                new.write_at(written, gathered)
                written += len(gathered)
                gathered.clear()
        if (filler := self._filler()) is not None:
            gathered += filler
        if gathered:
            new.write_at(written, gathered)

    def _filler(self) -> bytes | None:
        """A batch without records for offsets that were lost at the end of a segment which another one follows.

        Compaction leaves such batches too. Without it, a start that has lost its recovery point would take the hole
        for the end of the log, and what follows for a leftover.
        """
        if self._end is None or self._base == self._layout.bases[-1]:
            return None
        start, delta = self._end, self._layout.limit_of(self._base) - 1 - self._end
        right = epoch_at(self._epochs, start)
        epoch = NO_LEADER_EPOCH if right is None else right
        return empty_batch(start, delta, epoch) if delta >= 0 else None

    def _kept(self, log: File) -> Iterator[tuple[Piece, bytes | None]]:
        """The batches that stay, and the bytes of those that are mended. The others go to the quarantine, in one
        piece where they lie side by side."""
        lost: tuple[int, int] | None = None
        limit, ends = self._layout.limit_of(self._base), self._layout.ends_of(self._base)
        end = max(self._base, self._expected)
        for piece in Pieces(log, log.size(), self._base, self._expected, limit, ends):
            if piece.fault is not None and piece.mended_offset is None:
                lost = (lost[0] if lost else piece.start), piece.end
                continue
            if lost is not None:
                self._quarantine.keep(self._path, self._owner, *lost)
                lost = None
            kept, mended = self._mend(log, piece)
            assert kept.batch is not None
            end = kept.batch.next_offset
            yield kept, mended
        if lost is not None:
            self._quarantine.keep(self._path, self._owner, *lost)
            self._end = end

    def _mend(self, log: File, piece: Piece) -> tuple[Piece, bytes | None]:
        """Write into a batch the offset and the epoch that it must have had. Both lie outside its checksum."""
        batch = piece.batch
        assert batch is not None
        offset = batch.base_offset if piece.mended_offset is None else piece.mended_offset
        epoch = batch.leader_epoch
        if batch.magic == 2 and epoch != NO_LEADER_EPOCH:
            right = epoch_at(self._epochs, offset)
            epoch = max(epoch, NO_LEADER_EPOCH) if right is None else right
        if (offset, epoch) == (batch.base_offset, batch.leader_epoch):
            return piece, None
        self._quarantine.keep(self._path, self._owner, piece.start, piece.end)
        data = bytearray(log.read_at(piece.start, batch.size))
        assign_offsets(data, 0, offset, epoch)
        header = parse_header(data[:HEADER_SIZE], 0, piece.start, piece.end, self._path)
        return piece._replace(batch=header), bytes(data)

    def _copy_txns(self) -> None:
        """What was aborted stays aborted: the swap takes the transaction index along."""
        if not self._layout.has(self._base, TXN_INDEX_SUFFIX):
            return
        old = self._files.open(f"{self._stem}{TXN_INDEX_SUFFIX}")
        new = self._files.open(f"{self._stem}{TXN_INDEX_SUFFIX}{CLEANED_SUFFIX}", create=True)
        try:
            new.truncate(0)
            copy(old, 0, old.size(), new)
            new.sync()
        finally:
            old.close()
            new.close()


def empty_batch(base_offset: int, last_offset_delta: int, leader_epoch: int) -> bytes:
    """A batch of magic 2 that holds offsets and no records."""
    fields = (
        0,
        last_offset_delta,
        NO_TIMESTAMP,
        NO_TIMESTAMP,
        -1,
        -1,
        -1,
        0,
    )  # attributes to count; no producer
    body = HEADER.pack(0, 0, 0, MAGIC, 0, *fields)[ATTRIBUTES_AT:]
    length = HEADER_SIZE - LENGTH_OVERHEAD
    return HEADER.pack(base_offset, length, leader_epoch, MAGIC, crc32c(body), *fields)


def cut_tail(
    files: Files, layout: Layout, base: int, position: int, quarantine: Quarantine, owner: str
) -> None:
    """Drop what was never finished, or will never be read: from `position` to the end of the log."""
    path = layout.path(base, LOG_SUFFIX)
    log = files.open(path)
    try:
        if not Window(log, log.size()).are_zeros(position):
            quarantine.keep(path, owner, position, log.size())
        log.truncate(position)
        log.sync()
    finally:
        log.close()
