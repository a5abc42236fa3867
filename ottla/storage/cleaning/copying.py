"""The second pass of a cleaning: segments are copied without what is superseded.

A batch whose records all stay is copied as it is. One that loses some keeps its offsets, its producer and sequence, its
codec and its timestamps. One that loses all goes too, unless its header is still needed: the last batch of a producer
says which sequence comes next, and the last batch of a group says where the replaced segments ended.

A batch with a tombstone, and a marker of which nothing is left, get a delete horizon when they are first cleaned: from
then on readers have `delete.retention.ms` to see them. It stands in the place of the batch's base timestamp.
"""

from collections.abc import Iterable, Iterator, Sequence

from ottla.records import legacy
from ottla.records.batch import (
    ATTRIBUTES_AT,
    CODEC_BITS,
    CRC,
    CRC_AT,
    CREATE_TIME,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME,
    BatchHeader,
    read_header,
    records_of,
)
from ottla.records.builder import build
from ottla.records.checksum import crc32c
from ottla.records.compression import Codec, compress
from ottla.records.convert import modernised
from ottla.records.errors import invalid
from ottla.records.record import NO_TIMESTAMP, Record
from ottla.records.varint import wrapping_sum
from ottla.storage.cleaning.job import Job, LastBatch, Stats
from ottla.storage.cleaning.mapping import kind_of, opened, scan
from ottla.storage.cleaning.offset_map import OffsetMap
from ottla.storage.cleaning.sieve import Sifted, sift
from ottla.storage.cleaning.transactions import PassedTxns
from ottla.storage.config import TopicConfig
from ottla.storage.files import Files
from ottla.storage.scan import BatchAt
from ottla.storage.segment import AppendRefused, Segment
from ottla.storage.swap import CLEANED_SUFFIX
from ottla.storage.txn_index import AbortedTxn

RENEWED_BYTES = 16 << 10
"""How large batches become that are made of old messages."""
BITS_PER_KEY = 2


