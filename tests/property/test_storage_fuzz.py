"""Whatever lies on the disk: a file that makes no sense is refused in our own words, never with anything else."""

import random
import struct

import pytest

from ottla.core.errors import OttlaError, ProtocolError
from ottla.core.ids import TopicPartition
from ottla.records.builder import build
from ottla.records.compression import Codec
from ottla.records.control import ControlType, build_marker
from ottla.records.record import Record
from ottla.storage import checkpoints, snapshots, txn_index
from ottla.storage.config import TopicConfig
from ottla.storage.epochs import LeaderEpochs
from ottla.storage.index import CorruptIndex, OffsetIndex, TimeIndex
from ottla.storage.log import Log
from ottla.storage.log_directory import LogDirectory
from ottla.storage.meta import read_meta
from ottla.storage.producers import Producer
from ottla.testing.disk import SimDisk

ROUNDS = 400
HERE = "/data/orders-0"
CONFIG = TopicConfig({"index.interval.bytes": "0", "segment.bytes": "700"})


def mutated(data: bytes, source: random.Random) -> bytes:
    """Flips, cuts, insertions, repetitions, and now and then something else altogether."""
    changed = bytearray(data)
    for _ in range(source.randint(1, 4)):
        at = source.randrange(len(changed) + 1)
        match source.randrange(6):
            case 0 if changed:
                changed[at % len(changed)] = source.randrange(256)
            case 1:
                del changed[at:]
            case 2:
                changed[at:at] = source.randbytes(source.randint(1, 40))
            case 3:
                changed[at:at] = changed[: source.randint(0, 60)]
            case 4:
                changed[at : at + 4] = struct.pack(">i", source.choice([-1, 0, 2**31 - 1, -(2**31)]))
            case _:
                changed = bytearray(source.randbytes(source.randrange(200)))
    return bytes(changed)


def disk_with(path: str, data: bytes) -> SimDisk:
    disk = SimDisk()
    disk.make_directory(HERE)
    file = disk.open(path, create=True)
    file.write_at(0, data)
    return disk


def read_epochs(data: bytes) -> None:
    LeaderEpochs(disk_with(f"{HERE}/leader-epoch-checkpoint", data), HERE).load()


def read_partition_metadata(data: bytes) -> None:
    checkpoints.read_partition_metadata(disk_with(f"{HERE}/partition.metadata", data), HERE)


def read_properties(data: bytes) -> None:
    read_meta(disk_with(f"{HERE}/meta.properties", data), HERE)


def read_offsets(data: bytes) -> None:
    checkpoints.read_offsets(disk_with(f"{HERE}/c", data), f"{HERE}/c")


def read_clean_shutdown(data: bytes) -> None:
    checkpoints.take_clean_shutdown(disk_with(f"{HERE}/.kafka_cleanshutdown", data), HERE)


def read_index(data: bytes) -> None:
    index = OffsetIndex(disk_with(f"{HERE}/i", data), f"{HERE}/i", 5, 1 << 20)
    index.entries.load()
    for offset in (0, 5, 6, 100, 2**40):
        index.look_up(offset)


def read_time_index(data: bytes) -> None:
    index = TimeIndex(disk_with(f"{HERE}/i", data), f"{HERE}/i", 5, 1 << 20)
    index.entries.load()
    for timestamp in (-1, 0, 6, 2**62):
        index.look_up(timestamp)


CHECKPOINT = checkpoints.render_lines(["orders 0 17", "payments 3 9"])
SMALL_FILES = {
    "epochs": (read_epochs, checkpoints.render_lines(["0 0", "4 17", "9 20"])),
    "partition.metadata": (read_partition_metadata, b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"),
    "meta.properties": (
        read_properties,
        b"version=1\ncluster.id=abc\nnode.id=1\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ\n",
    ),
    "offsets": (read_offsets, CHECKPOINT),
    "clean shutdown": (read_clean_shutdown, b'{"version":0,"brokerEpoch":7}'),
    "index": (read_index, b"".join(struct.pack(">II", n * 3, n * 100) for n in range(1, 40))),
    "timeindex": (read_time_index, b"".join(struct.pack(">qI", n * 3, n) for n in range(1, 40))),
    "txnindex": (
        lambda d: txn_index.parse(d, "t"),
        b"".join(struct.pack(">hqqqq", 0, 7, n, n + 2, n + 3) for n in range(9)),
    ),
    "snapshot": (lambda d: snapshots.decode(d, "s"), snapshots.encode([Producer(n, 1) for n in range(5)])),
}


@pytest.mark.parametrize("name", SMALL_FILES)
def test_a_small_file_is_read_or_refused(name):
    read, whole = SMALL_FILES[name]
    source = random.Random(name)
    read(whole)
    for _ in range(ROUNDS):
        data = mutated(whole, source)
        try:
            read(data)
        except (ProtocolError, CorruptIndex) as error:
            assert str(error)


@pytest.fixture(scope="module")
def directory() -> dict[str, bytes]:
    """The files of a log with several segments, codecs, producers and a transaction that was aborted."""
    disk = SimDisk()
    logs = LogDirectory.open(disk, "/data", lambda topic: CONFIG)
    log = logs.create(TopicPartition("orders", 0))
    for number, codec in enumerate(list(Codec) * 2):
        log.append(
            build([Record(i, 1000 + number, b"k", b"v" * 30) for i in range(3)], codec=codec), number, 2000
        )
        batch = build(
            [Record(0, 1500, None, b"t")],
            producer_id=7,
            producer_epoch=0,
            base_sequence=number,
            is_transactional=True,
        )
        log.append(batch, number, 2000)
    marker = build_marker(
        ControlType.ABORT, producer_id=7, producer_epoch=0, coordinator_epoch=0, timestamp=1
    )
    log.append(marker, 20, 2000, client=False)
    logs.close()
    return {name: disk.read(f"{HERE}/{name}") for name in disk.names(HERE)}


@pytest.mark.parametrize("clean", [False, True], ids=["crash", "clean"])
def test_a_log_with_any_files_damaged_opens_and_can_be_read_or_says_why_not(directory, clean):
    source = random.Random(clean)
    for _ in range(ROUNDS):
        disk = SimDisk()
        disk.make_directory(HERE)
        for name, data in directory.items():
            content = mutated(data, source) if source.random() < 0.3 else data
            if source.random() < 0.95:
                disk.open(f"{HERE}/{name}", create=True).write_at(0, content)
        try:
            log = Log.open(disk, HERE, CONFIG, recovery_point=source.choice([0, 5, 20, 41]), clean=clean)
            for offset in range(log.log_start_offset, min(log.end_offset, 60)):
                log.read(offset, 200, source.choice([None, offset + 2])).read()
            log.offset_by_time(source.randrange(2500))
            log.aborted_txns(0, log.end_offset)
            log.append(build([Record(0, 1, None, b"after")]), 99, 1)
            log.truncate_to(source.randrange(log.end_offset + 1))
            log.close()
        except OttlaError as error:
            assert str(error)
