"""Control records: what brokers write into a log for each other, and consumers never see.

The key says what it is: int16 version, int16 type. Of the types only the two transaction markers appear in
topics; their value is int16 version, int32 epoch of the coordinator that wrote them. A marker is the only
record of its batch.
"""

import enum
import struct
from typing import NamedTuple

from ottla.records.batch import NO_LEADER_EPOCH
from ottla.records.builder import build
from ottla.records.errors import invalid
from ottla.records.record import Record

_KEY = struct.Struct(">hh")
_MARKER = struct.Struct(">hi")
_VERSION = 0


class ControlType(enum.IntEnum):
    """What a control record announces."""

    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class EndMarker(NamedTuple):
    """The end of a transaction, and the coordinator epoch that fences older coordinators."""

    type: ControlType
    coordinator_epoch: int


def control_type(key: bytes | None) -> ControlType:
    """The type that the key of a control record names; types of later versions are UNKNOWN."""
    if key is None or len(key) < _KEY.size:
        raise invalid("a control record without a whole key")
    version, number = _KEY.unpack_from(key)
    if version < 0:
        raise invalid(f"a control record of version {version}")
    if 0 <= number <= ControlType.KRAFT_VOTERS:
        return ControlType(number)
    return ControlType.UNKNOWN


def control_key(type: ControlType) -> bytes:
    """The key of a control record."""
    return _KEY.pack(_VERSION, type)


def decode_marker(record: Record) -> EndMarker:
    """The transaction marker that `record`, the one record of a control batch, holds."""
    type = control_type(record.key)
    if type not in (ControlType.ABORT, ControlType.COMMIT):
        raise invalid(f"a control record of type {type.name} is no transaction marker")
    if record.value is None or len(record.value) < _MARKER.size:
        raise invalid("a transaction marker without a whole value")
    version, coordinator_epoch = _MARKER.unpack_from(record.value)
    if version < 0:
        raise invalid(f"a transaction marker of version {version}")
    return EndMarker(type, coordinator_epoch)


def build_marker(
    type: ControlType,
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytes:
    """The control batch that ends a transaction of this producer."""
    assert type in (ControlType.ABORT, ControlType.COMMIT), "only commit and abort end a transaction"
    record = Record(base_offset, timestamp, control_key(type), _MARKER.pack(_VERSION, coordinator_epoch))
    return build(
        [record],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
        leader_epoch=leader_epoch,
    )
