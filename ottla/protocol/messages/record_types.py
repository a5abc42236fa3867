"""Which records an internal topic holds: the number in front of a key says what key and value are.

A key starts with its record type, an int16 that never changes once given out; a value starts with its
version. A type that the table lacks was written by a newer Kafka, and readers pass over it.
"""

import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

from ottla.core.errors import ProtocolError
from ottla.core.types import Buffer
from ottla.protocol.codec import decode_exactly, decode_versioned, encode_behind, encode_versioned
from ottla.protocol.messages import coordinator_records as groups
from ottla.protocol.messages import share_records as share

_TYPE = struct.Struct(">h")
_KEY_VERSION = 0  # a key of another shape gets another type


class RecordType(NamedTuple):
    """The key and the value of one kind of record."""

    number: int
    key: type[Any]
    value: type[Any]


CONSUMER_OFFSETS: Mapping[int, RecordType] = {
    row.number: row
    for row in (
        RecordType(0, groups.LegacyOffsetCommitKey, groups.OffsetCommitValue),
        RecordType(1, groups.OffsetCommitKey, groups.OffsetCommitValue),
        RecordType(2, groups.GroupMetadataKey, groups.GroupMetadataValue),
        RecordType(3, groups.ConsumerGroupMetadataKey, groups.ConsumerGroupMetadataValue),
        RecordType(4, groups.ConsumerGroupPartitionMetadataKey, groups.ConsumerGroupPartitionMetadataValue),
        RecordType(5, groups.ConsumerGroupMemberMetadataKey, groups.ConsumerGroupMemberMetadataValue),
        RecordType(
            6,
            groups.ConsumerGroupTargetAssignmentMetadataKey,
            groups.ConsumerGroupTargetAssignmentMetadataValue,
        ),
        RecordType(
            7,
            groups.ConsumerGroupTargetAssignmentMemberKey,
            groups.ConsumerGroupTargetAssignmentMemberValue,
        ),
        RecordType(
            8,
            groups.ConsumerGroupCurrentMemberAssignmentKey,
            groups.ConsumerGroupCurrentMemberAssignmentValue,
        ),
        RecordType(10, share.ShareGroupMemberMetadataKey, share.ShareGroupMemberMetadataValue),
        RecordType(11, share.ShareGroupMetadataKey, share.ShareGroupMetadataValue),
        RecordType(
            12, share.ShareGroupTargetAssignmentMetadataKey, share.ShareGroupTargetAssignmentMetadataValue
        ),
        RecordType(
            13, share.ShareGroupTargetAssignmentMemberKey, share.ShareGroupTargetAssignmentMemberValue
        ),
        RecordType(
            14, share.ShareGroupCurrentMemberAssignmentKey, share.ShareGroupCurrentMemberAssignmentValue
        ),
        RecordType(
            15, share.ShareGroupStatePartitionMetadataKey, share.ShareGroupStatePartitionMetadataValue
        ),
        RecordType(16, groups.ConsumerGroupRegularExpressionKey, groups.ConsumerGroupRegularExpressionValue),
    )
}
TRANSACTION_STATE: Mapping[int, RecordType] = {
    0: RecordType(0, groups.TransactionLogKey, groups.TransactionLogValue)
}
_HEAD_OF = {
    row.key: _TYPE.pack(row.number)
    for table in (CONSUMER_OFFSETS, TRANSACTION_STATE)
    for row in table.values()
}


def encode_key(key: object) -> bytes:
    """The key of a record of an internal topic, with its record type in front."""
    return encode_behind(_HEAD_OF[type(key)], key, _KEY_VERSION)


_WRITTEN: Mapping[type[Any], int] = {
    groups.OffsetCommitValue: 3,
    groups.GroupMetadataValue: 3,
    groups.TransactionLogValue: 1,
}
"""The version of a value that is written, where there is a choice: what Kafka 4 writes, and 3.9 can read."""


def encode_value(value: object) -> bytes:
    """The value of a record of an internal topic, with its version in front."""
    version = _WRITTEN.get(type(value), 0)
    if type(value) is groups.OffsetCommitValue and value.expire_timestamp != -1:
        version = 1  # the only one that can say when the client wants it forgotten
    return encode_versioned(value, version)


def decode_key(topic: Mapping[int, RecordType], buffer: Buffer) -> Any | None:
    """The key, or None when its type is not in the topic's table."""
    row = record_type(topic, buffer)
    return None if row is None else decode_exactly(row.key, buffer, _KEY_VERSION, _TYPE.size)


def decode_value(topic: Mapping[int, RecordType], key: Buffer, value: Buffer) -> Any | None:
    """The value that stands beside this key, or None when the key's type is not in the topic's table."""
    row = record_type(topic, key)
    return None if row is None else decode_versioned(row.value, value)[0]


def record_type(topic: Mapping[int, RecordType], key: Buffer) -> RecordType | None:
    """The row of the topic's table that the key names."""
    if len(key) < _TYPE.size:
        raise ProtocolError(f"a key of {len(key)} bytes cannot hold a record type")
    return topic.get(_TYPE.unpack_from(key)[0])
