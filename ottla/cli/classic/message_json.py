"""Messages as Apache's tools write them in JSON: names in camel case, bytes in base64, tags only if they say something.

The text is Jackson's, character by character: no blanks, letters as they are, control characters in capitals.
"""

import base64
import json
import re
import struct
import uuid
from typing import Any

from ottla.cli.classic.java import double_text
from ottla.core.errors import ProtocolError
from ottla.core.ids import format_id
from ottla.protocol.codec import decode
from ottla.protocol.messages.coordinator_records import GroupMetadataValue
from ottla.protocol.messages.subscription import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from ottla.protocol.schema import declaration

_CONSUMER = "consumer"  # the protocol type of groups whose members exchange subscriptions and assignments
_ESCAPE = re.compile(r"\\(?:u(00[0-9a-f]{2})|.)")
_VERSION = struct.Struct(">h")
_KRAFT = "kraft"  # Kafka spells it KRaft, with one letter before the capital


def json_text(value: Any) -> str:
    """As Jackson writes it."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{json_text(name)}:{json_text(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(json_text, value)) + "]"
    if isinstance(value, float):
        return double_text(value)
    text = json.dumps(value, ensure_ascii=False)
    return _ESCAPE.sub(lambda found: f"\\u{found[1].upper()}" if found[1] else found[0], text)


def plain(message: Any, version: int) -> Any:
    """What a message says in a version, as JSON can carry it; of a group, also what its members say in theirs."""
    shown = converted(message, version)
    if isinstance(message, GroupMetadataValue) and message.protocol_type == _CONSUMER:
        for member, raw in zip(shown["members"], message.members, strict=True):
            member["subscription"] = _exchanged(ConsumerProtocolSubscription, raw.subscription)
            member["assignment"] = _exchanged(ConsumerProtocolAssignment, raw.assignment)
    return shown


def converted(message: Any, version: int) -> Any:
    """The same with the bytes that members exchange as bytes."""
    if isinstance(message, list):
        return [converted(each, version) for each in message]
    if isinstance(message, uuid.UUID):
        return format_id(message)
    if isinstance(message, bytes | bytearray | memoryview):
        return base64.b64encode(message).decode()
    if not hasattr(type(message), "__declaration__"):
        return message
    shown: dict[str, Any] = {}
    for each in declaration(type(message)).fields:
        value = getattr(message, each.name)
        if version in each.versions and not (each.is_tagged(version) and value == each.default):
            shown[_camel(each.name)] = converted(value, version)
    return shown


def _exchanged(cls: type[Any], data: bytes) -> Any:
    """What members tell each other through the broker, which does not read it: it may be anything."""
    try:
        if len(data) < _VERSION.size:
            raise ProtocolError("no version")
        # Who speaks a later version says all of the last one that we know, and then more.
        version = min(_VERSION.unpack_from(data)[0], declaration(cls).versions.last)
        return plain(decode(cls, data, version, _VERSION.size)[0], version)
    except ProtocolError:
        return base64.b64encode(data).decode()


def _camel(name: str) -> str:
    if name.startswith(_KRAFT):
        name = f"k_raft{name.removeprefix(_KRAFT)}"
    first, *rest = name.split("_")
    return first + "".join(each.capitalize() for each in rest)
