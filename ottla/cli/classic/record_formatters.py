"""The formatters of `kafka-console-consumer`: how a record becomes a line.

`DefaultMessageFormatter` writes the fields that its properties ask for, in a fixed order, with separators. Those for
internal topics write JSON, one record behind the other without a newline, and pass over other records. Each is known by
the last part of its class name, so that the names of older releases work too.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ottla.cli.classic.deserializers import Text, deserializer
from ottla.cli.classic.message_json import converted, json_text
from ottla.client.records import ConsumerRecord
from ottla.protocol.codec import decode_versioned
from ottla.protocol.messages.record_types import (
    CONSUMER_OFFSETS,
    TRANSACTION_STATE,
    RecordType,
    decode_key,
    record_type,
)

Format = Callable[[ConsumerRecord, Callable[[bytes], object]], object]
"""Writes one record, piece by piece: what was written before something fails stays."""

_TRUE = "true"
_TIMESTAMP_TYPES = {0: "CreateTime", 1: "LogAppendTime"}


class UnknownFormatter(Exception):
    """There is no formatter of that name."""


def formatter_of(name: str, properties: Mapping[str, str]) -> Format:
    """The one of this class, set up with these properties. Raises UnknownFormatter."""
    short = name.replace("$", ".").rpartition(".")[2]
    if short in ("DefaultMessageFormatter", "LoggingMessageFormatter"):
        return _default(_Layout.of(properties))
    if short == "NoOpMessageFormatter":
        return lambda record, write: None
    if short in _INTERNAL:
        topic, numbers = _INTERNAL[short]
        return _internal(topic, numbers)
    raise UnknownFormatter(name)


# --- the default ------------------------------------------------------------------------------------------------------


class _Layout(NamedTuple):
    """The properties of the default formatter."""

    timestamp: bool
    partition: bool
    offset: bool
    delivery: bool
    epoch: bool
    headers: bool
    key: bool
    value: bool
    separator: bytes
    line_end: bytes
    headers_separator: bytes
    null: bytes
    key_text: Text | None
    value_text: Text | None
    headers_text: Text | None

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> "_Layout":
        def flag(name: str, default: str = "false") -> bool:
            return properties.get(f"print.{name}", default).strip().lower() == _TRUE

        def text(name: str, default: str) -> bytes:
            return properties.get(name, default).encode()

        def deserialized(name: str) -> Text | None:
            return deserializer(properties.get(f"{name}.deserializer", ""))

        return cls(
            flag("timestamp"),
            flag("partition"),
            flag("offset"),
            flag("delivery"),
            flag("epoch"),
            flag("headers"),
            flag("key"),
            flag("value", _TRUE),
            text("key.separator", "\t"),
            text("line.separator", "\n"),
            text("headers.separator", ","),
            text("null.literal", "null"),
            deserialized("key"),
            deserialized("value"),
            deserialized("headers"),
        )

    @property
    def is_plain(self) -> bool:
        """Only values, as they are."""
        return self.value and self.value_text is None and not any(self[:7])


def _default(layout: _Layout) -> Format:
    if layout.is_plain:
        null, end = layout.null, layout.line_end
        return lambda record, write: write((null if record.value is None else record.value) + end)

    def format(record: ConsumerRecord, write: Callable[[bytes], object]) -> None:
        fields = list(_fields(layout, record))
        for at, field in enumerate(fields):
            write(field())
            write(layout.separator if at + 1 < len(fields) else layout.line_end)

    return format


def _fields(layout: _Layout, record: ConsumerRecord) -> list[Callable[[], bytes]]:
    """Those that are wanted, each to be made when its turn comes."""

    def shown(data: bytes | None, text: Text | None) -> bytes:
        there = layout.null if data is None else data
        return there if text is None else text(there)

    def headers() -> bytes:
        if not record.headers:
            return b"NO_HEADERS"
        return layout.headers_separator.join(
            name.encode("utf-8", "surrogateescape") + b":" + shown(value, layout.headers_text)
            for name, value in record.headers
        )

    wanted: list[tuple[bool, Callable[[], bytes]]] = [
        (layout.timestamp, lambda: _timestamp(record)),
        (layout.partition, lambda: b"Partition:%d" % record.partition),
        (layout.offset, lambda: b"Offset:%d" % record.offset),
        (layout.delivery, lambda: b"Delivery:NOT_PRESENT"),  # only share groups count deliveries
        (layout.epoch, lambda: b"Epoch:NOT_PRESENT"),  # Apache's tool forgets it before it prints
        (layout.headers, headers),
        (layout.key, lambda: shown(record.key, layout.key_text)),
        (layout.value, lambda: shown(record.value, layout.value_text)),
    ]
    return [field for is_wanted, field in wanted if is_wanted]


def _timestamp(record: ConsumerRecord) -> bytes:
    kind = _TIMESTAMP_TYPES.get(record.timestamp_type)
    if kind is None or record.timestamp < 0:
        return b"NO_TIMESTAMP"
    return f"{kind}:{record.timestamp}".encode()


# --- internal topics --------------------------------------------------------------------------------------------------

_INTERNAL: Mapping[str, tuple[Mapping[int, RecordType], tuple[int, ...]]] = {
    "OffsetsMessageFormatter": (CONSUMER_OFFSETS, (0, 1)),
    "GroupMetadataMessageFormatter": (CONSUMER_OFFSETS, (2,)),
    "TransactionLogMessageFormatter": (TRANSACTION_STATE, (0,)),
}


def _internal(topic: Mapping[int, RecordType], numbers: tuple[int, ...]) -> Format:
    def format(record: ConsumerRecord, write: Callable[[bytes], object]) -> None:
        row = None if record.key is None else record_type(topic, record.key)
        if row is None or row.number not in numbers:
            return
        key = {"type": row.number, "data": converted(decode_key(topic, record.key), 0)}
        shown = {"key": key, "value": None if record.value is None else _value(row, record.value)}
        write(json_text(shown).encode("utf-8", "backslashreplace"))

    return format


def _value(row: RecordType, data: bytes) -> dict[str, Any]:
    message, version = decode_versioned(row.value, data)
    return {"version": version, "data": converted(message, version)}
