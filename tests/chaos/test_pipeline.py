"""Exactly once, end to end: consume, transform, produce, while workers and the broker are killed with `kill -9`.

Two workers share a group; each writes what it read, and how far it read, in one transaction. In every round one of
them dies, or both, or the broker does, at a moment that chance chose. In the end every input is in the output once, and
the records of a key have kept their order.

`make chaos` runs more rounds and writes tests/chaos/PIPELINE.md. OTTLA_INTEROP_BOOTSTRAP=apache tests the test.
"""

import os
import random
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.broker.apis import SERVED
from tests.chaos.pipeline_worker import GROUP, INPUT, NEEDS_RESTART, OUTPUT, QUICKLY
from tests.chaos.processes import BrokerProcess
from tests.oracles import apache_kafka

ROUNDS = int(os.environ.get("OTTLA_PIPELINE_ROUNDS", "50" if "OTTLA_CHAOS_ROUNDS" in os.environ else "3"))
RESULTS = Path(__file__).with_name("PIPELINE.md")
APACHE = os.environ.get("OTTLA_INTEROP_BOOTSTRAP") == "apache"
PARTITIONS, KEYS, WORKERS = 4, 16, 2
RECORDS_PER_ROUND = 400
DONE_SECONDS_MAX = 120.0
SETTINGS = {
    "num.partitions": PARTITIONS,
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1000,
    "group.consumer.session.timeout.ms": 2000,
    "group.consumer.min.session.timeout.ms": 2000,
    "group.consumer.heartbeat.interval.ms": 200,
    "group.consumer.min.heartbeat.interval.ms": 200,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
}
_JOIN_GROUP, _ADD_PARTITIONS_TO_TXN = 11, 24


class Round(NamedTuple):
    """Who died, and when."""

    victim: str
    written: int
    """How many records the output had by then."""
    restarts: int
    """How often workers ended by themselves, so far, because their producer could not go on."""


class Workers:
    """The processes. One that cannot go on is started again, as one that was killed is."""

    def __init__(self, bootstrap_server: str, protocol: str) -> None:
        self._arguments = bootstrap_server, protocol
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self.restarts = 0

    def start(self, number: int) -> None:
        server, protocol = self._arguments
        command = [sys.executable, "-m", "tests.chaos.pipeline_worker", server, str(number), protocol]
        self._running[number] = subprocess.Popen(command)

    def kill(self, number: int) -> None:
        process = self._running.pop(number)
        process.kill()
        process.wait()

    def look_after(self) -> None:
        for number, process in list(self._running.items()):
            if process.poll() is not None:
                assert process.returncode == NEEDS_RESTART, f"worker {number} ended with {process.returncode}"
                self.restarts += 1
                self.start(number)

    def end(self) -> None:
        for number in list(self._running):
            self.kill(number)


class Output:
    """What a read_committed consumer has seen of the output."""

    def __init__(self, bootstrap_server: str) -> None:
        settings = {"bootstrap.servers": bootstrap_server, "group.id": "check", "enable.auto.commit": False}
        self._consumer = Consumer({**settings, **QUICKLY, "isolation.level": "read_committed"})
        self._consumer.assign([TopicPartition(OUTPUT, number, 0) for number in range(PARTITIONS)])
        self.records: list[tuple[bytes, bytes]] = []

    def read(self, seconds: float = 0.05) -> None:
        for each in self._consumer.consume(1000, timeout=seconds):
            if each.error() is None:
                self.records.append((each.key(), each.value()))

    def close(self) -> None:
        self._consumer.close()


@contextmanager
def broker(path: Path):
    """Its address, and how it is killed and started again; Apache Kafka is left alone."""
    if APACHE:
        settings = {key: str(value) for key, value in SETTINGS.items()}
        with apache_kafka.apache_kafka(settings, data_dir=path) as kafka:
            yield kafka.bootstrap_server, None
        return
    if not {_JOIN_GROUP, _ADD_PARTITIONS_TO_TXN} <= SERVED.keys():
        pytest.xfail("the broker does not serve groups and transactions yet")
    with BrokerProcess(path, SETTINGS) as process:

        def kill_and_start_again() -> None:
            process.kill()
            process.start()

        yield process.bootstrap_server, kill_and_start_again


