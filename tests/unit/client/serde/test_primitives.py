"""Bytes as Java's serializers make them, and nothing but ValueError for other bytes."""

import math
import struct
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.serde.primitives import KINDS, strings

# What org.apache.kafka.common.serialization makes of these values.
VECTORS = [
    ("int16", -2, "fffe"),
    ("int32", 258, "00000102"),
    ("int64", -(2**63), "8000000000000000"),
    ("float32", 1.5, "3fc00000"),
    ("float64", -0.1, "bfb999999999999a"),
    ("bool", True, "01"),
    ("bool", False, "00"),
    ("string", "žluť", "c5be6c75c5a5"),
    ("string", "", ""),
    (
        "uuid",
        UUID("0123ABCD-0000-1000-8000-00805F9B34FB"),
        b"0123abcd-0000-1000-8000-00805f9b34fb".hex(),
    ),
]


@pytest.mark.parametrize(("name", "value", "expected"), VECTORS)
def test_values_are_written_as_java_does_and_read_back(name, value, expected):
    kind = KINDS[name]
    assert kind.serialize("t", (), value).hex() == expected
    assert kind.deserialize("t", (), bytes.fromhex(expected)) == value


@pytest.mark.parametrize("name", [name for name in KINDS if name != "bytes"])
def test_null_stays_null(name):
    assert KINDS[name].serialize("t", (), None) is None
    assert KINDS[name].deserialize("t", (), None) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("int16", 2**15),
        ("int32", -(2**31) - 1),
        ("int64", 2**63),
        pytest.param("int64", 10**5000, id="enormous"),
        ("int32", "1"),
        ("int32", 1.0),
        ("float32", 1e300),
        ("float64", "1"),
        ("bool", 1),
        ("string", b"bytes"),
        ("string", "\ud800"),
        ("uuid", "0123abcd-0000-1000-8000-00805f9b34fb"),
        ("void", 0),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(name, value):
    with pytest.raises((ValueError, TypeError)) as caught:
        KINDS[name].serialize("t", (), value)
    assert 0 < len(str(caught.value)) < 200


@pytest.mark.parametrize("name", [name for name in KINDS if name != "bytes"])
@given(data=st.binary(max_size=40))
def test_any_bytes_are_a_value_or_a_value_error(name, data):
    try:
        value = KINDS[name].deserialize("t", (), data)
    except ValueError:
        return
    if isinstance(value, float) and math.isnan(value):
        return  # a NaN has many spellings
    written = KINDS[name].serialize("t", (), value)
    assert written == (data.lower() if name == "uuid" else data)


@given(st.floats(allow_nan=False))
def test_doubles_are_those_of_struct(value):
    assert KINDS["float64"].serialize("t", (), value) == struct.pack(">d", value)


@pytest.mark.parametrize(
    "text", ["{0123abcd-0000-1000-8000-00805f9b34f}", "0123abcd00001000800000805f9b34fb", "x" * 36]
)
def test_a_uuid_is_36_characters_with_its_hyphens_in_place(text):
    with pytest.raises(ValueError, match="UUID"):
        KINDS["uuid"].deserialize("t", (), text.encode())


def test_strings_may_have_another_encoding():
    latin = strings("latin-1")
    assert latin.serialize("t", (), "é") == b"\xe9"
    assert latin.deserialize("t", (), b"\xe9") == "é"
    with pytest.raises(LookupError):
        strings("no-such-encoding")
