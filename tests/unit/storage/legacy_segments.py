"""Segments as brokers before Kafka 0.11 left them, written here a second time with nothing but the layout at hand.

A `Shape` says which old format; `written` gives the bytes, `stored` what a reader must find in them. Compressed shapes
come as wrappers of a few records each. Records have everything that old logs have: null keys, null values, gaps that
compaction left, times that go back, and none at all.
"""

import gzip
import random
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import lz4.frame
import snappy

from ottla.records.builder import build
from ottla.records.compression import Codec
from ottla.records.record import Record
from ottla.storage.files import Files

NOW = 1_700_000_000_000
STAMPED_AT = NOW + 5_000
"""When the broker stamped what it stamped: later than every other record's time."""
WRAPPED = 5
"""Records in one wrapper."""
_LZ4_START, _LZ4_START_OF_OLD = b"\x04\x22\x4d\x18\x60\x40\x82", b"\x04\x22\x4d\x18\x60\x40\x1a"
_STAMPED_BIT = 8


class Shape(NamedTuple):
    """One way in which an old broker wrote. `is_stamped`: with its own time, as magic 1 can say."""

    magic: int
    codec: Codec = Codec.NONE
    is_stamped: bool = False

    def __str__(self) -> str:
        return f"magic {self.magic} {self.codec.name.lower()}{' stamped' if self.is_stamped else ''}"


OLD_CODECS = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)
SHAPES = [
    Shape(magic, codec, stamped)
    for magic, stamped in [(0, False), (1, False), (1, True)]
    for codec in OLD_CODECS
]
WRAPPERS = [shape for shape in SHAPES if shape.codec]


def old_records(count: int, first_offset: int = 0, *, seed: int = 0, gaps: bool = False) -> list[Record]:
    """Records of few keys, some without key, value or time, in no order of time."""
    source = random.Random(seed)
    offset, found = first_offset, []
    for number in range(count):
        key = None if number % 7 == 3 else b"key %d" % source.randrange(6)
        value = None if number % 11 == 5 else b"value %d " % offset + b"." * source.randrange(60)
        at_ms = -1 if number % 13 == 9 else NOW + 10 * number - source.randrange(50)
        found.append(Record(offset, at_ms, key, value))
        offset += source.randrange(1, 4) if gaps else 1
    return found


def written(shape: Shape, records: Sequence[Record], wrapped: int = WRAPPED) -> bytes:
    """The bytes of these records in a segment: messages, or wrappers of `wrapped` records each."""
    if shape.magic == 2:
        return b"".join(build(part, codec=shape.codec) for part in _parts(records, wrapped))
    if shape.codec is Codec.NONE:
        time = {"timestamp": STAMPED_AT} if shape.is_stamped else {}
        return b"".join(_plain(shape, record, **time) for record in records)
    return b"".join(wrapper(shape, part) for part in _parts(records, wrapped))


def stored(shape: Shape, records: Iterable[Record]) -> list[Record]:
    """What a reader finds in what was `written`: magic 0 knows no time, and a broker's stamp goes before a client's."""
    if shape.magic == 0:
        return [record.with_(timestamp=-1) for record in records]
    return [record.with_(timestamp=STAMPED_AT) if shape.is_stamped else record for record in records]


def wrapper(shape: Shape, records: Sequence[Record]) -> bytes:
    """One compressed message set: absolute offsets inside in magic 0, from 0 on in magic 1."""
    base_offset = records[0].offset if shape.magic else 0
    inside = shape._replace(codec=Codec.NONE)
    inner = b"".join(_plain(inside, record.with_(offset=record.offset - base_offset)) for record in records)
    newest = STAMPED_AT if shape.is_stamped else max(record.timestamp for record in records)
    value = compressed(shape.codec, inner, shape.magic)
    return message(records[-1].offset, None, value, shape.magic, _attributes(shape), newest)


def compressed(codec: Codec, data: bytes, magic: int) -> bytes:
    if codec is Codec.GZIP:
        return gzip.compress(data, mtime=0)
    if codec is Codec.SNAPPY:
        blocks = (snappy.compress(data[at : at + 32768]) for at in range(0, len(data), 32768))
        return (
            b"\x82SNAPPY\0"
            + struct.pack(">ii", 1, 1)
            + b"".join(struct.pack(">i", len(b)) + b for b in blocks)
        )
    assert codec is Codec.LZ4, "there was no other"
    frame = lz4.frame.compress(
        data, block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False, store_size=False
    )
    assert frame.startswith(_LZ4_START)
    return frame if magic else _LZ4_START_OF_OLD + frame[len(_LZ4_START_OF_OLD) :]


def message(
    offset: int, key: bytes | None, value: bytes | None, magic: int, attributes: int = 0, timestamp: int = -1
) -> bytes:
    """One message, with a good CRC whatever it says."""
    body = struct.pack(">bb", magic, attributes) + (struct.pack(">q", timestamp) if magic else b"")
    for part in (key, value):
        body += struct.pack(">i", -1) if part is None else struct.pack(">i", len(part)) + part
    return struct.pack(">qiI", offset, 4 + len(body), zlib.crc32(body)) + body


def _plain(shape: Shape, record: Record, timestamp: int | None = None) -> bytes:
    at_ms = record.timestamp if timestamp is None else timestamp
    return message(record.offset, record.key, record.value, shape.magic, _attributes(shape), at_ms)


def _attributes(shape: Shape) -> int:
    return shape.codec | (_STAMPED_BIT if shape.is_stamped and shape.magic else 0)


def _parts(records: Sequence[Record], size: int) -> Iterator[Sequence[Record]]:
    for start in range(0, len(records), size):
        yield records[start : start + size]


class OldLog(NamedTuple):
    """The segments of a directory, by first offset, and the records in them."""

    segments: dict[int, bytes]
    records: list[Record]


def old_log(*stretches: Shape, count: int = 40, gaps: bool = False, segments: int = 1) -> OldLog:
    """A log that saw these formats one after the other, `count` records of each, in so many `segments`.

    With one segment all of them share a file; with as many as there are stretches each has its own.
    """
    data: dict[int, bytes] = {}
    expected: list[Record] = []
    offset, base_offset = 0, 0
    for number, shape in enumerate(stretches):
        if number % max(1, len(stretches) // segments) == 0:
            base_offset = offset
        records = old_records(count, offset, seed=number, gaps=gaps)
        data[base_offset] = data.get(base_offset, b"") + written(shape, records)
        expected += stored(shape, records)
        offset = records[-1].offset + 1
    return OldLog(data, expected)


def lay(files: Files, directory: str, segments: Mapping[int, bytes]) -> None:
    """Put the segments there, without indexes, checkpoints or anything else."""
    files.make_directory(directory)
    for base_offset, data in segments.items():
        file = files.open(f"{directory}/{base_offset:020d}.log", create=True)
        file.write_at(0, data)
        file.sync()
        file.close()
    files.sync_directory(directory)
