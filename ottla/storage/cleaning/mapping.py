"""The first pass of a cleaning: the keys of the dirty segments go into the offset map."""

from collections.abc import Iterable, Iterator

from ottla.core.types import Buffer
from ottla.records import legacy
from ottla.records.batch import BatchHeader
from ottla.storage.cleaning.offset_map import OffsetMap
from ottla.storage.cleaning.reading import Reader
from ottla.storage.cleaning.sieve import note_keys
from ottla.storage.cleaning.transactions import PassedTxns
from ottla.storage.segment import Segment
from ottla.storage.txn_index import AbortedTxn


class Mapper:
    """Notes the keys of segment after segment, until the map is full."""

    def __init__(
        self, offsets: OffsetMap, aborted: Iterable[AbortedTxn], first_offset: int, piece_bytes: int
    ) -> None:
        self._offsets = offsets
        self._txns = PassedTxns(aborted)
        self._first_offset = first_offset
        self._piece_bytes = piece_bytes
        self.is_full = False

    def note(self, segment: Segment) -> Iterator[int]:
        """Note a segment's keys; yields the bytes that were read. Stops early if not all of them find room."""
        reader = Reader(segment, self._piece_bytes)
        noted = 0
        while not self.is_full and reader.step():
            header = reader.header
            has_room = (
                self._note_messages(reader.batch) if header is None else self._note_batch(header, reader)
            )
            self.is_full = not has_room
            noted += reader.end - reader.start
            if noted >= self._piece_bytes:
                yield noted
                noted = 0
        yield noted

    def _note_batch(self, header: BatchHeader, reader: Reader) -> bool:
        if header.is_control:
            self._txns.end(header, reader.kind())
            return True
        if self._txns.is_aborted(header):  # what nobody reads supersedes nothing
            return True
        data, start, end = reader.records(header)
        return note_keys(data, start, end, header[12], header[0], self._first_offset, self._offsets)

    def _note_messages(self, data: Buffer) -> bool:
        for record in legacy.records_of(data):
            is_dirty = record.key is not None and record.offset >= self._first_offset
            if is_dirty and not self._offsets.put(record.key or b"", record.offset):
                return False
        return True

    @staticmethod
    def count_records(segment: Segment) -> int:
        """How many there are, by the headers of the batches."""
        return sum(batch.records for batch in segment.batches())
