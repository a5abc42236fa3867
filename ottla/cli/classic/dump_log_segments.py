"""`kafka-dump-log` of a `.log`, or of a snapshot of the metadata: a line for each batch, and one for each record."""

import os
import sys
from dataclasses import dataclass

from ottla.cli.classic.dump_log_batches import INT_MAX, Batch, old_records_of, records_of, walk
from ottla.cli.classic.dump_log_decoders import Decoder
from ottla.cli.classic.dump_log_files import base_offset_of, opened
from ottla.cli.classic.java import Illegal
from ottla.cli.dump.output import printable
from ottla.records.batch import LOG_APPEND_TIME, BatchHeader
from ottla.records.compression import Codec
from ottla.records.control import ControlType, control_type, decode_marker
from ottla.records.errors import RecordError
from ottla.records.record import Record

LOG, CHECKPOINT = ".log", ".checkpoint"
_BOOTSTRAP = "bootstrap.checkpoint"
_TIMES = ("CreateTime", "LogAppendTime")
_NO_TIME = "NoTimestampType"
_NUMBER_AT, _EPOCH_AT = slice(0, 20), slice(21, 31)  # of 00000000000000000012-0000000003.checkpoint
_SEQUENCES = 1 << 31


@dataclass(frozen=True, slots=True)
class Options:
    """What to show of a segment."""

    deep: bool
    data: bool
    skips_metadata: bool
    bytes_max: int
    decoder: Decoder


def dump_segment(path: str, options: Options) -> list[tuple[int, int]]:
    """Print a file; returns where offsets did not follow each other: the one before, and the one behind."""
    gaps: list[tuple[int, int]] = []
    print(_title(path))
    last_offset, end = -1, 0
    with opened(path) as file:
        for batch in walk(file, 0, options.bytes_max):
            print(_batch_line(batch))
            if options.deep:
                for offset in _print_records(batch, options):
                    if offset != last_offset + 1:
                        gaps.append((last_offset, offset))
                    last_offset = offset
            end = batch.position + len(batch.data)
        rest = file.size() - end
    if rest > 0 and options.bytes_max == INT_MAX:
        print(f"Found {rest} invalid bytes at the end of {_seen(os.path.basename(path))}")
    return gaps


def _title(path: str) -> str:
    name = os.path.basename(path)
    if name.endswith(LOG):
        return f"Log starting offset: {base_offset_of(path)}"
    if name == _BOOTSTRAP:
        return "KRaft bootstrap snapshot"
    try:
        return f"Snapshot end offset: {int(name[_NUMBER_AT])}, epoch: {int(name[_EPOCH_AT])}"
    except ValueError:
        raise Illegal(
            f"java.lang.StringIndexOutOfBoundsException: {name}\n"
            "The name of a snapshot is an offset and an epoch, such as 00000000000000000012-0000000003.checkpoint"
        ) from None


# --- batches ----------------------------------------------------------------------------------------------------------


def _batch_line(batch: Batch) -> str:
    if batch.is_old:
        message = batch.message
        time, codec, crc = _time_of(batch), message.attributes & 7, message.crc
        head = f"offset: {message.offset} position: {batch.position} {time}: {message.timestamp}"
    else:
        header = batch.header
        codec, crc = header.attributes & 7, header.crc
        head = _head(header) + f" position: {batch.position} {_time_of(batch)}: {header.max_timestamp}"
    return (
        f"{head} size: {len(batch.data)} magic: {batch.magic} compresscodec: {_codec(codec)}"
        f" crc: {crc} isvalid: {_bool(batch.is_valid)}"
    )


def _head(header: BatchHeader) -> str:
    return (
        f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: {header.count}"
        f" baseSequence: {header.base_sequence} lastSequence: {header.last_sequence}"
        f" producerId: {header.producer_id} producerEpoch: {header.producer_epoch}"
        f" partitionLeaderEpoch: {header.leader_epoch} isTransactional: {_bool(header.is_transactional)}"
        f" isControl: {_bool(header.is_control)} deleteHorizonMs: {optional(header.delete_horizon_ms)}"
    )


def _codec(number: int) -> str:
    if number > Codec.ZSTD:
        raise Illegal(f"java.lang.IllegalArgumentException: Unknown compression type id: {number}")
    return Codec(number).name.lower()


def _time_of(batch: Batch) -> str:
    if batch.magic < 1:
        return _NO_TIME
    kind = batch.message.timestamp_type if batch.is_old else batch.header.timestamp_type
    return _TIMES[1 if kind == LOG_APPEND_TIME else 0]


def optional(number: int | None) -> str:
    """As Java's `OptionalLong` prints itself."""
    return "OptionalLong.empty" if number is None else f"OptionalLong[{number}]"


def _bool(value: bool) -> str:
    return "true" if value else "false"


# --- records ----------------------------------------------------------------------------------------------------------


def _print_records(batch: Batch, options: Options) -> list[int]:
    """Print all of them; returns their offsets. What fails fails behind what could be read."""
    offsets = []
    time = _time_of(batch)
    if batch.is_old:
        for old in old_records_of(batch):
            tail = f" isValid: {_bool(old.is_valid)} crc: {old.crc}"
            _print_record(old.record, f"{_sizes(old.record, time)}{tail}", options, is_control=False)
            offsets.append(old.record.offset)
        return offsets
    header = batch.header
    for record in records_of(batch):
        metadata = f"{_sizes(record, time)} {_v2_fields(record, header)}"
        if header.is_control and not options.skips_metadata:
            metadata += f" {_control(record)}"
        _print_record(record, metadata, options, is_control=header.is_control)
        offsets.append(record.offset)
    return offsets


def _print_record(record: Record, metadata: str, options: Options, *, is_control: bool) -> None:
    write = sys.stdout.write
    prefix = "| "
    if not options.skips_metadata:
        write(f"| {metadata}")
        prefix = " "
    if options.data and not is_control:
        shown = options.decoder(record)
        for name, text in (("key", shown.key), ("payload", shown.value)):
            if text is not None:
                write(f"{prefix}{name}: {_seen(text)}")
                prefix = " "
    write("\n")


def _sizes(record: Record, time: str) -> str:
    key, value = (-1 if each is None else len(each) for each in (record.key, record.value))
    return f"offset: {record.offset} {time}: {record.timestamp} keySize: {key} valueSize: {value}"


def _v2_fields(record: Record, header: BatchHeader) -> str:
    sequence = header.base_sequence
    if sequence >= 0:
        sequence = (sequence + record.offset - header.base_offset) % _SEQUENCES
    names = ",".join(
        _seen(name.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))
        for name, _ in record.headers
    )
    return f"sequence: {sequence} headerKeys: [{names}]"


def _control(record: Record) -> str:
    try:
        kind = control_type(record.key)
        if kind in (ControlType.ABORT, ControlType.COMMIT):
            marker = decode_marker(record)
            return f"endTxnMarker: {marker.type.name} coordinatorEpoch: {marker.coordinator_epoch}"
    except RecordError as error:
        raise Illegal(f"org.apache.kafka.common.InvalidRecordException: {error.detail}") from None
    from ottla.cli.classic.dump_log_metadata import control_text

    return control_text(kind, record)


def _seen(text: str) -> str:
    return text if text.isprintable() or not sys.stdout.isatty() else printable(text)
