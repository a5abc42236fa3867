"""Avro, with the schemas in a registry: one binary record behind the id of its schema.

The schema `bytes` is an exception of Confluent's serializers, kept here: such a value is written as it is, without its
size before it.
"""

import json
from collections.abc import Callable
from io import BytesIO
from typing import Any, NamedTuple

from ottla.client.serde.avro_check import check_nesting, check_value, checker
from ottla.client.serde.extras import library
from ottla.client.serde.reading import ReadSchemas
from ottla.client.serde.schema_registry import (
    AVRO,
    Reference,
    Schema,
    SchemaRegistry,
    referenced,
)
from ottla.client.serde.writing import WrittenSchema, text_of
from ottla.records.record import Header

_WHAT = "Avro"


class ParsedAvro(NamedTuple):
    """A schema as fastavro has it."""

    schema: Any
    check: Callable[[bytes], None] | None
    """Raises ValueError for what the reader must not be shown."""
    is_plain_bytes: bool
    name: str | None


def parse_avro(registry: SchemaRegistry, schema: Schema) -> ParsedAvro:
    """The schema, with what it refers to. Raises ValueError if it is none."""
    fastavro = library("fastavro", _WHAT)
    named: dict[str, Any] = {}
    try:
        for _, each in referenced(registry, schema):
            fastavro.parse_schema(_loaded(each.text), named)
        raw = _loaded(schema.text)
        parsed = fastavro.parse_schema(raw, named)
        check = checker(parsed, named)
    except (
        fastavro.schema.SchemaParseException,
        KeyError,
        TypeError,
        AttributeError,
        RecursionError,
    ) as error:
        raise ValueError(f"the Avro schema cannot be used: {type(error).__name__} {error}") from error
    if schema.references:
        parsed = _with_names(parsed, named)
    is_plain = raw == "bytes" or (
        isinstance(raw, dict) and raw.get("type") == "bytes" and "logicalType" not in raw
    )
    return ParsedAvro(parsed, check, is_plain, parsed.get("name") if isinstance(parsed, dict) else None)


def _loaded(text: str) -> Any:
    try:
        schema = json.loads(text)
    except RecursionError:
        raise ValueError("the Avro schema is nested too deeply") from None
    check_nesting(schema)
    return schema


def _with_names(parsed: Any, named: dict[str, Any]) -> Any:
    """fastavro looks for named types in the schema itself: those of referenced schemas must be in it."""
    if isinstance(parsed, list):
        return [_with_names(each, named) for each in parsed]
    if isinstance(parsed, str):
        return _with_names(named[parsed], named) if parsed in named else parsed
    return {**parsed, "__fastavro_parsed__": True, "__named_schemas": named}


def _text(schema: str | dict[str, Any] | list[Any]) -> str:
    """The schema as JSON. A bare name, as in `string`, is taken too."""
    is_bare = isinstance(schema, str) and schema.strip()[:1] not in ('"', "{", "[")
    return json.dumps(schema) if is_bare else text_of(schema, json.dumps)


class AvroSerializer:
    """Values as Avro. `to_dict` turns your objects into what Avro takes.

    The schema is JSON text, or the object that it stands for. Other options: those of `WrittenSchema`.
    """

    def __init__(
        self,
        registry: SchemaRegistry,
        schema: str | dict[str, Any] | list[Any],
        *,
        references: tuple[Reference, ...] = (),
        to_dict: Callable[[Any], Any] | None = None,
        **options: Any,
    ) -> None:
        registered = Schema(_text(schema), AVRO, references)
        self._parsed = parse_avro(registry, registered)
        self._write = library("fastavro", _WHAT).schemaless_writer
        self._to_dict = to_dict
        self._arguments = registry, registered, self._parsed.name
        self._options = options
        self._written = WrittenSchema(*self._arguments, **options)

    def for_key(self) -> "AvroSerializer":
        """The same for keys."""
        other = object.__new__(AvroSerializer)
        other.__dict__.update(self.__dict__)
        other._written = WrittenSchema(*self._arguments, **{"is_key": True, **self._options})
        return other

    def header(self, topic: str) -> Header:
        """The header for records of this topic, with `schema_id_in="header"`."""
        return self._written.header(topic)

    async def prepare(self, *topics: str) -> None:
        """Register for these topics now, without holding up the loop."""
        await self._written.prepare(*topics)

    def serialize(self, topic: str, headers: tuple[Header, ...], value: Any) -> bytes | None:
        if value is None:
            return None
        if self._to_dict is not None:
            value = self._to_dict(value)
        if self._parsed.is_plain_bytes:
            return self._written.frame(topic, headers, bytes(value))
        check = self._parsed.check
        if check is not None:
            check_value(value)
        out = BytesIO()
        self._write(out, self._parsed.schema, value)
        payload = out.getvalue()
        if check is not None:
            check(payload)  # what is written can be read
        return self._written.frame(topic, headers, payload)


class AvroDeserializer:
    """Avro as values. With `reader_schema` they are turned into that one, as Avro's rules have it.

    `from_dict` turns them into your objects.
    """

    def __init__(
        self,
        registry: SchemaRegistry,
        reader_schema: str | dict[str, Any] | list[Any] | None = None,
        *,
        references: tuple[Reference, ...] = (),
        from_dict: Callable[[Any], Any] | None = None,
        **options: Any,
    ) -> None:
        self._read = library("fastavro", _WHAT).schemaless_reader
        self._registry = registry
        self._from_dict = from_dict
        self._reader: Any = None
        if reader_schema is not None:
            wanted = Schema(_text(reader_schema), AVRO, references)
            self._reader = parse_avro(registry, wanted).schema
        self._options = options
        self._schemas = self._schemas_for({})

    def _schemas_for(self, more: dict[str, Any]) -> ReadSchemas[ParsedAvro]:
        registry = self._registry
        options = {**more, **self._options}
        return ReadSchemas(registry, lambda schema: parse_avro(registry, schema), kind=AVRO, **options)

    def for_key(self) -> "AvroDeserializer":
        """The same for keys."""
        other = object.__new__(AvroDeserializer)
        other.__dict__.update(self.__dict__)
        other._schemas = self._schemas_for({"is_key": True})
        return other

    async def prepare(self, *topics: str) -> None:
        """Look up the schemas of these topics now, without holding up the loop."""
        await self._schemas.prepare(*topics)

    def deserialize(self, topic: str, headers: tuple[Header, ...], data: bytes | None) -> Any:
        if data is None:
            return None
        parsed, framed = self._schemas.of(headers, data)
        payload = data[framed.start :]
        value = payload if parsed.is_plain_bytes else self._decode(parsed, payload)
        return value if self._from_dict is None else self._from_dict(value)

    def _decode(self, parsed: ParsedAvro, payload: bytes) -> Any:
        if parsed.check is not None:
            parsed.check(payload)
        try:
            return self._read(BytesIO(payload), parsed.schema, self._reader)
        except Exception as error:  # whatever the library stumbles over, the bytes are no such record
            raise ValueError(f"no Avro record of its schema: {type(error).__name__} {error}") from error
