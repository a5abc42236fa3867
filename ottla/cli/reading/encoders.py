"""Records as bytes: the values as lines, JSON lines, or whatever a format says; and what a terminal may see of them.

A JSON line is {"topic", "partition", "offset", "timestamp", "key", "value", "headers"}. Keys and values are strings
where they are UTF-8, else {"base64": "..."}; null is null. Headers are pairs of a name and a value of the same kind.
What was written like this, `ottla produce --file` reads.
"""

import base64
import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ottla.client.records import ConsumerRecord

Encode = Callable[[Sequence["ConsumerRecord"]], bytes]

_VALUE: Final = 5  # of the fields of ConsumerRecord
# Control characters but tab and newline, and what turns the direction of text around.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_quoted = json.encoder.encode_basestring_ascii
_LAST = [b""]


def value_lines(records: Sequence["ConsumerRecord"]) -> bytes:
    """Every value and a newline. A null is an empty line."""
    return b"\n".join([record[_VALUE] or b"" for record in records] + _LAST)


def json_lines(records: Sequence["ConsumerRecord"]) -> bytes:
    """Every record as a JSON object on a line of its own. A record without a time has null."""
    return "".join(map(_json_line, records)).encode("ascii")


def _json_line(record: "ConsumerRecord") -> str:
    """Put together by hand: an encoder of the library is made anew for every object, and takes thrice as long."""
    topic, partition, offset, timestamp, key, value, headers = record[:7]
    pairs = ",".join([f"[{_quoted(name)},{_plain(content)}]" for name, content in headers]) if headers else ""
    return (
        f'{{"topic":{_quoted(topic)},"partition":{partition},"offset":{offset},'
        f'"timestamp":{timestamp if timestamp >= 0 else "null"},'
        f'"key":{_plain(key)},"value":{_plain(value)},"headers":[{pairs}]}}\n'
    )


def _plain(data: bytes | None) -> str:
    """Bytes as JSON can carry them."""
    if data is None:
        return "null"
    try:
        return _quoted(data.decode())
    except UnicodeDecodeError:
        return f'{{"base64":"{base64.b64encode(data).decode("ascii")}"}}'


def formatted(write: Callable[["ConsumerRecord"], bytes]) -> Encode:
    """Every record as a format writes it; see `ottla.cli.formats`."""
    return lambda records: b"".join(map(write, records))


def for_terminal(encode: Encode) -> Encode:
    """The same with everything escaped that would move a cursor or hide something; lines and tabs stay."""

    def escaped(records: Sequence["ConsumerRecord"]) -> bytes:
        text = encode(records).decode("utf-8", "backslashreplace")
        return _UNSEEN.sub(_escape, text).encode()

    return escaped


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")


def matching(pattern: re.Pattern[bytes], records: Iterable["ConsumerRecord"]) -> list["ConsumerRecord"]:
    """Those whose value has the pattern in it."""
    search = pattern.search
    return [record for record in records if record[_VALUE] is not None and search(record[_VALUE])]
