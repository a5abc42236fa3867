r"""Format strings: how `ottla consume -f` and `ottla cat -f` print a record. kcat's tokens, and a few more.

    %s %v           the value                       %k      the key
    %S %K           how long they are, -1 for null  %R      the value's length as four bytes, big endian
    %T              the timestamp in milliseconds   %d      the timestamp as 2026-11-18T11:36:16.123Z
    %h              the headers, as name=value,name=value
    %t %p %o        topic, partition, offset        %%      a percent sign
    \n \r \t \0     and \xNN, \0NN (octal), \NN (decimal); any other character behind \ is itself

A word in braces behind a key or a value says how it is written: %v{hex}, %k{base64}, %v{json} (a JSON string, or null).
Behind %d it is a pattern of strftime, in UTC: %d{%H:%M:%S}. Braces around anything but a word are text, as for kcat.

A format is compiled once. What it gives is called for every record, so that most formats end in one lookup and one
interpolation, both of them in C.
"""

import base64
import functools
import json
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import click

if TYPE_CHECKING:
    from ottla.client.records import ConsumerRecord

Formatted = Callable[["ConsumerRecord"], bytes]
Shown = Callable[[bytes], bytes]
"""How bytes that are there are written."""

NO_VALUE = b"NULL"
"""What kcat -Z writes for a null."""
TOPICS_MAX = 1000  # templates kept: a reader of more topics than this compiles some of them again
TOKENS = "%s %v %k %S %K %R %T %d %h %t %p %o %%"

_TOPIC, _PARTITION, _OFFSET, _TIMESTAMP, _KEY, _VALUE, _HEADERS = range(7)  # of the fields of ConsumerRecord
_PIECE = re.compile(r"%(?:(?P<token>.)(?:\{(?P<modifier>[^{}]*)\})?)?", re.DOTALL)
_ESCAPE = re.compile(rb"\\(?:x([0-9a-fA-F]{1,2})|(0[0-7]{0,3})|([1-9][0-9]{0,2})|(.))", re.DOTALL)
_CONTROL = {b"n": b"\n", b"r": b"\r", b"t": b"\t"}
_WORD = re.compile(r"[a-z0-9]+")
_WHAT = {"s": _VALUE, "v": _VALUE, "k": _KEY, "S": _VALUE, "K": _KEY, "R": _VALUE}
_PLAIN = {"s": _VALUE, "v": _VALUE, "k": _KEY, "T": _TIMESTAMP, "p": _PARTITION, "o": _OFFSET}


class Nulls(NamedTuple):
    """What is written where nothing is. kcat takes an empty key or value for nothing, too."""

    text: bytes = b""
    are_empty: bool = False


NOTHING = Nulls()


class _Token(NamedTuple):
    """A piece of a format: text if `name` is empty."""

    name: str
    modifier: str | None = None
    text: bytes = b""


def compile_format(
    text: str, *, nulls: Nulls = NOTHING, show_key: Shown | None = None, show_value: Shown | None = None
) -> Formatted:
    """What a record looks like in this format. Raises click.UsageError, which names the tokens there are.

    `show_key` and `show_value` stand for %k and %s without a word in braces: `-s` of kcat gives them.
    """
    tokens = _parse(text)
    shown = {_KEY: show_key, _VALUE: show_value}
    writers = [_writer(each, nulls, shown) for each in tokens]
    exact = _joined(writers)
    is_plain = all(
        not each.name or (each.name in (*_PLAIN, "t") and each.modifier is None) for each in tokens
    )
    if not is_plain or nulls.are_empty or show_key or show_value:
        return exact
    if [each.name for each in tokens] in (["s", ""], ["v", ""]):
        return _line(tokens[1].text, nulls.text)
    return _interpolated(tokens, nulls.text)


# --- reading a format -------------------------------------------------------------------------------------------------


