"""Files for `kafka-dump-log`: of brokers, ours and Apache's, and some that are damaged in one way each."""

import shutil
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ottla.client import Admin, Consumer, Producer
from ottla.records import legacy
from ottla.records.builder import build
from ottla.records.compression import Codec
from ottla.records.control import ControlType, build_marker
from ottla.records.record import Record
from ottla.storage.config import TopicConfig
from ottla.storage.files import OsFiles
from ottla.storage.log import Log
from ottla.testing import Broker
from tests.oracles.apache_kafka import Unavailable, apache_kafka

NOW = 1_700_000_000_000
NAME = "0" * 20
Change = Callable[[bytes], bytes]
SOME = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}


@contextmanager
def written_by(kind: str, directory: Path) -> Iterator[Path]:
    """The log directory of a broker that has ended, or was killed if it was Apache's."""
    if kind == "ottla":
        with Broker(data_dir=directory, config=SOME) as broker:
            _fill(broker.bootstrap_server)
        yield directory
        return
    try:
        with apache_kafka(SOME, data_dir=directory) as broker:
            _fill(broker.bootstrap_server)
    except Unavailable as error:
        pytest.skip(str(error))
    yield directory / "data"


def _fill(server: str) -> None:
    with Admin(bootstrap_servers=server) as admin:
        admin.create_topic("plain", partitions=1, configs={"index.interval.bytes": "200"})
        admin.create_topic("packed", partitions=1, configs={"message.timestamp.type": "LogAppendTime"})
        admin.create_topic("paid", partitions=1)
    with Producer(bootstrap_servers=server) as producer:
        for number in range(40):
            headers = {"first": b"x", "ž": None} if number % 3 == 0 else {}
            key = b"k%d" % number if number % 5 else None
            producer.send("plain", f"value {number} ü".encode(), key=key, headers=headers)
            if number % 4 == 0:
                producer.flush()
        producer.send("plain", None, key=b"gone")
        producer.send("plain", b"\xff\xfe\x00 no text", key=b"\x80")
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        with Producer(bootstrap_servers=server, compression_type=codec, linger_ms=50) as producer:
            for _ in range(10):
                producer.send("packed", b"abc" * 50, key=b"k")
    with Producer(bootstrap_servers=server, transactional_id="pay-1") as producer:
        producer.init_transactions()
        for number in range(4):
            producer.begin_transaction()
            for each in range(3):
                producer.send("paid", b"%d" % each)
            producer.commit_transaction() if number % 2 == 0 else producer.abort_transaction()
    consumer = Consumer("plain", bootstrap_servers=server, group_id="readers", auto_offset_reset="earliest")
    read = 0
    while read < 42:
        read += sum(map(len, consumer.poll(timeout_ms=30_000).values()))
    consumer.commit()
    consumer.close()


# --- by hand ----------------------------------------------------------------------------------------------------------