class Copier:
    """Copies group after group. The transactions that it passes may begin in one and end in another."""

    def __init__(
        self,
        files: Files,
        job: Job,
        config: TopicConfig,
        offsets: OffsetMap,
        mapped_end: int,
        aborted: Iterable[AbortedTxn],
    ) -> None:
        self._files = files
        self._job = job
        self._config = config
        self._offsets = offsets
        self._mapped_end = mapped_end
        first_dirty = min(job.first_dirty_offset, mapped_end)
        self._newest_from = first_dirty if _is_dense(offsets, mapped_end - first_dirty) else mapped_end
        self._newest = offsets.newest(self._newest_from, mapped_end)
        self._txns = PassedTxns(aborted)
        self._horizon_ms = job.now_ms + config.delete_retention_ms
        self._last: Segment | None = None  # of the group, that holds anything
        self._modified_ms = 0
        self._out: Output | None = None
        self._renewed: list[Record] = []  # old messages that wait to become a batch
        self._renewed_bytes = 0
        self._renewed_times = CREATE_TIME, NO_TIMESTAMP  # the broker's time, if it is theirs

    # --- a group ------------------------------------------------------------------------------------------------

    def begin(self, group: Sequence[Segment]) -> None:
        self._last = next((segment for segment in reversed(group) if segment.size), None)
        self._modified_ms = self._files.modified_ms(group[-1].path)
        self._out = Output(
            self._files, self._job.directory, group[0].base_offset, self._config, self._job.io_buffer_bytes
        )

    def copy(self, segment: Segment) -> Iterator[int]:
        """Copy one of its segments; yields the bytes that were read and written."""
        for batch, data in scan(segment):
            before = self.out.stats.bytes_kept
            is_last = segment is self._last and batch.end == segment.size
            if batch.magic == 2:
                self._renew()
                self._sift(read_header(data), data, is_last)
            else:
                self._sift_messages(batch, data, is_last)
            yield batch.size + self.out.stats.bytes_kept - before

    def finish(self) -> Stats:
        """All of it is on the disk when this returns."""
        self._renew()
        return self.out.finish(self._modified_ms)

    def give_up(self) -> None:
        if self._out is not None:
            self._out.remove()

    @property
    def out(self) -> "Output":
        assert self._out is not None, "a group was begun"
        return self._out

    # --- a batch ------------------------------------------------------------------------------------------------

    def _sift(self, header: BatchHeader, data: memoryview, is_last: bool) -> None:
        self.out.read(header.count, header.size)
        is_needed = is_last or self._is_last_of_producer(header)
        if header.is_control:
            self._sift_marker(header, data, is_needed)
        elif self._txns.is_aborted(header):
            self._emptied(header, is_needed)
        else:
            section = opened(header, data)
            sifted = sift(
                section,
                len(section),
                header.count,
                header.base_offset,
                self._mapped_end,
                self._keeps_tombstones(header),
                self._newest,
                self._newest_from,
                self._offsets,
            )
            self._keep(header, data, section, sifted, is_needed)

    def _keep(
        self, header: BatchHeader, data: memoryview, section: bytes, sifted: Sifted, is_needed: bool
    ) -> None:
        if sifted.kept == 0:
            self._emptied(header, is_needed)
            return
        gets_horizon = sifted.has_tombstones and header.delete_horizon_ms is None
        if sifted.kept == header.count:
            kept, batch = header, bytes(data)
        else:
            kept, batch = shrunk(header, section, sifted)
        if gets_horizon:
            kept, batch = with_horizon(kept, batch, self._horizon_ms)
        self.out.write(kept, batch)

    def _sift_marker(self, header: BatchHeader, data: memoryview, is_needed: bool) -> None:
        is_left_over, aborted = self._txns.end(header, kind_of(header, data))
        if aborted is not None:
            self.out.segment.txns.append(aborted)
        horizon = header.delete_horizon_ms
        if header.count == 0 or (is_left_over and horizon is not None and horizon <= self._job.now_ms):
            self._emptied(header, is_needed)
        elif is_left_over and horizon is None:
            self.out.write(*with_horizon(header, bytes(data), self._horizon_ms))
        else:
            self.out.write(header, bytes(data))

    def _emptied(self, header: BatchHeader, is_needed: bool) -> None:
        if is_needed:
            self.out.write(*emptied(header))

    def _keeps_tombstones(self, header: BatchHeader) -> bool:
        horizon = header.delete_horizon_ms
        return horizon is None or self._job.now_ms < horizon

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        last: LastBatch | None = self._job.producers.get(header.producer_id)
        if last is None:
            return False
        if last.offset >= 0:
            return header.last_offset == last.offset
        return header.is_control and header.producer_epoch == last.epoch

    # --- messages of magic 0 and 1 ------------------------------------------------------------------------------

    def _sift_messages(self, batch: BatchAt, data: memoryview, is_last: bool) -> None:
        """What stays of an old message, or of the set that it wraps, is written in today's format."""
        header = legacy.read_header(data)
        records = list(legacy.records_of(data))
        if max(record.offset for record in records) > batch.last_offset:
            raise invalid(f"a wrapper at offset {batch.last_offset} holds records from behind it")
        self.out.read(len(records), batch.size)
        kept = [record for record in records if self._stays(record)]
        stamp = header.timestamp if header.timestamp_type == LOG_APPEND_TIME else NO_TIMESTAMP
        times = header.timestamp_type, stamp
        if header.codec is not Codec.NONE or times != self._renewed_times:
            self._renew()
        if header.codec is not Codec.NONE:
            if kept:
                self._write_renewed(kept, header.codec, *times)
        else:
            self._renewed_times = times
            self._renewed += kept
            self._renewed_bytes += batch.size if kept else 0
            if self._renewed_bytes >= RENEWED_BYTES:
                self._renew()
        if is_last:
            self._renew()
            if not kept:
                self.out.write(*_no_records(batch.last_offset))

    def _stays(self, record: Record) -> bool:
        if record.offset >= self._mapped_end:
            return True
        return record.key is not None and record.offset >= self._offsets.get(record.key)

    def _renew(self) -> None:
        """Write the messages that wait, as one batch."""
        if self._renewed:
            self._write_renewed(self._renewed, Codec.NONE, *self._renewed_times)
            self._renewed, self._renewed_bytes = [], 0

    def _write_renewed(self, records: list[Record], codec: Codec, timestamp_type: int, stamp: int) -> None:
        has_tombstones = any(record.value is None for record in records)
        batch = modernised(
            records,
            codec=codec,
            timestamp_type=timestamp_type,
            log_append_time=stamp,
            delete_horizon_ms=self._horizon_ms if has_tombstones else None,
        )
        self.out.write(read_header(batch), batch)


def _is_dense(offsets: OffsetMap, count: int) -> bool:
    """Do so many bits take up little beside the map? A log with large gaps has few keys for its offsets."""
    return count <= BITS_PER_KEY * offsets.keys_max


