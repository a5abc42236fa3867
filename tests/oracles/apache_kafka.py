"""Apache Kafka as one KRaft node on loopback: the reference that clients and measurements are held against.

The jars come through Maven, once, into build/jars. A broker takes some 5 seconds to start.
"""

import fcntl
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

VERSION = "4.3.1"
_POM = Path(__file__).parent / "java" / "kafka_broker.xml"
_JARS = Path(__file__).parents[2] / "build" / "jars"
_START_SECONDS_MAX = 90.0
_CLUSTER_ID = "b3R0bGEtdGVzdHMtMDAwMQ"


class Unavailable(Exception):
    """Apache Kafka cannot run here; the sentence says why."""


class ApacheKafka(NamedTuple):
    """A broker that answers. `output` is the file with what it printed."""

    bootstrap_server: str
    port: int
    pid: int
    output: Path


@contextmanager
def apache_kafka(
    config: Mapping[str, str] | None = None,
    *,
    data_dir: Path | None = None,
    version: str = VERSION,
    node_id: int = 1,
    java: Sequence[str] = ("-Xmx1g", "-Xms256m"),
    listeners: Sequence[str] = (),
) -> Iterator[ApacheKafka]:
    """One node, formatted and started, until the block ends. `config` adds to server.properties, `listeners` to its.

    Raises `Unavailable` when there is no Java, or the jars cannot be fetched.
    """
    jars = class_path(version)
    base = Path(data_dir) if data_dir else Path(tempfile.mkdtemp(prefix="apache-kafka-"))
    base.mkdir(parents=True, exist_ok=True)
    port, controller_port = _free_ports(2)
    properties = base / "server.properties"
    settings = {**_settings(node_id, base / "data", port, controller_port), **(config or {})}
    settings["listeners"] = ",".join((settings["listeners"], *listeners))
    properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    command = ["java", *java, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", jars]
    _format(command, properties)
    output = base / "output.txt"
    with output.open("w") as sink:
        process = subprocess.Popen(
            [*command, "kafka.Kafka", str(properties)], stdin=subprocess.DEVNULL, stdout=sink, stderr=sink
        )
    try:
        _wait_for(lambda: _answers(port), process, output)
        yield ApacheKafka(f"127.0.0.1:{port}", port, process.pid, output)
    finally:
        process.kill()
        process.wait()
        if data_dir is None:
            shutil.rmtree(base, ignore_errors=True)


def class_path(version: str = VERSION) -> str:
    """The jars of the broker, fetched if they are not there yet."""
    if shutil.which("java") is None:
        raise Unavailable("no java here: Apache Kafka cannot run")
    return f"{fetch(_POM, f'kafka-broker-{version}', f'-Dkafka.version={version}')}/*"


def fetch(pom: Path, name: str, *options: str) -> Path:
    """The jars that a pom names, in build/jars/name; fetched once, by one process at a time."""
    directory = _JARS / name
    _JARS.mkdir(parents=True, exist_ok=True)
    with (_JARS / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not directory.exists():
            if shutil.which("mvn") is None:
                raise Unavailable(f"no Maven here: {name} cannot be fetched")
            partly = _JARS / f"{name}.new"
            copy = ["mvn", "-q", "-B", "-f", str(pom), *options, "dependency:copy-dependencies"]
            try:
                done = subprocess.run(
                    [*copy, f"-DoutputDirectory={partly}"], capture_output=True, text=True, timeout=240
                )
            except subprocess.TimeoutExpired:
                raise Unavailable(f"Maven took too long to fetch {name}") from None
            if done.returncode:
                raise Unavailable(f"Maven could not fetch {name}")
            partly.rename(directory)
    return directory


def stop(broker: ApacheKafka) -> None:
    """End it as its own script does, so that it says goodbye to its files; returns when it is gone."""
    os.kill(broker.pid, signal.SIGTERM)
    os.waitid(os.P_PID, broker.pid, os.WEXITED | os.WNOWAIT)  # who started it still wants to hear of it


def _settings(node_id: int, data: Path, port: int, controller_port: int) -> dict[str, str]:
    return {
        "process.roles": "broker,controller",
        "node.id": str(node_id),
        "controller.quorum.voters": f"{node_id}@127.0.0.1:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "log.dirs": str(data),
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.num.partitions": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
    }


def _format(command: list[str], properties: Path) -> None:
    tool = [
        "kafka.tools.StorageTool",
        "format",
        "-t",
        _CLUSTER_ID,
        "-c",
        str(properties),
        "--ignore-formatted",
    ]
    done = subprocess.run([*command, *tool], capture_output=True, text=True, timeout=_START_SECONDS_MAX)
    assert done.returncode == 0, done.stdout + done.stderr


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def _wait_for(is_up: Callable[[], bool], process: subprocess.Popen[bytes], output: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS_MAX
    while not is_up():
        assert process.poll() is None and time.monotonic() < deadline, output.read_text()[-4000:]
        time.sleep(0.1)


def _answers(port: int) -> bool:
    """Does the broker answer ApiVersions v0? Its port opens before it is ready, and is then silent."""
    request = (18).to_bytes(2, "big") + bytes(2) + (1).to_bytes(4, "big") + b"\xff\xff"
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            connection.sendall(len(request).to_bytes(4, "big") + request)
            return len(connection.recv(8)) == 8
    except OSError:
        return False