def segments(directory: Path) -> None:
    """Two segments with all codecs, idempotent and transactional producers, aborts, and two leader epochs."""
    config = TopicConfig({"segment.bytes": "16000", "index.interval.bytes": "500"})
    log = Log.open(OsFiles(), str(directory), config)
    for number in range(100):
        codec, epoch = list(Codec)[number % 5], 2 + number // 60
        records = [
            Record(i, NOW + 1000 * number + i, b"k%d" % i, b"value" * 9, (("h", b"x"),) if i % 2 else ())
            for i in range(4)
        ]
        if number % 10 != 7:
            log.append(build(records, codec=codec), epoch, NOW)
            continue
        who = {"producer_id": 1000 + number % 3, "producer_epoch": 3}
        batch = build(records, codec=codec, base_sequence=4 * (number // 30), is_transactional=True, **who)
        log.append(batch, epoch, NOW)
        if number == 97:
            break  # one that is under way
        kind = ControlType.ABORT if number % 20 == 7 else ControlType.COMMIT
        marker = build_marker(kind, coordinator_epoch=9, timestamp=NOW + 1000 * number + 5, **who)
        log.append(marker, epoch, NOW, client=False)
    log.close()


def old_messages(directory: Path) -> None:
    """Magic 0 and 1, plain and compressed, stamped by clients and by brokers; each with indexes."""
    for magic, codec, kind in (
        (0, Codec.NONE, 0),
        (0, Codec.LZ4, 0),
        (1, Codec.GZIP, 0),
        (1, Codec.SNAPPY, 1),
    ):
        place = directory / f"old-{magic}-{codec.name}"
        place.mkdir()
        records = [
            Record(i, 1000 + i if magic else -1, b"k%d" % i if i else None, b"v%d" % i if i != 2 else None)
            for i in range(4)
        ]
        data = legacy.build(
            records, magic, codec=codec, timestamp_type=kind, log_append_time=5000 if kind else -1
        )
        (place / f"{NAME}.log").write_bytes(data)
        (place / f"{NAME}.index").write_bytes(struct.pack(">ii", 3 if codec else 0, 0))
        (place / f"{NAME}.timeindex").write_bytes(struct.pack(">qi", 1003, 3))
    place = directory / "old-damaged"
    place.mkdir()
    (place / f"{NAME}.log").write_bytes(legacy.build(records, 1)[:-1] + b"X")


def _shifted(at: int, size: int, by: int) -> Change:
    def change(data: bytes) -> bytes:
        number = int.from_bytes(data[at : at + size], "big") + by
        return data[:at] + number.to_bytes(size, "big") + data[at + size :]

    return change


DAMAGE: dict[str, tuple[str, Change]] = {
    "checksum": (".log", _shifted(200, 1, 1)),
    "cut": (".log", lambda data: data[:-20]),
    "cut-in-head": (".log", lambda data: data[:-1] + b"\0" * 5),
    "zeros": (".log", lambda data: data + b"\0" * 1000),
    "garbage": (".log", lambda data: data + b"garbage!" * 30),
    "negative": (".log", lambda data: data + struct.pack(">qi", 5, -7) + b"x" * 100),
    "empty": (".log", lambda data: b""),
    "later-magic": (".log", lambda data: data[:16] + b"\x07" + data[17:]),
    "hole": (".log", lambda data: data[12 + int.from_bytes(data[8:12], "big") :]),
    "twice": (".log", lambda data: data + data),
    "index-padded": (".index", lambda data: data + b"\0" * 800),
    "index-zeros": (".index", lambda data: b"\0" * 800),
    "index-empty": (".index", lambda data: b""),
    "index-odd": (".index", lambda data: data + b"abc"),
    "index-offset": (".index", _shifted(8, 4, 1)),
    "index-offsets": (".index", lambda data: _shifted(24, 4, 1)(_shifted(8, 4, 1)(data))),
    "index-position": (".index", _shifted(12, 4, 1)),
    "index-beyond": (".index", lambda data: data + struct.pack(">ii", 5000, 99999)),
    "index-order": (".index", lambda data: data[8:16] + data[:8] + data[16:]),
    "index-negative": (".index", lambda data: data + struct.pack(">ii", -5, 0)),
    "times-padded": (".timeindex", lambda data: data + b"\0" * 1200),
    "times-zeros": (".timeindex", lambda data: b"\0" * 1200),
    "times-odd": (".timeindex", lambda data: data + b"abc"),
    "times-time": (".timeindex", _shifted(0, 8, 1)),
    "times-offset": (".timeindex", _shifted(8, 4, -1)),
    "times-order": (".timeindex", lambda data: data[12:24] + data[:12] + data[24:]),
    "times-beyond": (".timeindex", lambda data: data + struct.pack(">qi", NOW * 2, 9000)),
    "times-negative": (".timeindex", lambda data: data + struct.pack(">qi", NOW * 2, -5)),
    "txns-cut": (".txnindex", lambda data: data[:-3]),
    "txns-later": (".txnindex", lambda data: b"\0\7" + data[2:]),
    "producers-cut": (".snapshot", lambda data: data[:-3]),
    "producers-short": (".snapshot", lambda data: data[:5]),
    "producers-empty": (".snapshot", lambda data: b""),
    "producers-later": (".snapshot", lambda data: b"\0\7" + data[2:]),
    "producers-checksum": (".snapshot", _shifted(20, 1, 1)),
    "producers-long": (".snapshot", lambda data: data + b"xx"),
}


def damaged(clean: Path, directory: Path) -> None:
    """A copy of the segments for each kind of damage."""
    for name, (suffix, change) in DAMAGE.items():
        place = shutil.copytree(clean, directory / name)
        path = min(place.glob(f"*{suffix}"))
        path.write_bytes(change(path.read_bytes()))
