r"""Bytes as Java's deserializers, and `toString` behind them, make text of them: what `--value-deserializer` names.

A class is known by its last name. For a null they get the text that stands for it, as Java's get it: an Integer of
"null" is 1853189228. `ByteArrayDeserializer` leaves bytes as they are; in Java it prints where an array lies in memory.
"""

import struct
import uuid
from collections.abc import Callable

from ottla.cli.classic.java import double_text
from ottla.core.errors import OttlaError

Text = Callable[[bytes], bytes]
_FLOAT_DIGITS_MAX = 9


class SerializationError(OttlaError):
    """These bytes are not of that kind."""


def deserializer(name: str) -> Text | None:
    """The one that a class of this name is; None if there is none here, and bytes stay as they are."""
    return _KNOWN.get(name.rpartition(".")[2])


def _number(layout: str, show: Callable[[float], str], kind: str) -> Text:
    shape = struct.Struct(layout)

    def text(data: bytes) -> bytes:
        if len(data) != shape.size:
            raise SerializationError(f"Size of data received by {kind}Deserializer is not {shape.size}")
        return show(shape.unpack(data)[0]).encode()

    return text


def _float_text(value: float) -> str:
    """As `Float.toString`: the shortest digits that mean this float."""
    for digits in range(1, _FLOAT_DIGITS_MAX + 1):
        short = float(f"{value:.{digits}g}")
        try:
            if struct.pack(">f", short) == struct.pack(">f", value):
                return double_text(short)
        except OverflowError:  # rounded up beyond what a float holds: more digits are needed
            continue
    return double_text(value)  # NaN, or infinite


def _boolean(data: bytes) -> bytes:
    if len(data) != 1:
        raise SerializationError("Size of data received by BooleanDeserializer is not 1")
    if data[0] > 1:
        raise SerializationError(f"Unexpected byte received by BooleanDeserializer: {data[0]}")
    return b"true" if data[0] else b"false"


def _uuid(data: bytes) -> bytes:
    try:
        return str(uuid.UUID(data.decode())).encode()
    except ValueError:
        raise SerializationError("Error parsing data into UUID") from None


def _bytes(data: bytes) -> bytes:
    return b"".join(
        bytes([each]) if 0x20 <= each < 0x7F and each != ord("\\") else b"\\x%02X" % each for each in data
    )


def _void(_: bytes) -> bytes:
    raise SerializationError("Data should be null for a VoidDeserializer.")


_KNOWN: dict[str, Text] = {
    "StringDeserializer": lambda data: data.decode("utf-8", "replace").encode(),
    "ByteArrayDeserializer": lambda data: data,
    "ByteBufferDeserializer": lambda data: (
        f"java.nio.HeapByteBuffer[pos=0 lim={len(data)} cap={len(data)}]".encode()
    ),
    "BytesDeserializer": _bytes,
    "ShortDeserializer": _number(">h", lambda value: str(int(value)), "Short"),
    "IntegerDeserializer": _number(">i", lambda value: str(int(value)), "Integer"),
    "LongDeserializer": _number(">q", lambda value: str(value), "Long"),
    "FloatDeserializer": _number(">f", _float_text, "Float"),
    "DoubleDeserializer": _number(">d", double_text, "Double"),
    "BooleanDeserializer": _boolean,
    "UUIDDeserializer": _uuid,
    "VoidDeserializer": _void,
}
