"""The broker that the clients meet: ours, in a process of its own, or the one that the environment names."""

import os
import re
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.interop.features import CODECS
from tests.oracles import apache_kafka

_START_SECONDS_MAX = 60.0
_FETCH, _API_VERSIONS = 1, 18
_OTTLA = [sys.executable, "-c", "import sys; from ottla.cli.main import main; sys.exit(main())"]


@contextmanager
def broker_under_test(directory: Path) -> Iterator[str]:
    """host:port of a broker that answers until the block ends."""
    wanted = os.environ.get("OTTLA_INTEROP_BOOTSTRAP", "")
    if wanted == "apache":
        try:
            with apache_kafka.apache_kafka(data_dir=directory) as broker:
                yield broker.bootstrap_server
        except apache_kafka.Unavailable as error:
            pytest.skip(str(error))
    elif wanted:
        yield wanted
    else:
        with _ottla(directory) as address:
            yield address


@contextmanager
def _ottla(directory: Path) -> Iterator[str]:
    """`ottla start` as a user starts it, on a free port."""
    output = directory / "output.txt"
    with output.open("w") as sink:
        process = subprocess.Popen(
            [*_OTTLA, "start", "--port", "0", "--data-dir", str(directory / "data")], stdout=sink, stderr=sink
        )
    try:
        yield _address(process, output)
        assert process.poll() is None, f"the broker ended: {output.read_text()[-2000:]}"
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            pytest.fail("the broker did not stop when it was told to")


def _address(process: subprocess.Popen[bytes], output: Path) -> str:
    deadline = time.monotonic() + _START_SECONDS_MAX
    while not (found := re.search(r"(?:127\.0\.0\.1|localhost):\d+", output.read_text())):
        assert process.poll() is None and time.monotonic() < deadline, output.read_text()[-2000:]
        time.sleep(0.02)
    return found[0]


def served_apis(bootstrap_server: str) -> set[int]:
    """The keys of the APIs that a broker names, asked in the oldest way there is."""
    answer = _ask(bootstrap_server, struct.pack(">hhih", _API_VERSIONS, 0, 1, -1))
    error, count = struct.unpack_from(">hi", answer)
    assert error == 0
    return {struct.unpack_from(">hhh", answer, 6 + 6 * number)[0] for number in range(count)}


class StoredBatch(NamedTuple):
    """What the header of a batch says, as it lies in the log."""

    codec: str
    producer_id: int


def stored_batches(bootstrap_server: str, topic: str) -> list[StoredBatch]:
    """The batches of partition 0, fetched without any client: only they tell whether a codec was really used."""
    name = topic.encode()
    whole = struct.pack(">iiiib", -1, 100, 1, 10_000_000, 0)
    wanted = struct.pack(">ih", 1, len(name)) + name + struct.pack(">iiqi", 1, 0, 0, 10_000_000)
    answer = _ask(bootstrap_server, struct.pack(">hhih", _FETCH, 4, 1, -1) + whole + wanted)
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
