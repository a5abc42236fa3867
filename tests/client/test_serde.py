"""Values through serializers, a broker and deserializers."""

import asyncio
import itertools
import uuid
from typing import Any

import pytest

from ottla.client.consumer.consumer import AsyncConsumer
from ottla.client.errors import DeserializationError, SerializationError
from ottla.client.producer.producer import AsyncProducer
from ottla.client.serde import (
    AvroDeserializer,
    AvroSerializer,
    InMemoryRegistry,
    JsonSchemaDeserializer,
    JsonSchemaSerializer,
    ProtobufDeserializer,
    ProtobufSerializer,
)
from ottla.core.ids import TopicPartition
from tests.unit.client.serde.messages import Money

USER = {"type": "record", "name": "User", "fields": [{"name": "name", "type": "string"}]}


async def through(server: str, topic: str, rows: list[Any], writing: Any, reading: Any) -> list[Any]:
    """Keys, values and headers as they come out again."""
    async with AsyncProducer(
        bootstrap_servers=server, key_serializer=writing[0], value_serializer=writing[1]
    ) as producer:
        for key, value, *headers in rows:
            await producer.send(topic, value, key, headers=headers or None, partition=0)
        await producer.flush()
    found: list[Any] = []
    async with AsyncConsumer(
        bootstrap_servers=server,
        auto_offset_reset="earliest",
        key_deserializer=reading[0],
        value_deserializer=reading[1],
    ) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        while len(found) < len(rows):
            polled = await consumer.poll(10_000)
            assert polled, f"only {len(found)} of {len(rows)} records came"
            found += itertools.chain.from_iterable(polled.values())
    return [(record.key, record.value) for record in found]


@pytest.mark.parametrize(
    ("writing", "reading", "rows"),
    [
        (("string", "json"), ("string", "json"), [("k", {"a": [1, None]}), (None, None)]),
        (("int64", "float64"), ("long", "double"), [(-1, 0.5)]),
        (("uuid", str), ("uuid", str), [(uuid.UUID(int=5), "ž")]),
        ((str.encode, lambda v: bytes([v])), (bytes.decode, lambda data: data[0]), [("k", 7), ("k", None)]),
    ],
    ids=["json", "numbers", "uuid", "functions"],
)
def test_plain_values_come_out_as_they_went_in(server, new_topic, writing, reading, rows):
    assert asyncio.run(through(server, new_topic(), rows, writing, reading)) == rows


def test_schemas_of_all_kinds_for_keys_and_values(server, new_topic):
    registry = InMemoryRegistry()
    topic, others = new_topic(), new_topic()
    ann = {"name": "Ann"}

    async def run() -> None:
        writing = ProtobufSerializer(registry, Money), AvroSerializer(registry, USER)
        reading = ProtobufDeserializer(Money), AvroDeserializer(registry)
        rows: list[Any] = [(Money(amount=1), ann), (None, None)]
        assert await through(server, topic, rows, writing, reading) == rows
        json_writing = AvroSerializer(registry, "long"), JsonSchemaSerializer(registry, {"type": "object"})
        json_reading = AvroDeserializer(registry), JsonSchemaDeserializer(registry)
        assert await through(server, others, [(5, ann)], json_writing, json_reading) == [(5, ann)]

    asyncio.run(run())
    assert registry.subjects() == sorted(
        f"{name}-{part}" for name in (topic, others) for part in ("key", "value")
    )


def test_a_schema_that_is_named_in_a_header(server, new_topic):
    registry, topic = InMemoryRegistry(), new_topic()
    serializer = AvroSerializer(registry, USER, schema_id_in="header")
    rows = [(None, {"name": "Ann"}, serializer.header(topic))]
    found = asyncio.run(through(server, topic, rows, (None, serializer), (None, AvroDeserializer(registry))))
    assert found == [(None, {"name": "Ann"})]


def test_what_cannot_be_written_or_read_names_the_topic_and_the_part(server, new_topic):
    topic = new_topic()

    async def run() -> None:
        with pytest.raises(
            SerializationError, match=f"the key of a record for topic {topic}: 'x' is no integer"
        ):
            await through(server, topic, [("x", b"")], ("int32", None), (None, None))
        with pytest.raises(DeserializationError, match=f"{topic}.*") as caught:
            await through(
                server, topic, [(None, b"plain")], (None, None), (None, AvroDeserializer(InMemoryRegistry()))
            )
        assert "begins with byte 112" in str(caught.value)
        assert caught.value.partition == TopicPartition(topic, 0)

    asyncio.run(run())
