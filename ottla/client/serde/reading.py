"""The schemas that records were written with, looked up and parsed once each.

The first record with a schema waits for the registry, and so does the loop that reads it. Programs that mind call
`prepare` first: it asks in a thread for all versions that the topics have.
"""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from ottla.client.serde.framing import Framed, SchemaKey, header_name, read_frame
from ottla.client.serde.schema_registry import (
    Schema,
    SchemaRegistry,
    SubjectName,
    UnknownSchemaError,
    subject_name_of,
)
from ottla.records.record import Header

PARSED_MAX = 1000
"""Parsed schemas that are kept. Topics have a few; an endless row of new ones must not fill the memory."""

T = TypeVar("T")


class ReadSchemas(Generic[T]):
    """What `parse` makes of the schema that a record names."""

    def __init__(
        self,
        registry: SchemaRegistry,
        parse: Callable[[Schema], T],
        *,
        kind: str,
        is_key: bool = False,
        has_indexes: bool = False,
        subject_name: str | SubjectName = "topic",
        record_name: str | None = None,
    ) -> None:
        self._registry = registry
        self._parse = parse
        self._kind = kind
        self._is_key = is_key
        self._header = header_name(is_key)
        self._has_indexes = has_indexes
        self._subject = subject_name_of(subject_name)
        self._record_name = record_name
        self._parsed: dict[SchemaKey, T] = {}

    def of(self, headers: tuple[Header, ...], data: bytes) -> tuple[T, Framed]:
        """The parsed schema, and where the payload begins. Raises ValueError for frames that are none."""
        framed = read_frame(data, headers, self._header, has_indexes=self._has_indexes)
        parsed = self._parsed.get(framed.schema)
        return (self._learn(framed.schema) if parsed is None else parsed), framed

    def _learn(self, key: SchemaKey) -> T:
        schema = self._registry.by_key(key)
        if schema.kind != self._kind:
            raise ValueError(f"the schema {key} is {schema.kind}, not {self._kind}")
        parsed = self._parse(schema)
        if len(self._parsed) >= PARSED_MAX:
            self._parsed.clear()
        self._parsed[key] = parsed
        return parsed

    async def prepare(self, *topics: str) -> None:
        """Look up the schemas of these topics now, without holding up the loop."""
        for topic in topics:
            await asyncio.to_thread(self._prepare, self._subject(topic, self._is_key, self._record_name))

    def _prepare(self, subject: str) -> None:
        try:
            versions = self._registry.versions(subject)
        except UnknownSchemaError:
            return  # nothing was written yet
        for version in versions:
            found = self._registry.version(subject, version)
            self._learn(found.id)
            if found.guid is not None:
                self._learn(found.guid)
