"""Replicas move between directories of a broker while clients read and write: nothing is lost, and nobody notices."""

import threading
import time

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from ottla.core.errors import ErrorCode
from ottla.testing.broker import Broker
from tests.scenarios.log_dirs import SECONDS_MAX, content, move, names, replicas, wait_until_in

TOPIC = "orders"
RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


@pytest.fixture
def paths(tmp_path):
    return [tmp_path / "one", tmp_path / "two", tmp_path / "three"]


def settings(paths, **more):
    return {
        "log.dirs": ",".join(map(str, paths)),
        "log.segment.bytes": 400_000,
        **{key.replace("_", "."): value for key, value in more.items()},
    }


@pytest.fixture
def broker(paths, tmp_path):
    with Broker(data_dir=tmp_path / "one", config=settings(paths)) as running:
        running.create_topic(TOPIC)
        yield running


def elsewhere(broker, paths):
    """A directory in which the replica does not lie."""
    here = replicas(broker.port)[TOPIC, 0][0][0]
    return next(path for path in paths if str(path) != here)


class Load:
    """One producer that numbers its records, and one reader, until told to stop."""

    def __init__(self, bootstrap_server, **how):
        self._server = bootstrap_server
        self._how = how
        self._stop = threading.Event()
        self.acked = []
        self.read = []
        self.errors = []
        self._threads = [threading.Thread(target=self._write), threading.Thread(target=self._read)]
        self._written = threading.Event()

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join()
        assert self.errors == []

    def wait_for_more(self, count):
        more = len(self.acked) + count
        while len(self.acked) < more:
            assert not self.errors, self.errors
            self._stop.wait(0.01)

    def _write(self):
        how = {"linger.ms": 1, "batch.size": 16_384, **self._how}
        producer = Producer({"bootstrap.servers": self._server, **how})

        def delivered(error, message):
            if error is not None:
                self.errors.append(error)
            else:
                self.acked.append((message.offset(), int(message.value()[:10])))

        number = 0
        while not self._stop.is_set() and not self.errors:
            producer.produce(TOPIC, b"%010d" % number + b"x" * 200, partition=0, on_delivery=delivered)
            number += 1
            producer.poll(0 if number % 20 else 0.005)  # a load that two loaded processors can copy along
        producer.flush(SECONDS_MAX)
        self._written.set()

    def _read(self):
        consumer = Consumer({"bootstrap.servers": self._server, "group.id": "readers"})
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        try:
            deadline = None
            while not self._written.is_set() or len(self.read) < len(self.acked):
                if self._written.is_set():
                    deadline = deadline or time.monotonic() + SECONDS_MAX
                    if time.monotonic() > deadline:
                        return
                message = consumer.poll(1)
                if message is not None and message.error() is not None:
                    self.errors.append(message.error())
                elif message is not None:
                    self.read.append((message.offset(), int(message.value()[:10])))
        finally:
            consumer.close()


@pytest.mark.parametrize(
    "how", [{"acks": "all", "enable.idempotence": True}, {"acks": 1, "compression.type": "lz4"}]
)
def test_a_replica_moves_back_and_forth_while_it_is_written_and_read(broker, paths, how):
    with Load(broker.bootstrap_server, **how) as load:
        for _ in range(6):
            load.wait_for_more(1000)
            target = elsewhere(broker, paths)
            assert move(broker.port, TOPIC, 0, target) == ErrorCode.NONE
            wait_until_in(broker.port, TOPIC, 0, target)
        load.wait_for_more(1000)
    numbers = [number for _, number in load.acked]
    assert numbers == list(range(len(numbers)))
    assert load.read == load.acked
    assert [record.offset for record in broker.records(TOPIC)] == list(range(len(numbers)))
    assert not any(names(path, "future") for path in paths)


def test_the_files_are_the_same_bytes_in_another_place(broker, paths):
    with Load(broker.bootstrap_server, acks="all") as load:
        load.wait_for_more(5000)
    here = replicas(broker.port)[TOPIC, 0][0][0]
    before = content(here, TOPIC, 0)
    target = elsewhere(broker, paths)
    assert move(broker.port, TOPIC, 0, target) == ErrorCode.NONE
    wait_until_in(broker.port, TOPIC, 0, target)
    assert content(target, TOPIC, 0) == before
    assert len(names(here, "delete")) == 1 and f"{TOPIC}-0" not in names(here, "live")
    broker.restart()
    assert replicas(broker.port)[TOPIC, 0] == [(str(target), False, 0)]
    assert len(broker.records(TOPIC)) == len(load.acked)
