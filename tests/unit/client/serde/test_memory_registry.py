"""A registry without a server numbers as a server does."""

import pytest

from ottla.client.serde.memory_registry import InMemoryRegistry
from ottla.client.serde.schema_registry import (
    JSON,
    PROTOBUF,
    Reference,
    Schema,
    SchemaRegistryError,
    UnknownSchemaError,
)

A, B = Schema('"string"'), Schema('"long"')


def test_a_schema_has_one_id_and_each_subject_counts_its_versions():
    registry = InMemoryRegistry()
    first, second = registry.register("s", A), registry.register("s", B)
    elsewhere = registry.register("other", B)
    again = registry.register("s", A)
    assert [(each.id, each.version) for each in (first, second, elsewhere, again)] == [
        (1, 1),
        (2, 2),
        (2, 1),
        (1, 1),
    ]
    assert first.guid != second.guid == elsewhere.guid
    assert registry.subjects() == ["other", "s"]
    assert registry.versions("s") == [1, 2]


def test_schemas_are_found_by_id_guid_version_and_themselves():
    registry = InMemoryRegistry()
    placed = registry.register("s", A)
    registry.register("s", B)
    assert registry.by_key(placed.id) == registry.by_key(placed.guid) == A
    assert registry.version("s", 1) == registry.lookup("s", A) == placed
    assert registry.version("s").schema == B


@pytest.mark.parametrize(
    "ask",
    [
        lambda registry: registry.by_key(7),
        lambda registry: registry.version("s", 2),
        lambda registry: registry.version("s", 0),
        lambda registry: registry.version("nothing"),
        lambda registry: registry.versions("nothing"),
        lambda registry: registry.lookup("s", B),
        lambda registry: registry.register("s", Schema('"x"', references=(Reference("x", "nothing", 1),))),
    ],
)
def test_what_is_not_there_is_said_so(ask):
    registry = InMemoryRegistry()
    registry.register("s", A)
    with pytest.raises(UnknownSchemaError) as caught:
        ask(registry)
    assert isinstance(caught.value, ValueError) and not caught.value.retriable


def test_what_a_server_would_refuse_is_refused():
    registry = InMemoryRegistry()
    registry.register("s", A)
    with pytest.raises(SchemaRegistryError, match="no JSON"):
        registry.register("s", Schema("{"))
    with pytest.raises(SchemaRegistryError, match="another kind"):
        registry.register("s", Schema("{}", JSON))
    with pytest.raises(SchemaRegistryError, match="needs a name"):
        registry.register("", A)
    assert registry.is_compatible("s", B)
    assert not registry.is_compatible("s", Schema("", PROTOBUF))


def test_normalized_schemas_are_the_same_however_they_are_written():
    registry = InMemoryRegistry()
    first = registry.register("s", Schema('{"a": 1, "b": 2}'), normalize=True)
    assert registry.register("s", Schema('{"b":2,"a":1}'), normalize=True) == first
    assert registry.register("s", Schema('{"b":2,"a":1}')).id != first.id
