"""A partition directory with thousands of segments, made quickly: of the first one that a log wrote.

What differs from segment to segment is the name, and the offset at the head of each batch, which no checksum covers.
"""

import struct
from pathlib import Path

from ottla.core.ids import TopicPartition
from ottla.records.builder import build
from ottla.records.record import Record
from ottla.storage.config import TopicConfig
from ottla.storage.files import OsFiles
from ottla.storage.log_directory import LogDirectory

PARTITION = TopicPartition("orders", 0)
BATCHES_EACH = 20
VALUE = b"x" * 1000
NOW = 1_700_000_000_000


def settings(**changes: str) -> TopicConfig:
    return TopicConfig({"retention.ms": "-1", **{k.replace("_", "."): v for k, v in changes.items()}})


def make(path: str, count: int) -> int:
    """A log directory after a clean stop, whose only partition has `count` full segments and an empty one. Returns the
    offset at which it ends."""
    directory = LogDirectory.open(OsFiles(syncs=False), path, lambda topic: settings())
    log = directory.create(PARTITION)
    for n in range(BATCHES_EACH):
        log.append(build([Record(0, NOW + n, None, VALUE)]), 0, NOW)
    log.roll()
    end = count * BATCHES_EACH
    log.close()
    here = Path(log.directory)
    first, border = f"{0:020d}", f"{BATCHES_EACH:020d}"
    batches = bytearray((here / f"{first}.log").read_bytes())
    size = len(batches) // BATCHES_EACH
    indexes = {suffix: (here / f"{first}.{suffix}").read_bytes() for suffix in ("index", "timeindex")}
    snapshot = (here / f"{border}.snapshot").read_bytes()
    for name in here.iterdir():
        if name.name.startswith((first, border)):
            name.unlink()
    for base in range(0, end + 1, BATCHES_EACH):
        stem = f"{here}/{base:020d}"
        for n in range(BATCHES_EACH):
            struct.pack_into(">q", batches, n * size, base + n)
        is_last = base == end
        _write(f"{stem}.log", b"" if is_last else bytes(batches))
        for suffix, data in indexes.items():
            _write(f"{stem}.{suffix}", b"" if is_last else data)
        if base:
            _write(f"{stem}.snapshot", snapshot)
    reopened = LogDirectory.open(OsFiles(syncs=False), path, lambda topic: settings())
    reopened.logs[PARTITION].advance_high_watermark(end)
    reopened.close(1)
    return end


def _write(path: str, data: bytes) -> None:
    with open(path, "wb", buffering=0) as file:
        file.write(data)
