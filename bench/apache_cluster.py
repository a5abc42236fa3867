"""Apache Kafka as three KRaft nodes on the loopback, each broker and controller: what clusters are held against.

The jars are those of the one node (`tests/oracles/apache_kafka.py`). Nodes are formatted and started one
after the other, and are up when each of them knows all three.
"""

import contextlib
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bench.processes import free_port
from bench.wire import METADATA, call
from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.oracles.apache_kafka import class_path

CLUSTER_ID = "b3R0bGEtYmVuY2gtMDAwMw"
JAVA = ("-Xmx512m", "-Xms256m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
START_SECONDS_MAX = 120.0


@contextlib.contextmanager
def apache_cluster(
    directory: Path, settings: Mapping[str, str] | None = None, *, nodes: int = 3
) -> Iterator[tuple[list[int], list[int]]]:
    """Ports and pids of the nodes, until the block ends. Raises `Unavailable` where Kafka cannot be had."""
    jars = class_path()
    command = ["java", *JAVA, "-cp", jars]
    ports = [free_port() for _ in range(nodes)]
    controllers = [free_port() for _ in range(nodes)]
    processes = []
    try:
        for index in range(nodes):
            home = directory / f"apache-{index + 1}"
            home.mkdir(parents=True)
            properties = home / "server.properties"
            wanted = {**_settings(index, home, ports, controllers), **(settings or {})}
            properties.write_text("".join(f"{key}={value}\n" for key, value in wanted.items()))
            _format(command, properties)
            processes.append(_start(command, properties))
        _wait_until_together(ports, processes, directory)
        yield ports, [process.pid for process in processes]
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()


def _settings(index: int, home: Path, ports: Sequence[int], controllers: Sequence[int]) -> dict[str, str]:
    voters = ",".join(f"{number}@127.0.0.1:{port}" for number, port in enumerate(controllers, 1))
    return {
        "process.roles": "broker,controller",
        "node.id": str(index + 1),
        "controller.quorum.voters": voters,
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://127.0.0.1:{ports[index]},CONTROLLER://127.0.0.1:{controllers[index]}",
        "log.dirs": str(home / "data"),
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
    }


def _format(command: Sequence[str], properties: Path) -> None:
    tool = ["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(properties)]
    done = subprocess.run([*command, *tool], capture_output=True, text=True, timeout=START_SECONDS_MAX)
    if done.returncode:
        raise RuntimeError(f"Apache Kafka cannot format {properties.parent}: {done.stdout}{done.stderr}")


def _start(command: Sequence[str], properties: Path) -> "subprocess.Popen[bytes]":
    with (properties.parent / "output.txt").open("w") as sink:
        return subprocess.Popen(
            [*command, "kafka.Kafka", str(properties)], stdin=subprocess.DEVNULL, stdout=sink, stderr=sink
        )


def _wait_until_together(
    ports: Sequence[int], processes: "Sequence[subprocess.Popen[bytes]]", directory: Path
) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    for port in ports:
        while _known_brokers(port) < len(ports):
            for index, process in enumerate(processes, 1):
                if process.poll() is not None or time.monotonic() > deadline:
                    said = (directory / f"apache-{index}" / "output.txt").read_text()[-2000:]
                    raise RuntimeError(f"Apache Kafka's node {index} does not serve: {said}")
            time.sleep(0.1)


def _known_brokers(port: int) -> int:
    """How many brokers this one knows; 0 while it does not answer."""
    try:
        request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
        return len(call(port, METADATA, request, MetadataResponse).brokers)
    except OSError:
        return 0
