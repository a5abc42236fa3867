"""Avro with a registry: evolution, references, and bytes that mean harm."""

import asyncio
import contextlib
import decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.client.serde.avro import AvroDeserializer, AvroSerializer
from ottla.client.serde.memory_registry import InMemoryRegistry
from ottla.client.serde.registry import deserializer_of, serializer_of
from ottla.client.serde.schema_registry import AVRO, JSON, Reference, Schema, UnknownSchemaError

USER = {
    "type": "record",
    "name": "User",
    "namespace": "org.example",
    "fields": [{"name": "name", "type": "string"}, {"name": "age", "type": "int"}],
}
LIST = {"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]}


@pytest.fixture
def registry():
    return InMemoryRegistry()


def registered(registry, schema):
    """The prefix for records of a schema."""
    serializer = AvroSerializer(registry, schema)
    return b"\0" + registry.register("s", serializer._arguments[1]).id.to_bytes(4, "big")


def test_a_record_is_the_id_of_its_schema_and_avros_bytes(registry):
    data = AvroSerializer(registry, USER).serialize("t", (), {"name": "Ann", "age": 3})
    assert data == b"\0\0\0\0\x01" + b"\x06Ann\x06"
    assert AvroDeserializer(registry).deserialize("t", (), data) == {"name": "Ann", "age": 3}
    assert registry.subjects() == ["t-value"]


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [
        ("topic", "t-key"),
        ("record", "org.example.User"),
        ("io.confluent.kafka.serializers.subject.TopicRecordNameStrategy", "t-org.example.User"),
        (lambda topic, is_key, name: f"{topic}/{is_key}/{name}", "t/True/org.example.User"),
    ],
)
def test_subjects_are_named_as_confluent_does(registry, strategy, subject):
    serialize = serializer_of(AvroSerializer(registry, USER, subject_name=strategy), is_key=True)
    serialize("t", (), {"name": "", "age": 0})
    assert registry.subjects() == [subject]


def test_readers_get_the_schema_that_they_ask_for(registry):
    data = AvroSerializer(registry, USER).serialize("t", (), {"name": "Ann", "age": 3})
    newer = {**USER, "fields": [USER["fields"][0], {"name": "mail", "type": "string", "default": "-"}]}
    assert AvroDeserializer(registry, newer).deserialize("t", (), data) == {"name": "Ann", "mail": "-"}


def test_own_objects_are_turned_into_dicts_and_back(registry):
    write = AvroSerializer(registry, USER, to_dict=lambda pair: {"name": pair[0], "age": pair[1]})
    read = AvroDeserializer(registry, from_dict=lambda row: (row["name"], row["age"]))
    assert read.deserialize("t", (), write.serialize("t", (), ("Ann", 3))) == ("Ann", 3)


def test_schemas_may_refer_to_schemas(registry):
    place = registry.register("users", Schema(AvroSerializer(registry, USER)._arguments[1].text, AVRO))
    team = {"type": "record", "name": "Team", "fields": [{"name": "lead", "type": "org.example.User"}]}
    references = (Reference("org.example.User", "users", place.version),)
    value = {"lead": {"name": "Ann", "age": 3}}
    data = AvroSerializer(registry, team, references=references).serialize("t", (), value)
    assert AvroDeserializer(registry).deserialize("t", (), data) == value
    union = AvroSerializer(registry, ["null", "org.example.User"], references=references)
    data = union.serialize("t2", (), value["lead"])
    assert AvroDeserializer(registry).deserialize("t2", (), data) == value["lead"]


def test_plain_bytes_are_written_as_they_are(registry):
    data = AvroSerializer(registry, '"bytes"').serialize("t", (), b"abc")
    assert data[5:] == b"abc"
    assert AvroDeserializer(registry).deserialize("t", (), data) == b"abc"


def test_a_schema_may_be_named_in_a_header(registry):
    serializer = AvroSerializer(registry, "string", schema_id_in="header")
    with pytest.raises(ValueError, match="lacks the header __value_schema_id"):
        serializer.serialize("t", (), "a")
    headers = (serializer.header("t"),)
    data = serializer.serialize("t", headers, "a")
    assert data == b"\x02a"
    assert AvroDeserializer(registry).deserialize("t", headers, data) == "a"
    as_key = serializer.for_key().header("t")
    assert as_key[0] == "__key_schema_id"
    assert deserializer_of(AvroDeserializer(registry), is_key=True)("t", (as_key,), data) == "a"


def test_null_in_null_out(registry):
    assert AvroSerializer(registry, USER).serialize("t", (), None) is None
    assert AvroDeserializer(registry).deserialize("t", (), None) is None


