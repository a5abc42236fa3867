"""Complaints about messages that cannot be written name the first field that is wrong."""

import pytest

from ottla.core.errors import ProtocolError
from ottla.protocol.explain import refuse_lost, why_not_writable
from ottla.protocol.schema import Int8, Int16, String, Uuid, field, message, struct


@struct
class Part:
    size: Int8


@message(versions="0-1", flexible="1+")
class Order:
    name: String
    maybe: String | None = field(default=None)
    parts: list[Part] = field(default=[])
    main: Part = field(default=Part(size=1))
    ids: list[Uuid] = field(default=[])
    late: Int16 = field("1+", tag=0, default=0)
    extra: Part | None = field("1+", tag=1, default=None)


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"name": None}, "Order.name is null, which version 1 does not allow"),
        ({"name": 5}, "Order.name is a int, not a str"),
        ({"parts": None}, "Order.parts is null, which version 1 does not allow"),
        ({"parts": [Part(size=1), Part(size=200)]}, "Order.parts[1].size = 200 does not fit"),
        ({"parts": ["x"]}, "Order.parts[0] is a str, not a Part"),
        ({"main": Part(size="x")}, "Order.main.size = 'x' does not fit"),
        ({"late": 1 << 20}, "Order.late = 1048576 does not fit"),
        ({}, "Order v1 cannot be written: as told"),
    ],
)
def test_the_field_is_named(values, complaint):
    said = why_not_writable(Order(**{"name": "n"} | values), 1, ValueError("as told"))
    assert said.startswith(complaint)


def test_a_string_too_long_for_its_length_is_named():
    assert "more than 32767 bytes" in why_not_writable(Order(name="x" * 32768), 0, ValueError())
    assert "as told" in why_not_writable(Order(name="x" * 32768), 1, ValueError("as told"))


def test_a_field_that_would_be_lost_is_named():
    with pytest.raises(ProtocolError, match=r"path\.late is set, but version 0"):
        refuse_lost(Order(name="n", late=3), "path", 0, False)
    with pytest.raises(ProtocolError, match=r"unknown tags \(3, 4\)"):
        refuse_lost(Order(name="n", unknown_tags={3: b"", 4: b""}), "path", 0, False)
