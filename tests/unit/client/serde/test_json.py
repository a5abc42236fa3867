"""JSON that every reader understands."""

import contextlib
import datetime
import decimal
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.serde.json import JsonDeserializer, JsonSerializer

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


def write(value, **options):
    return JsonSerializer(**options).serialize("t", (), value)


def read(data, **options):
    return JsonDeserializer(**options).deserialize("t", (), data)


def test_it_is_compact_and_utf8():
    assert write({"a": [1, "ž"], "b": None}) == '{"a":[1,"ž"],"b":null}'.encode()


def test_null_in_null_out():
    assert write(None) is None
    assert read(None) is None
    assert read(b"null") is None


@given(values.filter(lambda value: value is not None))
def test_values_come_back(value):
    try:
        data = write(value)
    except UnicodeEncodeError:
        return  # half a character
    assert read(data) == value


def test_options_are_those_of_the_standard_library():
    day = datetime.date(2024, 2, 29)
    assert write({"b": day, "a": 1}, default=str, sort_keys=True) == b'{"a":1,"b":"2024-02-29"}'
    assert read(b"1.10", parse_float=decimal.Decimal) == decimal.Decimal("1.10")


def test_an_encoder_of_ones_own():
    class Sets(json.JSONEncoder):
        def default(self, o):
            return sorted(o)

    assert write({2, 1}, cls=Sets) == b"[1,2]"


def test_nan_is_no_json():
    with pytest.raises(ValueError):
        write(float("nan"))
    with pytest.raises(ValueError, match="NaN is no JSON"):
        read(b"[NaN]")
    assert write(float("nan"), allow_nan=True) == b"NaN"


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b"1" * 100_000, b'{"a":1}x'])
def test_what_is_no_json_is_a_value_error(data):
    with pytest.raises(ValueError):
        read(data)


@given(st.binary(max_size=100))
def test_any_bytes_are_a_value_or_a_value_error(data):
    with contextlib.suppress(ValueError):
        read(data)
