"""The walk before the reader lets everything pass that the library writes, and is not made where it need not be."""

import io

import fastavro
import fastavro.utils
import pytest

from ottla.client.serde.avro import AvroSerializer
from ottla.client.serde.avro_check import _Walks, check_nesting, checker
from ottla.client.serde.memory_registry import InMemoryRegistry

TREE = {
    "type": "record",
    "name": "n.Tree",
    "fields": [
        {"name": "label", "type": ["null", "string", {"type": "enum", "name": "E", "symbols": ["A", "B"]}]},
        {"name": "fixed", "type": {"type": "fixed", "name": "F", "size": 3}},
        {"name": "again", "type": "F"},
        {"name": "numbers", "type": {"type": "map", "values": ["int", "long", "float", "double", "boolean"]}},
        {"name": "nulls", "type": {"type": "array", "items": "null"}},
        {"name": "children", "type": {"type": "array", "items": {"type": "array", "items": "bytes"}}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}},
        {"name": "next", "type": ["null", "Tree"]},
    ],
}
LIST = {"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]}


def parsed(schema):
    named = {}
    return fastavro.parse_schema(schema, named), named


def test_every_record_that_the_library_writes_is_walked_to_its_end():
    schema, named = parsed({**TREE, "fields": TREE["fields"][:-1]})
    walk = _Walks(named).of(schema)
    for value in fastavro.utils.generate_many(schema, 50):
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, value)
        assert walk(out.getvalue(), 0, 0) == len(out.getvalue())
        for size in range(0, len(out.getvalue()), 7):
            with pytest.raises(ValueError):
                walk(out.getvalue()[:size], 0, 0)


@pytest.mark.parametrize(
    ("schema", "is_walked"),
    [
        ("string", False),
        ({"type": "array", "items": "long"}, False),
        ({"type": "array", "items": ["null", "long"]}, False),
        ({"type": "map", "values": "null"}, False),
        ({"type": "fixed", "name": "D", "size": 4, "logicalType": "decimal", "precision": 3}, False),
        ({"type": "array", "items": "null"}, True),
        ({"type": "array", "items": {"type": "record", "name": "R", "fields": []}}, True),
        ({"type": "array", "items": {"type": "fixed", "name": "Z", "size": 0}}, True),
        ({"type": "bytes", "logicalType": "decimal", "precision": 3}, True),
        (LIST, True),
        (TREE, True),
    ],
)
def test_only_schemas_that_can_cost_are_walked(schema, is_walked):
    assert (checker(*parsed(schema)) is not None) == is_walked


def test_a_block_may_say_its_size():
    schema, named = parsed({"type": "array", "items": "null"})
    checker(schema, named)(b"\x05\x00\x00")  # -3 items, in 0 bytes


def test_what_is_nested_too_deeply_is_not_written_either():
    value = {"next": None}
    for depth in range(20_000):
        value = {"next": value}
        if depth == 50:
            few = value
        if depth == 300:
            many = value
    serializer = AvroSerializer(InMemoryRegistry(), LIST)
    assert serializer.serialize("t", (), few)
    for each in (many, value):
        with pytest.raises(ValueError, match="nested more than"):
            serializer.serialize("t", (), each)
    while value is not None:  # taken apart from outside: Python's own way is by recursion
        value = value["next"]


def test_a_schema_has_a_depth():
    check_nesting({"type": "array", "items": [["null"]]})
    schema = "null"
    for _ in range(300):
        schema = {"type": "array", "items": schema}
    with pytest.raises(ValueError, match="nested more than 200"):
        check_nesting(schema)
