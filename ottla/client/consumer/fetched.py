"""What one fetch brought of one partition: batches as they lie in the log, opened one by one as records are wanted.

`next_offset` is where the reader is: behind the last record that `take` handed out, and behind whatever is skipped
(what was compacted away, markers, aborted transactions). A record that cannot be read ends a `take`; the next one
begins at it, and raises. Nothing is decoded before somebody wants it.
"""

import struct
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ottla.client.errors import DeserializationError
from ottla.client.records import ConsumerRecord
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.records import batch, legacy, section
from ottla.records.control import ControlType, control_type
from ottla.records.errors import RecordError
from ottla.records.record import Header, Row

Deserialize = Callable[[str, tuple[Header, ...], bytes | None], Any]

_START = struct.Struct(">qiib")  # how every format starts: offset, length, leader epoch or CRC, magic
_LAST_DELTA = struct.Struct(">i")
_OVERHEAD = batch.LENGTH_OVERHEAD
_LENGTH_MIN = {
    0: legacy.MESSAGE_SIZE_MIN[0],
    1: legacy.MESSAGE_SIZE_MIN[1],
    2: batch.HEADER_SIZE - _OVERHEAD,
}
_OFFSET_MAX = (1 << 63) - (1 << 32)  # of a batch: what is behind its last record must be an offset too
_DECODE_MAX = 4096  # records at a time, however many are wanted: they are held twice for a moment


class Decoding(NamedTuple):
    """How the records of a consumer are read."""

    check_crcs: bool = True
    is_read_committed: bool = False
    key: Deserialize | None = None
    value: Deserialize | None = None


