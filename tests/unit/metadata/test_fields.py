"""JSON that is asked for fields by name and type."""

import pytest

from ottla.core.errors import ProtocolError
from ottla.metadata.fields import INT32_MAX, Fields, parse_number


@pytest.mark.parametrize(
    "data", [b"", b"{", b"\xff", b"[1]", b"7", b"null", b'"x"', b"[" * 100_000, b"9" * 5_000]
)
def test_what_is_no_object_is_refused(data):
    with pytest.raises(ProtocolError, match="/node"):
        Fields.parse("/node", data)


@pytest.mark.parametrize(
    ("ask", "data"),
    [
        (lambda f: f.number("x"), b"{}"),
        (lambda f: f.number("x"), b'{"x":true}'),
        (lambda f: f.number("x"), b'{"x":1.0}'),
        (lambda f: f.number("x"), b'{"x":"1"}'),
        (lambda f: f.number("x"), b'{"x":-1}'),
        (lambda f: f.number("x"), b'{"x":2147483648}'),
        (lambda f: f.number("x"), b'{"x":NaN}'),
        (lambda f: f.text("x"), b'{"x":null}'),
        (lambda f: f.texts("x"), b'{"x":["a",1]}'),
        (lambda f: f.texts("x"), b'{"x":"a"}'),
        (lambda f: f.ids("x"), b'{"x":[1,1]}'),
        (lambda f: f.ids("x"), b'{"x":[-1]}'),
        (lambda f: f.ids("x"), b'{"x":[true]}'),
        (lambda f: f.object("x"), b'{"x":[]}'),
    ],
)
def test_a_field_of_another_type_is_refused_by_name(ask, data):
    with pytest.raises(ProtocolError, match="/node: x"):
        ask(Fields.parse("/node", data))


def test_fields_are_found():
    fields = Fields.parse("/node", b'{"n":-1,"t":"x","ids":[3,1],"o":{"inner":["a"]}}')
    assert fields.number("n", low=-1) == -1
    assert fields.text("t") == "x"
    assert fields.ids("ids") == (3, 1)
    assert fields.object("o").texts("inner") == ["a"]


@pytest.mark.parametrize("text", ["", "-1", "01", "1 ", "+1", "1e3", "²", "2147483648", "9" * 30])
def test_a_number_is_spelled_as_we_spell_it(text):
    with pytest.raises(ProtocolError, match="/node"):
        parse_number("/node", text, INT32_MAX)
    assert parse_number("/node", "2147483647", INT32_MAX) == INT32_MAX
