r"""Formats of inputs: what `ottla consume -f` prints, read back.

    %s %v   the value           %k      the key             %h      headers, as name=value,name=value
    %t      the topic           %p      the partition       %T      the timestamp in milliseconds
    %o %S %K                    offset and lengths: read, and not used
    %%      a percent sign      \n \t \xNN and the like: that byte

A record ends with the text behind the last token, or at the end of the line if there is none. Within it, each token
reaches to the first occurrence of the text that follows it, and the last one to the end. So there must be text between
two tokens, and neither a key nor a value can contain what ends it: a word in braces, as in %v{base64}, %k{hex} or
%v{json}, says that it is written in a way that does not.
"""

import base64
import binascii
import json
import re
from collections.abc import Callable
from typing import NamedTuple

import click

from ottla.cli.formats import unescape
from ottla.cli.sending.inputs import Block
from ottla.cli.sending.parcels import Fault, Headers, Parcel, Record, Value, parcels_of

TOKENS = "%s %v %k %h %t %p %T %o %S %K %%"
_PIECE = re.compile(r"%(?:(?P<token>.)(?:\{(?P<word>[a-z0-9]+)\})?)?", re.DOTALL)
_VALUE, _KEY, _HEADERS, _TOPIC, _PARTITION, _TIMESTAMP = (
    "value",
    "key",
    "headers",
    "topic",
    "partition",
    "timestamp",
)
_NAMES = {
    "s": _VALUE,
    "v": _VALUE,
    "k": _KEY,
    "h": _HEADERS,
    "t": _TOPIC,
    "p": _PARTITION,
    "T": _TIMESTAMP,
    "o": "offset",
    "S": "size of the value",
    "K": "size of the key",
}
_NUMBERS_MAX = {_PARTITION: 2**31 - 1, _TIMESTAMP: 2**63 - 1}
_LINE = b"\n"


class _Wrong(ValueError):
    """What is wrong with a piece, in a sentence."""


class Field(NamedTuple):
    """A token, the text between it and the next one, and how its bytes are written."""

    name: str
    token: str
    decode: Callable[[bytes], Value] | None
    behind: bytes


class Format:
    """A format that was understood. `end` is what ends a record."""

    def __init__(self, text: str, null_marker: bytes | None = None) -> None:
        """Raises click.UsageError."""
        self.start, self.fields, self.end = _parsed(text)
        self._null = null_marker
        self.noun = "line" if self.end == _LINE else "record"
        self.has_topic = any(each.name == _TOPIC for each in self.fields)
        self.has_key = any(each.name == _KEY for each in self.fields)

    def __call__(self, block: Block) -> tuple[list[Parcel], Fault | None]:
        records: list[Record] = []
        fault = None
        for index, piece in enumerate(block.pieces):
            try:
                records.append(self.record_of(piece or b""))
            except _Wrong as wrong:
                fault = Fault(index, str(wrong))
                break
        return parcels_of(records, range(len(records))), fault

    def record_of(self, piece: bytes) -> Record:
        if not piece.startswith(self.start):
            raise _Wrong(f"it does not begin with {_shown(self.start)}")
        found: dict[str, bytes] = {}
        at = len(self.start)
        for field in self.fields[:-1]:
            stop = piece.find(field.behind, at)
            if stop < 0:
                raise _Wrong(f"there is no {_shown(field.behind)} behind its {field.name}")
            found[field.name] = piece[at:stop]
            at = stop + len(field.behind)
        found[self.fields[-1].name] = piece[at:]
        decoders = {each.name: each.decode for each in self.fields}
        return Record(
            self._bytes(found, _KEY, decoders),
            self._bytes(found, _VALUE, decoders),
            _headers(found.get(_HEADERS, b"")),
            _topic(found.get(_TOPIC)),
            _number(found.get(_PARTITION), _PARTITION),
            _number(found.get(_TIMESTAMP), _TIMESTAMP),
        )

    def _bytes(
        self, found: dict[str, bytes], name: str, decoders: dict[str, Callable[[bytes], Value] | None]
    ) -> Value:
        data = found.get(name)
        if data is None or data == self._null:
            return None
        decode = decoders[name]
        if decode is None:
            return data
        try:
            return decode(data)
        except (binascii.Error, ValueError) as error:
            raise _Wrong(f"its {name} is not written as the format says: {error}") from None


