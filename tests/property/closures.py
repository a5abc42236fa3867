"""The slow codec: a closure per field, straight from the declaration. The generated one must agree with it.

It shares nothing with the generators but the declarations: no runs of fields, no fast paths, one value at a time.
"""

import copy
import io
import struct
import uuid
from typing import Any

from ottla.core.errors import ProtocolError
from ottla.protocol.schema import Field, declaration
from ottla.protocol.wiretypes import BLOB, TEXT, UUID_BYTES, ArrayOf, Fixed, StructOf, WireType


class Reader:
    """Bytes that refuse to be shorter than asked for."""

    def __init__(self, data: bytes) -> None:
        self.stream = io.BytesIO(data)

    def take(self, size: int) -> bytes:
        data = self.stream.read(size) if size >= 0 else b""
        if len(data) != size:
            raise ProtocolError("too short")
        return data

    def number(self, code: str) -> Any:
        return struct.unpack(">" + code, self.take(struct.calcsize(">" + code)))[0]

    def uvarint(self) -> int:
        value = 0
        for shift in range(0, 35, 7):
            byte = self.number("B")
            value |= (byte & 127) << shift
            if byte < 128:
                if value >= 1 << 32:
                    break
                return value
        raise ProtocolError("varint too long")

    def size(self, code: str, compact: bool) -> int | None:
        size = self.uvarint() - 1 if compact else self.number(code)
        if size < -1:
            raise ProtocolError("negative")
        return None if size == -1 else size


def uvarint(value: int) -> bytes:
    groups = [value >> shift & 127 for shift in range(0, max(value.bit_length(), 1), 7)]
    return bytes([group | 128 for group in groups[:-1]] + groups[-1:])


def size(value: int | None, code: str, compact: bool) -> bytes:
    if compact:
        return uvarint(0 if value is None else value + 1)
    return struct.pack(">" + code, -1 if value is None else value)


def write(message: Any, version: int) -> bytes:
    return write_struct(message, version, version in declaration(type(message)).flexible)


def write_struct(value: Any, version: int, flexible: bool) -> bytes:
    out, tags = b"", dict(value.unknown_tags)
    for each in declaration(type(value)).fields:
        if version not in each.versions:
            continue
        got = getattr(value, each.name)
        if each.tag is not None and version in each.tagged:
            if flexible and got != each.default:
                tags[each.tag] = write_field(each, got, version, flexible)
        else:
            out += write_field(each, got, version, flexible)
    if flexible:
        out += uvarint(len(tags))
        for tag, data in sorted(tags.items()):
            out += uvarint(tag) + uvarint(len(data)) + data
    return out


def write_field(field: Field, value: Any, version: int, flexible: bool) -> bytes:
    if value is None and isinstance(field.type, StructOf) and field.is_tagged(version):
        return b"\x00"
    return write_value(
        field.type, value, version in field.nullable, flexible and field.compact, version, flexible
    )


def write_value(
    kind: WireType, value: Any, nullable: bool, compact: bool, version: int, flexible: bool
) -> bytes:
    match kind:
        case Fixed():
            return value.bytes if kind == UUID_BYTES else struct.pack(">" + kind.code, value)
        case StructOf():
            if value is None:
                return b"\xff"
            return b"\x01" * nullable + write_struct(value, version, flexible)
        case ArrayOf(element):
            if value is None:
                return size(None, "i", compact)
            items = [write_value(element, each, False, compact, version, flexible) for each in value]
            return size(len(items), "i", compact) + b"".join(items)
    if value is None:
        return size(None, "h" if kind == TEXT else "i", compact)
    data = value.encode() if kind == TEXT else b"".join(value) if isinstance(value, list) else bytes(value)
    return size(len(data), "h" if kind == TEXT else "i", compact) + data


def read(cls: type, data: bytes, version: int) -> Any:
    """The message that fills `data`."""
    reader = Reader(data)
    made = read_struct(cls, reader, version, version in declaration(cls).flexible)
    if reader.stream.read(1):
        raise ProtocolError("trailing bytes")
    return made


def read_struct(cls: type, reader: Reader, version: int, flexible: bool) -> Any:
    values: dict[str, Any] = {}
    tagged: dict[int, Field] = {}
    for each in declaration(cls).fields:
        if version in each.versions and version not in each.tagged:
            values[each.name] = read_field(each, reader, version, flexible)
        else:
            values[each.name] = copy.deepcopy(each.default)
            if version in each.tagged and flexible:
                tagged[each.tag] = each
    if flexible:
        values["unknown_tags"] = read_tags(tagged, reader, values, version)
    return cls(**values)


def read_tags(
    tagged: dict[int, Field], reader: Reader, values: dict[str, Any], version: int
) -> dict[int, bytes]:
    unknown, last = {}, -1
    for _ in range(reader.uvarint()):
        tag, length = reader.uvarint(), reader.uvarint()
        if tag <= last:
            raise ProtocolError("tags out of order")
        last, data = tag, reader.take(length)
        if tag in tagged:
            inner = Reader(data)
            values[tagged[tag].name] = read_field(tagged[tag], inner, version, True)
            if inner.stream.read(1):
                raise ProtocolError("tag too long")
        else:
            unknown[tag] = data
    return unknown


def read_field(field: Field, reader: Reader, version: int, flexible: bool) -> Any:
    if isinstance(field.type, StructOf) and version in field.nullable and field.is_tagged(version):
        is_null = reader.number("b") < 1
        return None if is_null else read_struct(field.type.cls, reader, version, flexible)
    return read_value(
        field.type, reader, version in field.nullable, flexible and field.compact, version, flexible
    )


def read_value(
    kind: WireType, reader: Reader, nullable: bool, compact: bool, version: int, flexible: bool
) -> Any:
    match kind:
        case Fixed():
            return uuid.UUID(bytes=reader.take(16)) if kind == UUID_BYTES else reader.number(kind.code)
        case StructOf(cls):
            if nullable and reader.number("b") < 0:
                return None
            return read_struct(cls, reader, version, flexible)
    length = reader.size("h" if kind == TEXT else "i", compact)
    if length is None:
        if not nullable:
            raise ProtocolError("null")
        return None
    if isinstance(kind, ArrayOf):
        return [read_value(kind.element, reader, False, compact, version, flexible) for _ in range(length)]
    data = reader.take(length)
    if kind == TEXT:
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise ProtocolError("not UTF-8") from None
    return data if kind == BLOB else memoryview(data)
