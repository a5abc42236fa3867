"""The record section: what it looks like, and every way in which it can lie."""

import pytest

from ottla.core.errors import ErrorCode
from ottla.records.errors import RecordError
from ottla.records.record import Record
from ottla.records.section import HEADERS_MAX, decode, encode, encode_headers, encode_rows, walk
from ottla.records.varint import encode_varint


def decode_all(data, count, *, base_offset=0, base_timestamp=0, is_append_time=False, as_rows=False):
    return decode(data, 0, len(data), count, base_offset, base_timestamp, is_append_time, as_rows)


def record(*fields, length=None, attributes=b"\x00"):
    """A record out of raw fields, with a length that may lie."""
    body = attributes + b"".join(encode_varint(f) if isinstance(f, int) else f for f in fields)
    return encode_varint(len(body) if length is None else length) + body


def test_a_record_is_laid_out_as_kafka_lays_it_out():
    out = bytearray()
    encode(out, 1, 2, b"key", None, (("h", b"x"), ("n", None)))
    assert out.hex() == "20" + "00" + "04" + "02" + "066b6579" + "01" + "04" + "0268" + "0278" + "026e" + "01"


@pytest.mark.parametrize("as_rows", [False, True])
def test_fields_read_back(as_rows):
    out = bytearray()
    encode(out, 0, -5, None, b"", ())
    encode(out, 70_000, 3_000_000_000, b"k" * 200, b"v" * 20_000, (("a" * 100, b"b" * 9000), ("ø", None)))
    records, end = decode_all(bytes(out), 2, base_offset=7, base_timestamp=100, as_rows=as_rows)
    expected = [
        (7, 95, None, b"", ()),
        (70_007, 3_000_000_100, b"k" * 200, b"v" * 20_000, (("a" * 100, b"b" * 9000), ("ø", None))),
    ]
    assert [tuple(r) for r in records] == expected
    assert all(type(r) is (tuple if as_rows else Record) for r in records)
    assert end == len(out)
    walk(bytes(out), 0, len(out), 2, 70_000, False)


def test_the_brokers_time_stands_in_for_the_records_own():
    out = bytearray()
    encode(out, 0, 5, b"k", b"v", ())
    assert decode_all(bytes(out), 1, base_timestamp=99, is_append_time=True)[0] == [Record(0, 99, b"k", b"v")]


def test_timestamps_wrap_around_at_64_bits():
    out = bytearray()
    encode(out, 0, 2, None, None, ())
    encode(out, 1, 2**63 - 1, None, None, ())
    records, _ = decode_all(bytes(out), 2, base_timestamp=2**63 - 1)
    assert [r.timestamp for r in records] == [-(2**63) + 1, -2]
    records, _ = decode_all(bytes(out), 2, base_timestamp=2**63 - 1, is_append_time=True)
    assert [r.timestamp for r in records] == [2**63 - 1] * 2


def test_header_keys_that_are_not_utf_8_survive_a_round_trip():
    raw = record(0, 0, -1, -1, 1, 2, b"\xff\xfe", -1)
    ((decoded,), _) = decode_all(raw, 1)
    out = bytearray()
    encode(out, 0, 0, None, None, decoded.headers)
    assert out == raw


LIES = {
    "no bytes at all": b"",
    "a length and nothing behind it": encode_varint(6),
    "a negative length": record(0, 0, -1, -1, 0, length=-2),
    "a length past the end": record(0, 0, -1, -1, 0, length=7),
    "a length before the end": record(0, 0, -1, -1, 0, length=5),
    "a length of nothing": record(0, 0, -1, -1, 0, length=0),
    "a key past the end": record(0, 0, 100, b"k", -1, 0),
    "a value past the end": record(0, 0, -1, 100, b"v", 0),
    "a key of two gigabytes": record(0, 0, 2**31 - 1, -1, 0),
    "no header count": record(0, 0, -1, -1),
    "a negative header count": record(0, 0, -1, -1, -1),
    "more headers than bytes": record(0, 0, -1, -1, 2**31 - 1),
    "a header without a key": record(0, 0, -1, -1, 1, -1, -1),
    "a header key past the end": record(0, 0, -1, -1, 1, 9, b"k", -1),
    "a header value past the end": record(0, 0, -1, -1, 1, 1, b"k", 9, b"v"),
    "a header without its value": record(0, 0, -1, -1, 1, 1, b"k"),
    "bytes behind the headers": record(0, 0, -1, -1, 0, b"zz"),
    "a timestamp that never ends": record(b"\xff" * 11, 0, -1, -1, 0),
    "an offset that never ends": record(0, b"\xff" * 6, -1, -1, 0),
}


