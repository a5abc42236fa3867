from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.core.values import (
    INT64_MAX,
    Boolean,
    Bytes,
    Duration,
    Float,
    Integer,
    Long,
    Password,
    Secret,
    Text,
    ValueType,
    WireType,
    Words,
    at_least,
    between,
    list_of,
    not_empty,
    one_of,
    value_type,
)

POLICY = one_of("delete", "compact", many=True)
NUMBERS = list_of(int)


@pytest.mark.parametrize(
    ("kind", "written", "expected"),
    [
        (Integer, " +42 ", 42),
        (Integer, "-1", -1),
        (Integer, 7, 7),
        (Long, "9223372036854775807", INT64_MAX),
        (Boolean, "TRUE", True),
        (Boolean, " false ", False),
        (Boolean, True, True),
        (Text, "  a b ", "a b"),
        (Float, "0.5", 0.5),
        (Float, 2, 2.0),
        (Bytes, "1048576", 1 << 20),
        (Bytes, "1 MiB", 1 << 20),
        (Bytes, "2gib", 2 << 30),
        (Bytes, "-1", -1),
        (Bytes, 5, 5),
        (Duration, "60000", 60_000),
        (Duration, "7d", 7 * 86_400_000),
        (Duration, "5 m", 300_000),
        (Duration, "250ms", 250),
        (Words, "a, b ,c", ("a", "b", "c")),
        (Words, " ", ()),
        (Words, ["a"], ("a",)),
        (POLICY, "compact,delete", ("compact", "delete")),
        (POLICY, ("delete",), ("delete",)),
        (POLICY, "", ()),
        (one_of("x", "y"), " y ", "y"),
        (NUMBERS, "1, 2", (1, 2)),
        (NUMBERS, [1, "2"], (1, 2)),
        (Secret, "s3cret", Password("s3cret")),
        (Secret, Password("s3cret"), Password("s3cret")),
    ],
)
def test_text_and_values_are_read(kind: ValueType[Any], written: object, expected: object) -> None:
    value = kind.read(written)
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(
    ("kind", "written"),
    [
        *[
            (Integer, bad)
            for bad in ("", "x", "1.5", "1_000", "٣", "2147483648", "9" * 5000, 1.0, True, None)
        ],
        *[(Long, bad) for bad in ("9223372036854775808", -INT64_MAX - 2)],
        *[(Boolean, bad) for bad in ("", "yes", "1", 1, None)],
        *[(Text, bad) for bad in (1, None, b"a")],
        *[(Float, bad) for bad in ("nan", "inf", "1e999", "1_0", "\u0661", "", True, None, [])],
        *[(Bytes, bad) for bad in ("", "MiB", "1 MB", "1 k", "1.5 MiB", "9999999 TiB", True, None, 1.5)],
        *[(Duration, bad) for bad in ("1w", "1 hour", "soon", None)],
        *[(POLICY, bad) for bad in ("Delete", "delete,", "delete;compact", 1, None)],
        *[(NUMBERS, bad) for bad in ("1,x", "1,,2", 5, None)],
        *[(Words, bad) for bad in ([1], 1, None)],
        (Secret, 1),
    ],
)
def test_what_does_not_fit_raises_value_error_and_nothing_else(kind: ValueType[Any], written: object) -> None:
    with pytest.raises(ValueError):
        kind.read(written)


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (Integer, 5, "5"),
        (Boolean, True, "true"),
        (Bytes, 1 << 20, "1048576"),
        (Duration, 60_000, "60000"),
        (POLICY, ("delete", "compact"), "delete,compact"),
        (NUMBERS, (1, 2), "1,2"),
        (Float, 0.5, "0.5"),
        (Float, 1e30, "1.0E30"),
        (Float, 1.5e-9, "1.5E-9"),
        (Secret, Password("s3cret"), "s3cret"),
    ],
)
def test_values_are_written_as_kafka_writes_them(kind: ValueType[Any], value: object, text: str) -> None:
    assert kind.write(value) == text
    assert kind.read(text) == value


@given(
    st.sampled_from([Integer, Long, Boolean, Float, Bytes, Duration, POLICY, NUMBERS]), st.text(max_size=12)
)
def test_whatever_is_read_reads_the_same_after_writing(kind: ValueType[Any], text: str) -> None:
    try:
        value = kind.read(text)
    except ValueError:
        return
    assert kind.read(kind.write(value)) == value


def test_pythons_own_types_stand_for_the_obvious() -> None:
    assert value_type(int) is Integer
    assert value_type(bool) is Boolean
    assert value_type(Password) is Secret
    assert value_type(Bytes) is Bytes


def test_choices_are_named_in_words() -> None:
    assert one_of("a", "b", "c").accepts == "a, b or c"
    assert one_of("a").accepts == "a"
    assert POLICY.wire is WireType.LIST
    assert one_of("a").wire is WireType.STRING


def test_checks_include_their_bounds() -> None:
    assert [at_least(3).passes(value) for value in (2, 3, 4)] == [False, True, True]
    assert [between(3, 5).passes(value) for value in (2, 3, 5, 6)] == [False, True, True, False]
    assert [not_empty().passes(value) for value in ("", "a", (), ("a",))] == [False, True, False, True]


def test_a_password_is_shown_nowhere() -> None:
    password = Password("s3cret")
    assert "s3cret" not in f"{password} {password!r} {[password]}"
    assert password != Password("other")
    assert hash(password) == hash(Password("s3cret"))
