"""Why a message cannot be written: names the field. Runs only after an encoder gave up, so it may be slow."""

import struct
from collections.abc import Iterator
from typing import Any, NoReturn

from ottla.core.errors import ProtocolError
from ottla.protocol.codegen import fields_in
from ottla.protocol.schema import Field, declaration, unknown_tags
from ottla.protocol.wiretypes import TEXT, UUID_BYTES, ArrayOf, Fixed, StructOf, WireType


def refuse_lost(value: Any, path: str, version: int, flexible: bool) -> NoReturn:
    """A field is set that this version does not have: say which."""
    _, _, absent = fields_in(type(value), version, flexible)
    for field in absent:
        if not field.ignorable and getattr(value, field.name) != field.default:
            raise ProtocolError(f"{path}.{field.name} is set, but version {version} does not have it")
    tags = ", ".join(map(str, unknown_tags(value)))
    raise ProtocolError(f"{path} has unknown tags ({tags}), but version {version} has no tagged fields")


def why_not_writable(message: object, version: int, error: Exception) -> str:
    """The first field that `version` cannot carry as it is; failing that, what the encoder said."""
    flexible = version in declaration(type(message)).flexible
    name = type(message).__name__
    return next(
        _complaints(message, name, version, flexible), f"{name} v{version} cannot be written: {error}"
    )


def _complaints(value: Any, path: str, version: int, flexible: bool) -> Iterator[str]:
    plain, tagged, _ = fields_in(type(value), version, flexible)
    for field in (*plain, *tagged):
        where = f"{path}.{field.name}"
        yield from _field_complaints(field, getattr(value, field.name), where, version, flexible)


def _field_complaints(field: Field, value: Any, where: str, version: int, flexible: bool) -> Iterator[str]:
    if value is None:
        if version not in field.nullable and field not in _absent_when_none(field):
            yield f"{where} is null, which version {version} does not allow"
    elif isinstance(field.type, ArrayOf):
        for index, element in enumerate(value if isinstance(value, list | tuple) else ()):
            yield from _value_complaints(field.type.element, element, f"{where}[{index}]", version, flexible)
    else:
        yield from _value_complaints(field.type, value, where, version, flexible)


def _absent_when_none(field: Field) -> tuple[Field, ...]:
    return (field,) if field.tag is not None and field.default is None else ()


def _value_complaints(
    wire_type: WireType, value: Any, where: str, version: int, flexible: bool
) -> Iterator[str]:
    if isinstance(wire_type, StructOf):
        if isinstance(value, wire_type.cls):
            yield from _complaints(value, where, version, flexible)
        else:
            yield f"{where} is a {type(value).__name__}, not a {wire_type.cls.__name__}"
    elif isinstance(wire_type, Fixed) and wire_type != UUID_BYTES:
        try:
            struct.pack(">" + wire_type.code, value)
        except struct.error as error:
            yield f"{where} = {value!r} does not fit: {error}"
    elif wire_type == TEXT:
        if not isinstance(value, str):
            yield f"{where} is a {type(value).__name__}, not a str"
        elif not flexible and len(value.encode(errors="replace")) > 32767:
            yield f"{where} has more than 32767 bytes"
