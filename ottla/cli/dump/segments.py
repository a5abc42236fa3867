"""`.log` files as rows: one per batch, or one per record when iterating deeply. Streams: one batch in memory at a time.

The walk follows the chain of lengths and stops where it breaks. A batch that fails its checksum is shown all the same.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ottla.cli.dump.decoders import AS_HEX, AS_STRINGS, Decoder, as_string
from ottla.cli.dump.rows import Item, Problem, Row
from ottla.records import batch as batches
from ottla.records import legacy
from ottla.records.batch import HEADER_SIZE, TIMESTAMP_TYPE_BIT
from ottla.records.compression import OUTPUT_BYTES_MAX, Codec
from ottla.records.control import ControlType, control_type, decode_marker
from ottla.records.errors import RecordError
from ottla.records.record import Record
from ottla.storage.files import File
from ottla.storage.scan import SCAN_BYTES, BatchAt, BrokenChain, find_intact, is_intact, walk

TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")
_SEQUENCES = 1 << 31


@dataclass(frozen=True, slots=True)
class Options:
    """What to show of a segment. `data` and `decoder` matter only when iterating deeply."""

    deep: bool = False
    data: bool = False
    metadata: bool = True
    bytes_max: int | None = None
    """Stop before the first batch that ends behind this byte."""
    message_bytes_max: int = OUTPUT_BYTES_MAX
    """Larger batches are not read, and none is decompressed to more: the bound on memory."""
    decoder: Decoder = AS_STRINGS


def dump_segment(file: File, base_offset: int | None, options: Options) -> Iterator[Item]:
    """The batches or records of a segment whose name says `base_offset`."""
    size = file.size()
    next_offset = base_offset or 0
    try:
        for batch in walk(file, 0, size):
            if options.bytes_max is not None and batch.end > options.bytes_max:
                return
            yield from _order_problems(batch, next_offset)
            yield from _dump_batch(file, batch, options)
            next_offset = batch.next_offset
    except BrokenChain as broken:
        if options.bytes_max is None or broken.position < options.bytes_max:
            yield _stop(file, broken, size, next_offset)


def _stop(file: File, broken: BrokenChain, size: int, next_offset: int) -> Problem:
    if _only_zeros(file, broken.position, size):
        return Problem(
            f"{size - broken.position} zero bytes up to the end of the file", broken.position, stops=True
        )
    try:
        alive = find_intact(file, broken.position, size, next_offset)
    except BrokenChain:
        alive = None  # a crafted file: there is no end of what looks like a batch
    return Problem(
        broken.reason, broken.position, stops=True, next_intact=None if alive is None else alive.position
    )


def _only_zeros(file: File, start: int, end: int) -> bool:
    """Room that was allocated ahead, or a tail that a crash never filled."""
    for position in range(start, end, SCAN_BYTES):
        if file.read_at(position, min(SCAN_BYTES, end - position)).strip(b"\0"):
            return False
    return True


def _order_problems(batch: BatchAt, next_offset: int) -> Iterator[Problem]:
    if batch.base_offset < next_offset:
        yield Problem(
            f"the batch starts at offset {batch.base_offset}, not at {next_offset} or behind it",
            batch.position,
        )
    if batch.magic == 2 and batch.records > batch.last_offset - batch.base_offset + 1:
        yield Problem(
            f"{batch.records} records do not fit offsets {batch.base_offset} to {batch.last_offset}",
            batch.position,
        )


def _dump_batch(file: File, batch: BatchAt, options: Options) -> Iterator[Item]:
    is_small = batch.size <= options.message_bytes_max
    data = file.read_at(batch.position, batch.size if is_small else HEADER_SIZE)
    if len(data) < (batch.size if is_small else HEADER_SIZE):
        raise BrokenChain(file.path, batch.position, "the file became shorter while it was read")
    crc = ("valid" if is_intact(batch, data) else "invalid") if is_small else "unchecked"
    fields = _batch_fields(batch, data) | {"checksum": batch.crc, "crc": crc}
    if not options.deep:
        yield Row("batch", fields)
    if crc == "invalid":
        yield Problem("the batch fails its checksum", batch.position)
    elif crc == "unchecked":
        yield Problem(f"a batch of {batch.size} bytes is too large to be read here", batch.position)
    if options.deep and is_small:
        yield from _dump_records(data, fields, options)


def _batch_fields(batch: BatchAt, data: bytes) -> dict[str, Any]:
    """All that the header says. What a format before magic 2 lacks is null."""
    header = batches.read_header(data) if batch.magic == 2 else None
    codec = batch.attributes & 7
    is_wrapper = header is None and codec != Codec.NONE
    stamped = batch.magic > 0 and batch.attributes & TIMESTAMP_TYPE_BIT
    return {
        "position": batch.position,
        "size": batch.size,
        "base_offset": None
        if is_wrapper
        else batch.base_offset,  # a wrapper names only the last offset inside
        "last_offset": batch.last_offset,
        "count": None if is_wrapper else batch.records,
        "magic": batch.magic,
        "compression": Codec(codec).name.lower() if codec <= Codec.ZSTD else f"unknown ({codec})",
        "timestamp_type": TIMESTAMP_TYPES[1 if stamped else 0] if batch.magic else None,
        "max_timestamp": batch.max_timestamp,
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "base_sequence": batch.base_sequence,
        "last_sequence": -1 if header is None else header.last_sequence,
        "leader_epoch": batch.leader_epoch,
        "is_transactional": batch.is_transactional,
        "is_control": batch.is_control,
        "base_timestamp": None if header is None else header.base_timestamp,
        "delete_horizon_ms": None if header is None else header.delete_horizon_ms,
    }


def _dump_records(data: bytes, fields: dict[str, Any], options: Options) -> Iterator[Item]:
    if fields["magic"] < 2 and fields["crc"] == "invalid":
        return  # its lengths lie under the checksum: nothing in it can be trusted
    limit = options.message_bytes_max
    try:
        records = (
            batches.records_of(data, limit=limit)
            if fields["magic"] == 2
            else legacy.records_of(data, limit=limit)
        )
        for record in records:
            yield Row("record", _record_fields(record, fields, options))
    except RecordError as error:
        yield Problem(f"the records of this batch cannot be read: {error.detail}", fields["position"])


def _record_fields(record: Record, batch: dict[str, Any], options: Options) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    if options.metadata:
        shown = _metadata(record, batch)
    if options.data:
        if batch["is_control"]:
            key, value = AS_HEX(record.key, record.value)
        else:
            key, value = options.decoder(record.key, record.value)
        headers = [
            [as_string(name.encode("utf-8", "surrogateescape")), _text(text)] for name, text in record.headers
        ]
        shown |= {"key": key, "value": value, "headers": headers}
    return shown


def _metadata(record: Record, batch: dict[str, Any]) -> dict[str, Any]:
    sequence = batch["base_sequence"]
    if sequence >= 0:
        sequence = (sequence + record.offset - batch["base_offset"]) % _SEQUENCES
    return {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "timestamp_type": batch["timestamp_type"],
        "key_size": -1 if record.key is None else len(record.key),
        "value_size": -1 if record.value is None else len(record.value),
        "header_keys": [as_string(name.encode("utf-8", "surrogateescape")) for name, _ in record.headers],
        "sequence": sequence,
        "producer_id": batch["producer_id"],
        "producer_epoch": batch["producer_epoch"],
        "leader_epoch": batch["leader_epoch"],
        "is_transactional": batch["is_transactional"],
        "control": _control(record) if batch["is_control"] else None,
        "magic": batch["magic"],
        "compression": batch["compression"],
        "batch_position": batch["position"],
        "crc": batch["crc"],
    }


def _control(record: Record) -> dict[str, Any]:
    """What a control record announces: COMMIT and ABORT with the epoch of the coordinator that wrote it."""
    try:
        kind = control_type(record.key)
        if kind in (ControlType.COMMIT, ControlType.ABORT):
            return {"type": kind.name, "coordinator_epoch": decode_marker(record).coordinator_epoch}
        return {"type": kind.name}
    except RecordError as error:
        return {"type": "UNKNOWN", "reason": error.detail}


def _text(data: bytes | None) -> str | None:
    return None if data is None else as_string(data)
