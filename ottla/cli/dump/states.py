"""The small files of a log as rows: producer snapshots, leader epochs, topic ids, checkpoints. Read whole."""

import os
from collections.abc import Iterator

from ottla.cli.dump.files import read_small
from ottla.cli.dump.rows import Item, Problem, Row
from ottla.core.errors import ProtocolError
from ottla.core.ids import format_id
from ottla.records.checksum import crc32c
from ottla.storage import checkpoints, snapshots
from ottla.storage.checkpoints import parse_lines
from ottla.storage.files import OsFiles

_PRODUCER_FIELDS = (
    "producer_id",
    "producer_epoch",
    "last_sequence",
    "last_offset",
    "offset_delta",
    "timestamp",
    "coordinator_epoch",
    "txn_first_offset",
)


def dump_snapshot(path: str) -> Iterator[Item]:
    """The header of a snapshot, then the producers in it, even if the checksum says not to believe them."""
    data = read_small(path)
    header, entry = snapshots.HEADER, snapshots.ENTRY
    if len(data) < header.size:
        yield Problem("the file ends within the header of a snapshot", 0, stops=True)
        return
    version, checksum, count = header.unpack_from(data)
    if version != snapshots.VERSION:
        yield Problem(f"a snapshot of version {version}, which is not known", 0, stops=True)
        return
    is_intact = crc32c(data, snapshots.COUNTED_FROM) == checksum
    crc = "valid" if is_intact else "invalid"
    yield Row("snapshot", {"version": version, "producers": count, "checksum": checksum, "crc": crc})
    if not is_intact:
        yield Problem("the snapshot fails its checksum", 2)
    whole = (len(data) - header.size) // entry.size
    for number in range(max(0, min(count, whole))):
        fields = entry.unpack_from(data, header.size + number * entry.size)
        yield Row("producer", dict(zip(_PRODUCER_FIELDS, fields, strict=True)))
    yield from _size_problem(count, whole, len(data))


def _size_problem(count: int, whole: int, size: int) -> Iterator[Problem]:
    if count < 0 or size != snapshots.HEADER.size + count * snapshots.ENTRY.size:
        end = snapshots.HEADER.size + max(0, min(count, whole)) * snapshots.ENTRY.size
        yield Problem(f"the header says {count} producers, the file has {size} bytes", end, stops=True)


def dump_epochs(path: str) -> Iterator[Item]:
    """leader-epoch-checkpoint: from which offset on each leader wrote."""
    before = (-1, -1)
    for row in _rows(path, 2):
        if isinstance(row, Problem):
            yield row
            continue
        epoch, start_offset = int(row[0]), int(row[1])
        yield Row("epoch", {"epoch": epoch, "start_offset": start_offset})
        if epoch <= before[0] or start_offset < before[1]:
            yield Problem(f"epoch {epoch} from offset {start_offset} on does not follow the one before it")
        before = epoch, start_offset


def dump_checkpoint(path: str) -> Iterator[Item]:
    """The checkpoints of a log directory: an offset for every partition."""
    for row in _rows(path, 3):
        if isinstance(row, Problem):
            yield row
        else:
            yield Row("checkpoint", {"topic": row[0], "partition": int(row[1]), "offset": int(row[2])})


def _rows(path: str, columns: int) -> Iterator[list[str] | Problem]:
    """The rows of a checkpoint file, all columns but a leading topic numbers."""
    try:
        lines = parse_lines(read_small(path), path)
    except ProtocolError as error:
        yield Problem(str(error), stops=True)
        return
    for line in lines:
        fields = line.split()
        if len(fields) == columns and all(_is_number(field) for field in fields[-2:]):
            yield fields
        else:
            yield Problem(f"a line that makes no sense: {line[:80]!r}")


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 19


def dump_partition_metadata(path: str) -> Iterator[Item]:
    """partition.metadata: which topic the directory belongs to."""
    read_small(path)  # says so if it cannot be read, or is not small
    try:
        topic_id = checkpoints.read_partition_metadata(OsFiles(), os.path.dirname(path) or ".")
    except ProtocolError as error:
        yield Problem(str(error), stops=True)
        return
    if topic_id is not None:
        yield Row("partition", {"version": 0, "topic_id": format_id(topic_id)})
