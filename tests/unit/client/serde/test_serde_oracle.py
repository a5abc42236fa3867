"""The same bytes as Confluent's own serializers, with the same schemas in its registry for tests."""

import json

import pytest
from confluent_kafka.serialization import MessageField, SerializationContext

from ottla.client.serde.avro import AvroDeserializer, AvroSerializer
from ottla.client.serde.json_schema import JsonSchemaDeserializer, JsonSchemaSerializer
from ottla.client.serde.memory_registry import InMemoryRegistry
from ottla.client.serde.protobuf import ProtobufDeserializer, ProtobufSerializer
from ottla.client.serde.registry import deserializer_of, serializer_of
from tests.unit.client.serde.messages import Money, Order, Reason, Refund

confluent = pytest.importorskip("confluent_kafka.schema_registry", reason="confluent-kafka[schemaregistry]")
avro = pytest.importorskip("confluent_kafka.schema_registry.avro")
json_schema = pytest.importorskip("confluent_kafka.schema_registry.json_schema")
protobuf = pytest.importorskip("confluent_kafka.schema_registry.protobuf")

VALUE = SerializationContext("t", MessageField.VALUE)
AVRO = json.dumps(
    {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "s", "type": "string"},
            {"name": "n", "type": ["null", "long"]},
            {"name": "d", "type": {"type": "array", "items": "double"}},
            {"name": "m", "type": {"type": "map", "values": "bytes"}},
        ],
    }
)
JSON = json.dumps({"title": "U", "type": "object", "properties": {"name": {"type": "string"}}})


@pytest.fixture
def theirs():
    with confluent.SchemaRegistryClient.new_client({"url": "mock://"}) as client:
        yield client


@pytest.mark.parametrize(
    ("schema", "value"),
    [(AVRO, {"s": "ž", "n": -5, "d": [0.5], "m": {"k": b"v"}}), ('"bytes"', b"abc"), ('"string"', "abc")],
)
def test_avro(theirs, schema, value):
    registry = InMemoryRegistry()
    data = AvroSerializer(registry, schema).serialize("t", (), value)
    assert data == avro.AvroSerializer(theirs, schema)(value, VALUE)
    assert avro.AvroDeserializer(theirs)(data, VALUE) == value
    assert AvroDeserializer(registry).deserialize("t", (), data) == value


def test_json_schema(theirs):
    registry = InMemoryRegistry()
    value = {"name": "ž", "more": [1, None, 1.5]}
    compact = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
    data = JsonSchemaSerializer(registry, JSON).serialize("t", (), value)
    assert data == json_schema.JSONSerializer(JSON, theirs, json_encode=compact)(value, VALUE)
    assert json_schema.JSONDeserializer(JSON, schema_registry_client=theirs)(data, VALUE) == value
    assert JsonSchemaDeserializer(registry).deserialize("t", (), data) == value


@pytest.mark.parametrize(
    "message",
    [Money(amount=1), Order(id="1", total=Money(amount=2)), Refund(id="x"), Reason(text="y")],
    ids=["first", "importing", "second", "nested"],
)
def test_protobuf(theirs, message):
    registry = InMemoryRegistry()
    data = ProtobufSerializer(registry, type(message)).serialize("t", (), message)
    assert data == protobuf.ProtobufSerializer(type(message), theirs)(message, VALUE)
    assert protobuf.ProtobufDeserializer(type(message), {}, theirs)(data, VALUE) == message
    assert ProtobufDeserializer(type(message)).deserialize("t", (), data) == message


def test_their_serializers_may_be_given_to_our_clients(theirs):
    serialize = serializer_of(avro.AvroSerializer(theirs, AVRO), is_key=True)
    value = {"s": "", "n": None, "d": [], "m": {}}
    data = serialize("t", (), value)
    assert theirs.get_subjects() == ["t-key"]
    assert deserializer_of(avro.AvroDeserializer(theirs), is_key=True)("t", (), data) == value


def test_a_schema_in_a_header(theirs):
    registry = InMemoryRegistry()
    context = SerializationContext("t", MessageField.VALUE, [])
    serializer = avro.AvroSerializer(
        theirs, AVRO, conf={"schema.id.serializer": confluent.header_schema_id_serializer}
    )
    value = {"s": "a", "n": None, "d": [], "m": {}}
    theirs_data = serializer(value, context)
    ours = AvroSerializer(registry, AVRO, schema_id_in="header")
    header = ours.header("t")
    assert theirs_data == ours.serialize("t", (header,), value)
    ((name, content),) = context.headers
    assert (name, content[:1], len(content)) == (header[0], header[1][:1], len(header[1]))