# --- reading a format -------------------------------------------------------------------------------------------------


def _parsed(text: str) -> tuple[bytes, list[Field], bytes]:
    """What every record begins with, its fields, and what it ends with."""
    texts, fields = [""], list[tuple[str, str, Callable[[bytes], Value] | None]]()
    start = 0
    for piece in _PIECE.finditer(text):
        texts[-1] += text[start : piece.start()]
        start = piece.end()
        token, word = piece["token"], piece["word"]
        if token == "%":
            texts[-1] += "%" + (f"{{{word}}}" if word else "")
            continue
        fields.append((_name(token), f"%{token}", _decoder(token, word)))
        texts.append("")
    texts[-1] += text[start:]
    _check(text, [name for name, _, _ in fields])
    between = [unescape(each) for each in texts]
    for (_, token, _), behind, (_, following, _) in zip(fields, between[1:], fields[1:], strict=False):
        if not behind:
            raise click.UsageError(f"-f: nothing says where {token} ends and {following} begins")
    found = [Field(*field, behind) for field, behind in zip(fields, between[1:], strict=True)]
    return between[0], found, between[-1] or _LINE


def _name(token: str | None) -> str:
    if token is None:
        raise click.UsageError("-f ends in a lone %: write %% for a percent sign")
    if token == "d":
        raise click.UsageError("-f: a time is read as %T, in milliseconds since 1970; %d is only written")
    if token not in _NAMES:
        raise click.UsageError(f"-f: %{token} is no token of an input: there are {TOKENS}")
    return _NAMES[token]


def _check(text: str, names: list[str]) -> None:
    if _VALUE not in names and _KEY not in names:
        raise click.UsageError(f"-f {text!r} has neither a key nor a value in it: write %k and %s")
    for name in names:
        if names.count(name) > 1:
            raise click.UsageError(f"-f {text!r} has the {name} in it more than once")


def _decoder(token: str | None, word: str | None) -> Callable[[bytes], Value] | None:
    if word is None:
        return None
    if token not in ("s", "v", "k") or word not in _DECODERS:
        raise click.UsageError(
            f"-f: %{token}{{{word}}} is no token of an input: %k, %s and %v take {', '.join(_DECODERS)}"
        )
    return _DECODERS[word]


# --- the parts of a record --------------------------------------------------------------------------------------------


def _from_json(data: bytes) -> Value:
    found = json.loads(data)
    if found is not None and not isinstance(found, str):
        raise ValueError("it is no text in JSON, and not null")
    return None if found is None else found.encode()


def _from_base64(data: bytes) -> bytes:
    return base64.b64decode(data, validate=True)


def _from_hex(data: bytes) -> bytes:
    return binascii.unhexlify(data)


_DECODERS: dict[str, Callable[[bytes], Value]] = {
    "hex": _from_hex,
    "base64": _from_base64,
    "json": _from_json,
}


def _headers(data: bytes) -> Headers:
    """`name=value,name=value`. A name without an equals sign has no content."""
    if not data:
        return ()
    found = []
    for pair in data.split(b","):
        name, equals, content = pair.partition(b"=")
        found.append((_text(name, "name of a header"), content if equals else None))
    return tuple(found)


def _topic(data: bytes | None) -> str | None:
    return None if data is None else _text(data, "topic")


def _text(data: bytes, what: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise _Wrong(f"its {what} is no text in UTF-8") from None


def _number(data: bytes | None, name: str) -> int | None:
    """An empty one was not said."""
    if not data:
        return None
    if not data.isdigit() or int(data) > _NUMBERS_MAX[name]:
        raise _Wrong(f"its {name} is {_shown(data)}, and must be a whole number from 0 on")
    return int(data)


def _shown(data: bytes) -> str:
    return repr(data[:40].decode("utf-8", "backslashreplace"))
