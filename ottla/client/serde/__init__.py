"""Keys and values as bytes, and back.

registry primitives json              what a setting means: names, functions, objects
avro protobuf json_schema             with schemas: `pip install 'ottla[schema]'`
schema_registry                       what a registry is; `confluent_registry` asks a server, `memory_registry` is one
framing writing reading               which schema a record was written with
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.client.serde.avro import AvroDeserializer as AvroDeserializer
    from ottla.client.serde.avro import AvroSerializer as AvroSerializer
    from ottla.client.serde.confluent_registry import ConfluentRegistry as ConfluentRegistry
    from ottla.client.serde.json import JsonDeserializer as JsonDeserializer
    from ottla.client.serde.json import JsonSerializer as JsonSerializer
    from ottla.client.serde.json_schema import JsonSchemaDeserializer as JsonSchemaDeserializer
    from ottla.client.serde.json_schema import JsonSchemaSerializer as JsonSchemaSerializer
    from ottla.client.serde.memory_registry import InMemoryRegistry as InMemoryRegistry
    from ottla.client.serde.protobuf import ProtobufDeserializer as ProtobufDeserializer
    from ottla.client.serde.protobuf import ProtobufSerializer as ProtobufSerializer
    from ottla.client.serde.schema_registry import Schema as Schema

_PLACES = {
    "AvroDeserializer": "avro",
    "AvroSerializer": "avro",
    "ConfluentRegistry": "confluent_registry",
    "InMemoryRegistry": "memory_registry",
    "JsonDeserializer": "json",
    "JsonSchemaDeserializer": "json_schema",
    "JsonSchemaSerializer": "json_schema",
    "JsonSerializer": "json",
    "ProtobufDeserializer": "protobuf",
    "ProtobufSerializer": "protobuf",
    "Schema": "schema_registry",
}


def __getattr__(name: str) -> Any:
    """Imported when it is asked for."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
