"""Confluent's framing, by hand-computed bytes and by any bytes."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.serde.framing import (
    VALUE_HEADER,
    decode_indexes,
    encode_indexes,
    guid_header,
    id_prefix,
    read_frame,
)

GUID = UUID("00112233-4455-6677-8899-aabbccddeeff")


def test_an_id_takes_five_bytes():
    assert id_prefix(258) == b"\x00\x00\x00\x01\x02"
    assert read_frame(b"\x00\x00\x00\x01\x02payload", (), VALUE_HEADER, has_indexes=False) == (258, (), 5)


@pytest.mark.parametrize(
    ("indexes", "data"),
    [([0], "00"), ([1], "0202"), ([0, 0], "040000"), ([1, 0, 64], "06020080 01"), ([300], "02d804")],
)
def test_a_path_of_messages_is_a_count_and_zigzag_varints(indexes, data):
    assert encode_indexes(indexes) == bytes.fromhex(data)
    assert decode_indexes(bytes.fromhex(data), 0) == (tuple(indexes), len(bytes.fromhex(data)))


def test_the_path_of_the_first_message_may_also_be_written_in_full():
    assert decode_indexes(b"\x02\x00", 0) == ((0,), 2)


def test_a_header_names_the_schema_instead():
    header = guid_header(GUID, is_key=False)
    assert header == ("__value_schema_id", b"\x01" + GUID.bytes)
    assert guid_header(GUID, is_key=True)[0] == "__key_schema_id"
    assert read_frame(b"payload", (header,), VALUE_HEADER, has_indexes=False) == (GUID, (), 0)
    assert (
        read_frame(b"\x00\x00\x00\x00\x07", (("__key_schema_id", b"x"),), VALUE_HEADER, has_indexes=False)[0]
        == 7
    )
    with_path = guid_header(GUID, is_key=False, indexes=[1])
    assert read_frame(b"", (with_path,), VALUE_HEADER, has_indexes=True) == (GUID, (1,), 0)


def test_a_guid_may_stand_before_the_payload():
    assert read_frame(b"\x01" + GUID.bytes + b"p", (), VALUE_HEADER, has_indexes=False) == (GUID, (), 17)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "empty"),
        (b"\x00\x00\x00\x01", "cut short: 4 bytes"),
        (b"\x01" + b"g" * 15, "cut short"),
        (b"\x05hello", "begins with byte 5"),
        (b"\x00\x00\x00\x00\x01", "within its message indexes"),
        (b"\x00\x00\x00\x00\x01\x04\x00", "within its message indexes"),
        (b"\x00\x00\x00\x00\x01\x01", "path of -1"),
        (b"\x00\x00\x00\x00\x01\xfe\x0f", "path of 1023"),
        (b"\x00\x00\x00\x00\x01\x02\x01", "-1 is no message index"),
        (b"\x00\x00\x00\x00\x01" + b"\xff" * 9, "too many bytes"),
    ],
)
def test_what_is_not_framed_so_is_a_value_error(data, sentence):
    with pytest.raises(ValueError, match=sentence):
        read_frame(data, (), VALUE_HEADER, has_indexes=True)


@given(st.binary(max_size=40), st.booleans())
def test_any_bytes_are_a_frame_or_a_value_error(data, has_indexes):
    try:
        framed = read_frame(data, (), VALUE_HEADER, has_indexes=has_indexes)
    except ValueError:
        return
    assert 5 <= framed.start <= len(data)


@given(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=20))
def test_paths_come_back(path):
    data = encode_indexes(path)
    assert decode_indexes(data, 0) == (tuple(path), len(data))
