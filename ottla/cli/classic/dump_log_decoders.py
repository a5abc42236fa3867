"""What `kafka-dump-log` shows of keys and values: text or numbers, or what an internal topic keeps, as JSON."""

import struct
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from ottla.cli.classic.java import Illegal
from ottla.cli.classic.message_json import json_text, plain
from ottla.core.errors import ProtocolError
from ottla.protocol.codec import decode
from ottla.protocol.messages.coordinator_records import LegacyOffsetCommitKey
from ottla.protocol.messages.record_types import RecordType
from ottla.protocol.schema import declaration
from ottla.protocol.wiretypes import Versions
from ottla.records.record import Record

_INT16, _INT32, _INT64 = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">q")
DELETED = "<DELETE>"


class Shown(NamedTuple):
    """What is printed of a record's key and value; None is not printed."""

    key: str | None
    value: str | None


Decoder: TypeAlias = Callable[[Record], Shown]


# --- by the classes that --key-decoder-class and --value-decoder-class name -------------------------------------------


def as_string(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _as_number(layout: struct.Struct) -> Callable[[bytes], str]:
    def read(data: bytes) -> str:
        if len(data) < layout.size:
            raise Illegal(
                f"java.nio.BufferUnderflowException\n{len(data)} bytes are not a number of {layout.size} bytes"
            )
        return str(layout.unpack_from(data)[0])

    return read


_CLASSES: Mapping[str, Callable[[bytes], str]] = {
    "StringDecoder": as_string,
    "DefaultDecoder": lambda data: (
        data.hex()
    ),  # Java prints where the array lies in memory, which helps nobody
    "IntegerDecoder": _as_number(_INT32),
    "LongDecoder": _as_number(_INT64),
}
PACKAGES = ("org.apache.kafka.tools.api.", "kafka.serializer.")
"""Where they are today, and where they were before Kafka 4."""


def decoder_named(key_class: str, value_class: str) -> Decoder:
    of_key, of_value = _by_class(key_class), _by_class(value_class)
    return lambda record: Shown(
        None if record.key is None else of_key(record.key),
        None if record.value is None else of_value(record.value),
    )


def _by_class(name: str) -> Callable[[bytes], str]:
    for package in PACKAGES:
        if name.startswith(package) and (found := _CLASSES.get(name.removeprefix(package))):
            return found
    raise Illegal(
        f"java.lang.RuntimeException: Failed to load decoder class\n"
        f"{name} is none of those that there are: {', '.join(PACKAGES[0] + each for each in _CLASSES)}"
    )


# --- by the records of an internal topic ------------------------------------------------------------------------------


class _Unreadable(Exception):
    pass


def decoder_of(topic: Mapping[int, RecordType]) -> Decoder:
    return lambda record: _internal(topic, record)


def _internal(topic: Mapping[int, RecordType], record: Record) -> Shown:
    if record.key is None:
        raise Illegal(
            f"java.lang.RuntimeException: Failed to decode message at offset {record.offset} using the"
            " specified decoder (message had a missing key)\nThe records are not those of this internal topic"
        )
    try:
        number = _number(record.key, "key")
        if (row := topic.get(number)) is None:
            return Shown(f"Unknown record type {number} at offset {record.offset}, skipping.", None)
        key = _text("type", number, _read(row.key, record.key, 0, number, "key"), 0)
        return Shown(key, DELETED if record.value is None else _value(row, record.value))
    except _Unreadable as error:
        return Shown(f"Error at offset {record.offset}, skipping. {error}", None)


def _number(data: bytes, where: str) -> int:
    if len(data) < _INT16.size:
        raise _Unreadable(f"Could not read version from {where}'s buffer.")
    number: int = _INT16.unpack_from(data)[0]
    return number


def _value(row: RecordType, data: bytes) -> str:
    version = _number(data, "value")
    known = declaration(row.value).versions
    if row.key is LegacyOffsetCommitKey:
        known = Versions(0, 0)  # to Apache its value is one of its own
    if version not in known:
        raise _Unreadable(f"Found an unknown record version {version} for {row.number} type")
    return _text("version", version, _read(row.value, data, version, version, "value"), version)


def _read(cls: type[Any], data: bytes, version: int, number: int, where: str) -> Any:
    try:
        return decode(cls, data, version, _INT16.size)[0]
    except ProtocolError:
        raise _Unreadable(
            f"Could not read record with version {number} from {where}'s buffer due to: null."
        ) from None


def _text(head: str, number: int, message: Any, version: int) -> str:
    return json_text({head: str(number), "data": plain(message, version)})
