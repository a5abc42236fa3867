"""Random messages, and messages as plain values: what the tests against foreign codecs have in common.

Everything here is driven by our own declarations, so a new message or version is covered the day it is
declared. Numbers and strings are seeded: a failure repeats.
"""

import importlib
import pkgutil
import random
import string
import uuid
from collections.abc import Iterator
from typing import Any

import ottla.protocol.messages
from ottla.protocol.codec import decode, encode
from ottla.protocol.schema import Field, declaration
from ottla.protocol.wiretypes import (
    BLOB,
    NULL_UUID,
    RECORDS,
    TEXT,
    UUID_BYTES,
    ArrayOf,
    Fixed,
    StructOf,
    WireType,
)

MESSAGES_PER_VERSION = 5
_PACKAGE = "ottla.protocol.messages."
_INTEGER_BITS = {"b": 7, "h": 15, "i": 31, "q": 63, "H": 16, "I": 32}
_INSTANT_MAX = 4_102_444_800_000  # the year 2100: oracles that know dates cannot hold all of int64


def message_classes() -> Iterator[type]:
    """Every message we declare: requests, responses, headers, records of internal topics and blobs."""
    names = [each.name for each in pkgutil.iter_modules(ottla.protocol.messages.__path__, _PACKAGE)]
    for name in ["ottla.protocol.framing", *names]:
        for each in vars(importlib.import_module(name)).values():
            is_declared = isinstance(each, type) and "__declaration__" in vars(each)
            if is_declared and declaration(each).is_message:
                yield each


def api_classes() -> Iterator[type]:
    return (each for each in message_classes() if declaration(each).api_key is not None)


def to_bytes(message: Any, version: int) -> bytes:
    return b"".join(encode(message, version))


def from_bytes(cls: type, data: bytes, version: int) -> Any:
    message, end = decode(cls, data, version)
    assert end == len(data), f"{cls.__name__} v{version}: {len(data) - end} bytes left over"
    return message


def random_messages(cls: type, version: int) -> list[Any]:
    """A few messages: as empty as can be, with everything filled, and some in between."""
    seeded = random.Random(f"{cls.__name__} {version}")
    fills = [0.0, 1.0] + [0.7] * (MESSAGES_PER_VERSION - 2)
    return [_random_struct(cls, version, seeded, fill) for fill in fills]


def add_unknown_tags(message: Any, version: int) -> Any:
    """Give every struct of a flexible message a tagged field that nobody has declared."""
    message.unknown_tags = {1000: b"\0\1", 70_000: b""}
    for each in declaration(type(message)).fields:
        value = getattr(message, each.name)
        for item in value if isinstance(value, list) else [value]:
            if version in each.versions and hasattr(type(item), "__declaration__"):
                add_unknown_tags(item, version)
    return message


def plain(message: Any, version: int) -> dict[str, Any]:
    """The fields that `version` has, as dicts, lists and scalars.

    A tagged struct that is absent stands for one with default values: that is how the others show it.
    """
    values = {}
    for each in declaration(type(message)).fields:
        if version in each.versions:
            value = getattr(message, each.name)
            if value is None and isinstance(each.type, StructOf) and version not in each.nullable:
                value = each.type.cls()
            values[each.name] = _plain_value(each.type, value, version)
    return values


def _plain_value(kind: WireType, value: Any, version: int) -> Any:
    match kind:
        case _ if value is None:
            return None
        case ArrayOf(element):
            return [_plain_value(element, each, version) for each in value]
        case StructOf():
            return plain(value, version)
        case _ if kind in (BLOB, RECORDS):
            return bytes(value)
    return value


def _random_struct(cls: type, version: int, seeded: random.Random, fill: float) -> Any:
    values = {}
    for each in declaration(cls).fields:
        if version not in each.versions:
            continue
        if each.has_default and seeded.random() >= fill:
            continue
        if version in each.nullable and seeded.random() >= fill:
            values[each.name] = None
        else:
            values[each.name] = _random_value(each, each.type, version, seeded, fill)
    return cls(**values)


def _random_value(field: Field, kind: WireType, version: int, seeded: random.Random, fill: float) -> Any:
    match kind:
        case ArrayOf(element):
            count = 0 if fill == 0 else seeded.randint(1, 3)
            return [_random_value(field, element, version, seeded, fill) for _ in range(count)]
        case StructOf(cls):
            made = _random_struct(cls, version, seeded, fill)
            # The others leave a tagged struct of defaults out, and so is it absent in what we compare.
            may_be_absent = kind is field.type and field.is_tagged(version) and version not in field.nullable
            return None if may_be_absent and made == cls() else made
        case Fixed():
            return _random_number(field, kind, seeded, fill)
    if fill == 0:
        return "" if kind == TEXT else b""
    if kind == TEXT:
        letters = string.ascii_letters + string.digits + "-_.äß€😀"
        return "".join(seeded.choices(letters, k=seeded.choice((1, 3, 20, 150))))
    return seeded.randbytes(seeded.choice((1, 10, 200)))


def _random_number(field: Field, kind: Fixed, seeded: random.Random, fill: float) -> Any:
    if kind == UUID_BYTES:
        return NULL_UUID if fill == 0 else uuid.UUID(bytes=seeded.randbytes(16))
    if kind.code == "?":
        return seeded.random() < 0.5 if 0 < fill < 1 else fill == 1 and field.default is not True
    if kind.code == "d":
        return seeded.uniform(-1e12, 1e12) if fill else 0.0
    if fill == 0:
        return 0
    if field.name.endswith("error_code"):
        # 35 (UNSUPPORTED_VERSION) would make other codecs read ApiVersions as v0, see KIP-511.
        return seeded.choice([-1, *range(1, 35), *range(36, 101)])
    if kind.code == "q" and ("time" in field.name or field.name.endswith("_ms")):
        return seeded.randint(1, _INSTANT_MAX)
    bits = seeded.randint(1, _INTEGER_BITS[kind.code])
    sign = 1 if kind.code in "HI" else seeded.choice((1, -1))
    return sign * seeded.randrange(1, 1 << bits)
