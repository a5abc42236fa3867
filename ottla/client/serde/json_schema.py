"""JSON with a schema in a registry: text behind the id of its schema, validated on both sides.

References are resolved from the registry only: a `$ref` to an address on the network is an error, never a request.
"""

import json
from collections.abc import Callable
from typing import Any

from ottla.client.serde.extras import library
from ottla.client.serde.json import JsonDeserializer, JsonSerializer
from ottla.client.serde.reading import ReadSchemas
from ottla.client.serde.schema_registry import JSON, Reference, Schema, SchemaRegistry, referenced
from ottla.client.serde.writing import WrittenSchema, text_of
from ottla.records.record import Header

_WHAT = "JSON Schema"

Validate = Callable[[Any], None]
"""Raises ValueError for what the schema does not allow."""


def validator(registry: SchemaRegistry, schema: Schema) -> Validate:
    """The schema as a function. Raises ValueError if it is none."""
    jsonschema, referencing = library("jsonschema", _WHAT), library("referencing", _WHAT)
    draft = library("referencing.jsonschema", _WHAT).DRAFT7
    resources = [
        (name, referencing.Resource.from_contents(_loaded(each.text), default_specification=draft))
        for name, each in referenced(registry, schema)
    ]
    parsed = _loaded(schema.text)
    cls = jsonschema.validators.validator_for(parsed, default=jsonschema.Draft7Validator)
    try:
        cls.check_schema(parsed)
    except (jsonschema.SchemaError, RecursionError) as error:
        raise ValueError(f"the JSON schema cannot be used: {getattr(error, 'message', error)}") from error
    known = referencing.Registry().with_resources(resources)
    errors = cls(parsed, registry=known).iter_errors
    unresolvable = referencing.exceptions.Unresolvable

    def validate(value: Any) -> None:
        try:
            for error in errors(value):
                raise ValueError(f"{error.json_path}: {_short(error.message)}")
        except RecursionError:
            raise ValueError("the value is nested too deeply for its schema") from None
        except unresolvable as error:
            raise ValueError(f"the JSON schema refers to what the registry does not have: {error}") from error

    return validate


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("the JSON schema is nested too deeply") from None


def _short(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:197]}..."


class JsonSchemaSerializer:
    """Values as JSON that a schema allows. `to_dict` turns your objects into what JSON takes.

    `validate=False` trusts them. `json_options` are those of `JsonSerializer`; others, those of `WrittenSchema`.
    """

    def __init__(
        self,
        registry: SchemaRegistry,
        schema: str | dict[str, Any],
        *,
        references: tuple[Reference, ...] = (),
        to_dict: Callable[[Any], Any] | None = None,
        validate: bool = True,
        json_options: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        registered = Schema(text_of(schema, json.dumps), JSON, references)
        parsed = _loaded(registered.text)
        self._validate = validator(registry, registered) if validate else None
        self._encode = JsonSerializer(**json_options or {}).serialize
        self._to_dict = to_dict
        self._arguments = registry, registered, parsed.get("title") if isinstance(parsed, dict) else None
        self._options = options
        self._written = WrittenSchema(*self._arguments, **options)

    def for_key(self) -> "JsonSchemaSerializer":
        """The same for keys."""
        other = object.__new__(JsonSchemaSerializer)
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
        if self._validate is not None:
            self._validate(value)
        return self._written.frame(topic, headers, self._encode(topic, headers, value) or b"null")


class JsonSchemaDeserializer:
    """JSON as values, if the schema that it was written with allows them. `from_dict` turns them into your objects."""

    def __init__(
        self,
        registry: SchemaRegistry,
        *,
        from_dict: Callable[[Any], Any] | None = None,
        validate: bool = True,
        json_options: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self._registry = registry
        self._decode = JsonDeserializer(**json_options or {}).deserialize
        self._from_dict = from_dict
        self._validates = validate
        self._options = options
        self._schemas = self._schemas_for({})

    def _schemas_for(self, more: dict[str, Any]) -> ReadSchemas[Validate]:
        def parse(schema: Schema) -> Validate:
            return validator(self._registry, schema) if self._validates else _allow

        return ReadSchemas(self._registry, parse, kind=JSON, **{**more, **self._options})

    def for_key(self) -> "JsonSchemaDeserializer":
        """The same for keys."""
        other = object.__new__(JsonSchemaDeserializer)
        other.__dict__.update(self.__dict__)
        other._schemas = other._schemas_for({"is_key": True})
        return other

    async def prepare(self, *topics: str) -> None:
        """Look up the schemas of these topics now, without holding up the loop."""
        await self._schemas.prepare(*topics)

    def deserialize(self, topic: str, headers: tuple[Header, ...], data: bytes | None) -> Any:
        if data is None:
            return None
        validate, framed = self._schemas.of(headers, data)
        value = self._decode(topic, headers, data[framed.start :])
        validate(value)
        return value if self._from_dict is None else self._from_dict(value)


def _allow(value: Any) -> None:
    """For those who trust what was written."""