class Fetched:
    """Batches of one partition, read from `fetch_offset` on in the `life` that the partition had then."""

    def __init__(
        self,
        partition: TopicPartition,
        life: int,
        fetch_offset: int,
        data: bytes,
        decoding: Decoding,
        aborted: Iterable[tuple[int, int]] = (),
    ) -> None:
        """`aborted` are the producer ids and first offsets of transactions that are not to be seen."""
        self.partition, self.life = partition, life
        self.fetch_offset = self.next_offset = fetch_offset
        self.offset_epoch = -1
        """The leader epoch of the batch before `next_offset`, if it was in here."""
        self.ready: list[ConsumerRecord] = []
        """Taken for those who want them one by one; `ready_index` is the next of them."""
        self.ready_index = 0
        self._data, self._decoding = data, decoding
        self._aborted = sorted((first, producer) for producer, first in aborted)
        self._aborted_producers: set[int] = set()
        self._positions, self._is_broken = _scan(data)
        self._next_batch = 0
        self._rows: list[Row] = []
        """Records of the open batch that are decoded but not handed out: of an old format, or from a bad one on."""
        self._section, self._at, self._end, self._left = b"", 0, 0, 0
        self._header: Any = None
        self._batch_end = fetch_offset
        self._batch_epoch = -1
        self.end_offset, self.end_epoch = self._measure()

    def _measure(self) -> tuple[int | None, int]:
        """Where to fetch on, while this is not read yet; None if only reading it will tell."""
        if self._is_broken or not self._positions:
            return None, -1
        position = self._positions[-1]
        offset, _, epoch, magic = _START.unpack_from(self._data, position)
        if magic != batch.MAGIC:
            return (offset + 1 if offset >= self.fetch_offset else None), -1
        end = offset + _LAST_DELTA.unpack_from(self._data, position + batch.LAST_OFFSET_DELTA_AT)[0] + 1
        return (end if end > self.fetch_offset else None), epoch

    @property
    def size(self) -> int:
        return len(self._data)

    @property
    def is_piece(self) -> bool:
        """Not even the first batch is whole."""
        return not self._positions and not self._is_broken and len(self._data) > 0

    @property
    def is_done(self) -> bool:
        """Whether everything was handed out, or skipped."""
        return not (
            self._left
            or self._rows
            or self._next_batch < len(self._positions)
            or self._is_broken
            or self.ready_index < len(self.ready)
            or self._is_useless
        )

    @property
    def _is_useless(self) -> bool:
        """There are bytes, but they lead nowhere: to ask again would bring the same."""
        return self.next_offset == self.fetch_offset and len(self._data) > 0

    def take(self, count: int) -> list[ConsumerRecord]:
        """At most so many records; fewer only at the end, or before one that cannot be read. That one raises if it is
        the first: DeserializationError, or KafkaError for a batch that is damaged."""
        if self.ready:
            return self._take_ready(count)
        out: list[ConsumerRecord] = []
        try:
            while len(out) < count:
                if not self._left and not self._rows and not self._open_next():
                    break
                self._read(min(count - len(out), _DECODE_MAX), out)
        except RecordError as error:
            if not out:
                raise self._unreadable(error) from error
        except DeserializationError:
            if not out:
                raise
        return out

    def _take_ready(self, count: int) -> list[ConsumerRecord]:
        records = self.ready[self.ready_index : self.ready_index + count]
        self.ready_index += len(records)
        if self.ready_index >= len(self.ready):
            self.ready, self.ready_index = [], 0
        return records

    @property
    def reader_offset(self) -> int:
        """As `next_offset`, but for those who take records one by one: behind the last of them that they saw."""
        return self.ready[self.ready_index].offset if self.ready_index < len(self.ready) else self.next_offset

    # --- batches ------------------------------------------------------------------------------------------------

    def _open_next(self) -> bool:
        """Open the next batch that has something for us; False if there is none."""
        while self._next_batch < len(self._positions):
            position = self._positions[self._next_batch]
            magic = self._data[position + batch.MAGIC_AT]
            has_records = self._open(position) if magic == batch.MAGIC else self._open_messages(position)
            self._next_batch += 1
            if has_records:
                return True
            self._finish_batch()
        if self._is_broken:
            raise RecordError(ErrorCode.CORRUPT_MESSAGE, "what follows is no batch")
        if not self._positions and self._data:
            raise RecordError(
                ErrorCode.MESSAGE_TOO_LARGE, "the record is larger than max.partition.fetch.bytes"
            )
        if self._is_useless:
            raise RecordError(ErrorCode.CORRUPT_MESSAGE, "the broker sent other records than were asked for")
        return False

    def _open(self, position: int) -> bool:
        """Whether the batch of magic 2 at `position` has records to hand out; if so it is open now."""
        data, decoding = self._data, self._decoding
        header = batch.check(data, position) if decoding.check_crcs else batch.read_header(data, position)
        self._batch_end, self._batch_epoch = header.next_offset, header.leader_epoch
        if header.next_offset <= self.next_offset:
            return False
        if decoding.is_read_committed and header.producer_id >= 0 and self._is_aborted(header, position):
            return False
        if header.is_control or not header.count:
            return False
        _, self._section, self._at, self._end = batch.opened(data, position)
        self._header, self._left = header, header.count
        return True

    def _is_aborted(self, header: batch.BatchHeader, position: int) -> bool:
        """Whether this belongs to a transaction that was aborted. The marker at its end is where that stops."""
        producers = self._aborted_producers
        while self._aborted and self._aborted[0][0] <= header.last_offset:
            producers.add(self._aborted.pop(0)[1])
        if header.is_control:
            marker = next(batch.records_of(self._data, position), None)
            if marker is not None and control_type(marker.key) is ControlType.ABORT:
                producers.discard(header.producer_id)
            return True
        return header.is_transactional and header.producer_id in producers

    def _open_messages(self, position: int) -> bool:
        """The same for a message of magic 0 or 1, or a wrapper of some."""
        header = legacy.read_header(self._data, position)
        self._batch_end, self._batch_epoch = header.offset + 1, -1
        found = [record.fields() for record in legacy.records_of(self._data, position)]
        self._rows = [row for row in found if row[0] >= self.next_offset]
        if found:
            self._batch_end = max(self._batch_end, found[-1][0] + 1)
        self._header = header
        return bool(self._rows)

    def _finish_batch(self) -> None:
        if self._batch_end > self.next_offset:
            self.next_offset, self.offset_epoch = self._batch_end, self._batch_epoch

    # --- records ------------------------------------------------------------------------------------------------

    def _read(self, count: int, out: list[ConsumerRecord]) -> None:
        """Put at most so many records of the open batch into `out`."""
        rows, self._rows = self._rows[:count], self._rows[count:]
        if not rows:
            rows = self._decode(count)
        if self._decoding.key is None and self._decoding.value is None:
            self._hand_out(rows, out)
        else:
            self._deserialize(rows, out)
        if not self._left and not self._rows:
            self._finish_batch()

    def _decode(self, count: int) -> list[Row]:
        header = self._header
        is_append_time = header.attributes & batch.TIMESTAMP_TYPE_BIT != 0
        rows, self._at = section.decode(
            self._section,
            self._at,
            self._end,
            min(count, self._left),
            header.base_offset,
            header.max_timestamp if is_append_time else header.base_timestamp,
            is_append_time,
            True,
        )
        self._left -= len(rows)
        if rows and rows[0][0] < self.next_offset:
            return [row for row in rows if row[0] >= self.next_offset]
        return rows

    def _hand_out(self, rows: list[Row], out: list[ConsumerRecord]) -> None:
        """Records of bytes. Once per record: no call that is not needed."""
        if not rows:
            return
        (topic, number), epoch, kind = self.partition, self._batch_epoch, self._header.timestamp_type
        make, cls = tuple.__new__, ConsumerRecord
        out += [
            make(
                cls,
                # Written out: to unpack what they share would take half as long again.
                (
                    topic,
                    number,
                    offset,
                    timestamp,
                    key,
                    value,
                    headers,
                    kind,
                    epoch,
                    -1 if key is None else len(key),
                    -1 if value is None else len(value),
                ),
            )
            for offset, timestamp, key, value, headers in rows
        ]
        self.next_offset, self.offset_epoch = rows[-1][0] + 1, epoch

    def _deserialize(self, rows: list[Row], out: list[ConsumerRecord]) -> None:
        (topic, number), epoch, kind = self.partition, self._batch_epoch, self._header.timestamp_type
        read_key, read_value = self._decoding.key, self._decoding.value
        make, cls = tuple.__new__, ConsumerRecord
        done, what = 0, "key"
        try:
            for offset, timestamp, key, value, headers in rows:
                sizes = -1 if key is None else len(key), -1 if value is None else len(value)
                what = "key"
                new_key = key if read_key is None else read_key(topic, headers, key)
                what = "value"
                new_value = value if read_value is None else read_value(topic, headers, value)
                fields = (topic, number, offset, timestamp, new_key, new_value, headers, kind, epoch, *sizes)
                out.append(make(cls, fields))
                done += 1
        except Exception as error:
            self._rows = rows[done:] + self._rows
            self.next_offset = rows[done][0]
            raise self._poisoned(rows[done], what, error) from error
        if rows:
            self.next_offset, self.offset_epoch = rows[-1][0] + 1, epoch

    # --- what cannot be read ------------------------------------------------------------------------------------

    def _poisoned(self, row: Row, what: str, error: Exception) -> DeserializationError:
        offset, timestamp, key, value, headers = row
        raw = ConsumerRecord(
            *self.partition,
            offset,
            timestamp,
            key,
            value,
            headers,
            self._header.timestamp_type,
            self._batch_epoch,
        )
        sentence = (
            f"the {what} of the record at offset {offset} of {self.partition} cannot be read: {error!r}"
        )
        return DeserializationError(
            f"{sentence}; seek to {offset + 1} to go past it", self.partition, offset, raw
        )

    def _unreadable(self, error: RecordError) -> KafkaError:
        behind = self.next_offset + 1
        if self._next_batch < len(self._positions) and not self._left:
            position = self._positions[self._next_batch]
            offset, _, _, magic = _START.unpack_from(self._data, position)
            delta = _LAST_DELTA.unpack_from(self._data, position + batch.LAST_OFFSET_DELTA_AT)[0]
            behind = max(behind, offset + (delta if magic == batch.MAGIC else 0) + 1)
        elif self._left:
            behind = self._batch_end
        where = f"the records of {self.partition} from offset {self.next_offset} on cannot be read"
        return KafkaError.of(error.code, f"{where}: {error.detail}; seek to {behind} to go past them")


def _scan(data: bytes) -> tuple[list[int], bool]:
    """Where batches start that are whole, and whether something follows that is none."""
    positions: list[int] = []
    position, end = 0, len(data)
    while end - position >= _START.size:
        offset, length, _, magic = _START.unpack_from(data, position)
        if length < _LENGTH_MIN.get(magic, 1 << 31) or not 0 <= offset <= _OFFSET_MAX:
            return positions, True
        following = position + _OVERHEAD + length
        if following > end:
            break
        positions.append(position)
        position = following
    return positions, False
