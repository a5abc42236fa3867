import struct

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.cat.packing import NUMBERS, Serdes, Unreadable, serdes, unpacking


def test_keys_and_values_have_their_own_or_both_the_same():
    assert serdes(("key=i", "value=s")) == Serdes("i", "s")
    assert serdes(("avro",)) == Serdes("avro", "avro")
    assert serdes(("q", "key=avro")) == Serdes("avro", "q")
    assert serdes(()) == Serdes()


@pytest.mark.parametrize(
    ("word", "reason"), [("iz", "'z' is no token"), ("key=", "is empty"), ("value=R", "'R' is no token")]
)
def test_a_pack_string_with_anything_else_in_it_is_refused(word, reason):
    with pytest.raises(click.UsageError) as refused:
        serdes((word,))
    assert reason in refused.value.message
    assert "< little endian" in refused.value.message


@pytest.mark.parametrize(
    ("pack", "expected"),
    [
        ("i s", b"5 abc"),
        (">hh c", b"05 a"),
        ("<i s", b"83886080 abc"),
        ("<h>h", b"05"),
        ("bbbb", b"0005"),
        ("is$", b"5abc"),
    ],
)
def test_bytes_are_written_as_the_pack_string_says(pack, expected):
    assert unpacking(pack, "value")(b"\0\0\0\x05abc") == expected


@given(st.text(alphabet=NUMBERS + "<>", min_size=1, max_size=8), st.binary(min_size=64, max_size=64))
def test_numbers_are_those_that_struct_finds(pack, data):
    order, position, expected = ">", 0, ""
    for token in pack:
        if token in "<>":
            order = token
            continue
        (number,) = struct.unpack_from(order + token, data, position)
        position += struct.calcsize(order + token)
        expected += str(number)
    assert unpacking(pack, "key")(data).decode() == expected


@pytest.mark.parametrize(
    ("pack", "reason"),
    [
        ("q", "value truncated, expected 8 bytes to unpack q but only 3 bytes remaining"),
        ("sc", "value truncated, expected 1 bytes to unpack c but only 0 bytes remaining"),
        ("h$", "expected value end-of-input, but 1 bytes remaining"),
    ],
)
def test_what_does_not_fit_is_said(pack, reason):
    with pytest.raises(Unreadable, match=reason):
        unpacking(pack, "value")(b"abc")