class Output:
    """The segment that replaces a group: written in large pieces, and under names that no log opens."""

    def __init__(
        self, files: Files, directory: str, base_offset: int, config: TopicConfig, buffer_bytes: int
    ) -> None:
        self._files = files
        self.segment = Segment(files, directory, base_offset, config, CLEANED_SUFFIX)
        self.segment.remove()  # of a cleaning that was given up: whoever still writes there writes to nowhere
        self.segment = Segment.create(files, directory, base_offset, config, CLEANED_SUFFIX)
        self._buffer_bytes = buffer_bytes
        self._buffer = bytearray()
        self._headers: list[BatchHeader] = []
        self._end_offset = base_offset
        self.stats = Stats()

    def read(self, records: int, size: int) -> None:
        read_records, read_bytes, kept_records, kept_bytes = self.stats
        self.stats = Stats(read_records + records, read_bytes + size, kept_records, kept_bytes)

    def write(self, header: BatchHeader, batch: bytes) -> None:
        if header.base_offset < self._end_offset:
            raise invalid(f"offset {header.base_offset} stands where {self._end_offset} was expected")
        self._end_offset = header.next_offset
        read_records, read_bytes, kept_records, kept_bytes = self.stats
        self.stats = Stats(read_records, read_bytes, kept_records + header.count, kept_bytes + len(batch))
        self._buffer += batch
        self._headers.append(header)
        if len(self._buffer) >= self._buffer_bytes:
            self._flush()

    def finish(self, modified_ms: int) -> Stats:
        self._flush()
        self.segment.seal()
        self.segment.sync()
        self._files.set_modified(self.segment.path, modified_ms)
        self.segment.close()
        return self.stats

    def remove(self) -> None:
        self.segment.remove()

    def _flush(self) -> None:
        if self._buffer:
            try:
                self.segment.append(self._buffer, self._headers)
            except AppendRefused as refused:
                raise refused.__cause__ or refused from None
            self._buffer.clear()
            self._headers.clear()


def shrunk(header: BatchHeader, section: bytes, sifted: Sifted) -> tuple[BatchHeader, bytes]:
    """The batch with those of its records that stay."""
    records = b"".join([section[start:stop] for start, stop in sifted.stretches])
    if (codec := header.codec) is not Codec.NONE:
        records = compress(codec, records)
    newest = header.max_timestamp
    if header.timestamp_type == CREATE_TIME:
        newest = wrapping_sum(header.base_timestamp, sifted.timestamp_delta_max)
    length = HEADER_SIZE - LENGTH_OVERHEAD + len(records)
    return sealed(header._replace(length=length, max_timestamp=newest, count=sifted.kept), records)


def emptied(header: BatchHeader) -> tuple[BatchHeader, bytes]:
    """The batch without records: what remains says who wrote it, with which sequence, and where it ends."""
    attributes = header.attributes & ~(CODEC_BITS | DELETE_HORIZON_BIT)
    length = HEADER_SIZE - LENGTH_OVERHEAD
    empty = header._replace(length=length, attributes=attributes, base_timestamp=NO_TIMESTAMP, count=0)
    return sealed(empty, b"")


def with_horizon(header: BatchHeader, batch: bytes, horizon_ms: int) -> tuple[BatchHeader, bytes]:
    """The same batch with a delete horizon: timestamps become deltas to that."""
    rebased = build(
        records_of(batch),
        base_offset=header.base_offset,
        last_offset=header.last_offset,
        codec=header.codec,
        timestamp_type=header.timestamp_type,
        log_append_time=header.max_timestamp,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        is_transactional=header.is_transactional,
        is_control=header.is_control,
        leader_epoch=header.leader_epoch,
        delete_horizon_ms=horizon_ms,
    )
    return read_header(rebased), rebased


def sealed(header: BatchHeader, records: bytes) -> tuple[BatchHeader, bytes]:
    """Header and bytes of a batch, with the checksum that fits."""
    batch = bytearray(HEADER.pack(*header))
    batch += records
    crc = crc32c(batch, ATTRIBUTES_AT)
    CRC.pack_into(batch, CRC_AT, crc)
    return header._replace(crc=crc), bytes(batch)


def _no_records(offset: int) -> tuple[BatchHeader, bytes]:
    batch = build([], base_offset=offset, last_offset=offset)
    return read_header(batch), batch
