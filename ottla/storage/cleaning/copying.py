"""The second pass of a cleaning: segments are copied without what is superseded.

A batch whose records all stay is copied as it is. One that loses some keeps its offsets, its producer and sequence, its
codec and its timestamps. One that loses all goes too, unless its header is still needed: the last batch of a producer
says which sequence comes next, and the last batch of a group says where the replaced segments ended.

A batch with a tombstone, and a marker of which nothing is left, get a delete horizon when they are first cleaned: from
then on readers have `delete.retention.ms` to see them. It stands in the place of the batch's base timestamp.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from ottla.core.types import Buffer
from ottla.records import legacy
from ottla.records.batch import (
    ATTRIBUTES_AT,
    CODEC_BITS,
    CONTROL_BIT,
    CRC,
    CRC_AT,
    CREATE_TIME,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME,
    TIMESTAMP_TYPE_BIT,
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
from ottla.storage.cleaning.offset_map import OffsetMap
from ottla.storage.cleaning.output import Output
from ottla.storage.cleaning.reading import Reader
from ottla.storage.cleaning.sieve import Sifted, sift
from ottla.storage.cleaning.transactions import PassedTxns
from ottla.storage.config import TopicConfig
from ottla.storage.files import Files
from ottla.storage.segment import Segment
from ottla.storage.txn_index import AbortedTxn

RENEWED_BYTES = 16 << 10
"""How large batches become that are made of old messages."""
BITS_PER_KEY = 2
TIMESTAMP_MAX = 2**63 - 1


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
        self._now_ms = job.now_ms
        self._horizon_ms = min(job.now_ms + config.delete_retention_ms, TIMESTAMP_MAX)
        self._piece_bytes = job.io_buffer_bytes
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
            self._files, self._job.directory, group[0].base_offset, self._config, self._piece_bytes
        )

    def copy(self, segment: Segment) -> Iterator[int]:
        """Copy one of its segments; yields the bytes that were read and written."""
        out, reader = self.out, Reader(segment, self._piece_bytes)
        told = out.bytes_read + out.bytes_kept
        while reader.step():
            header = reader.header
            is_last = segment is self._last and reader.is_last
            if header is None:
                self._sift_messages(reader, is_last)
            else:
                if self._renewed:
                    self._renew()
                self._sift(header, reader, is_last)
            done = out.bytes_read + out.bytes_kept
            if done - told >= self._piece_bytes:
                yield done - told
                told = done
        yield out.bytes_read + out.bytes_kept - told

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

    def _sift(self, header: BatchHeader, reader: Reader, is_last: bool) -> None:
        base_offset, _, _, _, _, attributes, _, _, _, producer_id, _, _, count = header
        self.out.read(count, reader.end - reader.start)
        is_needed = is_last or (producer_id >= 0 and self._is_last_of_producer(header))
        if attributes & CONTROL_BIT:
            self._sift_marker(header, reader, is_needed)
        elif self._txns.is_aborted(header):
            self._emptied(header, is_needed)
        else:
            data, start, end = reader.records(header)
            sifted = sift(
                data,
                start,
                end,
                count,
                base_offset,
                self._mapped_end,
                not attributes & DELETE_HORIZON_BIT or self._now_ms < header.base_timestamp,
                self._newest,
                self._newest_from,
                self._offsets,
            )
            self._keep(header, reader, data, sifted, is_needed)

    def _keep(
        self, header: BatchHeader, reader: Reader, data: bytes, sifted: Sifted, is_needed: bool
    ) -> None:
        stretches, kept, timestamp_delta_max, has_tombstones = sifted
        if kept == 0:
            self._emptied(header, is_needed)
            return
        batch: Buffer = reader.batch
        if kept != header[12]:
            records = [data[start:stop] for start, stop in stretches]
            header, batch = shrunk(header, records, kept, timestamp_delta_max)
        if has_tombstones and header.delete_horizon_ms is None:
            header, batch = with_horizon(header, batch, self._horizon_ms)
        self.out.write(header, batch)

    def _sift_marker(self, header: BatchHeader, reader: Reader, is_needed: bool) -> None:
        is_left_over, aborted = self._txns.end(header, reader.kind())
        if aborted is not None:
            self.out.segment.txns.append(aborted)
        horizon = header.delete_horizon_ms
        if header.count == 0 or (is_left_over and horizon is not None and horizon <= self._now_ms):
            self._emptied(header, is_needed)
        elif is_left_over and horizon is None:
            self.out.write(*with_horizon(header, reader.batch, self._horizon_ms))
        else:
            self.out.write(header, reader.batch)

    def _emptied(self, header: BatchHeader, is_needed: bool) -> None:
        if is_needed:
            self.out.write(*emptied(header))

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        last: LastBatch | None = self._job.producers.get(header.producer_id)
        if last is None:
            return False
        if last.offset >= 0:
            return header.last_offset == last.offset
        return header.is_control and header.producer_epoch == last.epoch

    # --- messages of magic 0 and 1 ------------------------------------------------------------------------------

    def _sift_messages(self, reader: Reader, is_last: bool) -> None:
        """What stays of an old message, or of the set that it wraps, is written in today's format."""
        data, size = reader.batch, reader.end - reader.start
        header = legacy.read_header(data)
        records = list(legacy.records_of(data))
        if max(record.offset for record in records) > header.offset:
            raise invalid(f"a wrapper at offset {header.offset} holds records from behind it")
        self.out.read(len(records), size)
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
            self._renewed_bytes += size if kept else 0
            if self._renewed_bytes >= RENEWED_BYTES:
                self._renew()
        if is_last:
            self._renew()
            if not kept:
                self.out.write(*_no_records(header.offset))

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


