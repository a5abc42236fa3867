"""kio as an oracle: our plain values to its dataclasses and back.

kio has a class per message and version. It shows durations, instants and error codes as Python types, a zero
uuid as None, and appends an underscore to names that Python reserves.
"""

import dataclasses
import datetime
import functools
import io
import typing
import uuid
from typing import Any

from kio.index import KioIndexError, load_entity_schema
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from ottla.protocol.schema import NULL_UUID, declaration

_MILLISECOND = datetime.timedelta(milliseconds=1)
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def entity_class(cls: type, version: int) -> type | None:
    """kio's class for one of ours, or None when it has no such version."""
    declared = declaration(cls)
    try:
        if declared.api_key is not None:
            kind = EntityType.request if cls.__name__.endswith("Request") else EntityType.response
            return load_entity_schema(api_key_map[declared.api_key], version, kind)
        name = "".join(f"_{c.lower()}" if c.isupper() else c for c in cls.__name__).lstrip("_")
        return load_entity_schema(name, version, EntityType.data)
    except (KeyError, KioIndexError):
        return None


def encode(entity: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


def decode(entity: type, data: bytes) -> Any:
    value, size = entity_reader(entity)(data, 0)
    assert size == len(data), f"kio left {len(data) - size} bytes of {entity.__name__} unread"
    return value


def to_entity(entity: type, values: dict[str, Any]) -> Any:
    slots = _slots(entity, tuple(values))
    return entity(**{slots[name].name: _to_kio(slots[name], value) for name, value in values.items()})


def from_entity(value: Any, names: dict[str, Any]) -> dict[str, Any]:
    """The plain form of a kio value; `names` is our plain form, for the spelling of names."""
    slots = _slots(type(value), tuple(names))
    return {
        name: _from_kio(slots[name], getattr(value, slots[name].name), like) for name, like in names.items()
    }


@functools.cache
def _slots(entity: type, names: tuple[str, ...]) -> dict[str, "dataclasses.Field[Any]"]:
    """Our field names to kio's fields. Both sides must be used up, so that nobody has a field too many."""
    left = {each.name: each for each in dataclasses.fields(entity)}
    found = {}
    for name in names:
        spellings = (name, f"{name}_", name.removesuffix("_ms"), name.replace("kraft", "k_raft"))
        found[name] = left.pop(next(each for each in spellings if each in left))
    assert not left, f"{entity.__qualname__} has {sorted(left)}, we do not"
    return found


def _to_kio(slot: "dataclasses.Field[Any]", value: Any) -> Any:
    kind = slot.metadata.get("kafka_type")
    if isinstance(value, list):
        return tuple(_to_kio(slot, each) for each in value)
    if isinstance(value, dict):
        return to_entity(_nested(slot.type), value)
    if value is None:
        return None
    if kind in ("timedelta_i32", "timedelta_i64"):
        return value * _MILLISECOND
    if kind == "datetime_i64":
        return None if value == -1 else _EPOCH + value * _MILLISECOND
    if kind == "error_code":
        return ErrorCode(value)
    if kind == "uuid":
        return None if value == NULL_UUID else value
    return value


def _from_kio(slot: "dataclasses.Field[Any]", value: Any, like: Any) -> Any:
    if isinstance(value, tuple):
        sample = like or [None] * len(value)
        return [_from_kio(slot, each, sample[index]) for index, each in enumerate(value)]
    if dataclasses.is_dataclass(value):
        return from_entity(value, like)
    if isinstance(value, datetime.timedelta):
        return value // _MILLISECOND
    if isinstance(value, datetime.datetime):
        return (value - _EPOCH) // _MILLISECOND
    if value is None and slot.metadata.get("kafka_type") == "datetime_i64":
        return -1
    if value is None and slot.metadata.get("kafka_type") == "uuid":
        return NULL_UUID
    if isinstance(value, ErrorCode):
        return int(value)
    assert value is None or isinstance(value, int | float | str | bytes | uuid.UUID)
    return value


def _nested(annotation: Any) -> type:
    """The dataclass inside `X`, `X | None`, `tuple[X, ...]` or `tuple[X, ...] | None`."""
    if dataclasses.is_dataclass(annotation) and isinstance(annotation, type):
        return annotation
    for inner in typing.get_args(annotation):
        if inner not in (type(None), ...):
            return _nested(inner)
    raise TypeError(annotation)
