"""What a schema registry is to serializers: schemas with ids, in subjects, in versions.

Two registries exist: `ConfluentRegistry` asks a server, `InMemoryRegistry` needs none. Both promise the same: an id
means the same schema for ever, so whoever has looked it up once need not ask again.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol
from uuid import UUID

from ottla.client.errors import ClientError
from ottla.client.serde.framing import SchemaKey
from ottla.core.errors import ConfigError, ErrorCode

AVRO, PROTOBUF, JSON = "AVRO", "PROTOBUF", "JSON"
REFERENCES_MAX = 200  # schemas that one schema may draw in, itself and theirs included


class SchemaRegistryError(ClientError):
    """The registry refused, or did not answer. `status` is that of HTTP, `registry_code` the registry's own."""

    own_code = ErrorCode.UNKNOWN_SERVER_ERROR

    def __init__(self, detail: str = "", status: int = 0, registry_code: int = 0) -> None:
        super().__init__(detail)
        self.status, self.registry_code = status, registry_code

    @property
    def retriable(self) -> bool:
        """Whether it may answer later: it was not reached, is overloaded or fails by itself."""
        return self.status == 0 or self.status == 429 or self.status >= 500


class UnknownSchemaError(SchemaRegistryError, ValueError):
    """There is no such schema, subject or version."""

    own_code = ErrorCode.RESOURCE_NOT_FOUND

    @property
    def retriable(self) -> bool:
        return False


class Reference(NamedTuple):
    """A schema that another one builds on: under which name, and where it is."""

    name: str
    subject: str
    version: int


class Schema(NamedTuple):
    """A schema as it is registered. The text of Protobuf is its file descriptor in base64, as with Confluent."""

    text: str
    kind: str = AVRO
    references: tuple[Reference, ...] = ()


class Registered(NamedTuple):
    """A schema that has its place. Old servers know no GUID."""

    id: int
    subject: str
    version: int
    schema: Schema
    guid: UUID | None = None


class SchemaRegistry(Protocol):
    """Where schemas are. Calls may block; answers that cannot change are remembered."""

    def register(self, subject: str, schema: Schema, *, normalize: bool = False) -> Registered:
        """Put a schema into a subject. One that is there already keeps its id and its version."""

    def lookup(self, subject: str, schema: Schema, *, normalize: bool = False) -> Registered:
        """Where this very schema is in the subject. Raises UnknownSchemaError."""

    def by_key(self, key: SchemaKey) -> Schema:
        """The schema of an id or a GUID. Raises UnknownSchemaError."""

    def version(self, subject: str, version: int | None = None) -> Registered:
        """A version of a subject, by default the latest. Raises UnknownSchemaError."""

    def versions(self, subject: str) -> list[int]:
        """The versions that a subject has. Raises UnknownSchemaError."""

    def subjects(self) -> list[str]:
        """All subjects."""

    def is_compatible(self, subject: str, schema: Schema, version: int | None = None) -> bool:
        """Whether the schema may become the next version."""


def referenced(registry: SchemaRegistry, schema: Schema) -> list[tuple[str, Schema]]:
    """The schemas that this one builds on, and those that they build on, each after what it needs itself."""
    found: dict[tuple[str, int], tuple[str, Schema]] = {}
    under_way: set[tuple[str, int]] = set()

    def visit(parent: Schema) -> None:
        for reference in parent.references:
            place = reference.subject, reference.version
            if place in found:
                continue
            if place in under_way:
                raise ValueError(f"{reference.subject} version {reference.version} refers to itself")
            if len(under_way) + len(found) >= REFERENCES_MAX:
                raise ValueError(f"a schema draws in more than {REFERENCES_MAX} others")
            under_way.add(place)
            child = registry.version(*place).schema
            visit(child)
            under_way.remove(place)
            found[place] = reference.name, child

    visit(schema)
    return list(found.values())


# --- names of subjects ----------------------------------------------------------------------------------------------

SubjectName = Callable[[str, bool, str | None], str]
"""From the topic, whether it is the key, and the record's own name, to the subject."""


def _by_topic(topic: str, is_key: bool, record_name: str | None) -> str:
    return f"{topic}-{'key' if is_key else 'value'}"


def _by_record(topic: str, is_key: bool, record_name: str | None) -> str:
    if record_name is None:
        raise ValueError("the schema has no name, and the subject is named after it")
    return record_name


def _by_topic_and_record(topic: str, is_key: bool, record_name: str | None) -> str:
    return f"{topic}-{_by_record(topic, is_key, record_name)}"


_STRATEGIES: dict[str, SubjectName] = {
    "topic": _by_topic,
    "record": _by_record,
    "topic_record": _by_topic_and_record,
}


def subject_name_of(setting: str | SubjectName) -> SubjectName:
    """Confluent's strategies by name, with or without its suffix: `topic`, `RecordNameStrategy`; or a function."""
    if callable(setting):
        return setting
    short = setting.rpartition(".")[2].removesuffix("NameStrategy").lower().replace("-", "_")
    strategy = _STRATEGIES.get({"topicrecord": "topic_record"}.get(short, short))
    if strategy is None:
        raise ConfigError(
            f"there is no subject name strategy {setting!r}; there are {', '.join(_STRATEGIES)}"
        )
    return strategy
