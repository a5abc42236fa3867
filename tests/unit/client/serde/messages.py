"""Protobuf messages without a compiler: a file with nested messages that imports another file."""

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

_STRING, _INT32, _MESSAGE = 9, 5, 11


def _fields(message: Any, *fields: tuple[str, int, str]) -> None:
    for number, (name, kind, type_name) in enumerate(fields, 1):
        message.field.add(name=name, number=number, type=kind, type_name=type_name or None, label=1)


def _files() -> list[Any]:
    common = descriptor_pb2.FileDescriptorProto(name="shop/common.proto", package="shop", syntax="proto3")
    _fields(common.message_type.add(name="Money"), ("amount", _INT32, ""), ("currency", _STRING, ""))
    orders = descriptor_pb2.FileDescriptorProto(
        name="shop/orders.proto",
        package="shop",
        syntax="proto3",
        dependency=["shop/common.proto", "google/protobuf/timestamp.proto"],
    )
    order = orders.message_type.add(name="Order")
    when = ("at", _MESSAGE, ".google.protobuf.Timestamp")
    _fields(order, ("id", _STRING, ""), ("total", _MESSAGE, ".shop.Money"), when)
    refund = orders.message_type.add(name="Refund")
    _fields(refund, ("id", _STRING, ""))
    _fields(refund.nested_type.add(name="First"), ("id", _STRING, ""))
    _fields(refund.nested_type.add(name="Reason"), ("text", _STRING, ""))
    return [common, orders]


_POOL = descriptor_pool.DescriptorPool()
_POOL.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
for _file in _files():
    _POOL.Add(_file)


def _named(name: str) -> Any:
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(name))


Money, Order, Refund, Reason = (
    _named(f"shop.{name}") for name in ("Money", "Order", "Refund", "Refund.Reason")
)