@pytest.mark.parametrize("data", LIES.values(), ids=LIES.keys())
def test_a_lying_record_is_refused_by_reader_and_walker(data):
    for trailing in (b"", bytes(20)):  # the bytes behind a section must not be taken for its own
        whole = data + trailing
        for as_rows in (False, True):
            with pytest.raises(RecordError) as refused:
                decode(whole, 0, len(data), 1, 0, 0, False, as_rows)
            assert refused.value.code is ErrorCode.INVALID_RECORD
        with pytest.raises(RecordError) as refused:
            walk(whole, 0, len(data), 1, 0, False)
        assert refused.value.code is ErrorCode.INVALID_RECORD


def with_headers(count, offset_delta=0):
    return record(0, offset_delta, -1, -1, count, b"\0\1" * count)


def test_a_record_with_more_headers_than_allowed_is_refused_by_reader_and_walker():
    data = with_headers(HEADERS_MAX)
    assert len(decode_all(data, 1)[0][0].headers) == HEADERS_MAX
    walk(data, 0, len(data), 1, 0, True)
    data = with_headers(HEADERS_MAX + 1)
    with pytest.raises(RecordError, match="200001 headers"):
        decode_all(data, 1)
    with pytest.raises(RecordError, match="200001 headers"):
        walk(data, 0, len(data), 1, 0, True)


def test_fewer_records_are_decoded_at_once_when_they_hold_many_headers():
    half = HEADERS_MAX // 2 + 1
    data = b"".join(with_headers(half, delta) for delta in range(3))
    records, end = decode_all(data, 3)
    assert [r.offset for r in records] == [0, 1]
    assert decode(data, end, len(data), 1, 0, 0, False, False)[1] == len(data)


def section_of(*deltas):
    out = bytearray()
    for delta in deltas:
        encode(out, delta, 0, b"key", b"value", (("h", b"v"), ("h", None)))
    return bytes(out)


@pytest.mark.parametrize("deltas", [(0, 1, 2), (0, 2, 5), (3, 4, 5)])
def test_walking_accepts_offsets_that_rise_to_the_last(deltas):
    data = section_of(*deltas)
    walk(data, 0, len(data), 3, 5, False)


@pytest.mark.parametrize("deltas", [(0, 0, 1), (2, 1, 3), (-1, 0, 1), (0, 1, 6)])
def test_walking_refuses_offsets_that_repeat_fall_or_pass_the_last(deltas):
    data = section_of(*deltas)
    with pytest.raises(RecordError, match="offset delta"):
        walk(data, 0, len(data), 3, 5, False)


def test_walking_what_a_producer_sent_refuses_gaps():
    data = section_of(0, 1, 2)
    walk(data, 0, len(data), 3, 2, True)
    data = section_of(0, 2)
    with pytest.raises(RecordError, match="offset delta 2 follows 0"):
        walk(data, 0, len(data), 2, 2, True)


def test_walking_refuses_bytes_behind_the_last_record():
    data = section_of(0, 1)
    with pytest.raises(RecordError, match="bytes follow"):
        walk(data, 0, len(data), 1, 1, False)


def test_a_section_at_once_is_the_same_as_record_by_record():
    rows = [(7, b"k", b"v", ()), (9, None, None, (("h", b"x"), ("n", None))), (5, b"", b"-" * 300, ())]
    out = bytearray()
    for number, (timestamp, key, value, headers) in enumerate(rows):
        encode(out, number, timestamp - 7, key, value, headers)
    assert encode_rows(rows, 7, b"head") == (b"head" + out, 9)


def test_headers_are_their_count_and_then_each_of_them():
    assert encode_headers(()) == b"\x00"
    assert encode_headers((("h", b"x"), ("n", None))).hex() == "04" + "0268" + "0278" + "026e" + "01"
    assert encode_headers((("\udcff", b""),)).hex() == "02" + "02ff" + "00"