def shrunk(
    header: BatchHeader, records: list[bytes], count: int, timestamp_delta_max: int
) -> tuple[BatchHeader, Buffer]:
    """The batch with those of its records that stay."""
    offset, _, epoch, magic, _, attributes, delta, base_timestamp, newest, id_, id_epoch, sequence, _ = header
    if attributes & CODEC_BITS:
        records = [compress(header.codec, b"".join(records))]
    if not attributes & TIMESTAMP_TYPE_BIT:
        newest = wrapping_sum(base_timestamp, timestamp_delta_max)
    length = HEADER_SIZE - LENGTH_OVERHEAD + sum(map(len, records))
    head = HEADER.pack(
        *(offset, length, epoch, magic, 0, attributes, delta, base_timestamp, newest),
        *(id_, id_epoch, sequence, count),
    )
    return sealed(bytearray().join([head, *records]))


def emptied(header: BatchHeader) -> tuple[BatchHeader, Buffer]:
    """The batch without records: what remains says who wrote it, with which sequence, and where it ends."""
    attributes = header.attributes & ~(CODEC_BITS | DELETE_HORIZON_BIT)
    length = HEADER_SIZE - LENGTH_OVERHEAD
    empty = header._replace(length=length, attributes=attributes, base_timestamp=NO_TIMESTAMP, count=0)
    return sealed(bytearray(HEADER.pack(*empty)))


def with_horizon(header: BatchHeader, batch: Buffer, horizon_ms: int) -> tuple[BatchHeader, bytes]:
    """The same batch with a delete horizon: timestamps become deltas to that."""
    records = list(records_of(batch))
    offsets = [record.offset for record in records]
    if offsets[-1] > header.last_offset or any(a >= b for a, b in pairwise(offsets)):
        raise invalid(f"the records of the batch at offset {header.base_offset} are out of order")
    rebased = build(
        records,
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


def sealed(batch: bytearray) -> tuple[BatchHeader, Buffer]:
    """Header and bytes of a batch, with the checksum that fits."""
    CRC.pack_into(batch, CRC_AT, crc32c(batch, ATTRIBUTES_AT))
    return read_header(batch), batch


def _no_records(offset: int) -> tuple[BatchHeader, bytes]:
    batch = build([], base_offset=offset, last_offset=offset)
    return read_header(batch), batch
