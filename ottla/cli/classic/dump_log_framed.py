"""`kafka-dump-log` of records without keys, whose values say by themselves what they are: metadata of two kinds.

A value is three numbers of variable length and a message: the version of this frame, the type, the type's version.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from ottla.cli.classic.dump_log_decoders import Shown
from ottla.cli.classic.message_json import json_text, plain
from ottla.cli.classic.metadata_records import RECORDS
from ottla.cli.classic.state_records import (
    REMOTE_LOG_METADATA,
    RemoteLogSegmentMetadataRecord,
    TopicIdPartition,
)
from ottla.core.errors import ProtocolError
from ottla.core.ids import format_id
from ottla.protocol.codec import decode
from ottla.protocol.schema import declaration
from ottla.records.record import Record

_FRAME = 1
_VARINT_BYTES_MAX = 5
_WORD = re.compile(r"(?<!^)(?=[A-Z])")
_SEGMENT_STATES = (
    "COPY_SEGMENT_STARTED",
    "COPY_SEGMENT_FINISHED",
    "DELETE_SEGMENT_STARTED",
    "DELETE_SEGMENT_FINISHED",
)
_PARTITION_STATES = (
    "DELETE_PARTITION_MARKED",
    "DELETE_PARTITION_STARTED",
    "DELETE_PARTITION_FINISHED",
)


class _Unreadable(Exception):
    pass


class _Framed(NamedTuple):
    message: Any
    version: int


def cluster_metadata(record: Record) -> Shown:
    """A record of __cluster_metadata, as JSON."""
    try:
        message, version = _framed(RECORDS, record.value or b"")
    except _Unreadable as error:
        return Shown(None, f"Error at {record.offset}, skipping. {error}")
    name = _WORD.sub("_", type(message).__name__).upper()
    return Shown(None, json_text({"type": name, "version": version, "data": plain(message, version)}))


def remote_log_metadata(record: Record) -> Shown:
    """A record of __remote_log_metadata, as Java prints the object."""
    try:
        if record.value is None:
            raise _Unreadable("The record has no value")
        return Shown(None, _remote_text(_framed(REMOTE_LOG_METADATA, record.value).message))
    except _Unreadable as error:
        return Shown(None, f"Error at offset {record.offset}, skipping. {error}")


def _framed(table: Mapping[int, type[Any]], data: bytes) -> _Framed:
    frame, at = _number(data, 0, "frame version")
    if frame != _FRAME:
        raise _Unreadable(
            f"Could not deserialize metadata record due to unknown frame version {frame}"
            f"(only frame version {_FRAME} is supported)"
        )
    kind, at = _number(data, at, "type")
    version, at = _number(data, at, "version")
    if (cls := table.get(kind)) is None:
        raise _Unreadable(
            f"org.apache.kafka.common.errors.UnsupportedVersionException: Unknown metadata id {kind}"
        )
    try:
        if version not in declaration(cls).versions:
            raise ProtocolError("a later version")
        message, end = decode(cls, data, version, at)
    except ProtocolError:
        raise _Unreadable(f"Failed to deserialize record with type {kind}") from None
    if end != len(data):
        raise _Unreadable(f"Found {len(data) - end} byte(s) of garbage after {kind}")
    return _Framed(message, version)


def _number(data: bytes, at: int, what: str) -> tuple[int, int]:
    found = 0
    for place, byte in enumerate(data[at : at + _VARINT_BYTES_MAX]):
        found |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return found, at + place + 1
    raise _Unreadable(f"Error while reading {what}")


def _remote_text(message: Any) -> str:
    name = type(message).__name__.removesuffix("Record")
    if hasattr(message, "topic_id_partition"):
        state = _state(_PARTITION_STATES, message.remote_partition_delete_state)
        return (
            f"{name}{{topicPartition={_partition(message.topic_id_partition)}, state={state},"
            f" eventTimestampMs={message.event_timestamp_ms}, brokerId={message.broker_id}}}"
        )
    segment, state = message.remote_log_segment_id, _state(_SEGMENT_STATES, message.remote_log_segment_state)
    head = (
        f"{name}{{remoteLogSegmentId=RemoteLogSegmentId{{topicIdPartition={_partition(segment.topic_id_partition)},"
        f" id={format_id(segment.id)}}}"
    )
    custom = message.custom_metadata
    custom = "Optional.empty" if custom is None else f"Optional[CustomMetadata{{{len(custom)} bytes}}]"
    if not isinstance(message, RemoteLogSegmentMetadataRecord):
        return (
            f"{head}, customMetadata={custom}, state={state},"
            f" eventTimestampMs={message.event_timestamp_ms}, brokerId={message.broker_id}}}"
        )
    if not message.segment_leader_epochs:
        raise _Unreadable("segmentLeaderEpochs can not be null or empty")
    epochs = {each.leader_epoch: each.offset for each in message.segment_leader_epochs}
    return (
        f"{head}, startOffset={message.start_offset}, endOffset={message.end_offset},"
        f" brokerId={message.broker_id}, maxTimestampMs={message.max_timestamp_ms},"
        f" eventTimestampMs={message.event_timestamp_ms},"
        f" segmentLeaderEpochs={{{', '.join(f'{each}={epochs[each]}' for each in sorted(epochs))}}},"
        f" segmentSizeInBytes={message.segment_size_in_bytes}, customMetadata={custom}, state={state},"
        f" txnIdxEmpty={'true' if message.txn_index_empty else 'false'}}}"
    )


def _partition(partition: TopicIdPartition) -> str:
    return f"{format_id(partition.id)}:{partition.name}-{partition.partition}"


def _state(states: tuple[str, ...], number: int) -> str:
    return states[number] if 0 <= number < len(states) else "null"
