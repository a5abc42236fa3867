import json

import pytest

from ottla.client import Producer
from ottla.client.serde.avro import AvroSerializer
from tests.unit.cli.cat.running import broker, cat, no_files_of_the_user
from tests.unit.client.serde.test_confluent_registry import registry, server

__all__ = ["broker", "cat", "no_files_of_the_user", "registry", "server"]

pytest.importorskip("fastavro", reason="fastavro is not installed")

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "what", "type": "string"}, {"name": "note", "type": ["null", "string"]}],
}


@pytest.fixture
def topic(broker, registry):
    """A record whose key and value are Avro, one whose value is null, and one whose value is something else."""
    keys, values = AvroSerializer(registry, "string").for_key(), AvroSerializer(registry, ORDER)
    order = {"what": "tea", "note": "hot"}
    with Producer(bootstrap_servers=broker.bootstrap_server) as producer:
        key = keys.serialize("avro", (), "anna")
        for value in (values.serialize("avro", (), order), None, b"\x01rest"):
            producer.send("avro", value, key=key)
        producer.flush()
    return "avro"


def test_avro_becomes_json(cat, server, topic):
    words = ["-C", "-t", topic, "-q", "-s", "avro", "-r", server.url, "-o", "beginning"]
    assert cat(*words, "-c", "2") == (0, b'"anna"{"what": "tea", "note": {"string": "hot"}}\n"anna"\n', "")
    code, out, err = cat(*words, "-e", "-K|")
    assert code == 1
    assert out.startswith(b'"anna"|{"what": "tea"')
    assert "Failed to format message in avro [0] at offset 2: Avro/Schema-registry deserialization" in err


def test_with_J_it_is_part_of_the_object(cat, server, topic):
    words = ["-C", "-t", topic, "-eqJ", "-s", "value=avro", "-X", f"schema.registry.url={server.url}/"]
    code, out, err = cat(*words, "-E", "-c", "3")
    first, second, third = map(json.loads, out.splitlines())
    assert code == 0
    assert first["payload"] == {"what": "tea", "note": {"string": "hot"}}
    assert isinstance(first["value_schema_id"], int)
    assert (second["payload"], third["payload"]) == (None, None)
    assert "payload_error" in third
    assert "% ERROR: Failed to deserialize value in message in avro [0] at offset 2" in err