def fill(bootstrap_server: str) -> list[tuple[bytes, bytes]]:
    """All the input, which the workers then read at their pace: records of a key are numbered."""
    admin = AdminClient({"bootstrap.servers": bootstrap_server})
    for future in admin.create_topics([NewTopic(each, PARTITIONS, 1) for each in (INPUT, OUTPUT)]).values():
        future.result()
    producer = Producer({"bootstrap.servers": bootstrap_server, "enable.idempotence": True, **QUICKLY})
    records = []
    for number in range(RECORDS_PER_ROUND * (ROUNDS + 1)):
        key, value = b"%d" % (number % KEYS), b"%d" % (number // KEYS)
        producer.produce(INPUT, value, key, number % KEYS % PARTITIONS)
        records.append((key, value + b"!"))
        if number % 1000 == 0:
            producer.poll(0)
    assert producer.flush(60) == 0
    return records


def strike(source: random.Random, workers: Workers, restart_broker) -> str:
    """Kill somebody, and start who was killed."""
    victim = source.choice(["worker 0", "worker 1", "both workers", "the broker"])
    if victim == "the broker" and restart_broker is not None:
        restart_broker()
        return victim
    numbers = [int(victim[-1])] if victim.startswith("worker") else list(range(WORKERS))
    for number in numbers:
        workers.kill(number)
    for number in numbers:
        workers.start(number)
    return f"worker {numbers[0]}" if len(numbers) == 1 else "both workers"


def wait_for(output: Output, workers: Workers, count: int) -> None:
    deadline = time.monotonic() + DONE_SECONDS_MAX
    while len(output.records) < count:
        assert time.monotonic() < deadline, f"{len(output.records)} of {count} records came through"
        workers.look_after()
        output.read()


def assert_exactly_once(found, wanted) -> None:
    twice, lost = Counter(found) - Counter(wanted), Counter(wanted) - Counter(found)
    assert (twice, lost) == (Counter(), Counter())
    by_key: dict[bytes, list[int]] = {}
    for key, value in found:
        by_key.setdefault(key, []).append(int(value[:-1]))
    assert all(numbers == sorted(numbers) for numbers in by_key.values()), "a key lost its order"


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_what_goes_in_comes_out_once_and_in_order(tmp_path, protocol):
    source, rounds = random.Random(f"pipeline {protocol}"), []
    with broker(tmp_path / "data") as (server, restart_broker), ExitStack() as stack:
        wanted = fill(server)
        workers, output = Workers(server, protocol), Output(server)
        stack.callback(output.close)
        stack.callback(workers.end)
        for number in range(WORKERS):
            workers.start(number)
        for number in range(ROUNDS):
            wait_for(output, workers, RECORDS_PER_ROUND * number + source.randint(1, RECORDS_PER_ROUND))
            output.read(source.uniform(0, 0.05))  # or they would die just after a commit, when it is seen
            written = len(output.records)
            rounds.append(Round(strike(source, workers, restart_broker), written, workers.restarts))
        wait_for(output, workers, len(wanted))
        workers.end()
        output.read()
    assert_exactly_once(output.records, wanted)
    if "OTTLA_CHAOS_ROUNDS" in os.environ:
        write_results(protocol, rounds, len(wanted))


@pytest.mark.parametrize(
    "found",
    [
        [(b"k", b"0!"), (b"k", b"1!"), (b"k", b"1!")],
        [(b"k", b"0!")],
        [(b"k", b"1!"), (b"k", b"0!")],
        [(b"k", b"0!"), (b"l", b"1!")],
    ],
    ids=["twice", "lost", "swapped", "astray"],
)
def test_what_is_looked_for_would_be_found(found):
    with pytest.raises(AssertionError):
        assert_exactly_once(found, [(b"k", b"0!"), (b"k", b"1!")])


def write_results(protocol: str, rounds: list[Round], total: int) -> None:
    """Each protocol has its section; that of the other one stays as it is."""
    rows = [
        f"| {n} | {each.victim} | {each.written:,} | {each.restarts} |" for n, each in enumerate(rounds, 1)
    ]
    title = f"## {protocol.capitalize()} protocol"
    section = [
        title,
        "",
        f"**{len(rounds)} kills, {total:,} records in, each of them out once, and in the order of its key.**",
        "",
        "| round | killed | records in the output | workers that gave up, so far |",
        "|---:|---|---:|---:|",
        *rows,
        "",
    ]
    head = [
        "# kill -9 in a pipeline",
        "",
        f"Written by `make chaos`. {WORKERS} workers (librdkafka) of the group `{GROUP}` read, and write in",
        "transactions, with the offsets they read; they or the broker are killed at random moments.",
        "",
    ]
    before = RESULTS.read_text().split("\n## ")[1:] if RESULTS.exists() else []
    others = [f"## {each.rstrip()}\n" for each in before if not f"## {each}".startswith(title)]
    RESULTS.write_text("\n".join([*head, "\n".join(sorted(["\n".join(section), *others]))]))
