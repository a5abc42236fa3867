"""JSON with a schema: validated on both sides, without a word to the network."""

import asyncio
import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.serde.json_schema import JsonSchemaDeserializer, JsonSchemaSerializer
from ottla.client.serde.memory_registry import InMemoryRegistry
from ottla.client.serde.registry import serializer_of
from ottla.client.serde.schema_registry import JSON, Reference, Schema

USER = {
    "title": "User",
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name"],
}


@pytest.fixture
def registry():
    return InMemoryRegistry()


def test_a_record_is_the_id_of_its_schema_and_json(registry):
    data = JsonSchemaSerializer(registry, USER).serialize("t", (), {"name": "Ann", "age": 3})
    assert data == b'\0\0\0\0\x01{"name":"Ann","age":3}'
    assert JsonSchemaDeserializer(registry).deserialize("t", (), data) == {"name": "Ann", "age": 3}


def test_values_that_the_schema_forbids_are_refused_on_both_sides(registry):
    with pytest.raises(ValueError, match=r"\$\.age: -1 is less than the minimum"):
        JsonSchemaSerializer(registry, USER).serialize("t", (), {"name": "Ann", "age": -1})
    trusting = JsonSchemaSerializer(registry, USER, validate=False)
    data = trusting.serialize("t", (), {"age": 1})
    with pytest.raises(ValueError, match="'name' is a required property"):
        JsonSchemaDeserializer(registry).deserialize("t", (), data)
    assert JsonSchemaDeserializer(registry, validate=False).deserialize("t", (), data) == {"age": 1}


def test_subjects_may_be_named_by_the_title(registry):
    serializer_of(JsonSchemaSerializer(registry, USER, subject_name="record"))("t", (), {"name": "Ann"})
    serializer_of(JsonSchemaSerializer(registry, USER), is_key=True)("t", (), {"name": "Ann"})
    assert registry.subjects() == ["User", "t-key"]
    with pytest.raises(ValueError, match="has no name"):
        JsonSchemaSerializer(registry, {}, subject_name="record").serialize("t", (), 1)


def test_schemas_may_refer_to_schemas_of_the_registry(registry):
    registry.register("users", Schema('{"type": "string", "minLength": 2}', JSON))
    team = {"type": "array", "items": {"$ref": "name.json"}}
    references = (Reference("name.json", "users", 1),)
    serializer = JsonSchemaSerializer(registry, team, references=references)
    data = serializer.serialize("t", (), ["Ann"])
    assert JsonSchemaDeserializer(registry).deserialize("t", (), data) == ["Ann"]
    with pytest.raises(ValueError, match="too short"):
        serializer.serialize("t", (), ["A"])


def test_a_reference_to_the_network_is_an_error_and_no_request(registry):
    serializer = JsonSchemaSerializer(registry, {"$ref": "http://127.0.0.1:1/schema.json"})
    with pytest.raises(ValueError, match="refers to what the registry does not have"):
        serializer.serialize("t", (), 1)


def test_own_objects_and_headers(registry):
    serializer = JsonSchemaSerializer(
        registry, USER, to_dict=lambda name: {"name": name}, schema_id_in="header"
    )
    headers = (serializer.header("t"),)
    data = serializer.serialize("t", headers, "Ann")
    read = JsonSchemaDeserializer(registry, from_dict=lambda row: row["name"])
    assert (data, read.deserialize("t", headers, data)) == (b'{"name":"Ann"}', "Ann")
    as_key = (serializer.for_key().header("t"),)
    assert read.for_key().deserialize("t", as_key, data) == "Ann"


def test_null_in_null_out_and_prepare(registry):
    serializer, deserializer = JsonSchemaSerializer(registry, USER), JsonSchemaDeserializer(registry)

    async def run():
        await serializer.prepare("t")
        await deserializer.prepare("t")

    asyncio.run(run())
    assert serializer.serialize("t", (), None) is None
    assert deserializer.deserialize("t", (), None) is None


@pytest.mark.parametrize("schema", ["{", '{"type": "nothing"}', "[" * 100_000])
def test_a_schema_that_is_none_is_a_value_error(registry, schema):
    with pytest.raises(ValueError):
        JsonSchemaSerializer(registry, schema)


@given(data=st.binary(max_size=60))
def test_any_bytes_are_a_value_or_a_value_error(data):
    registry = InMemoryRegistry()
    registry.register("t-value", Schema('{"type": ["object", "integer", "array"]}', JSON))
    with contextlib.suppress(ValueError):
        JsonSchemaDeserializer(registry).deserialize("t", (), b"\0\0\0\0\x01" + data)


def test_a_value_that_is_nested_too_deeply_is_a_value_error(registry):
    registry.register("t-value", Schema('{"items": {"$ref": "#"}}', JSON))
    with pytest.raises(ValueError, match="too deeply"):
        JsonSchemaDeserializer(registry).deserialize("t", (), b"\0\0\0\0\x01" + b"[" * 600 + b"]" * 600)
