"""The broker that the clients meet: ours, in a process of its own, or the one that the environment names."""

import os
import re
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.interop.features import CODECS
from tests.oracles import apache_kafka

_START_SECONDS_MAX, _STOP_SECONDS_MAX = 60.0, 30.0
_ESTABLISHED = "01"  # in the kernel's table of connections
FETCH, _API_VERSIONS, _INCREMENTAL_ALTER_CONFIGS = 1, 18, 44
_OTTLA = [sys.executable, "-c", "import sys; from ottla.cli.main import main; sys.exit(main())"]


COORDINATORS = {
    "group.initial.rebalance.delay.ms": "100",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}
"""Nothing but times: what clients would wait for comes sooner."""


@contextmanager
def broker_under_test(directory: Path, settings: Mapping[str, str] = COORDINATORS) -> Iterator[str]:
    """host:port of a broker that answers until the block ends."""
    wanted = os.environ.get("OTTLA_INTEROP_BOOTSTRAP", "")
    if wanted == "apache":
        try:
            with apache_kafka.apache_kafka(settings, data_dir=directory) as broker:
                yield broker.bootstrap_server
        except apache_kafka.Unavailable as error:
            pytest.skip(str(error))
    elif wanted:
        yield wanted
    else:
        with _ottla(directory, settings) as address:
            yield address


@contextmanager
def _ottla(directory: Path, settings: Mapping[str, str]) -> Iterator[str]:
    broker = Ottla(directory, settings)
    try:
        yield broker.address
        assert broker.is_alive, f"the broker ended: {broker.output}"
    finally:
        broker.stop()


class Ottla:
    """`ottla start` as a user starts it, on a free port that it keeps when it is killed and started again."""

    def __init__(
        self, directory: Path, settings: Mapping[str, str] = COORDINATORS, file: Path | None = None
    ) -> None:
        self._directory = directory
        self._settings = settings
        self._file = file
        self._output = directory / "output.txt"
        self._start(0)
        self.address = self._wait_for_address()

    def kill_and_start_again(self) -> None:
        self._process.kill()
        self._process.wait()
        self._start(int(self.address.rpartition(":")[2]))
        assert self._wait_for_address() == self.address

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(_STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            pytest.fail("the broker did not stop when it was told to")

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    @property
    def output(self) -> str:
        return self._output.read_text()[-2000:]

    def _start(self, port: int) -> None:
        options = ["start", "--port", str(port), "--data-dir", str(self._directory / "data")]
        for key, value in self._settings.items():
            options += ["--set", f"{key}={value}"]
        if self._file is not None:
            options += ["--config", str(self._file)]
        with self._output.open("w") as sink:
            self._process = subprocess.Popen([*_OTTLA, *options], stdout=sink, stderr=sink)

    def _wait_for_address(self) -> str:
        deadline = time.monotonic() + _START_SECONDS_MAX
        while not (found := re.search(r"127\.0\.0\.1:\d+", self.output)):
            assert self.is_alive and time.monotonic() < deadline, self.output
            time.sleep(0.02)
        return found[0]


@contextmanager
def another_connection(bootstrap_server: str) -> Iterator[None]:
    """Begin something in the block that connects to the broker; the block ends when it has."""
    before = _connections(bootstrap_server)
    yield
    assert eventually(lambda: _connections(bootstrap_server) - before), "nobody connected"


def eventually(condition: Callable[[], object]) -> bool:
    """Does this come true? A cluster tells its brokers of a change after it was decided."""
    deadline = time.monotonic() + _START_SECONDS_MAX
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _connections(bootstrap_server: str) -> set[str]:
    """The other ends of the open connections to a port of this machine."""
    port = f"{int(bootstrap_server.rpartition(':')[2]):04X}"
    tables = [Path("/proc/net/tcp"), Path("/proc/net/tcp6")]
    rows = [line.split() for table in tables if table.exists() for line in table.read_text().splitlines()]
    return {row[2] for row in rows if row[1].endswith(f":{port}") and row[3] == _ESTABLISHED}


def served_apis(bootstrap_server: str) -> dict[int, tuple[int, int]]:
    """The APIs and versions that a broker names, asked in the oldest way there is."""
    answer = _ask(bootstrap_server, struct.pack(">hhih", _API_VERSIONS, 0, 1, -1))
    error, count = struct.unpack_from(">hi", answer)
    assert error == 0
    rows = [struct.unpack_from(">hhh", answer, 6 + 6 * number) for number in range(count)]
    return {key: (oldest, newest) for key, oldest, newest in rows}


def set_for_all_brokers(bootstrap_server: str, key: str, value: str) -> None:
    """Clients that cannot leave out the name of a broker cannot do this."""
    texts = [struct.pack(">h", len(text)) + text.encode() for text in (key, value)]
    change = struct.pack(">bhi", 4, 0, 1) + texts[0] + b"\0" + texts[1]
    header = struct.pack(">hhih", _INCREMENTAL_ALTER_CONFIGS, 0, 1, -1)
    answer = _ask(bootstrap_server, header + struct.pack(">i", 1) + change + b"\0")
    assert struct.unpack_from(">iih", answer) == (0, 1, 0), answer


class StoredBatch(NamedTuple):
    """What the header of a batch says, as it lies in the log."""

    codec: str
    producer_id: int


def stored_batches(bootstrap_server: str, topic: str) -> list[StoredBatch]:
    """The batches of partition 0, fetched without any client: only they tell whether a codec was really used."""
    name = topic.encode()
    whole = struct.pack(">iiiib", -1, 100, 1, 10_000_000, 0)
    wanted = struct.pack(">ih", 1, len(name)) + name + struct.pack(">iiqi", 1, 0, 0, 10_000_000)
    answer = _ask(bootstrap_server, struct.pack(">hhih", FETCH, 4, 1, -1) + whole + wanted)
    partition = 4 + 4 + 2 + len(name) + 4  # after the throttle time, and topics of which there is one
    _, error, _, _, aborted = struct.unpack_from(">ihqqi", answer, partition)
    assert error == 0 and aborted <= 0
    position, found = partition + 26 + 4, []
    while position < len(answer):
        (size,) = struct.unpack_from(">i", answer, position + 8)
        (attributes,) = struct.unpack_from(">h", answer, position + 21)
        (producer_id,) = struct.unpack_from(">q", answer, position + 43)
        found.append(StoredBatch(CODECS[attributes & 7], producer_id))
        position += 12 + size
    return found


def _ask(bootstrap_server: str, request: bytes) -> bytes:
    """The body of the answer to a request of an old version, whose header is a number only."""
    host, _, port = bootstrap_server.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        with connection.makefile("rb") as source:
            (size,) = struct.unpack(">i", source.read(4))
            return source.read(size)[4:]
