"""`NNNNNNNNNNNNNNNNNNNN.snapshot`: the producers of a log as they were before the offset in the file's name.

A log that opens starts from the newest one and replays only what follows it. The file carries a checksum; one that
fails it is ignored, and the log replays from further back.
"""

import struct
from collections.abc import Iterable, Sequence

from ottla.core.errors import ProtocolError
from ottla.records.checksum import crc32c
from ottla.storage.files import Files, remove_all
from ottla.storage.producers import NO_OFFSET, Producer, WrittenBatch
from ottla.storage.segment import file_name, offset_of

SUFFIX = ".snapshot"
VERSION = 1
HEADER = struct.Struct(">hIi")  # version, CRC-32C of what follows it, number of entries
COUNTED_FROM = 6  # the checksum starts behind itself
ENTRY = struct.Struct(">qhiqiqiq")


def encode(producers: Iterable[Producer]) -> bytes:
    """In the order of their ids, so that every replica writes the same bytes."""
    entries = [_entry(p) for p in sorted(producers, key=lambda p: p.producer_id)]
    body = struct.pack(">i", len(entries)) + b"".join(entries)
    return struct.pack(">hI", VERSION, crc32c(body)) + body


def _entry(producer: Producer) -> bytes:
    last = (
        producer.batches[-1] if producer.batches else WrittenBatch(-1, NO_OFFSET, 0, producer.last_timestamp)
    )
    return ENTRY.pack(
        producer.producer_id,
        producer.epoch,
        last.last_sequence,
        last.last_offset,
        last.offset_delta,
        producer.last_timestamp,
        producer.coordinator_epoch,
        producer.txn_first_offset,
    )


def decode(data: bytes, path: str) -> list[Producer]:
    """The producers in a snapshot file, or ProtocolError that says what is wrong with it."""
    if len(data) < HEADER.size:
        raise ProtocolError(f"{path} is shorter than the header of a snapshot")
    version, crc, count = HEADER.unpack_from(data)
    if version != VERSION:
        raise ProtocolError(f"{path} has version {version}, not {VERSION}")
    if crc32c(memoryview(data)[COUNTED_FROM:]) != crc:
        raise ProtocolError(f"{path} fails its checksum")
    if count < 0 or len(data) != HEADER.size + count * ENTRY.size:
        raise ProtocolError(f"{path} says {count} producers and has {len(data)} bytes")
    return [_producer(fields) for fields in ENTRY.iter_unpack(memoryview(data)[HEADER.size :])]


def _producer(fields: tuple[int, ...]) -> Producer:
    producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator_epoch, txn_first = fields
    producer = Producer(producer_id, epoch, coordinator_epoch=coordinator_epoch, txn_first_offset=txn_first)
    producer.last_timestamp = timestamp
    if last_offset >= 0:
        producer.batches.append(WrittenBatch(last_sequence, last_offset, delta, timestamp))
    return producer


class Snapshots:
    """The snapshot files of one log: one where each segment starts, and one where the log was last closed."""

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory
        self.unsynced: set[str] = set()

    def offsets(self) -> list[int]:
        found = (offset_of(name, SUFFIX) for name in self._files.names(self._directory))
        return sorted(offset for offset in found if offset is not None)

    def take(self, offset: int, producers: Iterable[Producer]) -> None:
        """Write one. It lasts with the next flush; half of it would fail its checksum and be ignored."""
        path = self._path(offset)
        file = self._files.open(path, create=True)
        try:
            file.truncate(0)
            file.write_at(0, encode(producers))
        finally:
            file.close()
        self.unsynced.add(path)

    def newest(self, base_offset: int, end_offset: int) -> tuple[int, list[Producer]]:
        """The newest good one within a log that has batches from `base_offset` to `end_offset`, and its offset.

        One from before cannot be followed up: what ended the transactions that it knows as open is gone.
        """
        for offset in reversed(self.offsets()):
            if not base_offset <= offset <= end_offset:
                continue
            path = self._path(offset)
            try:
                return offset, decode(self._files.read(path), path)
            except ProtocolError:
                self._files.remove(path)
        return base_offset, []

    def remove(self, offset: int) -> None:
        remove_all(self._files, [self._path(offset)])

    def remove_strays(self, base_offsets: Sequence[int], *, clean: bool) -> None:
        """Remove those that stand where no segment starts, before anybody believes them: they may tell of transactions
        whose ends compaction took away. One within the last segment stays after a `clean` shutdown, when it was taken;
        else it is of no use, and may be half of one, from a roll that was interrupted."""
        known, last = set(base_offsets), base_offsets[-1]
        strays = [o for o in self.offsets() if o not in known and (o < last or not clean)]
        remove_all(self._files, (self._path(offset) for offset in strays))

    def remove_beyond(self, end_offset: int) -> None:
        """Remove those that speak of batches at `end_offset` or behind it, so that no crash brings them back."""
        beyond = [offset for offset in self.offsets() if offset > end_offset]
        remove_all(self._files, (self._path(offset) for offset in beyond))
        if beyond:
            self._files.sync_directory(self._directory)

    def _path(self, offset: int) -> str:
        return f"{self._directory}/{file_name(offset, SUFFIX)}"
