"""From a setting to the function that turns keys and values into bytes, or back.

`key_serializer`, `value_serializer`, `key_deserializer` and `value_deserializer` may be

    None, "bytes"                  values are bytes already
    a function                     `f(value)`, or Confluent's `f(value, ctx)`
    an object                      with `serialize(topic, headers, value)`, kafka-python's `serialize(topic, value)`, or
                                   `serialize(value)`; for consumers `deserialize` in the same forms
    a class of such objects        it is made without arguments
    a name                         string, json, int32... (`NAMES`)
    the name of a Java class       org.apache.kafka.common.serialization.StringSerializer

The form is found out once. Null in, null out: what is None is not shown to anybody. The functions raise whatever the
serializer raises; the producer and the consumer turn it into SerializationError and DeserializationError, because they
know of which record and whether of its key or its value.
"""

import difflib
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple, cast

from ottla.client.serde.json import JsonDeserializer, JsonSerializer
from ottla.client.serde.primitives import KINDS, Deserialize, Pair, Serialize
from ottla.core.errors import ConfigError
from ottla.records.record import Header

NAMES: dict[str, str] = {
    **{name: name for name in KINDS},
    "json": "json",
    "bytearray": "bytes",
    "bytebuffer": "bytes",
    "default": "bytes",  # Kafka 0.8: kafka.serializer.DefaultEncoder
    "str": "string",
    "utf8": "string",
    "utf-8": "string",
    "short": "int16",
    "integer": "int32",
    "int": "int32",
    "long": "int64",
    "float": "float32",
    "double": "float64",
    "boolean": "bool",
    "null": "void",
    "none": "void",
}
"""What a setting may say, and what it means: one of Java's simple types."""

_PYTHON_TYPES: dict[object, str] = {bytes: "bytes", bytearray: "bytes", str: "string"}
_JAVA = {
    "org.apache.kafka.common.serialization.": ("Serializer", "Deserializer"),
    "kafka.serializer.": ("Encoder", "Decoder"),  # Kafka 0.8
}
_CONFLUENT = "io.confluent."


class SerializationContext(NamedTuple):
    """What Confluent's serializers want to know beside the value."""

    topic: str
    field: str
    """`key` or `value`."""
    headers: tuple[Header, ...]


def serializer_of(setting: object, is_key: bool = False) -> Serialize | None:
    """The function for a setting; None if values are bytes already. Raises ConfigError."""
    setting, kind = _kind_of(setting, _WRITING)
    if kind is not None:
        return kind.serialize
    call = _caller(setting, _WRITING, is_key)

    def serialize(topic: str, headers: tuple[Header, ...], value: Any) -> bytes | None:
        if value is None:
            return None
        data = call(topic, headers, value)
        return data if type(data) is bytes else _as_bytes(data)

    return serialize


def deserializer_of(setting: object, is_key: bool = False) -> Deserialize | None:
    """The function for a setting; None if bytes shall stay bytes. Raises ConfigError."""
    setting, kind = _kind_of(setting, _READING)
    if kind is not None:
        return kind.deserialize
    call = _caller(setting, _READING, is_key)

    def deserialize(topic: str, headers: tuple[Header, ...], data: bytes | None) -> Any:
        return None if data is None else call(topic, headers, data)

    return deserialize


def _as_bytes(data: object) -> bytes | None:
    if data is None:
        return None
    if isinstance(data, bytes | bytearray | memoryview):
        return bytes(data)
    raise TypeError(f"the serializer made {type(data).__name__}, not bytes")


# --- names ----------------------------------------------------------------------------------------------------------


class _Direction(NamedTuple):
    """The words for one of the two directions."""

    method: str
    noun: str
    of_java: int
    """The index of the suffix in `_JAVA`."""


_WRITING, _READING = _Direction("serialize", "serializer", 0), _Direction("deserialize", "deserializer", 1)


