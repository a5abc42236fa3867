import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.core.errors import ConfigError
from ottla.core.properties import format_properties, parse_properties

texts = st.text(st.characters(codec="utf-8"), max_size=20)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", {"a": "b"}),
        ("a:b", {"a": "b"}),
        ("a b", {"a": "b"}),
        ("a\tb c", {"a": "b c"}),
        ("  a  =  b  ", {"a": "b  "}),
        ("a = = b", {"a": "= b"}),
        ("a  : b", {"a": "b"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("=b", {"": "b"}),
        ("listeners=PLAINTEXT://:9092", {"listeners": "PLAINTEXT://:9092"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("", {}),
        ("\n \n\t\n", {}),
    ],
)
def test_keys_and_values_are_cut_at_the_first_separator(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


def test_comment_lines_start_with_hash_or_exclamation_mark_and_are_never_continued() -> None:
    assert parse_properties("# one \\\na=b\n  ! two\nc=d # not a comment") == {
        "a": "b",
        "c": "d # not a comment",
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b,\\\n   c", {"a": "b,c"}),
        ("a=b\\\n#c", {"a": "b#c"}),
        ("a\\\n =b", {"a": "b"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=b\\", {"a": "b"}),
        ("\\\n# a comment after nothing\na=b", {"a": "b"}),
        ("a=b\\\n", {"a": "b"}),
        ("a=1,\\\r\n 2,\\\r\n 3", {"a": "1,2,3"}),
    ],
)
def test_an_odd_backslash_at_the_end_of_a_line_continues_it(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"a\ b=c", {"a b": "c"}),
        (r"a\=b\:c=d", {"a=b:c": "d"}),
        (r"a=\tx\ny\\z\q", {"a": "\tx\ny\\zq"}),
        (r"a=\u00e4\u00C4", {"a": "äÄ"}),
        (r"a=\ud83d\ude00", {"a": "😀"}),
        (r"a=\\u0041", {"a": r"\u0041"}),
    ],
)
def test_escapes_stand_for_characters(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


@pytest.mark.parametrize("bad", [r"\u12", r"\uXYZW", r"\u", r"\ud83d", r"\ude00\ud83d"])
def test_a_bad_unicode_escape_names_file_and_line(bad: str) -> None:
    with pytest.raises(ConfigError, match=r"^server\.properties, line 3: .*\\u"):
        parse_properties(f"# comment\n\nsecret={bad}\n", "server.properties")


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ({"a": "b"}, "a=b\n"),
        ({"a b": " c d "}, "a\\ b=\\ c d \n"),
        ({"k:=": "v:=#!"}, "k\\:\\==v\\:\\=\\#\\!\n"),
        ({"a": "\t\\ü😀"}, "a=\\t\\\\\\u00FC\\uD83D\\uDE00\n"),
        ({"version": 1}, "version=1\n"),
    ],
)
def test_entries_are_written_as_java_writes_them(entries: dict[str, object], expected: str) -> None:
    assert format_properties(entries) == expected


def test_comments_come_first() -> None:
    assert format_properties({"a": 1}, ["", "by hand"]) == "#\n#by hand\na=1\n"


@given(st.dictionaries(texts, texts))
def test_what_is_written_reads_back(entries: dict[str, str]) -> None:
    text = format_properties(entries, ["a comment"])
    assert text.isascii()
    assert parse_properties(text) == entries


@given(st.text("a=: \\\n\r#!u0\t\f", max_size=30))
def test_any_text_is_read_or_refused_with_a_config_error(text: str) -> None:
    try:
        entries = parse_properties(text)
    except ConfigError:
        return
    assert parse_properties(format_properties(entries)) == entries