def _parse(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    start = 0
    while (found := _PIECE.search(text, start)) is not None:
        _add_text(tokens, unescape(text[start : found.start()]))
        token, end = _token(found)
        if token.name:
            tokens.append(token)
        else:
            _add_text(tokens, token.text)
        start = end
    _add_text(tokens, unescape(text[start:]))
    return tokens


def _add_text(tokens: list[_Token], text: bytes) -> None:
    if text and tokens and not tokens[-1].name:
        tokens[-1] = _Token("", None, tokens[-1].text + text)
    elif text:
        tokens.append(_Token("", None, text))


def _token(found: re.Match[str]) -> tuple[_Token, int]:
    """The token, and where the rest begins."""
    name, modifier = found["token"], found["modifier"]
    if name is None:
        raise click.UsageError("the format ends in a lone %: write %% for a percent sign")
    if name == "%":
        return _Token("", None, b"%"), found.end("token")
    if name not in "svkSKRTdhtpo":
        raise click.UsageError(f"%{name} is no token of a format: there are {TOKENS}")
    if modifier is None or name == "d":
        return _Token(name, modifier or None), found.end()
    if not _WORD.fullmatch(modifier):
        return _Token(name), found.end("token")
    if name not in "svk" or modifier not in _MODIFIERS:
        raise click.UsageError(
            f"%{name}{{{modifier}}} is no token of a format: %k, %s and %v take {', '.join(_MODIFIERS)}"
        )
    return _Token(name, modifier), found.end()


def unescape(text: str) -> bytes:
    r"""The bytes of a text with \n, \t, \xNN and the like in it. A lone backslash at the end is one."""
    return _ESCAPE.sub(_escaped, text.encode("utf-8", "surrogateescape"))


def literal(data: bytes) -> str:
    """A format that is these bytes and nothing else."""
    return "".join(f"\\x{each:02x}" for each in data)


def _escaped(found: re.Match[bytes]) -> bytes:
    for digits, base in zip(found.groups()[:3], (16, 8, 10), strict=True):
        if digits is not None:
            return bytes([int(digits, base) & 0xFF])
    return _CONTROL.get(found[4], found[4])


# --- writing a piece --------------------------------------------------------------------------------------------------


def json_text(data: bytes) -> bytes:
    """A JSON string. What is no UTF-8 is in it as the character for that, U+FFFD."""
    return json.dumps(data.decode("utf-8", "replace"), ensure_ascii=False).encode()


_MODIFIERS: dict[str, Shown] = {
    "hex": lambda data: data.hex().encode(),
    "base64": base64.b64encode,
    "json": json_text,
}


def headers_text(record: "ConsumerRecord") -> bytes:
    """`name=value,name=value`, as kcat has it."""
    return b",".join(
        name.encode("utf-8", "surrogateescape") + b"=" + (NO_VALUE if value is None else value)
        for name, value in record.headers
    )


def _writer(token: _Token, nulls: Nulls, shown: dict[int, Shown | None]) -> Formatted:
    """What this piece of a format is for a record."""
    name, modifier = token.name, token.modifier
    if not name:
        return lambda record: token.text
    if name in "svk":
        null = b"null" if modifier == "json" else nulls.text
        show = _nonempty(shown[_WHAT[name]]) if modifier is None else _MODIFIERS[modifier]
        # an empty JSON string is written as one: the format is made to be read by a program
        return _field_writer(_WHAT[name], null, nulls.are_empty and modifier != "json", show)
    if name in "SKR":
        return _length_writer(_WHAT[name], is_binary=name == "R")
    if name == "d":
        return _time_writer(modifier, nulls.text)
    if name == "h":
        return headers_text
    if name == "t":
        return lambda record: record.topic.encode()
    number = itemgetter(_PLAIN[name])
    return lambda record: b"%d" % number(record)


def _nonempty(show: Shown | None) -> Shown | None:
    """A deserializer is not asked about what is empty: there is nothing to be read in it."""
    return None if show is None else lambda data: show(data) if data else data


def _field_writer(at: int, null: bytes, are_empty_null: bool, show: Shown | None) -> Formatted:
    taken = itemgetter(at)

    def write(record: "ConsumerRecord") -> bytes:
        data: bytes | None = taken(record)
        if data is None or (not data and are_empty_null):
            return null
        return data if show is None else show(data)

    return write


def _length_writer(at: int, is_binary: bool) -> Formatted:
    taken = itemgetter(at)

    def write(record: "ConsumerRecord") -> bytes:
        data: bytes | None = taken(record)
        size = -1 if data is None else len(data)
        return size.to_bytes(4, "big", signed=True) if is_binary else b"%d" % size

    return write


def _time_writer(pattern: str | None, null: bytes) -> Formatted:
    """Records without a timestamp have -1, which would be shown as a day in 1969."""

    def write(record: "ConsumerRecord") -> bytes:
        if record.timestamp < 0:
            return null
        try:
            time = datetime.fromtimestamp(record.timestamp / 1000, UTC)
        except (OverflowError, ValueError, OSError):
            return b"%d" % record.timestamp  # later than the year 9999: somebody has put microseconds there
        if pattern is not None:
            return time.strftime(pattern).encode()
        return f"{time:%Y-%m-%dT%H:%M:%S}.{record.timestamp % 1000:03d}Z".encode()

    return write


# --- all pieces -------------------------------------------------------------------------------------------------------


def _joined(writers: Sequence[Formatted]) -> Formatted:
    if len(writers) == 1:
        return writers[0]
    return lambda record: b"".join([write(record) for write in writers])


def _line(end: bytes, null: bytes) -> Formatted:
    """The value and something behind it: the format of most."""
    null += end

    def write(record: "ConsumerRecord") -> bytes:
        value: bytes | None = record.value
        return null if value is None else value + end

    return write


def _interpolated(tokens: Sequence[_Token], null: bytes) -> Formatted:
    """All pieces at once: a template for each topic, filled from the fields."""
    fields = [_PLAIN[each.name] for each in tokens if each.name not in ("", "t")]
    taken = _tuple_of(fields)

    @functools.lru_cache(TOPICS_MAX)
    def template(topic: str) -> bytes:
        name = topic.encode().replace(b"%", b"%%")
        return b"".join(_slot(each, name) for each in tokens)

    def write(record: "ConsumerRecord") -> bytes:
        found = taken(record)
        if None in found:
            found = tuple([null if each is None else each for each in found])
        return template(record.topic) % found

    return write


def _tuple_of(fields: Sequence[int]) -> Callable[["ConsumerRecord"], tuple[Any, ...]]:
    if len(fields) > 1:
        return itemgetter(*fields)
    return lambda record: tuple([record[each] for each in fields])


def _slot(token: _Token, topic: bytes) -> bytes:
    if not token.name:
        return token.text.replace(b"%", b"%%")
    if token.name == "t":
        return topic
    return b"%b" if token.name in "svk" else b"%d"
