"""Protobuf with a registry: paths of messages, imports, and messages of which only the registry knows the file."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.serde.memory_registry import InMemoryRegistry
from ottla.client.serde.protobuf import ProtobufDeserializer, ProtobufSerializer
from ottla.client.serde.registry import deserializer_of, serializer_of
from ottla.client.serde.schema_registry import PROTOBUF, Schema
from tests.unit.client.serde.messages import Money, Order, Reason, Refund


@pytest.fixture
def registry():
    return InMemoryRegistry()


def test_the_first_message_of_a_file_has_a_zero_for_its_path(registry):
    data = ProtobufSerializer(registry, Money).serialize("t", (), Money(amount=5, currency="CZK"))
    assert data == b"\0\0\0\0\x01" + b"\0" + b"\x08\x05\x12\x03CZK"
    assert ProtobufDeserializer(Money).deserialize("t", (), data) == Money(amount=5, currency="CZK")


def test_a_nested_message_has_its_path_before_it(registry):
    data = ProtobufSerializer(registry, Reason).serialize("t", (), Reason(text="x"))
    assert data[5:] == b"\x04\x02\x02" + b"\x0a\x01x"
    assert ProtobufDeserializer(Reason).deserialize("t", (), data).text == "x"


def test_imported_files_are_registered_before_the_file(registry):
    ProtobufSerializer(registry, Order).serialize("t", (), Order(id="1"))
    assert registry.subjects() == ["shop/common.proto", "t-value"]
    (reference,) = registry.version("t-value").schema.references
    assert reference == ("shop/common.proto", "shop/common.proto", 1)


@pytest.mark.parametrize(
    "message",
    [Order(id="1", total=Money(amount=5)), Refund(id="2"), Reason(text="late")],
    ids=["o", "r", "n"],
)
def test_without_a_class_the_file_comes_from_the_registry(registry, message):
    data = ProtobufSerializer(registry, type(message)).serialize("t", (), message)
    read = ProtobufDeserializer(registry=registry).deserialize("t", (), data)
    assert read.DESCRIPTOR.full_name == message.DESCRIPTOR.full_name
    assert read.SerializeToString() == message.SerializeToString()


def test_as_key_and_in_a_header(registry):
    serializer = ProtobufSerializer(registry, Reason, schema_id_in="header")
    header = serializer.for_key().header("t")
    assert header[0] == "__key_schema_id" and header[1].endswith(b"\x04\x02\x02")
    data = serializer_of(serializer, is_key=True)("t", (header,), Reason(text="x"))
    assert data == b"\x0a\x01x"
    assert deserializer_of(ProtobufDeserializer(Reason), is_key=True)("t", (header,), data).text == "x"
    by_registry = ProtobufDeserializer(registry=registry, is_key=True)
    assert by_registry.deserialize("t", (header,), data).text == "x"


def test_prepare_asks_in_a_thread(registry):
    async def run():
        await ProtobufSerializer(registry, Order).prepare("t")
        await ProtobufDeserializer(registry=registry).prepare("t")
        await ProtobufDeserializer(Order).prepare("t")

    asyncio.run(run())
    assert "t-value" in registry.subjects()


def test_null_in_null_out(registry):
    assert ProtobufSerializer(registry, Order).serialize("t", (), None) is None
    assert ProtobufDeserializer(Order).deserialize("t", (), None) is None


def test_a_message_of_another_class_is_refused(registry):
    with pytest.raises(TypeError, match=r"Money is no shop\.Order"):
        ProtobufSerializer(registry, Order).serialize("t", (), Money())
    with pytest.raises(TypeError, match="needs the class"):
        ProtobufDeserializer()


@pytest.mark.parametrize("text", ["%%", "AAAA", "CgFh", 'syntax = "proto3";'])
def test_a_schema_that_is_no_descriptor_is_a_value_error(registry, text):
    registry.register("s", Schema(text, PROTOBUF))
    with pytest.raises(ValueError):
        ProtobufDeserializer(registry=registry).deserialize("t", (), b"\0\0\0\0\x01\0")


def test_a_path_that_leads_nowhere_is_a_value_error(registry):
    ProtobufSerializer(registry, Money).serialize("t", (), Money())
    with pytest.raises(ValueError, match="no message at"):
        ProtobufDeserializer(registry=registry).deserialize("t", (), b"\0\0\0\0\x01\x02\x0e")


@given(data=st.binary(max_size=60))
def test_any_bytes_are_a_message_or_a_value_error(data):
    registry = InMemoryRegistry()
    ProtobufSerializer(registry, Order).serialize("t", (), Order())
    for deserializer in (ProtobufDeserializer(Order), ProtobufDeserializer(registry=registry)):
        for prefix in (b"", b"\0\0\0\0\x02"):
            try:
                deserializer.deserialize("t", (), prefix + data)
            except ValueError:
                continue
