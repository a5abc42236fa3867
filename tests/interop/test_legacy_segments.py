"""Segments of magic 0 and 1 between Apache Kafka's own classes and ours: who wrote them does not matter to either.

Its 3.9 is the last that writes them. What the tests of storage are built on, `legacy_segments`, is held against it too.
"""

import json
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from ottla.records import frames, legacy
from ottla.records.compression import Codec
from ottla.records.record import Record
from ottla.storage.config import TopicConfig
from ottla.storage.files import OsFiles
from ottla.storage.log import Log
from tests.oracles import apache_kafka
from tests.unit.storage import test_legacy_cleaning
from tests.unit.storage.legacy_segments import (
    NOW,
    SHAPES,
    STAMPED_AT,
    WRAPPED,
    Shape,
    lay,
    old_log,
    old_records,
    stored,
    written,
)

HERE = Path(__file__).parent
JAVA = ["java", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"]
CONFIG = {"segment.bytes": "1000000", "index.interval.bytes": "200"}
MIXED = [Shape(0, Codec.LZ4), Shape(0), Shape(1, Codec.SNAPPY), Shape(1), Shape(2), Shape(2, Codec.GZIP)]


class Apache:
    """A JVM that writes and reads old messages."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def write(self, shape: Shape, records: Sequence[Record]) -> bytes:
        answer = self._ask(
            do="write",
            magic=shape.magic,
            codec=shape.codec.name.lower(),
            stamp=STAMPED_AT if shape.is_stamped else None,
            wrapped=WRAPPED if shape.codec else len(records),
            records=[[r.offset, r.timestamp, _hex(r.key), _hex(r.value)] for r in records],
        )
        return bytes.fromhex(answer)

    def read(self, data: bytes) -> list[tuple[Record, bool]]:
        """Records, each with whether the broker gave it its time."""
        rows = self._ask(do="read", data=data.hex())
        return [
            (Record(offset, timestamp, _bytes(key), _bytes(value)), is_stamped)
            for offset, timestamp, is_stamped, key, value in rows
        ]

    def _ask(self, **question: Any) -> Any:
        questions, answers = self._process.stdin, self._process.stdout
        assert questions is not None and answers is not None
        questions.write(json.dumps(question) + "\n")
        questions.flush()
        line = answers.readline()
        assert line, "Apache Kafka refused what it was given"
        return json.loads(line)


def _hex(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


def _bytes(digits: str | None) -> bytes | None:
    return None if digits is None else bytes.fromhex(digits)


@pytest.fixture(scope="module")
def class_path() -> str:
    try:
        return apache_kafka.class_path("3.9.2")
    except apache_kafka.Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def apache(class_path: str) -> Iterator[Apache]:
    command = [*JAVA, "-cp", class_path, str(HERE / "LegacySegments.java")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8"
    ) as process:
        try:
            yield Apache(process)
        finally:
            process.kill()


def recover(class_path: str, directory: Path) -> None:
    """Let Apache's log open the directory as after a crash: it writes all indexes anew."""
    settings = [CONFIG["segment.bytes"], CONFIG["index.interval.bytes"], str(NOW)]
    command = [*JAVA, "-cp", class_path, str(HERE / "RecoverLog.java"), str(directory), *settings]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def records_in(data: bytes) -> list[Record]:
    return [r for frame in frames.iter_frames(data) for r in frames.records_of(data, frame)]


def named(shapes):
    return pytest.mark.parametrize("shape", shapes, ids=str)


@named(SHAPES)
@pytest.mark.parametrize("gaps", [False, True])
def test_apache_reads_the_segments_that_the_tests_are_built_on(apache, shape, gaps):
    records = old_records(40, 100, gaps=gaps)
    expected = [(record, shape.is_stamped) for record in stored(shape, records)]
    assert apache.read(written(shape, records)) == expected


@named(SHAPES)
@pytest.mark.parametrize("gaps", [False, True])
def test_we_read_what_apache_writes(apache, shape, gaps):
    records = old_records(40, 100, gaps=gaps)
    data = apache.write(shape, records)
    assert records_in(data) == stored(shape, records)
    kinds = {(h.magic, h.codec, h.timestamp_type) for _, h in legacy.iter_messages(data)}
    assert kinds == {(shape.magic, shape.codec, int(shape.is_stamped))}


@named([shape for shape in SHAPES if not shape.codec])
def test_what_is_not_compressed_is_the_same_byte_for_byte(apache, shape):
    records = old_records(40, 100, gaps=True)
    assert apache.write(shape, records) == written(shape, records)


@named(SHAPES)
def test_apache_reads_what_compaction_makes_of_old_segments(apache, shape):
    old = old_log(shape, gaps=True)
    log = test_legacy_cleaning.opened(old.segments)
    test_legacy_cleaning.compact(log)
    found = apache.read(log.segments[0].file.read_at(0, log.segments[0].size))
    expected = test_legacy_cleaning.newest_of_each_key(old.records)
    assert found == [(record, shape.is_stamped) for record in expected]


@pytest.mark.parametrize("shapes", [SHAPES, MIXED], ids=["of one format each", "of many formats"])
def test_the_indexes_that_apache_builds_for_old_segments_are_the_ones_that_we_build(
    class_path, tmp_path, shapes
):
    old = old_log(*shapes, count=150, segments=len(SHAPES) if shapes is SHAPES else 2)
    theirs, ours = tmp_path / "theirs" / "orders-0", tmp_path / "ours" / "orders-0"
    for directory in (theirs, ours):
        directory.parent.mkdir()
        lay(OsFiles(), str(directory), old.segments)
    recover(class_path, theirs)
    log = Log.open(OsFiles(), str(ours), TopicConfig(CONFIG))
    for segment in log.segments:
        segment.seal()  # as Apache does with all of them
    log.close()
    for name in (f"{base:020d}{suffix}" for base in old.segments for suffix in (".index", ".timeindex")):
        assert (ours / name).read_bytes() == (theirs / name).read_bytes()


def test_a_directory_that_apache_recovered_is_believed(class_path, tmp_path):
    old = old_log(*MIXED, segments=3)
    directory = tmp_path / "orders-0"
    lay(OsFiles(), str(directory), old.segments)
    recover(class_path, directory)
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    log = Log.open(OsFiles(), str(directory), TopicConfig(CONFIG), clean=True, recovery_point=240)
    found: list[Record] = []
    while data := log.read(found[-1].offset + 1 if found else 0, 1 << 20).read():
        found += records_in(data)
    assert found == old.records
    for record in old.records:
        if record.timestamp >= 0:
            first = next(r for r in old.records if r.timestamp >= record.timestamp)
            assert log.offset_by_time(record.timestamp).offset == first.offset
    log.abandon()
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == before
