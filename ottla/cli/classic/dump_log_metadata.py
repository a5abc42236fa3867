"""What `kafka-dump-log` shows of Apache's own log of metadata: the control records between its batches, as JSON."""

import struct
from typing import Any

from ottla.cli.classic.java import Illegal
from ottla.cli.classic.message_json import json_text, plain
from ottla.core.errors import ProtocolError
from ottla.protocol.codec import decode
from ottla.protocol.messages.cluster_metadata import VotersRecord
from ottla.protocol.schema import (
    NULL_UUID,
    Int16,
    Int32,
    Int64,
    Uuid,
    declaration,
    field,
    message,
)
from ottla.protocol.schema import struct as part
from ottla.records.control import ControlType
from ottla.records.record import Record

_VERSION = struct.Struct(">h")
_TYPE_AT = 2


@part
class Voter:
    """A controller that may vote."""

    voter_id: Int32
    voter_directory_id: Uuid = field("1+", default=NULL_UUID, ignorable=True)


@message(versions="0-1", flexible="0+")
class LeaderChangeMessage:
    """Who leads from here on, and who voted for it."""

    version: Int16
    leader_id: Int32
    voters: list[Voter]
    granting_voters: list[Voter]


@message(versions="0", flexible="0+")
class SnapshotHeaderRecord:
    """The start of a snapshot."""

    version: Int16
    last_contained_log_timestamp: Int64


@message(versions="0", flexible="0+")
class SnapshotFooterRecord:
    """The end of a snapshot."""

    version: Int16


@message(versions="0", flexible="0+")
class KRaftVersionRecord:
    """Which protocol the controllers speak among each other."""

    version: Int16
    kraft_version: Int16


_KINDS: dict[ControlType, tuple[str, type[Any]]] = {
    ControlType.LEADER_CHANGE: ("LeaderChange:", LeaderChangeMessage),
    ControlType.SNAPSHOT_HEADER: ("SnapshotHeader", SnapshotHeaderRecord),
    ControlType.SNAPSHOT_FOOTER: ("SnapshotFooter", SnapshotFooterRecord),
    ControlType.KRAFT_VERSION: ("KRaftVersion", KRaftVersionRecord),
    ControlType.KRAFT_VOTERS: ("KRaftVoters", VotersRecord),
}


def control_text(kind: ControlType, record: Record) -> str:
    """A control record that ends no transaction."""
    if kind not in _KINDS:
        number = _VERSION.unpack_from(record.key or b"", _TYPE_AT)[0]
        return f"controlType: {kind.name}({number})"
    name, cls = _KINDS[kind]
    data = record.value or b""
    try:
        if len(data) < _VERSION.size:
            raise ProtocolError("it has no version")
        # A later version says all of the last one that we know, and then more.
        version = min(_VERSION.unpack_from(data)[0], declaration(cls).versions.last)
        return f"{name} {json_text(plain(decode(cls, data, version)[0], version))}"
    except ProtocolError as error:
        raise Illegal(f"The control record at offset {record.offset} cannot be read: {error}") from None
