"""Lines as the console producer reads them: headers, key and value, with separators between them.

A line ends with \\n, \\r or both, and is text in UTF-8; what is none becomes U+FFFD, as in Java.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from ottla.cli.classic.java import Illegal

KAFKA_EXCEPTION = "org.apache.kafka.common.KafkaException"
_ENDS = re.compile(rb"\r\n|\r|\n")
_CR, _LF = b"\r", b"\n"


class Parsed(NamedTuple):
    """A line as a record."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


class LineCutter:
    """Cuts blocks of bytes into lines. What is left at the end is the last line, if there is anything."""

    def __init__(self) -> None:
        self._held: list[bytes] = []
        self._was_cr = False

    def cut(self, data: bytes) -> list[bytes]:
        if self._was_cr and data.startswith(_LF):
            data = data[1:]  # the other half of an end that was counted already
        self._was_cr = data.endswith(_CR)
        if _LF not in data and _CR not in data:
            self._held.append(data)  # a long line is put together once
            return []
        text = b"".join((*self._held, data))
        lines = _ENDS.split(text) if _CR in data else text.split(_LF)
        self._held = [lines.pop()]
        return lines

    def last(self) -> list[bytes]:
        rest = b"".join(self._held)
        self._held.clear()
        return [rest] if rest else []


class LineReader:
    """What --reader-property says. Raises Illegal for separators that are the same."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._has_key = _is_true(properties.get("parse.key"))
        self._has_headers = _is_true(properties.get("parse.headers"))
        self._forgives = _is_true(properties.get("ignore.error"))
        self._key_separator = properties.get("key.separator", "\t")
        self._delimiter = properties.get("headers.delimiter", "\t")
        self._separator = properties.get("headers.separator", ",")
        self._pair_separator = properties.get("headers.key.separator", ":")
        self._null = properties.get("null.marker")
        self._count = 0
        self._check()

    def _check(self) -> None:
        named = {
            "key.separator": self._key_separator,
            "headers.separator": self._separator,
            "headers.delimiter": self._delimiter,
            "headers.key.separator": self._pair_separator,
            "null.marker": self._null,
        }
        pairs = [
            ("headers.delimiter", "headers.separator"),
            ("headers.delimiter", "headers.key.separator"),
            ("headers.separator", "headers.key.separator"),
        ]
        if self._null is not None:
            pairs += [("null.marker", name) for name in list(named)[:4]]
        for one, other in pairs:
            if named[one] == named[other]:
                raise Illegal(f"{KAFKA_EXCEPTION}: {one} and {other} may not be equal")

    def record_of(self, line: bytes) -> Parsed:
        """Raises Illegal, with the number of the line."""
        self._count += 1
        text = line.decode("utf-8", "replace")
        headers = key = None
        rest = text
        if self._has_headers:
            headers, rest = self._cut(rest, self._delimiter, "headers delimiter", text)
        if self._has_key:
            key, rest = self._cut(rest, self._key_separator, "key separator", text)
        pairs = [] if headers is None or headers == self._null else self._pairs(headers)
        return Parsed(self._bytes(key), self._bytes(rest), pairs)

    def _cut(self, rest: str, separator: str, what: str, line: str) -> tuple[str | None, str]:
        at = rest.find(separator)
        if at >= 0:
            return rest[:at], rest[at + len(separator) :]
        if self._forgives:
            return None, rest
        raise Illegal(f"{KAFKA_EXCEPTION}: No {what} found on line number {self._count}: '{line}'")

    def _pairs(self, headers: str) -> list[tuple[str, bytes | None]]:
        return [self._pair(each) for each in _split(headers, self._separator)]

    def _pair(self, pair: str) -> tuple[str, bytes | None]:
        at = pair.find(self._pair_separator)
        if at >= 0:
            return pair[:at], self._bytes(pair[at + len(self._pair_separator) :])
        if self._forgives:
            return pair, None
        raise Illegal(
            f"{KAFKA_EXCEPTION}: No header key separator found in pair '{pair}' on line number {self._count}"
        )

    def _bytes(self, text: str | None) -> bytes | None:
        return None if text is None or text == self._null else text.encode("utf-8", "replace")


def _split(text: str, separator: str) -> list[str]:
    """As `String.split` does: empty ones at the end are dropped, and between all letters if there is no separator."""
    if not text:
        return [""]
    parts = text.split(separator) if separator else list(text)
    while parts and not parts[-1]:
        parts.pop()
    return parts


def _is_true(text: str | None) -> bool:
    return text is not None and text.strip().lower() == "true"
