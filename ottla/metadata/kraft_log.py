"""Reading `__cluster_metadata-0` of Apache Kafka: its newest snapshot, and the log behind that. Nothing is written.

A snapshot `NNN-EEE.checkpoint` stands for all records below offset NNN. The log may end in a torn batch, as a crash
leaves it: what was never written whole was never committed. Damage anywhere else is refused, since nobody can tell
what it said.
"""

import json
import re
from typing import NamedTuple

from ottla.core.errors import KafkaError, ProtocolError
from ottla.metadata.kraft_image import KraftImage
from ottla.protocol.codec import decode_exactly
from ottla.protocol.messages.cluster_metadata import VotersRecord, decode_record
from ottla.records.batch import BatchHeader, check, iter_batches, records_of
from ottla.records.control import ControlType, control_type
from ottla.records.errors import RecordError
from ottla.storage.files import Files
from ottla.storage.scan import BrokenChain, Scanner, find_intact, is_intact

QUORUM_STATE = "quorum-state"
_SNAPSHOT = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint")
_SEGMENT = re.compile(r"([0-9]{20})\.log")


class Position(NamedTuple):
    """How far the log has been written: the name of its last segment, and the size of that."""

    file: str
    size: int


def read_image(files: Files, directory: str) -> tuple[KraftImage, int]:
    """The cluster that the log tells of, and the offset behind its last record. Raises ProtocolError."""
    image, offset = KraftImage(), 0
    try:
        if (snapshot := _newest_snapshot(files, directory)) is not None:
            offset = int(snapshot[:20])
            _read_snapshot(files.read(f"{directory}/{snapshot}"), image)
        bases = _segments(files, directory, offset)
        for base in bases:
            if base > offset:
                raise ProtocolError(f"the records from offset {offset} to {base} are missing")
            offset = _read_segment(files, directory, base, image, offset, is_last=base == bases[-1])
    except (RecordError, KafkaError) as error:
        raise ProtocolError(f"the metadata of Apache Kafka in {directory} cannot be read: {error}") from error
    except ProtocolError as error:
        raise ProtocolError(f"the metadata of Apache Kafka in {directory}: {error}") from error
    if image.voters is None:
        image.voters = _voters(files, directory)
    return image, offset


def position(files: Files, directory: str) -> Position:
    """Up to where the log is written now: if that has changed, a broker of Kafka has been here."""
    last = max((name for name in files.names(directory) if _SEGMENT.fullmatch(name)), default="")
    return Position(last, files.size(f"{directory}/{last}") if last else 0)


# --- snapshots --------------------------------------------------------------------------------------------------------


def _newest_snapshot(files: Files, directory: str) -> str | None:
    # The numbers have leading zeros, so that the largest name is the newest.
    return max((name for name in files.names(directory) if _SNAPSHOT.fullmatch(name)), default=None)


def _read_snapshot(data: bytes, image: KraftImage) -> None:
    is_complete = False
    for at, header in iter_batches(data):
        check(data, at)
        is_complete = _read_batch(data, at, header, image, 0)
    if not is_complete:
        raise ProtocolError("the newest snapshot has no end")


# --- the log ----------------------------------------------------------------------------------------------------------


def _segments(files: Files, directory: str, offset: int) -> list[int]:
    """The segments that hold what comes from `offset` on, by the offset that they are named after."""
    bases = sorted(int(found[1]) for name in files.names(directory) if (found := _SEGMENT.fullmatch(name)))
    return [
        base for base, next in zip(bases, [*bases[1:], None], strict=False) if next is None or next > offset
    ]


def _read_segment(
    files: Files, directory: str, base: int, image: KraftImage, offset: int, *, is_last: bool
) -> int:
    """Apply what comes from `offset` on; the offset behind it."""
    path = f"{directory}/{base:020}.log"
    file = files.open(path)
    try:
        size = file.size()
        scanner = Scanner(file, size)
        expected = base
        while (at := scanner.position) < size:
            try:
                found = scanner.next()
                assert found is not None, "there are bytes left"
                batch, view = found
                fault = None if is_intact(batch, view) else "a batch fails its checksum"
            except BrokenChain as broken:
                fault = broken.reason
            if fault is not None:
                if is_last and find_intact(file, at + 1, size, offset) is None:
                    return offset
                raise ProtocolError(f"{path}: {fault} at byte {at}")
            if batch.base_offset != expected:
                raise ProtocolError(
                    f"{path}: offset {batch.base_offset} stands where {expected} was expected"
                )
            expected = batch.last_offset + 1
            if expected > offset:
                data = bytes(view)
                _read_batch(data, 0, check(data), image, offset)
                offset = expected
        return offset
    finally:
        file.close()


def _read_batch(data: bytes, at: int, header: BatchHeader, image: KraftImage, offset: int) -> bool:
    """Apply the records from `offset` on. True if the batch ends a snapshot."""
    is_end = False
    for record in records_of(data, at):
        if record.offset < offset:
            continue
        if not header.is_control:
            decoded = None if record.value is None else decode_record(record.value)
            if decoded is not None:
                image.apply(decoded)
        else:
            kind = control_type(record.key)
            if kind is ControlType.KRAFT_VOTERS and record.value is not None:
                image.apply(decode_exactly(VotersRecord, record.value, 0))
            is_end = kind is ControlType.SNAPSHOT_FOOTER
    return is_end


def _voters(files: Files, directory: str) -> frozenset[int] | None:
    """The controllers where they are named in the settings of each, and so in no record."""
    path = f"{directory}/{QUORUM_STATE}"
    try:
        state = json.loads(files.read(path))
        return frozenset(int(voter["voterId"]) for voter in state["currentVoters"]) or None
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
