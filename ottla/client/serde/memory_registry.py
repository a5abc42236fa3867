"""A schema registry in this process: for tests, and for programs that share schemas without a server.

It numbers as a server does: a schema has one id, in whatever subjects it is, and each subject counts its versions. A
subject that holds a schema already is not given a second version of it. What is compatible it does not judge: as a
server whose level is NONE, it takes every schema of the same kind.
"""

import json
import threading
import uuid

from ottla.client.serde.framing import SchemaKey
from ottla.client.serde.schema_registry import (
    PROTOBUF,
    Registered,
    Schema,
    SchemaRegistryError,
    UnknownSchemaError,
)

_NAMESPACE = uuid.UUID("5b0f4c7e-5a7d-4d0a-9d6e-6f74746c6100")
_INCOMPATIBLE = 409
_INVALID = 422
_NOT_FOUND = 404


class InMemoryRegistry:
    """May be shared between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ids: dict[Schema, int] = {}
        self._by_key: dict[SchemaKey, Schema] = {}
        self._subjects: dict[str, list[Registered]] = {}

    def register(self, subject: str, schema: Schema, *, normalize: bool = False) -> Registered:
        schema = _normal(schema, normalize)
        self._check(subject, schema)
        with self._lock:
            versions = self._subjects.setdefault(subject, [])
            for each in versions:
                if each.schema == schema:
                    return each
            registered = self._number(subject, len(versions) + 1, schema)
            versions.append(registered)
            return registered

    def _number(self, subject: str, version: int, schema: Schema) -> Registered:
        schema_id = self._ids.setdefault(schema, len(self._ids) + 1)
        guid = uuid.uuid5(_NAMESPACE, repr(schema))
        self._by_key[schema_id] = self._by_key[guid] = schema
        return Registered(schema_id, subject, version, schema, guid)

    def _check(self, subject: str, schema: Schema) -> None:
        """What a server would refuse."""
        if not subject:
            raise SchemaRegistryError("a subject needs a name", _INVALID)
        if schema.kind != PROTOBUF:
            try:
                json.loads(schema.text)
            except (ValueError, RecursionError) as error:
                raise SchemaRegistryError(f"the schema for {subject} is no JSON: {error}", _INVALID) from None
        for reference in schema.references:
            self.version(reference.subject, reference.version)
        if not self.is_compatible(subject, schema):
            raise SchemaRegistryError(
                f"{subject} has schemas of another kind than {schema.kind}", _INCOMPATIBLE
            )

    def lookup(self, subject: str, schema: Schema, *, normalize: bool = False) -> Registered:
        schema = _normal(schema, normalize)
        for each in self._versions(subject):
            if each.schema == schema:
                return each
        raise UnknownSchemaError(f"the subject {subject} does not have this schema", _NOT_FOUND)

    def by_key(self, key: SchemaKey) -> Schema:
        schema = self._by_key.get(key)
        if schema is None:
            raise UnknownSchemaError(f"there is no schema with the id {key}", _NOT_FOUND)
        return schema

    def version(self, subject: str, version: int | None = None) -> Registered:
        versions = self._versions(subject)
        if version is None:
            return versions[-1]
        if not 1 <= version <= len(versions):
            raise UnknownSchemaError(f"the subject {subject} has no version {version}", _NOT_FOUND)
        return versions[version - 1]

    def versions(self, subject: str) -> list[int]:
        return [each.version for each in self._versions(subject)]

    def subjects(self) -> list[str]:
        with self._lock:
            return sorted(self._subjects)

    def is_compatible(self, subject: str, schema: Schema, version: int | None = None) -> bool:
        with self._lock:
            versions = self._subjects.get(subject, [])
            return all(each.schema.kind == schema.kind for each in versions)

    def _versions(self, subject: str) -> list[Registered]:
        with self._lock:
            versions = list(self._subjects.get(subject, ()))
        if not versions:
            raise UnknownSchemaError(f"there is no subject {subject}", _NOT_FOUND)
        return versions


def _normal(schema: Schema, normalize: bool) -> Schema:
    """The same schema however it was written: without blanks, and with the fields of each object in order."""
    if not normalize or schema.kind == PROTOBUF:
        return schema
    try:
        parsed = json.loads(schema.text)
    except (ValueError, RecursionError):
        return schema
    return schema._replace(text=json.dumps(parsed, sort_keys=True, separators=(",", ":")))
