"""-J: a record as one JSON object, in the words and the order of kcat's.

Bytes that are no UTF-8 become U+FFFD in it, so that what comes out is always JSON; kcat lets them through as they are.
"""

import functools
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.cli.cat.packing import Unreadable
from ottla.cli.formats import Formatted

if TYPE_CHECKING:
    from ottla.cli.cat.avro import AvroText
    from ottla.client.records import ConsumerRecord

_SPECIAL = re.compile(rb'[\x00-\x1f"\\]')
_SHORT = {
    b'"': b'\\"',
    b"\\": b"\\\\",
    b"\n": b"\\n",
    b"\r": b"\\r",
    b"\t": b"\\t",
    b"\b": b"\\b",
    b"\f": b"\\f",
}
_TIME_TYPES = {0: b"create", 1: b"logappend"}
_NAMES_MAX = 1000
NULL = b"null"


def string(data: bytes) -> bytes:
    """A JSON string."""
    try:
        data.decode()
    except UnicodeDecodeError:
        data = data.decode("utf-8", "replace").encode()
    return b'"' + _SPECIAL.sub(_escaped, data) + b'"'


def _escaped(found: re.Match[bytes]) -> bytes:
    return _SHORT.get(found[0]) or b"\\u%04X" % found[0][0]


def text(value: str) -> bytes:
    return string(value.encode("utf-8", "surrogateescape"))


def or_null(data: bytes | None) -> bytes:
    return NULL if data is None else string(data)


def envelope(
    end: bytes,
    broker_of: Callable[[str, int], int],
    key: "AvroText | None" = None,
    value: "AvroText | None" = None,
    complain: Callable[[str], None] = lambda _: None,
) -> Formatted:
    """What a record looks like with -J. `broker_of` tells who leads its partition, and `complain` is told what could
    not be read: the field is null then, and what was wrong stands beside it."""

    @functools.lru_cache(_NAMES_MAX)
    def place(topic: str, partition: int) -> bytes:
        return b'{"topic":%b,"partition":%d,"offset":' % (text(topic), partition)

    def write(record: "ConsumerRecord") -> bytes:
        return b"".join(
            (
                place(record.topic, record.partition),
                b"%d" % record.offset,
                _time(record),
                b',"broker":%d' % broker_of(record.topic, record.partition),
                _headers(record),
                _field(record, "key", record.key, key, b"key", complain),
                _field(record, "payload", record.value, value, b"value", complain),
                b"}",
                end,
            )
        )

    return write


def _time(record: "ConsumerRecord") -> bytes:
    if record.timestamp < 0:
        return b""
    return b',"tstype":"%b","ts":%d' % (_TIME_TYPES.get(record.timestamp_type, b"unknown"), record.timestamp)


def _headers(record: "ConsumerRecord") -> bytes:
    """Names and values in turn."""
    if not record.headers:
        return b""
    parts = [part for name, value in record.headers for part in (text(name), or_null(value))]
    return b',"headers":[' + b",".join(parts) + b"]"


def _field(
    record: "ConsumerRecord",
    name: str,
    data: bytes | None,
    avro: "AvroText | None",
    schema_of: bytes,
    complain: Callable[[str], None],
) -> bytes:
    label = b',"%b":' % name.encode()
    if avro is None or data is None:
        return label + or_null(data)
    try:
        found = avro.decoded(data)
    except Unreadable as error:
        what = "key" if name == "key" else "value"
        complain(
            f"Failed to deserialize {what} in message in {record.topic} [{record.partition}] "
            f"at offset {record.offset}: {error}"
        )
        return label + NULL + b',"%b_error":' % name.encode() + text(str(error))
    schema = b"%d" % found.schema if isinstance(found.schema, int) else text(str(found.schema))
    return label + found.text + b',"%b_schema_id":' % schema_of + schema
