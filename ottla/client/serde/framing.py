"""Which schema a record was written with: Confluent's framing, before the payload or in a header.

    0, schema id (4 bytes)                       before the payload
    1, GUID of the schema (16 bytes)             in the header `__key_schema_id` or `__value_schema_id`, or before it

Protobuf adds which message of the file it is: a path of indexes, from the outermost message inwards. It is written as a
count and the indexes, all as zigzag varints; the path [0], which nearly every record has, as a single zero.

Raises ValueError for bytes that are not framed so, or that are cut short.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from ottla.records.record import Header

MAGIC_ID, MAGIC_GUID = 0, 1
KEY_HEADER, VALUE_HEADER = "__key_schema_id", "__value_schema_id"
INDEXES_MAX = 64  # messages are not nested deeper than that; protobuf's own parser stops at 100
_VARINT_BYTES_MAX = 5

_ID = struct.Struct(">BI")
_GUID_SIZE = 17
_FIRST = (0,)

SchemaKey = int | UUID
"""How a record names its schema."""


class Framed(NamedTuple):
    """What a frame says. The payload begins at `start`."""

    schema: SchemaKey
    indexes: tuple[int, ...]
    start: int


def id_prefix(schema_id: int, indexes: Sequence[int] | None = None) -> bytes:
    """What stands before a payload. With `indexes` the payload is Protobuf."""
    return _ID.pack(MAGIC_ID, schema_id) + (encode_indexes(indexes) if indexes is not None else b"")


def guid_header(guid: UUID, *, is_key: bool, indexes: Sequence[int] | None = None) -> Header:
    """The header that names a schema, instead of a prefix."""
    path = encode_indexes(indexes) if indexes is not None else b""
    return header_name(is_key), bytes((MAGIC_GUID,)) + guid.bytes + path


def header_name(is_key: bool) -> str:
    return KEY_HEADER if is_key else VALUE_HEADER


def read_frame(data: bytes, headers: tuple[Header, ...], header: str, *, has_indexes: bool) -> Framed:
    """The schema of a record: from its header if it has one, else from the bytes before the payload."""
    for name, value in headers:
        if name == header and value is not None:
            return _read(value, has_indexes, f"the header {header}")._replace(start=0)
    return _read(data, has_indexes, "the record")


def _read(data: bytes, has_indexes: bool, where: str) -> Framed:
    if not data:
        raise ValueError(f"{where} is empty: it names no schema")
    schema: SchemaKey
    if data[0] == MAGIC_ID:
        if len(data) < _ID.size:
            raise ValueError(f"{where} is cut short: {len(data)} bytes cannot name a schema")
        schema, start = _ID.unpack_from(data)[1], _ID.size
    elif data[0] == MAGIC_GUID:
        if len(data) < _GUID_SIZE:
            raise ValueError(f"{where} is cut short: {len(data)} bytes cannot name a schema")
        schema, start = UUID(bytes=bytes(data[1:_GUID_SIZE])), _GUID_SIZE
    else:
        raise ValueError(f"{where} begins with byte {data[0]}, which names no schema: 0 or 1 would")
    if not has_indexes:
        return Framed(schema, (), start)
    indexes, start = decode_indexes(data, start)
    return Framed(schema, indexes, start)


# --- message indexes ------------------------------------------------------------------------------------------------


def encode_indexes(indexes: Sequence[int]) -> bytes:
    if tuple(indexes) == _FIRST:
        return b"\x00"
    return b"".join(_zigzag(each) for each in (len(indexes), *indexes))


def decode_indexes(data: bytes, start: int) -> tuple[tuple[int, ...], int]:
    """The path, and where the payload begins."""
    count, start = _unzigzag(data, start)
    if count == 0:
        return _FIRST, start
    if not 0 < count <= INDEXES_MAX:
        raise ValueError(f"a path of {count} message indexes")
    indexes = []
    for _ in range(count):
        index, start = _unzigzag(data, start)
        if index < 0:
            raise ValueError(f"{index} is no message index")
        indexes.append(index)
    return tuple(indexes), start


def _zigzag(value: int) -> bytes:
    rest, out = value << 1, bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def _unzigzag(data: bytes, start: int) -> tuple[int, int]:
    value = 0
    for place in range(_VARINT_BYTES_MAX):
        if start + place >= len(data):
            raise ValueError("the record is cut short within its message indexes")
        byte = data[start + place]
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value >> 1 ^ -(value & 1), start + place + 1
    raise ValueError("a message index has too many bytes")
