"""Every kind of record that coordinators and controllers keep, in every version, full and empty, and some nonsense."""

import struct
import uuid
from collections.abc import Iterator, Mapping
from itertools import chain, count
from pathlib import Path
from typing import Any

from ottla.cli.classic.metadata_records import RECORDS
from ottla.cli.classic.state_records import REMOTE_LOG_METADATA, SHARE_GROUP_STATE
from ottla.protocol.codec import encode_behind, encode_bytes, encode_versioned
from ottla.protocol.messages.coordinator_records import GroupMetadataKey, GroupMetadataValue
from ottla.protocol.messages.record_types import CONSUMER_OFFSETS, TRANSACTION_STATE, RecordType
from ottla.protocol.messages.subscription import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from ottla.protocol.schema import declaration
from ottla.protocol.wiretypes import ArrayOf, Fixed, StructOf, Variable, WireType
from ottla.records.builder import build
from ottla.records.record import Record

_UUID_BYTES = 16
_numbers = count(1)
Pair = tuple[bytes | None, bytes | None]


def coordinator_log(directory: Path) -> None:
    """A segment each in `offsets`, `transactions`, `shares`, `metadata` and `remote`."""
    kinds: dict[str, Iterator[Pair]] = {
        "offsets": chain(_internal(CONSUMER_OFFSETS), _groups(), _nonsense()),
        "transactions": _internal(TRANSACTION_STATE),
        "shares": _internal(SHARE_GROUP_STATE),
        "metadata": chain(_framed(RECORDS), _framed_nonsense()),
        "remote": chain(_framed(REMOTE_LOG_METADATA), _framed_nonsense()),
    }
    for name, pairs in kinds.items():
        (directory / name).mkdir()
        records = [Record(offset, 5, key, value) for offset, (key, value) in enumerate(pairs)]
        (directory / name / f"{'0' * 20}.log").write_bytes(build(records))


def _internal(topic: Mapping[int, RecordType]) -> Iterator[Pair]:
    for row in topic.values():
        key = encode_behind(struct.pack(">h", row.number), full(row.key, 0), 0)
        for version in declaration(row.value).versions if row.value is not GroupMetadataValue else ():
            yield key, encode_versioned(full(row.value, version), version)
            yield key, encode_versioned(empty(row.value), version)
        yield key, None


def _framed(table: Mapping[int, type[Any]]) -> Iterator[Pair]:
    for number, cls in table.items():
        for version in declaration(cls).versions:
            for made in (full(cls, version), empty(cls)):
                for state in ("remote_log_segment_state", "remote_partition_delete_state"):
                    if hasattr(made, state):
                        setattr(made, state, 1)
                yield None, bytes([1, number, version]) + encode_bytes(made, version)


def _framed_nonsense() -> Iterator[Pair]:
    for value in (b"", b"\2", b"\1", b"\1\x80\1", b"\x80" * 6, b"\1\x50\0", b"\1\0\x09", b"\1\2\0"):
        yield b"a key", value


def _groups() -> Iterator[Pair]:
    key = encode_behind(struct.pack(">h", 2), GroupMetadataKey(group="g"), 0)
    subscriptions = [b"", b"\0\1abc"]
    for version in declaration(ConsumerProtocolSubscription).versions:
        subscriptions.append(encode_versioned(full(ConsumerProtocolSubscription, version), version))
    assignment = encode_versioned(full(ConsumerProtocolAssignment, 1), 1)
    for version in declaration(GroupMetadataValue).versions:
        for kind in ("consumer", "connect"):
            members = [
                GroupMetadataValue.Member(
                    member_id="m",
                    client_id="c",
                    client_host="h",
                    session_timeout=1,
                    subscription=each,
                    assignment=part,
                )
                for each in subscriptions
                for part in (assignment, assignment + b"more", b"")
            ]
            value = GroupMetadataValue(
                protocol_type=kind, generation=3, protocol="range", leader=None, members=members
            )
            yield key, encode_versioned(value, version)


def _nonsense() -> Iterator[Pair]:
    key = encode_behind(struct.pack(">h", 2), GroupMetadataKey(group="g"), 0)
    yield b"", b"y"
    yield b"x", b"y"
    yield struct.pack(">h", 999) + b"x", b"y"
    yield key + b"more", None
    yield key, b""
    yield key, b"a"
    yield key, b"\0\x09later"


def full(cls: type[Any], version: int) -> Any:
    """With something in every field that this version has."""
    fields = [each for each in declaration(cls).fields if version in each.versions or not each.has_default]
    return cls(**{each.name: _something(each.type, version) for each in fields})


def _something(kind: WireType, version: int) -> Any:
    number = next(_numbers)
    if isinstance(kind, ArrayOf):
        return [_something(kind.element, version) for _ in range(2)]
    if isinstance(kind, StructOf):
        return full(kind.cls, version)
    if isinstance(kind, Variable):
        return f's{number} ž"\\\x01\x1f\n\u2028' if kind.name == "string" else b"\0bytes %d" % number
    return uuid.UUID(int=number) if kind.size == _UUID_BYTES else number % 100


def empty(cls: type[Any]) -> Any:
    """With nothing that need not be there."""
    return cls(**{each.name: _nothing(each) for each in declaration(cls).fields if not each.has_default})


def _nothing(field: Any) -> Any:
    kind = field.type
    if 0 in field.nullable:
        return None
    if isinstance(kind, ArrayOf):
        return []
    if isinstance(kind, StructOf):
        return empty(kind.cls)
    if isinstance(kind, Fixed):
        return uuid.UUID(int=0) if kind.size == _UUID_BYTES else 0
    return "" if kind.name == "string" else b""
