"""The first pass of a cleaning: the keys of the dirty segments go into the offset map."""

from collections.abc import Iterable, Iterator

from ottla.core.types import Buffer
from ottla.records import legacy
from ottla.records.batch import RECORDS_AT, BatchHeader, read_header, records_of
from ottla.records.compression import Codec, decompress
from ottla.records.control import ControlType, control_type
from ottla.records.errors import RecordError, corrupt, invalid
from ottla.records.section import RECORD_SIZE_MIN
from ottla.storage.cleaning.offset_map import OffsetMap
from ottla.storage.cleaning.sieve import note_keys
from ottla.storage.cleaning.transactions import PassedTxns
from ottla.storage.scan import BatchAt, Scanner, is_intact
from ottla.storage.segment import Segment
from ottla.storage.txn_index import AbortedTxn


class Mapper:
    """Notes the keys of segment after segment, until the map is full."""

    def __init__(self, offsets: OffsetMap, aborted: Iterable[AbortedTxn], first_offset: int) -> None:
        self._offsets = offsets
        self._txns = PassedTxns(aborted)
        self._first_offset = first_offset
        self.is_full = False

    def note(self, segment: Segment) -> Iterator[int]:
        """Note a segment's keys; yields the bytes that were read. Stops early if not all of them find room."""
        for batch, data in scan(segment):
            if batch.magic == 2:
                has_room = self._note_batch(read_header(data), data)
            else:
                has_room = self._note_messages(data)
            yield batch.size
            if not has_room:
                self.is_full = True
                return

    def _note_batch(self, header: BatchHeader, data: memoryview) -> bool:
        if header.is_control:
            self._txns.end(header, kind_of(header, data))
            return True
        if self._txns.is_aborted(header):  # what nobody reads supersedes nothing
            return True
        section = opened(header, data)
        return note_keys(
            section, 0, len(section), header.count, header.base_offset, self._first_offset, self._offsets
        )

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


def scan(segment: Segment) -> Iterator[tuple[BatchAt, memoryview]]:
    """The batches of a segment, each found intact, with their bytes, which are valid until the next."""
    scanner = Scanner(segment.file, segment.size)
    while (found := scanner.next()) is not None:
        batch, data = found
        if not is_intact(batch, data):
            raise corrupt(f"{segment.path}: a batch fails its checksum at byte {batch.position}")
        yield batch, data


def opened(header: BatchHeader, data: memoryview) -> bytes:
    """The record section of a batch, decompressed."""
    if header.count == 0:
        return b""
    section = data[RECORDS_AT : header.size]
    found = bytes(section) if header.codec is Codec.NONE else decompress(header.codec, section)
    if not 0 <= header.count <= len(found) // RECORD_SIZE_MIN:
        raise invalid(f"{header.count} records do not fit into {len(found)} bytes")
    return found


def kind_of(header: BatchHeader, data: memoryview) -> ControlType | None:
    """What a control batch announces; None if it was emptied by an earlier cleaning, or makes no sense."""
    try:
        first = next(records_of(data), None)
        return None if first is None else control_type(first.key)
    except RecordError:
        return None
