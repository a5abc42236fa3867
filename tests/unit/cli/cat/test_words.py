import click
import pytest

from ottla.cli.cat.words import Question, Start, delimiter, header, question, start
from ottla.core.ids import TopicPartition


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", b""),
        (":", b":"),
        (r"\n", b"\n"),
        (r"\t\n\n", b"\t\n\n"),
        (r"\x54!\x45\x53T", b"T!EST"),
        (r"\xff\x0", b"\xff\0"),
        ("ä", "ä".encode()),
        ("a\\", b"a\\"),
    ],
)
def test_a_delimiter_may_have_escapes(text, expected):
    assert delimiter(text, "-D") == expected


def test_a_delimiter_with_half_an_escape_is_refused():
    with pytest.raises(click.UsageError, match=r"-K \\xzz: \\x needs a number"):
        delimiter(r"\xzz", "-K")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], Start()),
        (["beginning"], Start(name="beginning")),
        (["end"], Start(name="end")),
        (["stored"], Start(name="stored")),
        (["42"], Start(offset=42)),
        (["-5"], Start(offset=-5)),
        (["s@1700000000000"], Start(time_ms=1_700_000_000_000)),
        (["s@1", "e@2"], Start(time_ms=1, end_ms=2)),
        (["e@2", "beginning"], Start(name="beginning", end_ms=2)),
        (["5", "end"], Start(name="end")),
    ],
)
def test_a_start_is_a_name_an_offset_or_a_time(words, expected):
    assert start(words) == expected


@pytest.mark.parametrize("word", ["t", "s@", "s@-1", "e@now", "1.5", "9" * 19, ""])
def test_what_is_no_start_is_refused_with_what_is(word):
    with pytest.raises(click.UsageError, match="is no place to begin: it is beginning, end, stored"):
        start([word])


def test_a_header_without_an_equals_sign_is_null():
    assert header("a=1=2") == ("a", b"1=2")
    assert header("a=") == ("a", b"")
    assert header("a") == ("a", None)


@pytest.mark.parametrize("word", ["", "=1"])
def test_a_header_without_a_name_is_refused(word):
    with pytest.raises(click.UsageError, match="has no name"):
        header(word)


def test_a_question_names_a_partition_and_a_time():
    assert question("a.b:3:-1") == Question(TopicPartition("a.b", 3), -1)


@pytest.mark.parametrize("word", ["a", "a:b:c", "a:1", ":1:1", "a:1:"])
def test_what_is_no_question_is_refused(word):
    with pytest.raises(click.UsageError, match="topic:partition:milliseconds"):
        question(word)