def _kind_of(setting: object, direction: _Direction) -> tuple[object, Pair | None]:
    """The setting, and what it means if it is a name, None or a type."""
    if setting is None:
        return setting, KINDS["bytes"]
    if isinstance(setting, type) and setting in _PYTHON_TYPES:
        return setting, KINDS[_PYTHON_TYPES[setting]]
    if not isinstance(setting, str):
        return setting, None
    name = NAMES.get(_simple_name(setting, direction).lower())
    if name is None:
        raise ConfigError(_unknown(setting, direction))
    if name == "json":
        return (JsonSerializer() if direction is _WRITING else JsonDeserializer()), None
    return setting, KINDS[name]


def _simple_name(setting: str, direction: _Direction) -> str:
    """`String` of `org.apache.kafka.common.serialization.StringSerializer`."""
    for package, suffixes in _JAVA.items():
        if setting.startswith(package):
            wanted, other = suffixes[direction.of_java], suffixes[1 - direction.of_java]
            if setting.endswith(other) and not setting.endswith(wanted):
                raise ConfigError(
                    f"{setting} is no {direction.noun}: {setting.removesuffix(other)}{wanted} is"
                )
            return setting.removeprefix(package).removesuffix(wanted)
    return setting


def _unknown(setting: str, direction: _Direction) -> str:
    if setting.startswith(_CONFLUENT):
        return f"{setting} needs a schema registry: hand over an object of ottla.client.serde instead of its name"
    close = difflib.get_close_matches(setting.lower(), NAMES, 1)
    hint = f"; perhaps {close[0]} is meant" if close else f"; there are {', '.join([*KINDS, 'json'])}"
    return f"there is no {direction.noun} {setting!r}{hint}"


# --- functions and objects ------------------------------------------------------------------------------------------

_Call = Callable[[str, tuple[Header, ...], Any], Any]


def _caller(setting: object, direction: _Direction, is_key: bool) -> _Call:
    """The setting as a function of topic, headers and value."""
    if isinstance(setting, type) and hasattr(setting, direction.method):
        try:
            setting = setting()
        except TypeError as error:
            raise ConfigError(f"{_name(setting)} cannot be made without arguments: {error}") from error
    if is_key and hasattr(setting, "for_key"):
        setting = setting.for_key()
    method = getattr(setting, direction.method, None)
    if callable(method):
        return _of_method(cast(Callable[..., Any], method), setting, direction)
    if callable(setting):
        return _of_function(setting, direction, is_key)
    wanted = f"a function, an object with {direction.method}(topic, headers, value), or a name"
    raise ConfigError(f"{_name(setting)} is no {direction.noun}: {wanted} is")


def _of_method(method: Callable[..., Any], owner: object, direction: _Direction) -> _Call:
    _refuse_coroutines(method, owner, direction)
    if _takes(method, 3):
        return method
    if _takes(method, 2):
        return lambda topic, headers, value: method(topic, value)
    if _takes(method, 1):
        return lambda topic, headers, value: method(value)
    raise ConfigError(f"{_name(owner)}.{direction.method} does not take (topic, headers, value)")


def _of_function(function: Callable[..., Any], direction: _Direction, is_key: bool) -> _Call:
    _refuse_coroutines(function, function, direction)
    if _wants_context(function):
        field = "key" if is_key else "value"
        return lambda topic, headers, value: function(value, SerializationContext(topic, field, headers))
    if not _takes(function, 1):
        raise ConfigError(f"{_name(function)} is no {direction.noun}: it does not take one value")
    return lambda topic, headers, value: function(value)


def _refuse_coroutines(function: object, owner: object, direction: _Direction) -> None:
    if inspect.iscoroutinefunction(function):
        raise ConfigError(f"{_name(owner)} is a coroutine function: a {direction.noun} must be a plain one")


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None  # written in C: it says nothing


def _takes(function: Callable[..., Any], count: int) -> bool:
    signature = _signature(function)
    if signature is None:
        return True
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True


def _wants_context(function: Callable[..., Any]) -> bool:
    """Confluent's serializers are functions of a value and a context, which may be called `ctx`, or must be given."""
    signature = _signature(function)
    if signature is None:
        return False
    return "ctx" in list(signature.parameters)[1:2] or (not _takes(function, 1) and _takes(function, 2))


def _name(thing: object) -> str:
    return str(getattr(thing, "__qualname__", None) or type(thing).__qualname__)