def test_a_schema_that_must_be_there_already(registry):
    serializer = AvroSerializer(registry, USER, auto_register=False)
    with pytest.raises(UnknownSchemaError, match="no subject t-value"):
        serializer.serialize("t", (), {"name": "", "age": 0})


def test_prepare_asks_in_a_thread(registry):
    serializer, deserializer = AvroSerializer(registry, USER), AvroDeserializer(registry)

    async def run():
        await serializer.prepare("t", "u")
        await deserializer.prepare("t", "nothing")

    asyncio.run(run())
    assert registry.subjects() == ["t-value", "u-value"]
    assert 1 in deserializer._schemas._parsed


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"\0\0\0\0\x63abc", "no schema with the id 99"),
        (b"{}", "begins with byte 123"),
        (b"\0\0\0", "cut short"),
        (b"\0\0\0\0\x01\x20ab", "no Avro record"),
        (b"\0\0\0\0\x01", "no Avro record"),
    ],
)
def test_records_that_cannot_be_read_are_value_errors(registry, data, sentence):
    registered(registry, USER)
    with pytest.raises(ValueError, match=sentence):
        AvroDeserializer(registry).deserialize("t", (), data)


def test_a_schema_of_another_kind_is_refused(registry):
    registry.register("s", Schema("{}", JSON))
    with pytest.raises(ValueError, match="is JSON, not AVRO"):
        AvroDeserializer(registry).deserialize("t", (), b"\0\0\0\0\x01")


@pytest.mark.parametrize(
    "schema",
    ['{"type":', '{"type":"record"}', '"nothing"', "[" * 5000, "[" * 300 + "]" * 300, "7", '{"type": 3}'],
)
def test_a_schema_that_is_none_is_a_value_error(registry, schema):
    with pytest.raises(ValueError):
        AvroSerializer(registry, schema)


def test_a_type_within_itself_is_read_up_to_a_limit(registry):
    prefix = registered(registry, LIST)
    read = AvroDeserializer(registry).deserialize
    assert read("t", (), prefix + b"\x02\x02\0") == {"next": {"next": {"next": None}}}
    for depth in (200, 100_000):
        with pytest.raises(ValueError, match="nested more than"):
            read("t", (), prefix + b"\x02" * depth + b"\0")


def test_a_few_bytes_do_not_become_a_billion_items(registry):
    prefix = registered(registry, {"type": "array", "items": "null"})
    read = AvroDeserializer(registry).deserialize
    assert read("t", (), prefix + b"\x06\0") == [None] * 3
    with pytest.raises(ValueError, match="take no bytes"):
        read("t", (), prefix + b"\xfe\xff\xff\xff\xff\xff\x01\0")


def test_a_decimal_has_a_size(registry):
    prefix = registered(registry, {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2})
    read = AvroDeserializer(registry).deserialize
    assert read("t", (), prefix + b"\x04\x01\x00") == decimal.Decimal("2.56")
    with pytest.raises(ValueError, match="decimal of 1000000 bytes"):
        read("t", (), prefix + b"\x80\x89\x7a" + b"\x7f" * 1_000_000)


EVERYTHING = {
    "type": "record",
    "name": "E",
    "fields": [
        {"name": "a", "type": {"type": "array", "items": ["null", "E", "string"]}},
        {"name": "m", "type": {"type": "map", "values": "double"}},
        {"name": "e", "type": {"type": "enum", "name": "X", "symbols": ["A", "B"]}},
        {"name": "f", "type": {"type": "fixed", "name": "F", "size": 2}},
        {"name": "u", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "d", "type": {"type": "int", "logicalType": "date"}},
        {"name": "t", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "n", "type": {"type": "bytes", "logicalType": "decimal", "precision": 4}},
    ],
}
PLAIN = {
    **EVERYTHING,
    "name": "P",
    "fields": [{"name": "a", "type": {"type": "array", "items": "long"}}, *EVERYTHING["fields"][1:]],
}


@pytest.mark.parametrize(
    "schema",
    [EVERYTHING, PLAIN, {"type": "map", "values": ["null", "bytes"]}, LIST],
    ids=["everything", "plain", "map", "list"],
)
@settings(max_examples=150, deadline=None)
@given(data=st.binary(max_size=60))
def test_any_bytes_are_a_value_or_a_value_error(schema, data):
    registry = InMemoryRegistry()
    prefix = registered(registry, schema)
    with contextlib.suppress(ValueError):
        AvroDeserializer(registry).deserialize("t", (), prefix + data)
