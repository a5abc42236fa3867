"""From the bytes of keys and values to something to read: text, hex, JSON, or what an internal topic keeps.

A decoder takes hostile bytes and raises nothing. What it cannot read comes out as
`{"undecodable": hex, "reason": ...}`.
"""

import dataclasses
import json
import uuid
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from ottla.core.errors import ProtocolError
from ottla.core.ids import format_id
from ottla.protocol.codec import decode_versioned
from ottla.protocol.messages.coordinator_records import GroupMetadataValue
from ottla.protocol.messages.record_types import (
    CONSUMER_OFFSETS,
    TRANSACTION_STATE,
    RecordType,
    decode_key,
    decode_value,
    record_type,
)
from ottla.protocol.messages.subscription import ConsumerProtocolAssignment, ConsumerProtocolSubscription

Plain: TypeAlias = Any
"""What JSON can carry."""
Decoder: TypeAlias = Callable[[bytes | None, bytes | None], tuple[Plain, Plain]]
"""From a record's key and value to what is shown of them."""

_NESTING_MAX = 100  # deeper JSON could not be printed again
_CONSUMER = "consumer"  # the protocol type of groups whose members exchange subscriptions and assignments
_TXN_STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)


def as_string(data: bytes) -> Plain:
    """Text; bytes that are no UTF-8 are spelled out as \\xNN."""
    return data.decode("utf-8", "backslashreplace")


def as_hex(data: bytes) -> Plain:
    return data.hex()


def as_json(data: bytes) -> Plain:
    try:
        value = json.loads(data, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        return undecodable(data, f"not JSON: {error}")
    return value if _nesting_is_sane(value) else undecodable(data, "JSON nested too deeply")


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _nesting_is_sane(value: Plain) -> bool:
    level = [value]
    for _ in range(_NESTING_MAX):
        level = [
            child
            for each in level
            if isinstance(each, dict | list)
            for child in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return True
    return False


DECODERS: Mapping[str, Callable[[bytes], Plain]] = {"string": as_string, "hex": as_hex, "json": as_json}


def decoder_of(key: str, value: str) -> Decoder:
    """Keys and values each by the decoder of that name. Null stays null."""
    of_key, of_value = DECODERS[key], DECODERS[value]
    return lambda k, v: (None if k is None else of_key(k), None if v is None else of_value(v))


AS_STRINGS: Decoder = decoder_of("string", "string")
AS_HEX: Decoder = decoder_of("hex", "hex")


def offsets_decoder(key: bytes | None, value: bytes | None) -> tuple[Plain, Plain]:
    """Records of __consumer_offsets: committed offsets and groups."""
    return _internal(CONSUMER_OFFSETS, key, value)


def transactions_decoder(key: bytes | None, value: bytes | None) -> tuple[Plain, Plain]:
    """Records of __transaction_state."""
    return _internal(TRANSACTION_STATE, key, value)


def _internal(topic: Mapping[int, RecordType], key: bytes | None, value: bytes | None) -> tuple[Plain, Plain]:
    if key is None:
        return None, None if value is None else undecodable(value, "no key says what this is")
    try:
        row = record_type(topic, key)
        if row is None:
            reason = f"record type {int.from_bytes(key[:2], 'big', signed=True)} is not known"
            return undecodable(key, reason), None if value is None else undecodable(value, reason)
        shown_key = {"type": row.key.__name__.removesuffix("Key"), **_plain(decode_key(topic, key))}
    except ProtocolError as error:
        return undecodable(key, str(error)), None if value is None else as_hex(value)
    return shown_key, None if value is None else _internal_value(topic, key, value)


def _internal_value(topic: Mapping[int, RecordType], key: bytes, value: bytes) -> Plain:
    try:
        message = decode_value(topic, key, value)
    except ProtocolError as error:
        return undecodable(value, str(error))
    shown = {"version": int.from_bytes(value[:2], "big", signed=True), **_plain(message)}
    if isinstance(message, GroupMetadataValue) and message.protocol_type == _CONSUMER:
        for member, raw in zip(shown["members"], message.members, strict=True):
            member["subscription"] = _blob(ConsumerProtocolSubscription, raw.subscription)
            member["assignment"] = _blob(ConsumerProtocolAssignment, raw.assignment)
    if "transaction_status" in shown and 0 <= shown["transaction_status"] < len(_TXN_STATES):
        shown["transaction_status"] = _TXN_STATES[shown["transaction_status"]]
    return shown


def _blob(cls: type[Any], data: bytes) -> Plain:
    """What group members tell each other; the broker never reads it, so it may be anything."""
    if not data:
        return None
    try:
        return _plain(decode_versioned(cls, data)[0])
    except ProtocolError as error:
        return undecodable(data, str(error))


def undecodable(data: bytes, reason: str) -> Plain:
    return {"undecodable": data.hex(), "reason": reason}


def _plain(value: Any) -> Plain:
    """A decoded message as JSON can carry it."""
    if dataclasses.is_dataclass(value):
        fields = (field.name for field in dataclasses.fields(value) if field.name != "unknown_tags")
        return {name: _plain(getattr(value, name)) for name in fields}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, uuid.UUID):
        return format_id(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    return value
