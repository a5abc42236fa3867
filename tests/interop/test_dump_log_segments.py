"""Apache's DumpLogSegments reads the files that our Log writes, and sees the same numbers as `ottla log dump`.

Apache's own log recovers the same directory, and comes to the same files byte for byte.
"""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from ottla.cli.main import cli
from ottla.records.builder import build
from ottla.records.compression import Codec
from ottla.records.control import ControlType, build_marker
from ottla.records.record import Record
from ottla.storage.config import TopicConfig
from ottla.storage.files import OsFiles
from ottla.storage.log import Log

JARS = Path(__file__).parents[2] / "build" / "jars" / "dump-log-segments"
NOW = 1_700_000_000_000
CONFIG = TopicConfig({"segment.bytes": "16000", "index.interval.bytes": "500"})
COMPLAINTS = (
    "Mismatches in",
    "Found timestamp mismatch",
    "out of order",
    "not found",
    "isvalid: false",
    "xception",
)


@pytest.fixture(scope="module")
def class_path():
    if shutil.which("java") is None:
        pytest.skip("no java here: DumpLogSegments cannot run")
    if not (JARS / "kafka_2.13-3.9.2.jar").exists():
        if shutil.which("mvn") is None:
            pytest.skip("no Maven here: DumpLogSegments cannot be fetched")
        pom = Path(__file__).with_name("dump_log_segments.xml")
        fetch = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
        try:
            done = subprocess.run(
                [*fetch, f"-DoutputDirectory={JARS}.new"], capture_output=True, text=True, timeout=240
            )
        except subprocess.TimeoutExpired:
            pytest.skip("Maven took too long to fetch DumpLogSegments")
        if done.returncode:
            pytest.skip("Maven could not fetch DumpLogSegments")
        Path(f"{JARS}.new").rename(JARS)
    return f"{JARS}/*"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Two segments with all codecs, idempotent and transactional producers, aborts, and two leader epochs."""
    directory = tmp_path_factory.mktemp("logs") / "orders-0"
    log = Log.open(OsFiles(), str(directory), CONFIG)
    for number in range(100):
        codec, epoch = list(Codec)[number % 5], 2 + number // 60
        records = [
            Record(
                i, NOW + 1000 * number + i, f"k{i}".encode(), b"value" * 9, (("h", b"x"),) if i % 2 else ()
            )
            for i in range(4)
        ]
        if number % 10 != 7:
            log.append(build(records, codec=codec), epoch, NOW)
            continue
        who = {"producer_id": 1000 + number % 3, "producer_epoch": 3}
        log.append(
            build(records, codec=codec, base_sequence=4 * (number // 30), is_transactional=True, **who),
            epoch,
            NOW,
        )
        kind = ControlType.ABORT if number % 20 == 7 else ControlType.COMMIT
        marker = build_marker(kind, coordinator_epoch=9, timestamp=NOW + 1000 * number + 5, **who)
        log.append(marker, epoch, NOW, client=False)
    log.close()
    return sorted(str(path) for path in directory.iterdir() if path.name[0] == "0")


@pytest.fixture(scope="module")
def theirs(class_path, files):
    """What Apache's tool prints, by file."""
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", class_path, "kafka.tools.DumpLogSegments"]
    done = subprocess.run(
        [*command, "--deep-iteration", "--files", ",".join(files)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    parts = re.split(r"^Dumping (.*)\n", done.stdout, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def ours(path: str, *options: str) -> list[dict]:
    result = CliRunner().invoke(cli, ["log", "dump", "--json", *options, path])
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def numbers(text: str, *names: str) -> list[tuple[str, ...]]:
    """The values of these names in every line that has the first of them."""
    rows = [dict(re.findall(r"(\w+): (\S*)", line)) for line in text.splitlines()]
    return [tuple(row[name] for name in names) for row in rows if names[0] in row]


def test_apaches_tool_reads_every_file_without_complaint(theirs, files):
    assert sorted(theirs) == files
    kinds = {path.rpartition(".")[2] for path in files}
    assert kinds == {"log", "index", "timeindex", "txnindex", "snapshot"}
    for text in theirs.values():
        assert not [complaint for complaint in COMPLAINTS if complaint in text]


COLUMNS = {
    ".log": {
        "baseOffset": "base_offset",
        "lastOffset": "last_offset",
        "count": "count",
        "baseSequence": "base_sequence",
        "lastSequence": "last_sequence",
        "producerId": "producer_id",
        "producerEpoch": "producer_epoch",
        "partitionLeaderEpoch": "leader_epoch",
        "isTransactional": "is_transactional",
        "isControl": "is_control",
        "position": "position",
        "CreateTime": "max_timestamp",
        "size": "size",
        "magic": "magic",
        "compresscodec": "compression",
        "crc": "checksum",
    },
    ".index": {"offset": "offset", "position": "position"},
    ".timeindex": {"timestamp": "timestamp", "offset": "offset"},
    ".txnindex": {
        "producerId": "producer_id",
        "firstOffset": "first_offset",
        "lastOffset": "last_offset",
        "lastStableOffset": "last_stable_offset",
    },
    ".snapshot": {
        "producerId": "producer_id",
        "producerEpoch": "producer_epoch",
        "coordinatorEpoch": "coordinator_epoch",
        "lastTimestamp": "timestamp",
        "lastSequence": "last_sequence",
        "lastOffset": "last_offset",
        "offsetDelta": "offset_delta",
    },
}


@pytest.mark.parametrize("suffix", COLUMNS)
def test_both_tools_show_the_same_numbers(theirs, files, suffix):
    columns = COLUMNS[suffix]
    for path in (path for path in files if path.endswith(suffix)):
        shown = [each for each in ours(path) if each["type"] != "snapshot"]
        assert [tuple(str(each[name]).lower() for name in columns.values()) for each in shown] == numbers(
            theirs[path], *columns
        )


def test_both_tools_show_the_same_records(theirs, files):
    for path in (path for path in files if path.endswith(".log")):
        text = "\n".join(line for line in theirs[path].splitlines() if line.startswith("|"))
        expected = numbers(text, "offset", "CreateTime", "keySize", "valueSize", "sequence")
        shown = ours(path, "--deep-iteration")
        names = ("offset", "timestamp", "key_size", "value_size", "sequence")
        assert [tuple(str(each[name]) for name in names) for each in shown] == expected
        markers = re.findall(r"endTxnMarker: (\w+) coordinatorEpoch: (\d+)", text)
        controls = [each["control"] for each in shown if each["control"]]
        assert [(each["type"], str(each["coordinator_epoch"])) for each in controls] == markers


def test_apaches_log_recovers_the_directory_and_leaves_every_byte_as_it_was(class_path, files, tmp_path):
    directory = shutil.copytree(Path(files[0]).parent, tmp_path / "orders-0")
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    program = str(Path(__file__).with_name("RecoverLog.java"))
    settings = [str(CONFIG.segment_bytes), str(CONFIG.index_interval_bytes), str(NOW)]
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", class_path, program, str(directory), *settings]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    log = Log.open(OsFiles(), str(Path(files[0]).parent), CONFIG, clean=True)
    aborted = log.aborted_txns(0, log.end_offset)
    expected = [log.end_offset, len(log.segments), len(log.producers), len(aborted)]
    log.abandon()
    assert done.stdout.split() == [str(number) for number in expected]
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == before
