"""What single words of a kcat command line mean: delimiters, offsets, headers, places to ask about.

Everything here is a pure function of the word. What makes no sense raises click.UsageError with a sentence.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

import click

from ottla.core.ids import TopicPartition

BEGINNING, END, STORED = "beginning", "end", "stored"
_ESCAPES = {"\\n": "\n", "\\t": "\t", "\\r": "\r"}
_ESCAPE = re.compile(r"\\[ntr]|\\x([0-9a-fA-F]{0,2})")
_OFFSET_MAX = (1 << 63) - 1


class Start(NamedTuple):
    """Where to begin: a name, an offset (from the end if below zero), or a time; and a time to end before."""

    name: str | None = None
    offset: int | None = None
    time_ms: int | None = None
    end_ms: int | None = None


class Question(NamedTuple):
    """A time, or -1 for the end and -2 for the beginning, that is asked for in -Q."""

    partition: TopicPartition
    time_ms: int


def delimiter(text: str, option: str) -> bytes:
    r"""`\n`, `\t`, `\r`, `\xNN` and plain text."""

    def one(found: re.Match[str]) -> str:
        if found[0] in _ESCAPES:
            return _ESCAPES[found[0]]
        if not found[1]:
            raise click.UsageError(rf"{option} {text}: \x needs a number of one or two hexadecimal digits")
        return chr(0xDC00 + number) if (number := int(found[1], 16)) >= 0x80 else chr(number)

    return _ESCAPE.sub(one, text).encode("utf-8", "surrogateescape")


def start(words: Iterable[str]) -> Start:
    """What all the -o say together; of two that speak of the same, the last one counts."""
    found = Start()
    for word in words:
        if word in (BEGINNING, END, STORED):
            found = found._replace(name=word, offset=None, time_ms=None)
        elif word.startswith("s@"):
            found = found._replace(name=None, offset=None, time_ms=_number(word[2:], word))
        elif word.startswith("e@"):
            found = found._replace(end_ms=_number(word[2:], word))
        else:
            found = found._replace(name=None, offset=_number(word, word, signed=True), time_ms=None)
    return found


def _number(text: str, word: str, signed: bool = False) -> int:
    if (
        not re.fullmatch(r"[-+]?[0-9]{1,19}" if signed else r"[0-9]{1,19}", text)
        or abs(int(text)) > _OFFSET_MAX
    ):
        raise click.UsageError(
            f"-o {word} is no place to begin: it is {BEGINNING}, {END}, {STORED}, an offset, -N for the last N, "
            f"s@MS for the first since a time, or e@MS to end before one"
        )
    return int(text)


def header(word: str) -> tuple[str, bytes | None]:
    """`name=value`, or `name` for one whose value is null."""
    name, equals, value = word.partition("=")
    if not name:
        raise click.UsageError(f"-H {word} has no name: write -H name=value, or -H name for a null")
    return name, value.encode("utf-8", "surrogateescape") if equals else None


def question(word: str) -> Question:
    """`topic:partition:time`."""
    found = re.fullmatch(r"([^:]+):([0-9]{1,10}):(-?[0-9]{1,19})", word)
    if found is None:
        raise click.UsageError(
            f"-t {word}: with -Q it is topic:partition:milliseconds; -1 is the end, -2 the beginning"
        )
    return Question(TopicPartition(found[1], int(found[2])), int(found[3]))
