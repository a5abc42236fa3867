import json

from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.cat.envelope import envelope, string
from ottla.client.records import ConsumerRecord

RECORD = ConsumerRecord("orders", 3, 42, 1_700_000_000_123, b"anna", b"apples")


def leader(topic, partition):
    return 7


def test_a_record_has_the_words_and_the_order_of_kcat():
    assert envelope(b"\n", leader)(RECORD) == (
        b'{"topic":"orders","partition":3,"offset":42,"tstype":"create","ts":1700000000123,"broker":7,'
        b'"key":"anna","payload":"apples"}\n'
    )


def test_headers_are_names_and_values_in_turn():
    record = RECORD._replace(headers=(("a", b"1"), ("b", None)), value=None, timestamp_type=1)
    found = json.loads(envelope(b"", leader)(record))
    assert found["headers"] == ["a", "1", "b", None]
    assert (found["payload"], found["tstype"]) == (None, "logappend")


def test_a_record_without_a_timestamp_has_none():
    assert "ts" not in json.loads(envelope(b"", leader)(RECORD._replace(timestamp=-1)))


@given(st.text())
def test_every_text_survives(value):
    assert json.loads(string(value.encode("utf-8", "surrogatepass"))) == value.encode(
        "utf-8", "surrogatepass"
    ).decode("utf-8", "replace")


@given(st.binary())
def test_all_bytes_make_a_json_string(data):
    assert json.loads(string(data)) == data.decode("utf-8", "replace")


def test_control_characters_are_escaped_as_kcat_does():
    assert string(b'\x00\x1f\n"\\/\x7f') == b'"\\u0000\\u001F\\n\\"\\\\/\x7f"'
