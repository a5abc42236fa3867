"""The command line of `ottla log segments`."""

import os
from typing import Any

import click

from ottla.cli.inspection.files import ReadOnlyFiles
from ottla.cli.inspection.progress import Bar, bytes_below
from ottla.cli.inspection.shared import directory_of
from ottla.cli.inspection.times import as_time
from ottla.cli.session import json_option
from ottla.cli.tables import document, is_for_people, show
from ottla.storage.inspection.directory import partition_names
from ottla.storage.inspection.layout import looks_like_a_partition
from ottla.storage.inspection.stock import SegmentRow, rows

NAMES = (
    "partition", "segment", "last_offset", "size", "batches", "records", "newest", "index", "timeindex", "txnindex",
    "codecs", "compacted", "state",
)  # fmt: skip


@click.command()
@click.argument("directory", metavar="DIR")
@json_option
def segments(directory: str, as_json: bool) -> None:
    """Show the segments of a partition, or of all partitions of a log directory.

    For each: offsets, size, how many batches and records, the newest timestamp, the sizes of its indexes, how many
    batches use which codec, whether it was compacted, and its state. Only headers are read; `ottla log verify` checks
    what lies between them. Exit code 1 means that a segment could not be read to its end.

    --json: [{"partition", "segment", "base_offset", "last_offset", "size", "batches", "records", "newest_timestamp",
    "index_bytes", "timeindex_bytes", "txnindex_bytes", "codecs": {CODEC: BATCHES}, "magics", "is_compacted", "state",
    "problem"}].
    """
    directory = directory_of(directory)
    files = ReadOnlyFiles()
    if looks_like_a_partition(files, directory):
        found = {os.path.basename(os.path.abspath(directory)): directory}
    else:
        found = {
            name: f"{directory}/{name}"
            for name, _ in partition_names(files, directory)
            if os.path.isdir(f"{directory}/{name}")
        }
    if not found:
        raise click.UsageError(f"{directory} holds no partition")
    bar = Bar("reading headers", bytes_below(directory))
    try:
        table = [(name, row) for name, path in found.items() for row in rows(files, path, bar)]
    finally:
        bar.close()
    if as_json:
        document([{"partition": name, **row.as_dict()} for name, row in table])
    else:
        show([_shown(name, row) for name, row in table], NAMES)
    if any(row.problem for _, row in table):
        raise click.exceptions.Exit(1)


def _shown(name: str, row: SegmentRow) -> dict[str, Any]:
    newest: int | str | None = row.newest_timestamp if row.newest_timestamp >= 0 else None
    if newest is not None and is_for_people():
        newest = as_time(row.newest_timestamp)
    return {
        "partition": name,
        "segment": row.segment.removesuffix(".log"),
        "last_offset": row.last_offset,
        "size": row.size,
        "batches": row.batches,
        "records": row.records,
        "newest": newest,
        "index": row.index_bytes,
        "timeindex": row.timeindex_bytes,
        "txnindex": row.txnindex_bytes,
        "codecs": [f"{codec} {count}" for codec, count in row.codecs.items()],
        "compacted": "yes" if row.is_compacted else "no",
        "state": row.state if row.problem is None else f"{row.state}: {row.problem}",
    }
