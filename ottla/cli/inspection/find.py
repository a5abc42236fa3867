"""The command line of `ottla log find`."""

import sys
from typing import Any

import click

from ottla.cli.dump.decoders import as_string
from ottla.cli.inspection.files import ReadOnlyFiles
from ottla.cli.inspection.shared import directory_of
from ottla.cli.inspection.times import as_time, time_of
from ottla.cli.session import json_option
from ottla.cli.tables import document, printable
from ottla.records.compression import Codec
from ottla.storage.inspection.lookup import LookUp, find_offset, find_time
from ottla.storage.scan import BatchAt
from ottla.storage.segment import file_name

_SHOWN_MAX = 200


@click.command()
@click.argument("directory", metavar="DIR")
@click.argument("offset", required=False, type=click.IntRange(0, 2**63 - 1))
@click.option("--time", "time", metavar="T", help="Find the first record of that time or later instead.")
@json_option
def find(directory: str, offset: int | None, time: str | None, as_json: bool) -> None:
    """Show how an offset is found in a partition: which segment, which index entry, how many bytes are scanned.

    DIR is the directory of one partition. T is in milliseconds, or a time such as 2026-11-15T07:00. Only headers are
    read on the way; the batch that is found is opened, and the record shown. Exit code 1 means that no record has that
    offset: the last line says why.

    --json: {"offset", "segments", "compared", "segment", "index": {"key", "position", "page", "pages", "entry",
    "entries"} | null, "index_note", "scan_start", "scanned_bytes", "scanned_batches", "batch": {"position", "size",
    "base_offset", "last_offset", "leader_epoch", "magic", "crc", "attributes", "max_timestamp", "producer_id",
    "producer_epoch", "base_sequence", "records", "is_intact"} | null, "record": {"offset", "timestamp", "key", "value",
    "headers": [[NAME, VALUE]]} | null, "explanation"}; with --time it has a {"time", ...} in the place of "offset".
    """
    directory = directory_of(directory)
    if (offset is None) == (time is None):
        raise click.UsageError("name an offset, or a time with --time")
    files = ReadOnlyFiles()
    if time is not None:
        seen = find_time(files, directory, time_of(time))
    else:
        assert offset is not None
        seen = find_offset(files, directory, offset)
    if as_json:
        document(_document(seen))
    else:
        for name, line in _lines(seen):
            sys.stdout.write(f"{name:9} {printable(line)}\n")
        sys.stdout.flush()
    if seen.record is None:
        raise click.exceptions.Exit(1)


def _lines(seen: LookUp) -> list[tuple[str, str]]:
    compared = ", ".join(map(str, seen.compared[:40])) + (", ..." if len(seen.compared) > 40 else "")
    how = "gone through in order" if seen.by_time else "names compared"
    lines = [
        ("segment", f"{len(seen.compared)} {how} of {seen.segments} ({compared}): {seen.segment or 'none'}")
    ]
    if seen.segment is not None:
        lines += [("index", _index(seen)), ("scan", _scan(seen))]
    if seen.batch is not None:
        lines.append(("batch", _batch(seen.batch, seen.is_intact)))
    if seen.record is not None:
        lines.append(("record", _record(seen)))
    return [*lines, ("result", seen.explanation)]


def _index(seen: LookUp) -> str:
    if (hit := seen.hit) is None:
        return f"not used: {seen.index_note}"
    base = int((seen.segment or file_name(0, ""))[:20])
    place = f"page {hit.page + 1} of {hit.pages}, entry {hit.entry + 1} of {hit.entries}"
    if seen.by_time:
        said = f"time {hit.key} ({as_time(hit.key)}) -> offset {base + hit.position}"
    else:
        said = f"offset {base + hit.key} -> byte {hit.position}"
    return f"{place}: {said}" + (f"; {seen.index_note}" if seen.index_note else "")


def _scan(seen: LookUp) -> str:
    return f"{seen.scanned_bytes} bytes from byte {seen.start} on, {seen.scanned_batches} headers read"


def _batch(batch: BatchAt, is_intact: bool | None) -> str:
    codec = batch.attributes & 7
    crc = {True: "valid", False: "invalid", None: "not computed"}[is_intact]
    said = (
        f"byte {batch.position}, {batch.size} bytes, offsets {batch.base_offset} to {batch.last_offset},"
        f" {batch.records} records, magic {batch.magic},"
        f" codec {Codec(codec).name.lower() if codec <= Codec.ZSTD else codec},"
        f" newest {as_time(batch.max_timestamp)}, leader epoch {batch.leader_epoch}, crc {crc}"
    )
    if batch.producer_id >= 0:
        said += f", producer {batch.producer_id} epoch {batch.producer_epoch} sequence {batch.base_sequence}"
    flags = [
        name
        for name, is_set in (("transactional", batch.is_transactional), ("control", batch.is_control))
        if is_set
    ]
    return ", ".join([said, *flags])


def _record(seen: LookUp) -> str:
    record = seen.record
    assert record is not None
    key, value = _text(record.key), _text(record.value)
    return f"offset {record.offset}, time {record.timestamp} ({as_time(record.timestamp)}), key {key}, value {value}"


def _text(data: bytes | None) -> str:
    if data is None:
        return "null"
    shown = as_string(data[:_SHOWN_MAX])
    return f"{shown!r}" + (f"... ({len(data)} bytes)" if len(data) > _SHOWN_MAX else "")


def _document(seen: LookUp) -> dict[str, Any]:
    record = seen.record
    return {
        "time" if seen.by_time else "offset": seen.wanted,
        "segments": seen.segments,
        "compared": seen.compared,
        "segment": seen.segment,
        "index": None if seen.hit is None else seen.hit._asdict(),
        "index_note": seen.index_note,
        "scan_start": seen.start,
        "scanned_bytes": seen.scanned_bytes,
        "scanned_batches": seen.scanned_batches,
        "batch": None if seen.batch is None else seen.batch._asdict() | {"is_intact": seen.is_intact},
        "record": None
        if record is None
        else {
            "offset": record.offset,
            "timestamp": record.timestamp,
            "key": None if record.key is None else as_string(record.key),
            "value": None if record.value is None else as_string(record.value),
            "headers": [[name, None if text is None else as_string(text)] for name, text in record.headers],
        },
        "explanation": seen.explanation,
    }
