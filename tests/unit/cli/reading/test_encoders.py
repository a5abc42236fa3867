"""Records as bytes: lines, JSON, and what a terminal may see."""

import base64
import json
import re

from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.reading.encoders import for_terminal, formatted, json_lines, matching, value_lines
from ottla.client.records import ConsumerRecord


def record(value=b"tea", key=None, headers=(), timestamp=1000):
    return ConsumerRecord("orders", 0, 5, timestamp, key, value, headers)


def test_every_value_is_a_line_and_null_an_empty_one():
    assert value_lines([record(b"a"), record(None), record(b"\xff\n")]) == b"a\n\n\xff\n\n"


def test_a_format_is_applied_to_each():
    assert formatted(lambda each: each.value + b";")([record(b"a"), record(b"b")]) == b"a;b;"


def test_a_record_without_a_time_has_none_in_json():
    assert json.loads(json_lines([record(timestamp=-1)]))["timestamp"] is None


@given(st.binary() | st.none())
def test_what_json_carries_can_be_read_back(data):
    told = json.loads(json_lines([record(data, headers=(("name", data),))]))
    for each in (told["value"], told["headers"][0][1]):
        back = (
            base64.b64decode(each["base64"])
            if isinstance(each, dict)
            else None
            if each is None
            else each.encode()
        )
        assert back == data


def test_names_of_headers_that_are_no_utf8_survive():
    told = json.loads(json_lines([record(headers=(("\udcff", b""),))]))
    assert told["headers"] == [["\udcff", ""]]


def test_strings_are_strings_and_the_rest_is_base64():
    line = json_lines([record("č\n".encode(), key=b"\xff", headers=(("a", b""), ("b", None)))])
    assert line == (
        rb'{"topic":"orders","partition":0,"offset":5,"timestamp":1000,"key":{"base64":"/w=="},'
        rb'"value":"\u010d\n","headers":[["a",""],["b",null]]}' + b"\n"
    )


@given(st.lists(st.binary()))
def test_a_terminal_gets_nothing_that_moves_its_cursor(values):
    seen = for_terminal(value_lines)([record(each) for each in values]).decode()
    assert all(each.isprintable() or each in "\n\t" or ord(each) > 0x9F for each in seen)


def test_grep_looks_into_values_only():
    records = [record(b"green tea"), record(None), record(b"coffee", key=b"tea")]
    assert matching(re.compile(b"t.a$"), records) == records[:1]
