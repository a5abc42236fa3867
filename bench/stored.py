"""Topics that hold equal batches, and whose names say which: every broker gets the same bytes to hand out."""

import os
import struct
import time
from typing import NamedTuple

from fastcrc import crc32

NOW_MS = int(time.time()) // 3600 * 3_600_000  # of this hour: what is old is deleted before it is fetched
BODY = struct.Struct(">hiqqqhii")  # what a batch's checksum covers, up to the records
HEAD = struct.Struct(">qiibI")


class Layout(NamedTuple):
    """So many batches, of so many records, of so many bytes of value each."""

    record_bytes: int
    records: int
    batches: int
    batch_bytes: int = 0  # known once a batch was built

    @property
    def topic(self) -> str:
        return f"stored-{self.record_bytes}-{self.records}-{self.batches}"

    @property
    def end_offset(self) -> int:
        return self.records * self.batches

    def slice(self, offset: int, bytes_max: int) -> tuple[int, int]:
        """Position and size of the whole batches from this offset, one at least."""
        first = offset // self.records
        count = min(max(1, bytes_max // self.batch_bytes), self.batches - first)
        return first * self.batch_bytes, max(0, count) * self.batch_bytes


def layout_of(topic: str) -> Layout | None:
    if not topic.startswith("stored-"):
        return None
    record_bytes, records, batches = map(int, topic.split("-")[1:])
    return Layout(record_bytes, records, batches)


def varint(value: int) -> bytes:
    value, out = value << 1, bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def batch_of(count: int, value_bytes: int, base_offset: int = 0) -> bytearray:
    """A batch of equal values without keys, as a producer sends it; the values do not compress."""
    value = os.urandom(value_bytes)
    records = bytearray()
    for delta in range(count):
        record = b"\0\0" + varint(delta) + b"\1" + varint(value_bytes) + value + b"\0"
        records += varint(len(record)) + record
    body = BODY.pack(0, count - 1, NOW_MS, NOW_MS, -1, -1, -1, count) + records
    return bytearray(HEAD.pack(base_offset, 9 + len(body), 0, 2, crc32.iscsi(body)) + body)


def stored_batch(layout: Layout) -> bytearray:
    return batch_of(layout.records, layout.record_bytes)


def write_batches(fd: int, batch: bytearray, layout: Layout) -> None:
    """All batches of one partition, each with its own base offset."""
    for number in range(layout.batches):
        struct.pack_into(">q", batch, 0, number * layout.records)
        os.pwrite(fd, batch, number * len(batch))
