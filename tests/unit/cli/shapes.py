"""The notation in which a command's help says what its JSON looks like, and the check of a document against it.

{"topic", "partitions": [{"partition", "leader"}]}    exactly these keys; without a colon, no objects below
{KEY: VALUE}                                          any keys
{"type", ...}                                         these keys, and others
[SENTENCE]                                            a list; a word in capitals is anything
{"a"} | null                                          one of them
"""

import re
from typing import NamedTuple

_TOKEN = re.compile(r'\s*("[^"]*"|\.\.\.|[A-Za-z_0-9.]+|[{}\[\],:|])')


class Object(NamedTuple):
    keys: dict
    is_open: bool


class Mapping(NamedTuple):
    values: object


class Array(NamedTuple):
    items: object


class Either(NamedTuple):
    shapes: list


class Anything(NamedTuple):
    """A word in capitals stands for it."""


class Plain(NamedTuple):
    """No object, and no list of objects. `is_null` if nothing else than null may stand here."""

    is_null: bool = False


def shapes_in(help_text):
    """All shapes behind `--json:` in the help of a command, up to the end of its paragraph."""
    found = []
    for paragraph in re.split(r"\n\s*\n", help_text or ""):
        text = " ".join(paragraph.split())
        if "--json:" not in text:
            continue
        at = text.index("--json:") + len("--json:")
        while (match := re.compile(r"[{\[]").search(text, at)) is not None:
            reader = _Reader(text, match.start())
            found.append(reader.shape())
            at = reader.at
    return found


class _Reader:
    def __init__(self, text, at):
        self._text, self.at = text, at

    def _peek(self):
        match = _TOKEN.match(self._text, self.at)
        assert match, f"unreadable: {self._text[self.at : self.at + 40]!r}"
        return match

    def _take(self, expected=None):
        match = self._peek()
        assert expected in (None, match[1]), f"{expected} is missing: {self._text[self.at : self.at + 40]!r}"
        self.at = match.end()
        return match[1]

    def _is_next(self, token):
        match = _TOKEN.match(self._text, self.at)
        return match is not None and match[1] == token

    def shape(self):
        found = [self._one()]
        while self._is_next("|"):
            self._take()
            found.append(self._one())
        return found[0] if len(found) == 1 else Either(found)

    def _one(self):
        token = self._take()
        if token == "[":
            items = self.shape()
            while self._is_next(","):  # [NAME, VALUE]: a pair
                self._take()
                self.shape()
            self._take("]")
            return Array(items)
        if token == "{":
            return self._object()
        return Anything() if token.isupper() and not token.startswith('"') else Plain(token == "null")

    def _object(self):
        keys, is_open, values = {}, False, None
        while True:
            token = self._take()
            if token == "...":
                is_open = True
            elif token.startswith('"'):
                keys[token.strip('"')] = self._value() if self._is_next(":") else Plain()
            else:
                values = self._value()
            if self._take() == "}":
                return Object(keys, is_open) if values is None else Mapping(values)

    def _value(self):
        self._take(":")
        return self.shape()


def differences(shape, value, where="$"):
    """What in a document is not as it is documented: sentences."""
    match shape:
        case Either(shapes):
            tried = [differences(each, value, where) for each in shapes]
            return min(tried, key=len)
        case Array(items):
            if not isinstance(value, list):
                return [f"{where} is no list"]
            return [
                each for n, item in enumerate(value) for each in differences(items, item, f"{where}[{n}]")
            ]
        case Mapping(values):
            if not isinstance(value, dict):
                return [f"{where} is no object"]
            return [
                each for key, item in value.items() for each in differences(values, item, f"{where}.{key}")
            ]
        case Object(keys, is_open):
            if not isinstance(value, dict):
                return [f"{where} is no object"]
            found = [f"{where}.{key} is missing" for key in keys if key not in value]
            if not is_open:
                found += [f"{where}.{key} is not documented" for key in value if key not in keys]
            shared = [key for key in keys if key in value]
            return found + [
                each for key in shared for each in differences(keys[key], value[key], f"{where}.{key}")
            ]
        case Anything():
            return []
        case Plain(is_null):
            if is_null and value is not None:
                return [f"{where} is not null"]
            is_deep = isinstance(value, dict) or (
                isinstance(value, list) and any(isinstance(each, dict) for each in value)
            )
            return [f"{where} has objects in it that are not documented"] if is_deep else []
    raise AssertionError(shape)
