"""Messages in the form of the JSON that Apache Kafka prints, with our names.

Kafka shows bytes and uuids in base64, of records only the size, and leaves out tagged fields that hold their
default.
"""

import base64
from typing import Any

from ottla.protocol.schema import Field, declaration
from ottla.protocol.wiretypes import BLOB, RECORDS, UUID_BYTES, ArrayOf, StructOf, WireType


def from_json(cls: type, values: dict[str, Any], version: int) -> dict[str, Any]:
    """Kafka's JSON with our names. Its values stay as they are: `as_json` brings ours into that form."""
    left = {name.lower(): value for name, value in values.items()}
    found = {}
    for each in declaration(cls).fields:
        squeezed = each.name.replace("_", "")
        for key in (squeezed, f"{squeezed}sizeinbytes"):  # the latter for records that are not null
            if version in each.versions and key in left:
                found[each.name] = _from_json(each.type, left.pop(key), version)
    assert not left, f"Kafka's {cls.__qualname__} has {sorted(left)}, we do not"
    return found


def _from_json(kind: WireType, value: Any, version: int) -> Any:
    match kind:
        case ArrayOf(element) if value is not None:
            return [_from_json(element, each, version) for each in value]
        case StructOf(cls) if value is not None:
            return from_json(cls, value, version)
    return value


def as_json(message: Any, version: int) -> dict[str, Any]:
    """The fields of a message in the form of Kafka's JSON."""
    return {
        each.name: _as_json(each.type, getattr(message, each.name), version)
        for each in declaration(type(message)).fields
        if version in each.versions and not _is_left_out(each, getattr(message, each.name), version)
    }


def _is_left_out(field: Field, value: Any, version: int) -> bool:
    return field.is_tagged(version) and value == field.default


def _as_json(kind: WireType, value: Any, version: int) -> Any:
    match kind:
        case _ if value is None:
            return None
        case ArrayOf(element):
            return [_as_json(element, each, version) for each in value]
        case StructOf():
            return as_json(value, version)
    if kind == UUID_BYTES:
        return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()
    if kind == BLOB:
        return base64.b64encode(value).decode()
    return len(value) if kind == RECORDS else value
