"""Our record formats against kafka-python's, aiokafka's and kio's: what one writes, the others read."""

import datetime
import io
import struct
import warnings
from typing import NamedTuple

import kio.records.readers
import kio.records.writers
import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from aiokafka.record.legacy_records import LegacyRecordBatch as AiokafkaSet
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder as AiokafkaSetBuilder
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.records.schema import NewRecordBatch
from kio.records.schema import Record as KioRecord
from kio.records.schema import RecordHeader as KioHeader
from kio.static.primitive import TZAwareMicros, i8, i16, i32, i64

from ottla.records import batch, builder, legacy
from ottla.records.compression import Codec
from ottla.records.frames import iter_frames
from ottla.records.lz4 import xxh32
from ottla.records.record import Record

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of its own making, while it loads its schemas
    import kafka.codec
    from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
    from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder
    from kafka.record.legacy_records import LegacyRecordBatch as KafkaPythonSet
    from kafka.record.legacy_records import LegacyRecordBatchBuilder as KafkaPythonSetBuilder

SIZE_MAX = 1 << 30
SECONDS = st.integers(0, 4_000_000_000)
CONTENT = st.none() | st.binary(max_size=100) | st.builds(bytes, st.integers(0, 100_000))
# The others write no headers without a value, and aiokafka reads none; those are covered by kio.
HEADERS = st.lists(st.tuples(st.text(max_size=10), st.binary(max_size=20)), max_size=3).map(tuple)

BATCHES = [
    *(("aiokafka", codec) for codec in Codec),
    # The codecs that kafka-python finds libraries for.
    ("kafka-python", Codec.NONE),
    ("kafka-python", Codec.GZIP),
    ("kafka-python", Codec.LZ4),
]
SETS = [
    *(("aiokafka", 1, codec) for codec in (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)),
    *(("aiokafka", 0, codec) for codec in (Codec.NONE, Codec.GZIP, Codec.SNAPPY)),
    *(("kafka-python", 1, codec) for codec in (Codec.NONE, Codec.GZIP, Codec.LZ4)),
    *(("kafka-python", 0, codec) for codec in (Codec.NONE, Codec.GZIP, Codec.LZ4)),
]


class _Digest(NamedTuple):
    """As much of the xxhash package as kafka-python needs for the old LZ4 checksum."""

    data: bytes

    def digest(self):
        return struct.pack(">I", xxh32(self.data))


@pytest.fixture(autouse=True)
def _xxhash(monkeypatch):
    if kafka.codec.xxhash is None:
        monkeypatch.setattr(kafka.codec, "xxhash", type("xxhash", (), {"xxh32": _Digest}))


@st.composite
def record_lists(draw, headers=HEADERS):
    count = draw(st.integers(1, 12))
    return [
        Record(i, draw(SECONDS) * 1000, draw(CONTENT), draw(CONTENT), draw(headers)) for i in range(count)
    ]


def values(records):
    return [(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in records]


@pytest.mark.parametrize(("library", "codec"), BATCHES)
@settings(max_examples=20, deadline=None)
@given(records=record_lists())
def test_batches_of_ours_are_read_by_others(library, codec, records):
    raw = builder.build(records, codec=codec, producer_id=7, producer_epoch=2, base_sequence=3)
    theirs = (AiokafkaBatch if library == "aiokafka" else KafkaPythonBatch)(raw)
    assert theirs.validate_crc()
    assert (theirs.producer_id, theirs.producer_epoch, theirs.base_sequence) == (7, 2, 3)
    assert (theirs.compression_type, theirs.timestamp_type) == (codec, 0)
    assert values(theirs) == values(records)


@pytest.mark.parametrize(("library", "codec"), BATCHES)
@settings(max_examples=20, deadline=None)
@given(records=record_lists())
def test_batches_of_others_are_read_by_us_and_are_the_same_bytes(library, codec, records):
    make = AiokafkaBuilder if library == "aiokafka" else KafkaPythonBuilder
    theirs = make(
        magic=2,
        compression_type=codec,
        is_transactional=1,
        producer_id=7,
        producer_epoch=2,
        base_sequence=3,
        batch_size=SIZE_MAX,
    )
    for record in records:
        theirs.append(record.offset, record.timestamp, record.key, record.value, list(record.headers))
    raw = bytes(theirs.build())
    header = batch.walk(raw, consecutive=True)
    assert header == batch.check(raw)
    assert list(batch.records_of(raw)) == records
    ours = builder.build(
        records,
        producer_id=7,
        producer_epoch=2,
        base_sequence=3,
        is_transactional=True,
        leader_epoch=header.leader_epoch,
    )
    if header.codec is Codec.NONE:
        assert raw == ours


def _kio_record(record):
    moment = datetime.datetime.fromtimestamp(record.timestamp / 1000, datetime.UTC)
    return KioRecord(
        attributes=i8(0),
        timestamp=TZAwareMicros.parse(moment),
        offset=i64(record.offset),
        key=record.key,
        value=record.value,
        headers=tuple(KioHeader(key=key.encode(), value=value) for key, value in record.headers),
    )


@settings(max_examples=30, deadline=None)
@given(
    records=record_lists(
        st.lists(st.tuples(st.text(max_size=9), st.none() | st.binary(max_size=9))).map(tuple)
    )
)
def test_kio_writes_the_same_bytes_and_reads_ours(records):
    out = io.BytesIO()
    new = NewRecordBatch(
        producer_id=i64(7),
        producer_epoch=i16(2),
        partition_leader_epoch=i32(4),
        base_sequence=i32(3),
        records=tuple(map(_kio_record, records)),
        attributes=i16(0),
    )
    kio.records.writers.write_new_batch(out, new)
    raw = builder.build(records, producer_id=7, producer_epoch=2, base_sequence=3, leader_epoch=4)
    assert out.getvalue() == raw
    theirs, size = kio.records.readers.read_batch(raw, 0)
    assert size == len(raw)
    assert theirs.records == new.records
    assert list(batch.records_of(raw)) == records


def _read_set(library, raw, magic):
    found = []
    for frame in iter_frames(raw):
        entry = raw[frame.position : frame.position + frame.size]
        theirs = AiokafkaSet(entry, magic) if library == "aiokafka" else KafkaPythonSet(entry, magic)
        assert theirs.validate_crc()
        found += [(r.offset, -1 if r.timestamp is None else r.timestamp, r.key, r.value, ()) for r in theirs]
    return found


@pytest.mark.parametrize(("library", "magic", "codec"), SETS)
@settings(max_examples=15, deadline=None)
@given(records=record_lists(st.just(())))
def test_message_sets_cross_over_both_ways(library, magic, codec, records):
    expected = [record if magic else record.with_(timestamp=-1) for record in records]
    assert _read_set(library, legacy.build(records, magic, codec=codec), magic) == values(expected)

    make = AiokafkaSetBuilder if library == "aiokafka" else KafkaPythonSetBuilder
    theirs = make(magic=magic, compression_type=codec, batch_size=SIZE_MAX)
    for record in records:
        theirs.append(record.offset, record.timestamp if magic else None, record.key, record.value)
    raw = bytes(theirs.build())
    ours = [r for position, _ in legacy.iter_messages(raw) for r in legacy.records_of(raw, position)]
    assert ours == expected
    if codec is Codec.NONE:
        assert raw == legacy.build(records, magic)
