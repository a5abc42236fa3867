"""Apache Kafka's own tools and log read what Ottla wrote, compacted or not, and find nothing to complain about.

Compacted logs of random histories, and the logs of a broker with groups of both protocols and transactions.
"""

import json
import random
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from ottla.storage.config import TopicConfig
from ottla.storage.log import Log
from ottla.testing.broker import Broker
from tests.interop.clients.client import Record
from tests.interop.clients.confluent import ConfluentKafka
from tests.oracles import apache_kafka
from tests.oracles.java_storage import KafkaStorage, kafka_storage
from tests.property.compaction import FILES, Cleaning, Outcome, compact, opened
from tests.property.histories import History, write

COMPLAINTS = (
    "Mismatches in",
    "Found timestamp mismatch",
    "out of order",
    "not found",
    "isvalid: false",
    "Found invalid",
    "xception",
    "Error",
    "rror decoding",
)
COMPACTED = {"cleanup.policy": "compact", "index.interval.bytes": "300", "delete.retention.ms": "1000"}
HISTORIES = 8
WAIT_SECONDS_MAX = 30.0


@pytest.fixture(scope="module")
def apache() -> Iterator[KafkaStorage]:
    try:
        with kafka_storage() as storage:
            yield storage
    except apache_kafka.Unavailable as reason:
        pytest.skip(str(reason))


def files_of(directory: Path) -> list[str]:
    return sorted(str(path) for path in directory.iterdir() if path.name[0] == "0")


def dumped(apache: KafkaStorage, paths: list[str], *options: str) -> str:
    """What the tool prints; it must not complain."""
    text = apache.dump_log_segments(*options, "--files", ",".join(paths))
    complaints = [line for line in text.splitlines() if any(word in line for word in COMPLAINTS)]
    assert not complaints, complaints
    assert text.count("Dumping ") == len(paths)
    return text


def expect_readable(apache: KafkaStorage, directory: Path) -> None:
    """Every file of a log, record by record; its indexes against the log, and by themselves."""
    paths = files_of(directory)
    kinds = {path.rpartition(".")[2] for path in paths}
    assert kinds <= {"log", "index", "timeindex", "txnindex", "snapshot"}, paths
    dumped(apache, paths, "--deep-iteration", "--print-data-log")
    indexes = [path for path in paths if path.endswith("index") and not path.endswith("txnindex")]
    dumped(apache, indexes, "--verify-index-only")
    dumped(apache, [path for path in indexes if path.endswith(".index")], "--index-sanity-check")


@pytest.fixture(scope="module", params=range(HISTORIES))
def compacted(request, tmp_path_factory) -> tuple[Path, int]:
    """A log after two cleanings, with an end that was never cleaned, and the time."""
    directory = tmp_path_factory.mktemp("compacted") / "orders-0"
    history, checkpoint = History(random.Random(f"files {request.param}")), None
    for _ in range(2):
        log = opened(directory, COMPACTED)
        written = [*history.go_on(40), *history.end_transactions()]
        write(log, written)
        log.close()
        history.now_ms += 1000
        outcome = compact(directory, COMPACTED, Cleaning(checkpoint, history.now_ms))
        assert isinstance(outcome, Outcome)
        checkpoint = outcome.end_offset
    log = opened(directory, COMPACTED)
    write(log, list(history.go_on(15)))
    log.close()
    return directory, history.now_ms


def test_a_compacted_log_is_readable_file_by_file(apache, compacted):
    expect_readable(apache, compacted[0])


def test_apaches_log_recovers_a_compacted_directory_as_ours_does(apache, compacted, tmp_path):
    """Both know only of those aborted transactions of which a record is left: they read the log, not the old index."""
    directory, now_ms = compacted
    by_apache = shutil.copytree(directory, tmp_path / "apache" / "orders-0")
    by_us = shutil.copytree(directory, tmp_path / "ours" / "orders-0")
    found = apache.recover(by_apache, COMPACTED, now_ms)
    log = Log.open(FILES, str(by_us), TopicConfig(COMPACTED))
    assert found == {
        "end_offset": log.end_offset,
        "segments": len(log.segments),
        "producers": len(log.producers),
        "aborted": len(log.aborted_txns(0, log.end_offset)),
    }
    log.close()
    for path in by_us.iterdir():
        if path.suffix in (".log", ".index", ".timeindex", ".snapshot"):
            assert path.read_bytes() == (by_apache / path.name).read_bytes(), path


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory) -> Path:
    """What a broker leaves behind that had groups of both protocols, and transactions that ended in every way."""
    with Broker() as broker:
        broker.create_topic("orders", 2)
        broker.create_topic("table", 1, cleanup_policy="compact")
        client = ConfluentKafka(broker.bootstrap_server)
        client.produce("orders", [Record(number % 2, b"k%d" % number, b"v" * number) for number in range(20)])
        newer = [Record(0, b"k%d" % (number % 3), b"v%d" % number) for number in range(30)]
        client.produce("table", newer, idempotent=True)
        for protocol in ("classic", "consumer"):
            read_as_member(broker, f"group of {protocol}", protocol)
        producer = client.transactional("payments")
        for number in range(4):
            producer.begin()
            producer.send("orders", [Record(0, b"paid", b"%d" % number)])
            producer.send_offsets("group of classic", "orders", {0: number})
            (producer.abort if number % 2 else producer.commit)()
        producer.close()
        client.close()
        broker.stop()
        return shutil.copytree(broker.data_dir, tmp_path_factory.mktemp("broker") / "data")


