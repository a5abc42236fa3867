"""Varints, tagged sections and records: the parts that generated code calls."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.core.errors import ProtocolError
from ottla.protocol.primitives import (
    UnknownTags,
    part_size,
    put_numbers,
    put_records,
    read_tag,
    read_tag_count,
    read_unknown_tags,
    read_uuid,
    read_uvarint,
    records_size,
    refuse_count,
    refuse_length,
    uvarint,
    write_tags,
)
from ottla.protocol.wiretypes import NULL_UUID


@given(st.integers(0, 2**32 - 1))
def test_a_varint_reads_back(value):
    data = uvarint(value)
    assert read_uvarint(b"?" + data + b"?", 1) == (value, 1 + len(data))


@pytest.mark.parametrize(
    ("value", "data"), [(0, "00"), (127, "7f"), (128, "8001"), (300, "ac02"), (2**32 - 1, "ffffffff0f")]
)
def test_varints_have_seven_bits_a_byte_low_ones_first(value, data):
    assert uvarint(value).hex() == data


@pytest.mark.parametrize("data", ["808080808000", "ffffffff10", "ffffffffff01"])
def test_a_varint_of_more_than_32_bits_is_refused(data):
    with pytest.raises(ProtocolError, match="more than 32 bits"):
        read_uvarint(bytes.fromhex(data), 0)


def test_complaints_name_the_field():
    for length, complaint in (
        (-1, "x is null"),
        (-7, "x has length -7"),
        (9, "x claims 9 bytes at byte 3, where 2"),
    ):
        with pytest.raises(ProtocolError, match=complaint):
            refuse_length("x", length, 3, 5)
    for count, complaint in (
        (-1, "x is null"),
        (-7, "x has -7 elements"),
        (9, "x claims 9 elements at byte 3"),
    ):
        with pytest.raises(ProtocolError, match=complaint):
            refuse_count("x", count, 3, 5)


def test_unknown_tags_look_like_a_dict():
    tags, end = read_unknown_tags(b"\x02\x01\x02hi\x05\x00", 0, 7)
    assert end == 7
    assert tags == {1: b"hi", 5: b""}
    assert (list(tags), len(tags), bool(tags), tags[1]) == ([1, 5], 2, True, b"hi")
    assert repr(tags) == "{1: b'hi', 5: b''}"
    with pytest.raises(KeyError):
        tags[2]
    assert isinstance(tags, UnknownTags)


def test_unknown_tags_are_parsed_once_however_often_they_are_looked_at():
    raw = b"".join(uvarint(tag) + b"\x02hi" for tag in range(20_000))
    tags = UnknownTags(raw)
    assert tags[7] is tags[7]
    out = bytearray()
    write_tags(out, {}, tags)
    assert out == uvarint(20_000) + raw


@pytest.mark.parametrize("data", [b"\x02\x05\x00\x01\x00", b"\x02\x05\x00\x05\x00"])
def test_tags_that_do_not_grow_are_refused(data):
    with pytest.raises(ProtocolError, match="after tag 5"):
        read_unknown_tags(data, 0, len(data))


def test_more_tags_than_bytes_are_refused():
    with pytest.raises(ProtocolError, match="claims 3 elements"):
        read_tag_count(b"\x03\x00\x00\x00\x00\x00", 0, 6)


def test_a_tag_past_the_end_is_refused():
    with pytest.raises(ProtocolError, match="tag 4 claims 9 bytes"):
        read_tag(b"\x04\x09abc", 0, 5, -1)


def test_known_and_unknown_tags_are_merged_in_order():
    out = bytearray()
    write_tags(out, {1: b"b", 3: b"d"}, {2: b"c", 200: b""})
    assert out == b"\x04\x01\x01b\x02\x01c\x03\x01d\xc8\x01\x00"
    with pytest.raises(ProtocolError, match="tag 3"):
        write_tags(out, {3: b""}, {3: b""})


def test_small_records_are_inlined_and_large_ones_become_parts():
    out, parts = bytearray(b"head"), []
    assert put_records(out, parts, [b"ab", memoryview(b"c")], 3) is out
    assert (out, parts) == (b"headabc", [])
    large = bytes(5000)
    fresh = put_records(out, parts, large, 5000)
    assert fresh == b""
    assert parts[0] is out
    assert parts[1] is large
    fresh = put_records(fresh, parts, [large, large], 10_000)
    assert parts[3] is parts[4] is large


def test_sizes_of_records_count_bytes_whatever_the_buffer():
    assert records_size(b"abc") == 3
    assert records_size([b"abc", bytearray(2), memoryview(b"x")]) == 6
    assert records_size(memoryview(bytes(8)).cast("I")) == 8


def test_long_arrays_of_numbers_are_written_in_one_go():
    out = bytearray()
    put_numbers(out, "h", [1, 2], flexible=True)
    put_numbers(out, "i", [3], flexible=False)
    assert out == b"\x03\0\x01\0\x02" + b"\0\0\0\x01\0\0\0\x03"


def test_the_zero_uuid_is_the_null_uuid():
    assert read_uuid(bytes(16)) is NULL_UUID
    assert read_uuid(bytes(range(16))).bytes == bytes(range(16))


class Stretch:
    """Bytes that lie in a file, as far as a codec can tell."""

    def __init__(self, size):
        self.size = size

    def read_into(self, start, buffer):
        raise AssertionError("a codec reads no files")


@pytest.mark.parametrize("part", [bytes(9), bytearray(9), memoryview(bytes(9)), memoryview(bytes(18))[::2]])
def test_the_size_of_a_buffer_is_its_bytes(part):
    assert part_size(part) == 9


@pytest.mark.parametrize("size", [0, 1, 5000, 2**31])
def test_the_size_of_a_stretch_is_what_it_says(size):
    assert part_size(Stretch(size)) == records_size(Stretch(size)) == size
    assert records_size([Stretch(size), b"abc", Stretch(1)]) == size + 4


@pytest.mark.parametrize("size", [0, 1, 4096, 4097])
def test_a_stretch_is_never_copied_however_small(size):
    stretch, parts, head = Stretch(size), [], bytearray(b"head")
    tail = put_records(head, parts, stretch, size)
    assert parts == [head, stretch] and tail == b"" and tail is not head
    parts = []
    put_records(bytearray(b"head"), parts, [b"small", stretch, b"small"], size + 10)
    assert parts == [b"head", b"small", stretch, b"small"]
