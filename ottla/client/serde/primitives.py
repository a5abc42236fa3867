"""Simple values as bytes, byte for byte as Java's serializers write them: big-endian numbers, UTF-8, UUIDs as text.

All functions have the form that producers and consumers call: `(topic, headers, value)`. Null stays null. A
deserializer raises ValueError, and nothing else, for bytes that it would not have been given by its serializer.
"""

import struct
from collections.abc import Callable
from typing import Any, NamedTuple
from uuid import UUID

from ottla.records.record import Header

Serialize = Callable[[str, tuple[Header, ...], Any], bytes | None]
Deserialize = Callable[[str, tuple[Header, ...], bytes | None], Any]

_UUID_SIZE = 36


class Pair(NamedTuple):
    """How a kind of value is written and read. None: it is bytes already."""

    serialize: Serialize | None
    deserialize: Deserialize | None


# --- numbers --------------------------------------------------------------------------------------------------------


def _integers(size: int) -> Pair:
    def serialize(topic: str, headers: tuple[Header, ...], value: Any) -> bytes | None:
        if value is None:
            return None
        if not isinstance(value, int):
            raise TypeError(f"{_shown(value)} is no integer")
        try:
            return value.to_bytes(size, "big", signed=True)
        except OverflowError:
            raise ValueError(f"{_shown(value)} does not fit into {size} bytes") from None

    def deserialize(topic: str, headers: tuple[Header, ...], data: bytes | None) -> int | None:
        if data is None:
            return None
        if len(data) != size:
            raise ValueError(f"{len(data)} bytes where an integer of {size} bytes should be")
        return int.from_bytes(data, "big", signed=True)

    return Pair(serialize, deserialize)


def _floats(form: str) -> Pair:
    layout = struct.Struct(form)
    size, pack, unpack = layout.size, layout.pack, layout.unpack

    def serialize(topic: str, headers: tuple[Header, ...], value: Any) -> bytes | None:
        if value is None:
            return None
        try:
            return pack(value)
        except (struct.error, OverflowError):
            raise ValueError(f"{_shown(value)} is no number that fits into {size} bytes") from None

    def deserialize(topic: str, headers: tuple[Header, ...], data: bytes | None) -> float | None:
        if data is None:
            return None
        if len(data) != size:
            raise ValueError(f"{len(data)} bytes where a floating-point number of {size} bytes should be")
        number: float = unpack(data)[0]
        return number

    return Pair(serialize, deserialize)


def _write_bool(topic: str, headers: tuple[Header, ...], value: Any) -> bytes | None:
    if value is None:
        return None
    if not isinstance(value, bool):
        raise TypeError(f"{_shown(value)} is neither True nor False")
    return b"\x01" if value else b"\x00"


def _read_bool(topic: str, headers: tuple[Header, ...], data: bytes | None) -> bool | None:
    if data is None:
        return None
    if data not in (b"\x00", b"\x01"):
        raise ValueError(f"{bytes(data[:8])!r} where one byte, 0 or 1, should be")
    return data == b"\x01"


# --- text -----------------------------------------------------------------------------------------------------------


def strings(encoding: str = "utf-8", errors: str = "strict") -> Pair:
    """Text in an encoding. Bytes that are none raise UnicodeDecodeError, unless `errors` says otherwise."""
    "".encode(encoding, errors)  # an unknown encoding is noticed now

    def serialize(topic: str, headers: tuple[Header, ...], value: Any) -> bytes | None:
        if value is None:
            return None
        if not isinstance(value, str):
            raise TypeError(f"{_shown(value)} is no string")
        return value.encode(encoding, errors)

    def deserialize(topic: str, headers: tuple[Header, ...], data: bytes | None) -> str | None:
        return None if data is None else str(data, encoding, errors)

    return Pair(serialize, deserialize)


def _write_uuid(topic: str, headers: tuple[Header, ...], value: Any) -> bytes | None:
    if value is None:
        return None
    if not isinstance(value, UUID):
        raise TypeError(f"{_shown(value)} is no uuid.UUID")
    return str(value).encode("ascii")


def _read_uuid(topic: str, headers: tuple[Header, ...], data: bytes | None) -> UUID | None:
    if data is None:
        return None
    text = str(data, "utf-8") if len(data) == _UUID_SIZE else ""
    found = UUID(text) if text.count("-") == 4 else None
    if found is None or str(found) != text.lower():  # UUID() also takes braces, and hyphens anywhere
        raise ValueError(
            f"{bytes(data[:_UUID_SIZE])!r} where the {_UUID_SIZE} characters of a UUID should be"
        )
    return found


def _write_void(topic: str, headers: tuple[Header, ...], value: Any) -> None:
    if value is not None:
        raise ValueError(f"{_shown(value)} where nothing may be: the serializer is `void`")


def _read_void(topic: str, headers: tuple[Header, ...], data: bytes | None) -> None:
    if data is not None:
        raise ValueError(f"{len(data)} bytes where nothing may be: the deserializer is `void`")


def _shown(value: object) -> str:
    text = repr(value) if not isinstance(value, int) or abs(value) < 2**128 else "an integer of many digits"
    return text if len(text) <= 60 else f"{text[:57]}..."


KINDS: dict[str, Pair] = {
    "bytes": Pair(None, None),
    "string": strings(),
    "int16": _integers(2),
    "int32": _integers(4),
    "int64": _integers(8),
    "float32": _floats(">f"),
    "float64": _floats(">d"),
    "bool": Pair(_write_bool, _read_bool),
    "uuid": Pair(_write_uuid, _read_uuid),
    "void": Pair(_write_void, _read_void),
}
"""By the name that a setting has."""
