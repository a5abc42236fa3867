"""Whatever records go in come out: every magic, every codec, both directions of conversion."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.records import batch, builder, convert, legacy
from ottla.records.compression import Codec, compress, decompress
from ottla.records.frames import iter_frames, records_of
from ottla.records.record import Record
from ottla.records.varint import encode_varint, read_varint, read_varlong

TIMES = st.integers(0, 2**43) | st.integers(-(2**63), 2**63 - 1)
NOTHING = Record(0, -1, None, None)
CONTENT = st.none() | st.binary(max_size=200) | st.builds(bytes, st.integers(0, 5000))
HEADERS = st.lists(st.tuples(st.text(max_size=10), st.none() | st.binary(max_size=20)), max_size=4).map(tuple)
OLD_CODECS = [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4]


@st.composite
def record_lists(draw, *, headers=HEADERS, gaps=True, max_size=20):
    offset = draw(st.integers(0, 2**62))
    records = []
    for _ in range(draw(st.integers(1, max_size))):
        records.append(Record(offset, draw(TIMES), draw(CONTENT), draw(CONTENT), draw(headers)))
        offset += draw(st.integers(1, 100_000)) if gaps else 1
    return records


@settings(deadline=None)
@given(st.integers(-(2**31), 2**31 - 1))
def test_varints_come_back(value):
    encoded = encode_varint(value)
    assert read_varint(encoded, 0) == (value, len(encoded))
    assert len(encoded) <= 5


@settings(deadline=None)
@given(st.integers(-(2**63), 2**63 - 1))
def test_varlongs_come_back_and_are_what_their_definition_says(value):
    encoded = encode_varint(value)
    assert read_varlong(encoded, 0) == (value, len(encoded))
    raw = sum((byte & 0x7F) << 7 * i for i, byte in enumerate(encoded))
    assert raw == (value << 1 ^ value >> 63) & 2**64 - 1
    assert len(encoded) <= 10


@pytest.mark.parametrize("codec", list(Codec))
@settings(max_examples=30, deadline=None)
@given(data=st.binary(max_size=2000) | st.builds(bytes, st.integers(0, 300_000)))
def test_compressed_bytes_come_back(codec, data):
    assert decompress(codec, compress(codec, data), len(data)) == data


@pytest.mark.parametrize("codec", list(Codec))
@settings(max_examples=40, deadline=None)
@given(records=record_lists(), horizon=st.none() | TIMES)
def test_batches_come_back(codec, records, horizon):
    raw = builder.build(records, codec=codec, delete_horizon_ms=horizon)
    header = batch.walk(raw)
    assert header == batch.check(raw)
    assert list(batch.records_of(raw)) == records
    assert list(batch.rows_of(memoryview(raw))) == [tuple(record) for record in records]
    assert (header.base_offset, header.last_offset) == (records[0].offset, records[-1].offset)
    assert header.max_timestamp == max(record.timestamp for record in [*records, NOTHING])


@settings(max_examples=40, deadline=None)
@given(records=record_lists(gaps=False))
def test_what_a_producer_builds_is_consecutive(records):
    producer = builder.BatchBuilder(base_offset=records[0].offset)
    for record in records:
        assert producer.append(record.timestamp, record.key, record.value, record.headers) == record.offset
    raw = producer.build()
    assert producer.size == len(raw)
    batch.walk(raw, consecutive=True)
    assert list(batch.records_of(raw)) == records


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", OLD_CODECS)
@settings(max_examples=25, deadline=None)
@given(records=record_lists(headers=st.just(())))
def test_message_sets_come_back(magic, codec, records):
    raw = legacy.build(records, magic, codec=codec)
    expected = [record if magic else record.with_(timestamp=-1) for record in records]
    assert [r for frame in iter_frames(raw) for r in records_of(raw, frame)] == expected


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", OLD_CODECS)
@settings(max_examples=25, deadline=None)
@given(records=record_lists(headers=st.just(()), gaps=False))
def test_conversion_there_and_back_changes_nothing(magic, codec, records):
    old = legacy.build(records, magic, codec=codec)
    new = convert.up_convert(old, base_offset=records[0].offset)
    assert convert.down_convert(new, magic) == old
    assert convert.up_convert(convert.down_convert(new, magic), base_offset=records[0].offset) == new
