"""`ottla start` in a directory that Apache Kafka has written: its clients find everything as it was, and go on."""

import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop import kept_cluster
from tests.interop.brokers import Ottla, stored_batches
from tests.interop.kept_cluster import CLASSIC, IN_TRANSACTION, MODERN, WRITER, View
from tests.oracles import apache_kafka

NODE_ID = 7
_QUIET = {"log.cleaner.enable": "false"}  # the same records are looked at twice


class Kept(NamedTuple):
    """A cluster of Apache Kafka that is over: what its clients saw last, and what it left."""

    version: str
    view: View
    stopped: Path
    killed: Path
    refusal: str
    """What `ottla start` said in its directory while it ran."""


@pytest.fixture(scope="module", params=["3.9.2", apache_kafka.VERSION])
def kept(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Kept:
    version, base = request.param, tmp_path_factory.mktemp("apache-kafka")
    stopped, killed = base / "stopped", base / "killed"
    try:
        with apache_kafka.apache_kafka(
            kept_cluster.CONFIG, data_dir=stopped, version=version, node_id=NODE_ID
        ) as broker:
            modern = not version.startswith("3.")
            with kept_cluster.filled(broker.bootstrap_server, has_modern_groups=modern):
                view = kept_cluster.look(broker.bootstrap_server)
                _copy_as_if_killed(broker.pid, stopped, killed)
                refusal = _refusal(stopped)
                apache_kafka.stop(broker)
    except apache_kafka.Unavailable as error:
        pytest.skip(str(error))
    return Kept(version, view, stopped, killed, refusal)


def _copy_as_if_killed(pid: int, source: Path, target: Path) -> None:
    """What a process leaves that is killed now, without a second process that has to be."""
    os.kill(pid, signal.SIGSTOP)
    try:
        while not _has_stopped(pid):  # a thread may still be at something
            time.sleep(0.001)
        shutil.copytree(source, target)
    finally:
        os.kill(pid, signal.SIGCONT)


def _has_stopped(pid: int) -> bool:
    """Do all threads of this process stand still?"""
    states = [
        (task / "stat").read_text().rpartition(")")[2].split()[0]
        for task in Path(f"/proc/{pid}/task").iterdir()
    ]
    return set(states) == {"T"}


def _refusal(directory: Path) -> str:
    with pytest.raises(AssertionError) as raised:
        Ottla(directory)
    return str(raised.value)


@pytest.fixture
def ottla(kept: Kept, tmp_path: Path) -> Iterator[Ottla]:
    """In a directory after a clean stop; the test before finds nothing of it."""
    yield from _started(kept.stopped, tmp_path)


def _started(source: Path, directory: Path) -> Iterator[Ottla]:
    shutil.copytree(source, directory, dirs_exist_ok=True)
    broker = Ottla(directory, _QUIET)
    try:
        yield broker
        assert broker.is_alive, broker.output
    finally:
        broker.stop()


def assert_same(found: View, expected: View) -> None:
    """Field by field: of two hundred records that differ, the first is enough."""
    for name in View._fields:
        here, there = getattr(found, name), getattr(expected, name)
        if isinstance(here, dict):
            assert sorted(here) == sorted(there), name
            for key in here:
                assert here[key] == there[key], (name, key)
        else:
            assert here == there, name


def test_clients_find_the_cluster_as_it_was_after_a_clean_stop_and_go_on(kept: Kept, ottla: Ottla) -> None:
    assert f"took over cluster {kept.view.cluster_id} of Apache Kafka" in ottla.output
    assert_same(kept_cluster.look(ottla.address), kept.view)
    assert _node_id(ottla.address) == NODE_ID
    _go_on(ottla.address)
    for group, protocol in {CLASSIC: "classic", MODERN: "consumer"}.items():
        if kept.view.committed[group]:
            assert _first_of(ottla.address, group, protocol) == {
                ("plain", 0): 3,
                ("plain", 1): 4,
                ("plain", 2): 5,
            }
    after = kept_cluster.look(ottla.address)
    _assert_went_on(kept.view, after)
    ottla.kill_and_start_again()
    assert "took over" not in ottla.output
    assert_same(kept_cluster.look(ottla.address), after)


def test_clients_find_the_cluster_as_it_was_after_a_kill(kept: Kept, tmp_path: Path) -> None:
    for broker in _started(kept.killed, tmp_path):
        assert_same(kept_cluster.look(broker.address), kept.view)


def _node_id(address: str) -> int:
    admin = AdminClient({"bootstrap.servers": address})
    return int(admin.describe_cluster().result().controller.id)


def _go_on(address: str) -> None:
    """A producer ends what it had begun, another one comes, a topic is made."""
    writer = Producer({"bootstrap.servers": address, "transactional.id": WRITER})
    writer.init_transactions(30)
    writer.begin_transaction()
    writer.produce("plain", b"goes on", partition=0)
    group = Consumer({"bootstrap.servers": address, "group.id": IN_TRANSACTION})
    writer.send_offsets_to_transaction([TopicPartition("plain", 0, 13)], group.consumer_group_metadata(), 30)
    writer.commit_transaction(30)
    group.close()
    newcomer = Producer({"bootstrap.servers": address, "enable.idempotence": True})
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic("new", 1, 1)])["new"].result()
    for topic in ("new", "grown", "compacted", "old"):
        newcomer.produce(topic, b"new", key=b"new", partition=0)
    assert newcomer.flush(30) == 0
    assert stored_batches(address, "new")[0].producer_id > 1 << 40  # ids that Apache Kafka never comes to


