"""A log directory with everything in it that an inspection looks at, and ways to spoil it."""

import uuid

from ottla.core.ids import TopicPartition
from ottla.records import batch as batches
from ottla.records.builder import build
from ottla.records.compression import Codec
from ottla.records.record import Record
from ottla.storage.files import Files
from ottla.storage.inspection.directory import Inspection, inspect
from ottla.storage.inspection.findings import Finding, Findings, Severity
from ottla.storage.inspection.partition import Scope
from ottla.storage.inspection.plan import Step
from ottla.storage.inspection.repair import repair_all
from ottla.storage.log import Log
from ottla.storage.log_directory import LogDirectory
from ottla.storage.meta import Meta, write_meta
from ottla.storage.scan import walk
from ottla.storage.segment import offset_of
from ottla.testing.disk import SimDisk
from tests.unit.storage.helpers import NOW, config, marker, put

DATA = "/data"
ORDERS, PAYMENTS = TopicPartition("orders", 0), TopicPartition("payments", 3)
HERE = f"{DATA}/{ORDERS}"
TOPIC_ID = uuid.UUID(int=0x1234567890ABCDEF1234567890ABCDEF)
SETTINGS = config(segment_bytes=1000, index_interval_bytes=100)


def fill(log: Log, rounds: int = 4) -> None:
    """Plain and compressed batches, a numbered producer, transactions that commit, abort and overlap; three epochs."""
    for n in range(rounds):
        epoch, at_ms = n // 2, NOW + 100 * n
        put(log, b"a%d" % n, b"b%d" % n, epoch=epoch, at_ms=at_ms)
        zipped = build([Record(i, at_ms + 1 + i, b"k", b"zipped" * 9) for i in range(3)], codec=Codec.GZIP)
        log.append(zipped, epoch, NOW)
        put(log, b"numbered", epoch=epoch, at_ms=at_ms + 5, producer=(5, 0, n))
        put(log, b"in-7-%d" % n, epoch=epoch, at_ms=at_ms + 6, producer=(7, 0, n), is_transactional=True)
        put(log, b"in-8-%d" % n, epoch=epoch, at_ms=at_ms + 7, producer=(8, 0, n), is_transactional=True)
        end(log, 7, commit=False, epoch=epoch)
        end(log, 8, commit=n % 2 == 0, epoch=epoch)


def end(log: Log, producer_id: int, *, commit: bool, epoch: int) -> None:
    log.append(marker(producer_id, 0, commit=commit), epoch, NOW, client=False)


def made(files: Files, *, clean: bool = True) -> LogDirectory:
    """A directory of two partitions after a clean stop."""
    files.make_directory(DATA)
    directory = LogDirectory.open(files, DATA, lambda topic: SETTINGS)
    write_meta(files, DATA, Meta(1, "cluster"))
    for partition in (ORDERS, PAYMENTS):
        log = directory.create(partition, TOPIC_ID)
        fill(log)
        log.advance_high_watermark(log.end_offset)
    if clean:
        directory.close()
    return directory


def look(files: Files, directory: str = DATA, *, in_use: bool = False) -> tuple[Inspection, list[Finding]]:
    found: list[Finding] = []
    inspection = inspect(files, directory, Scope(Findings(found.append), in_use=in_use))
    return inspection, found


def complaints(files: Files, directory: str = DATA, *, in_use: bool = False) -> list[Finding]:
    """What is found, without notes."""
    return [f for f in look(files, directory, in_use=in_use)[1] if f.severity is not Severity.NOTE]


def everything(files: Files, directory: str) -> dict[str, bytes]:
    """All files below a directory of two levels, by path."""
    found: dict[str, bytes] = {}
    for name in files.names(directory):
        path = f"{directory}/{name}"
        try:
            found[path] = files.read(path)
        except OSError:
            found |= everything(files, path)
    return found


def write(files: Files, path: str, data: bytes) -> None:
    file = files.open(path, create=True)
    file.truncate(0)
    file.write_at(0, data)
    file.sync()
    file.close()


def values(files: Files, partition: TopicPartition = ORDERS) -> dict[int, bytes | None]:
    """All records that a log gives to its readers, by offset, read from the files as they are."""
    found: dict[int, bytes | None] = {}
    here = f"{DATA}/{partition}"
    for name in files.names(here):
        if offset_of(name, ".log") is not None:
            file = files.open(f"{here}/{name}")
            for at in walk(file, 0, file.size()):
                data = file.read_at(at.position, at.size)
                found |= {r.offset: r.value for r in batches.records_of(data)}
    return found


def copy_of(contents: dict[str, bytes]) -> SimDisk:
    disk = SimDisk()
    for path, data in contents.items():
        disk.make_directory(path.rpartition("/")[0])
        write(disk, path, data)
    for directory in {path.rpartition("/")[0] for path in contents}:
        disk.sync_directory(directory)
    return disk


def flip(disk: Files, path: str, at: int, bits: int = 0x10) -> None:
    """Change a byte of a file."""
    data = bytearray(disk.read(path))
    data[at] ^= bits
    write(disk, path, bytes(data))


def mended(disk: Files, directory: str = DATA) -> list[Step]:
    """Repair it; what was done."""
    done: list[Step] = []
    repair_all(disk, look(disk, directory)[0], done.append)
    return done


def quarantined(disk: SimDisk) -> dict[str, bytes]:
    """What lies in quarantine, by its name without the ending that all have."""
    names = [name for name in disk.names(DATA) if name.endswith(".quarantine")]
    return {name.removesuffix(".quarantine"): disk.read(f"{DATA}/{name}") for name in names}
