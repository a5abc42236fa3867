"""Zig-zag varints: known bytes, the edges of 32 and 64 bits, and input that never ends."""

import pytest

from ottla.records.errors import RecordError
from ottla.records.varint import (
    encode_varint,
    read_raw,
    read_varint,
    read_varlong,
    wrapping_sum,
)

KNOWN = [
    (0, "00"),
    (-1, "01"),
    (1, "02"),
    (63, "7e"),
    (-64, "7f"),
    (64, "8001"),
    (-65, "8101"),
    (8191, "fe7f"),
    (-8192, "ff7f"),
    (8192, "808001"),
    (2**31 - 1, "feffffff0f"),
    (-(2**31), "ffffffff0f"),
]
LONG = [
    (2**31, "8080808010"),
    (2**62, "80808080808080808001"),
    (2**63 - 1, "feffffffffffffffff01"),
    (-(2**63), "ffffffffffffffffff01"),
]


@pytest.mark.parametrize(("value", "encoded"), KNOWN + LONG)
def test_known_values_are_written_as_known_bytes(value, encoded):
    assert encode_varint(value).hex() == encoded


@pytest.mark.parametrize(("value", "encoded"), KNOWN)
def test_varints_read_back(value, encoded):
    data = b"\xff" + bytes.fromhex(encoded) + b"\xff"
    assert read_varint(data, 1) == (value, 1 + len(encoded) // 2)


@pytest.mark.parametrize(("value", "encoded"), KNOWN + LONG)
def test_varlongs_read_back(value, encoded):
    data = b"\xff" + bytes.fromhex(encoded) + b"\xff"
    assert read_varlong(data, 1) == (value, 1 + len(encoded) // 2)


def test_a_raw_varint_is_the_number_before_its_zig_zag_is_undone():
    assert read_raw(b"\x81\x01", 0) == (129, 2)


def test_the_table_of_small_numbers_ends_without_a_seam():
    for value in (*range(1000, 1050), 8190, 8191):
        assert read_varint(encode_varint(value), 0) == (value, 2)


@pytest.mark.parametrize("read", [read_varint, read_varlong, read_raw])
@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff\xff\xff\xff", b"\xff" * 11, b"\x80" * 1000])
def test_input_that_ends_early_or_never_is_refused(read, data):
    with pytest.raises(RecordError):
        read(data, 0)


@pytest.mark.parametrize("read", [read_varint, read_varlong, read_raw])
@pytest.mark.parametrize("position", [-1, 1, 5])
def test_positions_outside_the_bytes_are_refused(read, position):
    with pytest.raises(RecordError):
        read(b"\x00", position)


def test_five_bytes_are_the_most_of_a_varint_and_ten_of_a_varlong():
    assert read_varlong(b"\x80" * 9 + b"\x00", 0) == (0, 10)
    with pytest.raises(RecordError):
        read_varint(b"\x80" * 5 + b"\x00", 0)
    with pytest.raises(RecordError):
        read_varlong(b"\x80" * 10 + b"\x00", 0)


def test_bits_beyond_the_width_are_dropped_as_java_drops_them():
    assert read_varint(b"\xff\xff\xff\xff\x7f", 0) == (-(2**31), 5)
    assert read_varlong(b"\xff" * 9 + b"\x7f", 0) == (-(2**63), 10)


def test_sums_wrap_around_at_64_bits():
    assert wrapping_sum(2**63 - 1, 1) == -(2**63)
    assert wrapping_sum(-(2**63), -1) == 2**63 - 1
    assert wrapping_sum(3, -4) == -1
