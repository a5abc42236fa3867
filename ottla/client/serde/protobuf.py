"""Protobuf, with the schemas in a registry: a message behind the id of its file and its path in that.

A file is registered as Confluent's clients do: its descriptor in base64, and before it the files that it imports,
each in the subject of its name. Google's own files are in every registry.
"""

import base64
import binascii
from collections.abc import Callable
from typing import Any

from ottla.client.serde.extras import library
from ottla.client.serde.framing import KEY_HEADER, VALUE_HEADER, read_frame
from ottla.client.serde.reading import ReadSchemas
from ottla.client.serde.schema_registry import (
    PROTOBUF,
    Reference,
    Schema,
    SchemaRegistry,
    referenced,
)
from ottla.client.serde.writing import WrittenSchema
from ottla.records.record import Header

_WHAT = "Protobuf"
_KNOWN = ("google/protobuf/", "google/type/", "confluent/")  # no registry need be told of these


def indexes_of(descriptor: Any) -> list[int]:
    """The path of a message in its file, from the outermost one inwards."""
    path: list[int] = []
    while descriptor is not None:
        outer = descriptor.containing_type
        siblings = outer.nested_types if outer is not None else descriptor.file.message_types_by_name.values()
        path.insert(0, [each.name for each in siblings].index(descriptor.name))
        descriptor = outer
    return path


def schema_of(registry: SchemaRegistry, file: Any, register: Callable[[str, Schema], Any]) -> Schema:
    """A file as a schema. What it imports goes to `register` first."""
    references = []
    for each in file.dependencies:
        if not each.name.startswith(_KNOWN):
            placed = register(each.name, schema_of(registry, each, register))
            references.append(Reference(each.name, placed.subject, placed.version))
    return Schema(base64.b64encode(file.serialized_pb).decode("ascii"), PROTOBUF, tuple(references))


class ProtobufSerializer:
    """Messages of one class. Other options: those of `WrittenSchema`."""

    def __init__(self, registry: SchemaRegistry, message: Any, **options: Any) -> None:
        library("google.protobuf.message", _WHAT)
        self._message = message
        self._registry = registry
        self._options = options
        self._written = self._written_for({})

    def _written_for(self, more: dict[str, Any]) -> WrittenSchema:
        options = {**more, **self._options}
        descriptor, registry = self._message.DESCRIPTOR, self._registry
        register = registry.register if options.get("auto_register", True) else registry.lookup
        return WrittenSchema(
            registry,
            lambda: schema_of(registry, descriptor.file, register),
            descriptor.full_name,
            indexes=indexes_of(descriptor),
            **options,
        )

    def for_key(self) -> "ProtobufSerializer":
        """The same for keys."""
        return ProtobufSerializer(self._registry, self._message, **{"is_key": True, **self._options})

    def header(self, topic: str) -> Header:
        """The header for records of this topic, with `schema_id_in="header"`."""
        return self._written.header(topic)

    async def prepare(self, *topics: str) -> None:
        """Register for these topics now, without holding up the loop."""
        await self._written.prepare(*topics)

    def serialize(self, topic: str, headers: tuple[Header, ...], value: Any) -> bytes | None:
        if value is None:
            return None
        if not isinstance(value, self._message):
            raise TypeError(f"{type(value).__name__} is no {self._message.DESCRIPTOR.full_name}")
        return self._written.frame(topic, headers, value.SerializeToString())


class ProtobufDeserializer:
    """Messages of a class, whatever version of its file they were written with; the registry is not needed for that.

    Without a class they become messages of the file that they name, which the registry has.
    """

    def __init__(
        self, message: Any = None, *, registry: SchemaRegistry | None = None, is_key: bool = False
    ) -> None:
        self._decode_error = library("google.protobuf.message", _WHAT).DecodeError
        if message is None and registry is None:
            raise TypeError(
                "ProtobufDeserializer needs the class of the messages, or a registry that has their file"
            )
        self._message, self._registry = message, registry
        self._header = KEY_HEADER if is_key else VALUE_HEADER
        self._files: ReadSchemas[Any] | None = None
        if message is None and registry is not None:
            parse = _Files(registry).parse
            self._files = ReadSchemas(registry, parse, kind=PROTOBUF, is_key=is_key, has_indexes=True)

    def for_key(self) -> "ProtobufDeserializer":
        """The same for keys."""
        return ProtobufDeserializer(self._message, registry=self._registry, is_key=True)

    async def prepare(self, *topics: str) -> None:
        """Look up the schemas of these topics now, without holding up the loop."""
        if self._files is not None:
            await self._files.prepare(*topics)

    def deserialize(self, topic: str, headers: tuple[Header, ...], data: bytes | None) -> Any:
        if data is None:
            return None
        if self._files is None:
            message, start = self._message, read_frame(data, headers, self._header, has_indexes=True).start
        else:
            file, framed = self._files.of(headers, data)
            message, start = _message_at(file, framed.indexes), framed.start
        try:
            return message.FromString(data[start:])
        except self._decode_error as error:
            raise ValueError(f"no {message.DESCRIPTOR.full_name}: {error}") from error


class _Files:
    """Files of descriptors from a registry. Each has a pool of its own: two versions have the same names in them."""

    def __init__(self, registry: SchemaRegistry) -> None:
        self._registry = registry
        self._pools = library("google.protobuf.descriptor_pool", _WHAT)
        self._descriptors = library("google.protobuf.descriptor_pb2", _WHAT)

    def parse(self, schema: Schema) -> Any:
        pool = self._pools.DescriptorPool()
        self._add_known(pool)
        for name, each in referenced(self._registry, schema):
            self._add(pool, each, name)
        return self._add(pool, schema, None)

    def _add(self, pool: Any, schema: Schema, name: str | None) -> Any:
        try:
            file = self._descriptors.FileDescriptorProto.FromString(
                base64.b64decode(schema.text, validate=True)
            )
        except (binascii.Error, ValueError, library("google.protobuf.message", _WHAT).DecodeError) as error:
            raise ValueError(f"the Protobuf schema is no file descriptor in base64: {error}") from error
        file.name = name or file.name or "schema.proto"
        try:
            pool.Add(file)
            return pool.FindFileByName(file.name)
        except (TypeError, KeyError) as error:  # what the pool raises for a file that contradicts itself
            raise ValueError(f"the Protobuf schema cannot be used: {error}") from error

    def _add_known(self, pool: Any) -> None:
        for name in (
            "any",
            "duration",
            "empty",
            "field_mask",
            "struct",
            "timestamp",
            "wrappers",
            "descriptor",
        ):
            module = library(f"google.protobuf.{name}_pb2", _WHAT)
            pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)


def _message_at(file: Any, path: tuple[int, ...]) -> Any:
    """The class of the message at a path of indexes."""
    messages = list(file.message_types_by_name.values())
    found: Any = None
    for index in path:
        if index >= len(messages):
            raise ValueError(f"the file {file.name} has no message at {list(path)}")
        found = messages[index]
        messages = list(found.nested_types)
    return library("google.protobuf.message_factory", _WHAT).GetMessageClass(found)