def read_as_member(broker: Broker, group: str, protocol: str) -> None:
    settings = {"group.id": group, "group.protocol": protocol, "auto.offset.reset": "earliest"}
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_server, "enable.auto.commit": False, **settings}
    )
    try:
        consumer.subscribe(["orders"])
        count, deadline = 0, time.monotonic() + WAIT_SECONDS_MAX
        while count < 20 and time.monotonic() < deadline:
            count += len(consumer.consume(20 - count, timeout=0.2))
        assert count == 20
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()


def partitions_of(data_dir: Path, topic: str) -> list[Path]:
    found = sorted(path for path in data_dir.rglob(f"{topic}-*") if path.is_dir())
    assert found, f"no {topic} in {data_dir}"
    return found


@pytest.mark.parametrize("topic", ["orders", "table", "__consumer_offsets", "__transaction_state"])
def test_what_a_broker_leaves_is_readable_file_by_file(apache, data_dir, topic):
    for directory in partitions_of(data_dir, topic):
        expect_readable(apache, directory)


def decoded(
    apache: KafkaStorage, directories: list[Path], decoder: str
) -> list[tuple[dict[str, Any], dict[str, Any] | None]]:
    """The keys and values of all records that are no markers, as Apache's coordinators read them."""
    found = []
    for directory in directories:
        logs = [path for path in files_of(directory) if path.endswith(".log")]
        for line in dumped(apache, logs, decoder).splitlines():
            if not line.startswith("|") or "endTxnMarker" in line:
                continue
            key, value = re.search(r" key: (\{.*\}) payload: (.*)$", line).groups()
            found.append((json.loads(key), None if value == "<DELETE>" else json.loads(value)["data"]))
    return found


def compact_all(directories: list[Path], target: Path) -> list[Path]:
    """Copies of these logs, all of them closed segments, compacted."""
    found = []
    for directory in directories:
        copy = shutil.copytree(directory, target / directory.name)
        log = opened(copy, {})
        log.roll()
        log.close()
        assert isinstance(compact(copy, COMPACTED, Cleaning(None, int(time.time() * 1000))), Outcome)
        found.append(copy)
    return found


def newest(pairs: list[tuple[dict[str, Any], dict[str, Any] | None]]) -> dict[str, dict[str, Any] | None]:
    return {json.dumps(key): value for key, value in pairs}


def test_apaches_decoder_reads_what_groups_wrote(apache, data_dir, tmp_path):
    written = partitions_of(data_dir, "__consumer_offsets")
    pairs = decoded(apache, written, "--offsets-decoder")
    kinds = {int(key["type"]) for key, _ in pairs}
    assert kinds >= {1, 2, 3, 5, 6, 7, 8}, "offsets, classic groups and those of the consumer protocol"
    commits = {
        (key["data"]["group"], key["data"]["partition"]): value["offset"]
        for key, value in pairs
        if key["type"] == "1" and value is not None
    }
    assert commits["group of consumer", 0] == commits["group of consumer", 1] == 10
    assert commits["group of classic", 1] == 10
    compacted = decoded(apache, compact_all(written, tmp_path), "--offsets-decoder")
    assert len(compacted) < len(pairs)
    aborted = json.dumps(
        {"type": "1", "data": {"group": "group of classic", "topic": "orders", "partition": 0}}
    )
    before, after = newest(pairs), newest(compacted)
    assert before.pop(aborted)["offset"] == 3, "the last transaction was aborted"
    assert after.pop(aborted)["offset"] == 2, "and what it wrote is gone"
    assert after == before


def test_apaches_decoder_reads_what_transactions_wrote(apache, data_dir, tmp_path):
    written = partitions_of(data_dir, "__transaction_state")
    pairs = decoded(apache, written, "--transaction-log-decoder")
    assert {key["data"]["transactionalId"] for key, _ in pairs} == {"payments"}
    assert {value["transactionStatus"] for _, value in pairs if value} == {0, 1, 2, 3, 4, 5}
    compacted = decoded(apache, compact_all(written, tmp_path), "--transaction-log-decoder")
    assert newest(compacted) == newest(pairs)
    assert len(compacted) == 1


def test_a_compacted_log_of_a_broker_is_readable_file_by_file(apache, data_dir, tmp_path):
    names = ("orders", "table", "__consumer_offsets", "__transaction_state")
    for name in names:
        for directory in compact_all(partitions_of(data_dir, name), tmp_path):
            expect_readable(apache, directory)
