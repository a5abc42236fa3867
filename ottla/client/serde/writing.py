"""The schema that a serializer writes with: registered when a topic is first written to, remembered from then on.

The first record of a topic waits for the registry, and so does the loop that it is sent on. Programs that mind call
`prepare` first: it asks in a thread.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from ottla.client.serde.framing import guid_header, header_name, id_prefix
from ottla.client.serde.schema_registry import (
    Registered,
    Schema,
    SchemaRegistry,
    SchemaRegistryError,
    SubjectName,
    subject_name_of,
)
from ottla.core.errors import ConfigError
from ottla.records.record import Header


class WrittenSchema:
    """One schema in one registry, for all topics.

    `auto_register` puts the schema where it is missing; without it, it must be there. `schema_id_in` is `prefix`, or
    `header`: then each record needs the header that `header` makes, because a serializer can only make bytes.
    """

    def __init__(
        self,
        registry: SchemaRegistry,
        schema: Schema | Callable[[], Schema],
        record_name: str | None,
        *,
        indexes: Sequence[int] | None = None,
        is_key: bool = False,
        subject_name: str | SubjectName = "topic",
        auto_register: bool = True,
        normalize: bool = False,
        schema_id_in: str = "prefix",
    ) -> None:
        if schema_id_in not in ("prefix", "header"):
            raise ConfigError(f"schema_id_in is prefix or header, not {schema_id_in!r}")
        self._registry = registry
        self._schema = schema
        self._record_name = record_name
        self._indexes = indexes
        self._is_key = is_key
        self._subject = subject_name_of(subject_name)
        self._ask = registry.register if auto_register else registry.lookup
        self._normalize = normalize
        self._header_name = header_name(is_key) if schema_id_in == "header" else None
        self._prefixes: dict[str, bytes] = {}
        self._headers: dict[str, Header] = {}

    def frame(self, topic: str, headers: tuple[Header, ...], payload: bytes) -> bytes:
        """The payload as it goes into the record."""
        if self._header_name is not None:
            self._check_header(topic, headers)
            return payload
        prefix = self._prefixes.get(topic)
        return (self._prefix(topic) if prefix is None else prefix) + payload

    def header(self, topic: str) -> Header:
        """The header for records of this topic, if the schema is named there."""
        known = self._headers.get(topic)
        if known is not None:
            return known
        registered = self._register(topic)
        if registered.guid is None:
            raise SchemaRegistryError(
                f"the registry gave no GUID for {registered.subject}: it is too old", 501
            )
        header = guid_header(UUID(str(registered.guid)), is_key=self._is_key, indexes=self._indexes)
        self._headers[topic] = header
        return header

    async def prepare(self, *topics: str) -> None:
        """Ask the registry for these topics now, without holding up the loop."""
        for topic in topics:
            await asyncio.to_thread(self.header if self._header_name else self._prefix, topic)

    def _prefix(self, topic: str) -> bytes:
        prefix = id_prefix(self._register(topic).id, self._indexes)
        self._prefixes[topic] = prefix
        return prefix

    def _register(self, topic: str) -> Registered:
        if not isinstance(self._schema, Schema):
            self._schema = self._schema()  # what it refers to is registered with it
        subject = self._subject(topic, self._is_key, self._record_name)
        return self._ask(subject, self._schema, normalize=self._normalize)

    def _check_header(self, topic: str, headers: tuple[Header, ...]) -> None:
        if all(name != self._header_name for name, _ in headers):
            raise ValueError(
                f"the record lacks the header {self._header_name}: add serializer.header({topic!r})"
            )


def text_of(schema: Any, dump: Callable[[Any], str]) -> str:
    """A schema as text: it may be given so, or as the object that the text stands for."""
    return schema if isinstance(schema, str) else dump(schema)
