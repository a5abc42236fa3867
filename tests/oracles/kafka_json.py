"""Messages in the form of the JSON that Apache Kafka prints, and their fields as its schemas list them.

Kafka shows bytes and uuids in base64, of records only the size, and leaves out tagged fields that hold their
default.
"""

import base64
from typing import Any

from ottla.protocol.schema import Field, declaration
from ottla.protocol.wiretypes import BLOB, RECORDS, UUID_BYTES, ArrayOf, Fixed, StructOf, Variable, WireType

_NUMBERS = {
    "b": "int8",
    "h": "int16",
    "i": "int32",
    "q": "int64",
    "H": "uint16",
    "I": "uint32",
    "d": "float64",
    "?": "boolean",
    UUID_BYTES.code: "uuid",
}


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


def schema_text(cls: type, version: int) -> str:
    """The fields of one version as the Java oracle describes its own."""
    fields = [each for each in declaration(cls).fields if version in each.versions]
    tagged = sorted((each for each in fields if each.is_tagged(version)), key=lambda each: each.tag or 0)
    texts = [f"{each.name}:{_type_text(each, each.type, version)}" for each in fields if each not in tagged]
    texts += [f"{each.name}#{each.tag}:{_type_text(each, each.type, version)}" for each in tagged]
    return "{" + ",".join(texts) + "}"


def _type_text(field: Field, kind: WireType, version: int) -> str:
    mark = "?" if kind is field.type and version in field.nullable else ""
    match kind:
        case ArrayOf(element):
            return f"[{_type_text(field, element, version)}]{mark}"
        case StructOf(cls):
            return schema_text(cls, version) + mark
        case Variable(name):
            return name if kind == RECORDS else name + mark
        case Fixed(code):
            return _NUMBERS[code]
