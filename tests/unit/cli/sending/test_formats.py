"""Formats of inputs, held against the formats that print records."""

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.formats import compile_format
from ottla.cli.sending.formats import Format
from ottla.cli.sending.inputs import Block
from ottla.client.records import ConsumerRecord

data = st.binary(max_size=30)


def record(key, value, headers=(), partition=3, timestamp=77):
    return ConsumerRecord("t", partition, 5, timestamp, key, value, headers)


@given(data, data, st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1))
def test_what_is_printed_in_hex_and_base64_is_read_back_whatever_is_in_it(key, value, partition, timestamp):
    text = r"%t %p %o %T %K %k{hex} %v{base64}\n"
    printed = compile_format(text)(record(key, value, (), partition, timestamp))
    form = Format(text)
    assert printed.endswith(form.end)
    found = form.record_of(printed.removesuffix(form.end))
    assert (found.topic, found.partition, found.timestamp_ms) == ("t", partition, timestamp)
    assert (found.key, found.value) == (key, value)


@given(data.filter(lambda key: b"\t" not in key), data)
def test_a_key_that_has_no_separator_in_it_is_read_back_and_the_value_may_have_it(key, value):
    form = Format(r"%k\t%s\n")
    assert form.record_of(compile_format(r"%k\t%s")(record(key, value)))[:2] == (key, value)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=20))
def test_json_strings_are_texts(text):
    form = Format(r"%k{json} %v{json}")
    printed = compile_format("%k{json} %v{json}")(record(b"k", text.encode()))
    assert form.record_of(printed)[:2] == (b"k", text.encode())
    assert form.record_of(b'"k" null').value is None


def test_headers_and_texts_around_tokens():
    form = Format("100%% <%h> %s;")
    found = form.record_of(b"100% <a=1,b=,c> v;v")
    assert (found.headers, found.value, found.key) == ((("a", b"1"), ("b", b""), ("c", None)), b"v;v", None)
    assert form.noun == "record"
    assert Format("%s").noun == "line"


def test_a_marker_is_null_before_anything_is_decoded():
    form = Format("%k{hex}:%v{base64}", b"NULL")
    assert form.record_of(b"NULL:NULL")[:2] == (None, None)


@pytest.mark.parametrize(
    ("text", "piece", "sentence"),
    [
        ("<%s", b"x", "does not begin with '<'"),
        ("%k|%s", b"x", "there is no '|' behind its key"),
        ("%p %s", b"x y", "its partition is 'x'"),
        ("%T %s", b"99999999999999999999 y", "its timestamp is"),
        ("%v{hex}", b"abc", "its value is not written as the format says"),
        ("%v{json}", b"5", "no text in JSON"),
        ("%t %s", b"\xff y", "its topic is no text in UTF-8"),
        ("%h %s", b"\xff= y", "its name of a header is no text in UTF-8"),
    ],
)
def test_a_piece_that_does_not_fit_is_a_fault_and_those_before_it_are_good(text, piece, sentence):
    form = Format(text)
    good = {"<%s": b"<v", "%v{hex}": b"00", "%v{json}": b'"v"'}.get(text, b"1 v" if " " in text else b"k|v")
    parcels, fault = form(Block("-", 1, [good, piece, good], 0))
    assert fault.place == 1 and sentence in fault.sentence
    assert sum(len(each.places) for each in parcels) == 1


def test_formats_that_cannot_be_read_are_refused():
    for text in ("%k%s", "%s %v", "", "%", "%x", "%d %s", "%o{hex} %s"):
        with pytest.raises(click.UsageError):
            Format(text)
