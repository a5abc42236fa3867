"""kafka-python as an oracle: our plain values to its data containers and back.

kafka-python has one class per message for all versions. It shows a zero uuid as None, authorized operations
as sets of bits, and calls both kinds of them the same.
"""

import functools
import importlib
import pkgutil
import uuid
import warnings
from typing import Any

with warnings.catch_warnings():
    # It reads its schemas, at import, through a function that Python has deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka.protocol
    from kafka.protocol.api_data import ApiData
    from kafka.protocol.api_message import ApiMessage

from ottla.protocol.schema import NULL_UUID

_RENAMED = dict.fromkeys(
    ("cluster_authorized_operations", "topic_authorized_operations"), "authorized_operations"
)


@functools.cache
def _classes() -> dict[str, type]:
    """All message classes of kafka-python, by Kafka's name for them."""
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        modules = [importlib.import_module(name) for name in _module_names()]
    for module in modules:
        for each in vars(module).values():
            if isinstance(each, type) and issubclass(each, ApiMessage | ApiData) and "_json" in vars(each):
                found[each.name] = each
    return found


def _module_names() -> list[str]:
    names = [each.name for each in pkgutil.walk_packages(kafka.protocol.__path__, "kafka.protocol.")]
    return [name for name in names if ".old" not in name and not name.endswith("generate_stubs")]


def container_class(cls: type, version: int) -> Any:
    """kafka-python's class for one of ours, or None when it has no such message or version."""
    found: Any = _classes().get(cls.__name__)
    if found is None:
        return None
    first, last = found.valid_versions
    return found if first <= version <= last else None


def encode(container: Any, version: int) -> bytes:
    return bytes(container.encode(version=version, header=False))


def decode(cls: Any, data: bytes, version: int) -> Any:
    if issubclass(cls, ApiMessage):
        # Past the override of ApiVersionsResponse, which reads whatever carries an error as v0.
        return ApiMessage.decode.__func__(cls, data, version=version)
    return cls.decode(data, version=version, header=False)


def to_container(cls: Any, values: dict[str, Any], version: int) -> Any:
    arguments = {}
    for name, value in values.items():
        slot = _slot(cls, name)
        if slot._tag is not None and _is_default(slot, value, version):
            continue  # a tagged struct or uuid that is passed is written, whatever it holds
        arguments[slot.name] = _to_theirs(slot, value, version)
    return cls(version=version, **arguments)


def from_container(container: Any, like: dict[str, Any]) -> dict[str, Any]:
    """The plain form of a container; `like` is our plain form, for the names of fields."""
    values = {}
    for name, value in like.items():
        slot = _slot(container, name)
        theirs = getattr(container, slot.name)
        if theirs is None and slot._tag is not None and isinstance(value, dict):
            theirs = slot.data_class()  # a tagged struct that is absent stands for one with default values
        values[name] = _from_theirs(theirs, value)
    return values


def _slot(container: Any, name: str) -> Any:
    fields = container._struct.fields
    return fields[name] if name in fields else fields[_RENAMED[name]]


def _is_default(slot: Any, value: Any, version: int) -> bool:
    if not isinstance(value, dict):
        return bool(value == NULL_UUID)
    return from_container(slot.data_class(version=version), value) == value


def _to_theirs(slot: Any, value: Any, version: int) -> Any:
    if isinstance(value, list) and slot.is_struct_array():
        return [to_container(slot.data_class, each, version) for each in value]
    if isinstance(value, dict):
        return to_container(slot.data_class, value, version)
    if slot.name == "authorized_operations":
        return {bit for bit in range(32) if value >> bit & 1}
    return value


def _from_theirs(value: Any, like: Any) -> Any:
    if isinstance(value, set):
        bits = sum(1 << bit for bit in value)
        return bits - (1 << 32) if 31 in value else bits
    if value is None and isinstance(like, int):
        return -(1 << 31)  # its None for operations that nobody asked for
    if isinstance(value, list | tuple):
        sample = like or [None] * len(value)
        return [_from_theirs(each, sample[index]) for index, each in enumerate(value)]
    if hasattr(value, "_struct"):
        return from_container(value, like)
    if isinstance(like, uuid.UUID):
        return value or NULL_UUID
    if isinstance(value, memoryview):
        return bytes(value)
    return value