def _first_of(address: str, group: str, protocol: str) -> dict[tuple[str, int], int]:
    """Where a group reads on, by partition."""
    settings = {"bootstrap.servers": address, "group.id": group, "group.protocol": protocol}
    reader = Consumer({**settings, "enable.auto.commit": False})
    reader.subscribe(["plain"])
    first: dict[tuple[str, int], int] = {}
    for _ in range(300):
        for message in reader.consume(100, 0.1):
            assert message.error() is None, message.error()
            first.setdefault((message.topic(), message.partition()), message.offset())
        if len(first) == 3:
            break
    reader.close()
    return first


def _assert_went_on(before: View, after: View) -> None:
    for partition in range(3):
        place = "plain", partition, "read_committed"
        more = [b"goes on"] if partition == 0 else []
        assert [row.value for row in after.records[place]] == [
            row.value for row in before.records[place]
        ] + more
    for topic in ("grown", "compacted", "old"):
        place = topic, 0, "read_committed"
        assert after.records[place][:-1] == before.records[place]
        assert after.records[place][-1].value == b"new"
        assert after.records[place][-1].offset == before.watermarks[topic, 0][1]
    assert after.committed == {**before.committed, IN_TRANSACTION: {("plain", 0): 13}}
    assert after.topics == {**before.topics, "new": after.topics["new"]}


def test_a_directory_that_is_in_use_is_refused(kept: Kept) -> None:
    assert f"the data directory {kept.stopped / 'data'} is in use by another process" in kept.refusal


def test_a_broker_with_another_number_is_refused_and_changes_nothing(kept: Kept, tmp_path: Path) -> None:
    shutil.copytree(kept.stopped, tmp_path, dirs_exist_ok=True)
    with pytest.raises(AssertionError, match=r"belongs to broker 7, this one is 3: start it with node\.id=7"):
        Ottla(tmp_path, {"node.id": "3"})
    assert not (tmp_path / "data" / "ottla-metadata.db").exists()
    assert not (tmp_path / "data" / "ottla-adopted.json").exists()


def test_the_file_of_the_old_broker_starts_the_new_one(kept: Kept, tmp_path: Path) -> None:
    """Where the old broker listened may be taken; all else is as it says."""
    shutil.copytree(kept.stopped, tmp_path, dirs_exist_ok=True)
    broker = Ottla(tmp_path, {}, file=tmp_path / "server.properties")
    try:
        assert _node_id(broker.address) == NODE_ID
    finally:
        broker.stop()


def test_apache_kafka_opens_what_we_leave_though_without_what_is_new(kept: Kept, tmp_path: Path) -> None:
    """Going back is not supported, but what becomes of it is known."""
    if kept.version != apache_kafka.VERSION:
        pytest.skip("one version of Apache Kafka is enough to know")
    for broker in _started(kept.stopped, tmp_path):
        _go_on(broker.address)
        left = kept_cluster.look(broker.address)
    with apache_kafka.apache_kafka(
        {**kept_cluster.CONFIG, **_QUIET}, data_dir=tmp_path, version=kept.version, node_id=NODE_ID
    ) as theirs:
        found = kept_cluster.look(theirs.bootstrap_server)
        written = _write_one(theirs.bootstrap_server, "grown")
        apache_kafka.stop(theirs)
    assert found.records == left.records
    assert found.committed == left.committed
    assert left.topics.keys() - found.topics.keys() == {"new"}
    assert written == left.watermarks["grown", 0][1], "its producer is not taken for one of ours"
    with pytest.raises(AssertionError, match=r"Apache Kafka has run in .* since Ottla took it over"):
        Ottla(tmp_path)


def _write_one(address: str, topic: str) -> int:
    """The offset that a record gets which a producer that is new has sent."""
    offsets: list[int] = []
    producer = Producer({"bootstrap.servers": address, "enable.idempotence": True})
    producer.produce(
        topic, b"new", partition=0, on_delivery=lambda _, message: offsets.append(message.offset())
    )
    assert producer.flush(30) == 0
    return offsets[0]
