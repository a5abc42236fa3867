"""Loading a shard: every record of its partition, from the start to the end, is applied to a new machine.

The loop is given back now and then, so that a broker with a large log of offsets serves others meanwhile. A record that
makes no sense is passed over and logged: one bad record must not take the other groups of the partition with it.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping

from ottla.core.errors import ProtocolError
from ottla.protocol.messages.record_types import RecordType, decode_key, decode_value
from ottla.records.batch import MAGIC, BatchHeader, check, read_header, rows_of
from ottla.records.errors import RecordError
from ottla.records.frames import iter_frames, records_of
from ottla.records.record import Row
from ottla.replication.machine import Entry, Machine, Producer
from ottla.storage.log import Log
from ottla.storage.replay import marker_of

logger = logging.getLogger(__name__)

READ_BYTES = 256 * 1024
RECORDS_AT_A_TIME = 500
"""Records between two turns of the event loop: some milliseconds."""


class Loader:
    """Feeds a machine from a log. `load` returns with everything applied, and nothing else done since."""

    def __init__(self, log: Log, types: Mapping[int, RecordType], machine: Machine) -> None:
        self._log = log
        self._types = types
        self._machine = machine
        self._since_turn = 0
        self.records = 0
        self.skipped = 0

    async def load(self) -> None:
        """Raises KafkaError or RecordError if the log cannot be read."""
        offset = self._log.log_start_offset
        while (
            offset < self._log.end_offset
        ):  # which may grow meanwhile: markers of transactions are written here
            data = self._log.load(self._log.read(offset, READ_BYTES))
            if not data:
                break  # the last records were compacted away
            for frame in iter_frames(data, partial=True):
                if frame.magic < MAGIC:  # of before Kafka 0.11, when there were no transactions
                    await self._rows((record.fields() for record in records_of(data, frame)), None)
                    offset = max(offset, frame.offset + 1)
                    continue
                header = read_header(data, frame.position)
                if header.last_offset >= offset:
                    check(data, frame.position)
                    await self._batch(data, frame.position, header)
                offset = max(offset, header.next_offset)  # damage below the recovery point may go back

    async def _batch(self, data: bytes, position: int, header: BatchHeader) -> None:
        if header.is_control:
            marker = marker_of(header, memoryview(data)[position : position + header.size])
            if marker is not None:
                self._machine.apply_end(Producer(marker.producer_id, marker.epoch), marker.is_commit)
            return
        producer = None
        if header.is_transactional:
            producer = Producer(header.producer_id, header.producer_epoch)
        await self._rows(rows_of(data, position), producer)

    async def _rows(self, rows: Iterable[Row], producer: Producer | None) -> None:
        for offset, _, key, value, _ in rows:
            self._record(offset, key, value, producer)
            self._since_turn += 1
            if self._since_turn >= RECORDS_AT_A_TIME:
                self._since_turn = 0
                await asyncio.sleep(0)

    def _record(self, offset: int, key: bytes | None, value: bytes | None, producer: Producer | None) -> None:
        self.records += 1
        try:
            if key is None:
                raise ProtocolError("it has no key")
            decoded = decode_key(self._types, key)
            if decoded is None:
                return  # of a newer Kafka
            said = None if value is None else decode_value(self._types, key, value)
        except (ProtocolError, RecordError) as error:
            self._skip(offset, error)
            return
        try:
            self._machine.apply(Entry(decoded, said), producer)
        except Exception as error:  # hostile bytes, or our mistake: either way the others must load
            self._skip(offset, error)

    def _skip(self, offset: int, error: Exception) -> None:
        self.skipped += 1
        if self.skipped <= 10:
            logger.error("%s: the record at offset %d is passed over: %r", self._log.directory, offset, error)
