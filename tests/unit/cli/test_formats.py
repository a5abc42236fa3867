import base64
import json

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.formats import NO_VALUE, Nulls, compile_format, literal
from ottla.client.records import ConsumerRecord

TIME = 1_700_000_000_123
RECORD = ConsumerRecord("orders", 3, 42, TIME, b"anna", b"apples", (("a", b"1"), ("b", None)))
TOMBSTONE = RECORD._replace(value=None, key=None, headers=())


def shown(text, record=RECORD, **how):
    return compile_format(text, **how)(record)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%s", b"apples"),
        ("%v", b"apples"),
        (r"%s\n", b"apples\n"),
        (r"%v\r\n", b"apples\r\n"),
        ("%S %K", b"6 4"),
        ("%R%s", b"\0\0\0\x06apples"),
        (r"%t [%p] at offset %o: key %k: %s\n", b"orders [3] at offset 42: key anna: apples\n"),
        ("%T", b"1700000000123"),
        ("%h", b"a=1,b=NULL"),
        ("100%% %s", b"100% apples"),
        ("%%%k%%", b"%anna%"),
        ("%t", b"orders"),
        ("nothing of it", b"nothing of it"),
        ("", b""),
        ("%d", b"2023-11-14T22:13:20.123Z"),
        ("%d{%H:%M} %s", b"22:13 apples"),
        ("%v{hex}", b"6170706c6573"),
        ("%k{base64}", base64.b64encode(b"anna")),
        ('{"key":%k{json},"value":%v{json}}', b'{"key":"anna","value":"apples"}'),
        ("%s{}%k{ x}", b"apples{}anna{ x}"),
    ],
)
def test_tokens_stand_for_parts_of_the_record(text, expected):
    assert shown(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"\x41\x0a", b"A\n"),
        (r"\xff", b"\xff"),
        (r"\x0abc", b"\nbc"),
        (r"\012\65", b"\nA"),
        (r"a\0b", b"a\0b"),
        (r"\t\\t\"", b'\t\\t"'),
        ("é", "é".encode()),
        ("\\", b"\\"),
    ],
)
def test_escapes_stand_for_bytes(text, expected):
    assert shown(text) == expected


@given(st.binary())
def test_any_bytes_can_be_put_in_a_format(data):
    assert shown(literal(data)) == data


@pytest.mark.parametrize("text", ["%s", "%k %s", "%s|", "%t:%s:%o", "%k{hex}", "%d %v{base64}"])
def test_nothing_is_written_for_a_null_unless_somebody_wants_a_word(text):
    without = shown(text, TOMBSTONE)
    assert b"NULL" not in without
    assert shown(text, TOMBSTONE, nulls=Nulls(NO_VALUE)).replace(b"NULL", b"") == without
    assert b"NULL" in shown(text, TOMBSTONE, nulls=Nulls(NO_VALUE))


def test_a_null_is_minus_one_byte_long_and_an_empty_value_none():
    assert shown("%S %K %R", TOMBSTONE) == b"-1 -1 \xff\xff\xff\xff"
    assert shown("%S %K", RECORD._replace(value=b"", key=b"")) == b"0 0"


def test_a_null_is_null_in_json_and_an_empty_value_an_empty_string():
    assert shown("%v{json}", TOMBSTONE, nulls=Nulls(NO_VALUE)) == b"null"
    assert shown("%v{json}", RECORD._replace(value=b""), nulls=Nulls(NO_VALUE, True)) == b'""'


def test_kcat_takes_an_empty_value_for_a_null_when_it_writes_NULL():
    empty = RECORD._replace(value=b"")
    assert shown("%s;", empty, nulls=Nulls(NO_VALUE, are_empty=True)) == b"NULL;"
    assert shown("%s;", empty, nulls=Nulls(NO_VALUE)) == b";"


def test_a_topic_with_a_percent_sign_in_its_name_is_no_format():
    assert shown("%t %s", RECORD._replace(topic="50%s")) == b"50%s apples"


def test_each_record_is_shown_with_its_own_topic():
    show = compile_format("%t/%p ")
    assert b"".join(show(RECORD._replace(topic=each)) for each in "aba") == b"a/3 b/3 a/3 "


def test_a_record_without_a_timestamp_has_no_time():
    assert shown("%T[%d]", RECORD._replace(timestamp=-1)) == b"-1[]"


def test_a_time_that_no_calendar_has_is_shown_as_a_number():
    assert shown("%d", RECORD._replace(timestamp=1 << 60)) == b"%d" % (1 << 60)


def test_bytes_that_are_no_text_are_still_a_json_string():
    written = shown("%v{json}", RECORD._replace(value=b'\xff"\n'))
    assert json.loads(written) == '�"\n'


def test_deserializers_stand_for_key_and_value_but_not_where_braces_say_how():
    how = {"show_key": bytes.upper, "show_value": lambda data: b"<" + data + b">"}
    assert shown(r"%k %s\n", **how) == b"ANNA <apples>\n"
    assert shown("%k{hex}", **how) == b"616e6e61"
    assert shown("%s;", RECORD._replace(value=b""), **how) == b";"
    assert shown(r"%s\n", TOMBSTONE, **how) == b"\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("%x", "%x is no token of a format: there are %s %v %k"),
        ("%s%", "the format ends in a lone %"),
        ("%v{hx}", "%v{hx} is no token of a format: %k, %s and %v take hex, base64, json"),
        ("%p{hex}", "%p{hex} is no token"),
    ],
)
def test_what_is_no_token_is_said_with_those_there_are(text, reason):
    with pytest.raises(click.UsageError) as refused:
        compile_format(text)
    assert reason in refused.value.message


_TOKENS = st.lists(st.sampled_from(["%s", "%k", "%t", "%p", "%o", "%T", "%%", " ", r"\n", "x"]), min_size=1)
_DATA = st.none() | st.binary(max_size=5)


@given(_TOKENS, _DATA, _DATA)
def test_the_fast_way_writes_what_the_slow_one_does(tokens, key, value):
    record = RECORD._replace(key=key, value=value, topic="a%b")
    slow = b"".join(shown(each, record) for each in tokens)
    assert shown("".join(tokens), record) == slow
