"""Brokers that start with ZooKeeper, as processes: from two lines in a file, or not at all, with a sentence."""

import asyncio
import contextlib
import itertools
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.metadata.paths import BROKERS
from ottla.metadata.store import NoNode
from ottla.metadata.zookeeper import ZooKeeperStore
from ottla.testing.cluster import Cluster
from ottla.testing.zookeeper import Unavailable, ZooKeeper
from tests.cluster import hosts

PATIENCE_SECONDS = 60
SESSION = "zookeeper.session.timeout.ms=3000"
_paths = itertools.count()


@pytest.fixture(scope="module")
def zookeeper() -> Iterator[ZooKeeper]:
    try:
        servers = ZooKeeper(syncs=False)
    except Unavailable as reason:
        pytest.skip(str(reason))
    with servers:
        yield servers


@pytest.fixture
def connect(zookeeper: ZooKeeper) -> str:
    """A cluster of its own in that ZooKeeper."""
    return f"{zookeeper.connect_string}/cluster-{next(_paths)}"


def command(connect: str, broker_id: int, directory: Path, *more: str) -> list[str]:
    start = [
        sys.executable,
        "-m",
        "ottla.cli.main",
        "start",
        "--zookeeper",
        connect,
        "--broker-id",
        str(broker_id),
    ]
    return [*start, "--data-dir", str(directory), "--port", "0", "--set", SESSION, *more]


@contextlib.contextmanager
def running(command: list[str], cwd: Path | None = None) -> Iterator[str]:
    """A broker that serves, and what it said of itself."""
    with subprocess.Popen(
        command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None and process.stderr is not None
            line = process.stdout.readline()
            assert "listens on" in line, process.stderr.read()
            yield line
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_SECONDS) == 0
        finally:
            process.kill()


def refused(command: list[str]) -> str:
    """Start a broker where it must not; the one sentence that it says."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert done.returncode in (1, 2), done.stderr
    sentences = [line for line in done.stderr.splitlines() if line.startswith("ottla: ")]
    assert len(sentences) == 1 and "Traceback" not in done.stderr and not done.stdout, done.stderr
    return sentences[0]


def registered(connect: str) -> list[str]:
    """The numbers of the brokers that are there."""

    async def ask() -> list[str]:
        store = await ZooKeeperStore.open(connect, session_timeout_ms=5_000, connection_timeout_ms=20_000)
        try:
            return await store.children(BROKERS)
        except NoNode:
            return []
        finally:
            await store.close()

    return asyncio.run(ask())


def test_nobody_at_that_address(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    hurry = "zookeeper.connection.timeout.ms=2000"
    sentence = refused(command(f"127.0.0.1:{port}", 1, tmp_path, "--set", hurry))
    assert f"127.0.0.1:{port}" in sentence


def test_a_zookeeper_without_a_quorum(tmp_path):
    try:
        ensemble = ZooKeeper(servers=3, syncs=False)
    except Unavailable as reason:
        pytest.skip(str(reason))
    with ensemble:
        alone = "{}:{}".format(*ensemble.address(0))
        for index in (1, 2):
            ensemble.kill(index)
        sentence = refused(command(alone, 1, tmp_path, "--set", "zookeeper.connection.timeout.ms=5000"))
    assert alone in sentence and "quorum" in sentence


def test_a_number_that_another_broker_has(connect, tmp_path):
    with running(command(connect, 1, tmp_path / "first")):
        sentence = refused(command(connect, 1, tmp_path / "second"))
        assert "another broker 1 is alive" in sentence
        assert registered(connect) == ["1"]


def test_a_directory_of_another_cluster(connect, tmp_path):
    with running(command(f"{connect}-other", 1, tmp_path)) as line:
        cluster = re.search(r"cluster ([\w-]{22}),", line)
    assert cluster is not None
    sentence = refused(command(connect, 1, tmp_path))
    assert f"belongs to cluster {cluster[1]}" in sentence and connect in sentence
    assert registered(connect) == []


def test_an_address_that_other_brokers_cannot_reach(connect, tmp_path):
    with running(command(connect, 1, tmp_path / "first")):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            closed = taken.getsockname()[1]
        hurry = "initial.broker.registration.timeout.ms=5000"
        unheard = command(
            connect, 2, tmp_path / "second", "--advertise", f"127.0.0.1:{closed}", "--set", hurry
        )
        sentence = refused(unheard)
        assert (
            f"the controller, broker 1, has not reached this broker at PLAINTEXT://127.0.0.1:{closed}"
            in sentence
        )
        assert registered(connect) == ["1"]


def test_three_machines_need_two_lines_each(tmp_path):
    """A number and the ZooKeeper: what the deployment guides of Kafka write into server.properties."""
    hosts.ensure()
    with hosts.Network() as network, contextlib.ExitStack() as stack:
        zk = network.add("zk")
        try:
            stack.enter_context(ZooKeeper(hosts=[zk.address], prefixes=[zk.command()], syncs=False))
        except Unavailable as reason:
            pytest.skip(str(reason))
        for number in range(3):
            host, directory = network.add(f"kafka{number}"), tmp_path / str(number)
            directory.mkdir()
            text = f"broker.id={number}\nzookeeper.connect={zk.address}:2181\n"
            (directory / "server.properties").write_text(text)
            start = [sys.executable, "-m", "ottla.cli.main", "start", "--config", "server.properties"]
            line = stack.enter_context(running(host.command(*start), directory))
            assert f"broker {number} of cluster" in line and f"{host.address}:9092" in line


def test_a_cluster_for_tests_can_have_a_zookeeper_of_its_own(zookeeper):
    with Cluster(nodes=2, zookeeper=True) as cluster:
        assert cluster.zookeeper is not None and len(cluster.zookeeper) == 1
        cluster.create_topic("orders")
        cluster.kill(cluster.leader("orders"))
        cluster.wait_until(lambda view: len(view.brokers) == 1 and view.controller in view.brokers)
    with Cluster(nodes=1, zookeeper=f"{zookeeper.connect_string}/for-tests") as cluster:
        assert registered(f"{zookeeper.connect_string}/for-tests") == ["1"]
