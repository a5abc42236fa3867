"""Today's clients read segments that brokers of Kafka 0.8 to 0.10 left, and Apache's broker serves them just so."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from ottla.records.compression import Codec
from ottla.storage.files import OsFiles
from tests.interop.brokers import Ottla, eventually
from tests.interop.clients.client import Client, Unavailable
from tests.interop.clients.table import CLIENTS, connect
from tests.oracles import apache_kafka
from tests.unit.storage.legacy_segments import NOW, SHAPES, STAMPED_AT, Shape, lay, old_log

MIXED = [Shape(0, Codec.GZIP), Shape(0), Shape(1, Codec.SNAPPY), Shape(1), Shape(2), Shape(2, Codec.GZIP)]
KINDS = [*map(str, SHAPES), *(f"{shape} with gaps" for shape in SHAPES), "all formats"]
LOGS = [
    *(old_log(shape) for shape in SHAPES),
    *(old_log(shape, gaps=True) for shape in SHAPES),
    old_log(*MIXED, segments=3),
]
STARTS = (0, 12, 23)
"""The beginning, and two offsets within wrappers."""
TOPIC = "old"
NO_BROKEN_CHECKSUM = ("kafka-python", "aiokafka", "kafkajs")
"""Clients that cannot read LZ4 as magic 0 has it, from any broker."""


@contextmanager
def planted(directory: Path, version: str | None = None) -> Iterator[str]:
    """host:port of a broker that finds the old segments in its directory: ours, or Apache's of that version."""
    with _broker(directory, version) as address, _client("confluent-kafka", address) as control:
        control.create_topic(TOPIC, len(LOGS), {"retention.ms": "-1"})
        places = [f"{TOPIC}-{number}" for number in range(len(LOGS))]
        noted = [f"{place}/partition.metadata" for place in places]
        assert eventually(lambda: all(any(directory.rglob(each)) for each in noted))
    for place, old in zip(places, LOGS, strict=True):
        (partition,) = directory.rglob(place)
        for path in partition.iterdir():
            if path.name[0] == "0":
                path.unlink()
        lay(OsFiles(), str(partition), old.segments)
    with _broker(directory, version) as address:
        yield address


@contextmanager
def _broker(directory: Path, version: str | None) -> Iterator[str]:
    if version is not None:
        with apache_kafka.apache_kafka(data_dir=directory, version=version) as broker:
            yield broker.bootstrap_server
        return
    ours = Ottla(directory)
    try:
        yield ours.address
    finally:
        ours.stop()


@contextmanager
def _client(name: str, address: str) -> Iterator[Client]:
    client = connect(name, address)
    try:
        yield client
    finally:
        client.close()


@pytest.fixture(scope="module")
def address(tmp_path_factory) -> Iterator[str]:
    with planted(tmp_path_factory.mktemp("old")) as found:
        yield found


@pytest.fixture(scope="module")
def reader(address):
    with ExitStack() as stack:
        clients: dict[str, Client] = {}

        def get(name: str) -> Client:
            if name not in clients:
                try:
                    clients[name] = stack.enter_context(_client(name, address))
                except Unavailable as reason:
                    pytest.skip(str(reason))
            return clients[name]

        yield get


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("name", CLIENTS)
def test_every_client_reads_every_old_format_from_within_a_wrapper_too(reader, name, start):
    read = {
        number: [record for record in old.records if record.offset >= start]
        for number, (kind, old) in enumerate(zip(KINDS, LOGS, strict=True))
        if not (kind.startswith("magic 0 lz4") and name in NO_BROKEN_CHECKSUM)
    }
    everything = sum(map(len, read.values()))
    found = reader(name).consume(TOPIC, dict.fromkeys(read, start), everything)
    for number, expected in read.items():
        here = [record for record in found if record.partition == number]
        assert [r[-1:] + r[1:3] for r in here] == [(r.offset, r.key, r.value) for r in expected], KINDS[
            number
        ]
        if name != "kafkajs" or "stamped" not in KINDS[number]:  # it does not look at the time of a wrapper
            # Clients say in different ways that there is none.
            assert [r.timestamp or -1 for r in here] == [r.timestamp for r in expected], KINDS[number]


def _answers(address: str) -> list[object]:
    """What a broker says of the places and times of the old records."""
    with _client("confluent-kafka", address) as client:
        found: list[object] = []
        for number in range(len(LOGS)):
            times = [*range(NOW - 60, NOW + 420, 23), STAMPED_AT - 1, STAMPED_AT, STAMPED_AT + 1]
            found.append(client.watermarks(TOPIC, number))
            found.append([client.offset_for_time(TOPIC, number, each) for each in times])
            found.append(client.offset_of_newest(TOPIC, number))
        return found


@pytest.fixture(scope="module")
def apache(tmp_path_factory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("apache")
    try:
        with planted(directory, apache_kafka.VERSION) as found:
            yield found
    except apache_kafka.Unavailable as reason:
        pytest.skip(str(reason))
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def test_apaches_broker_finds_the_same_offsets_and_times(address, apache):
    """But where segments without times come first: there it takes a file's time for a record's, and finds nothing."""
    ours, theirs = _answers(address), _answers(apache)
    for number, kind in enumerate(KINDS[:-1]):
        at = slice(3 * number, 3 * number + 3)
        assert ours[at] == theirs[at], kind
    assert ours[-3:][::2] == theirs[-3:][::2]
