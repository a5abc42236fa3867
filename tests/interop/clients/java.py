"""Apache's own client, in Java: the current one, and the one of Kafka 3.9, which Spark uses."""

import fcntl
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.interop.clients.client import Unavailable
from tests.interop.clients.remote import RemoteClient
from tests.oracles import apache_kafka

_SOURCES = [
    Path(__file__).with_name(name)
    for name in ("JavaClient.java", "JavaAdministration.java", "JavaMember.java")
]
_OPTIONS = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m", "-Xshare:auto"]
_POM = Path(__file__).with_name("java_client.xml")
_BUILD = Path(__file__).parents[3] / "build" / "interop"
VERSIONS = {"4": "4.3.1", "3": "3.9.2"}


def prepare(version: str) -> None:
    """Fetch the jars and compile the programs, both once."""
    if shutil.which("java") is None or shutil.which("javac") is None:
        raise Unavailable("no JDK here: Apache's client cannot run")
    try:
        jars = _jars(version)
    except apache_kafka.Unavailable as error:
        raise Unavailable(str(error)) from error
    target = _classes(version)
    target.mkdir(parents=True, exist_ok=True)
    compiled = [target / f"{source.stem}.class" for source in _SOURCES]
    with (target / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several test processes may come here at once
        newest = max(source.stat().st_mtime for source in _SOURCES)
        if not all(each.exists() and each.stat().st_mtime >= newest for each in compiled):
            command = ["javac", "-nowarn", "-d", str(target), "-cp", f"{jars}/*", *map(str, _SOURCES)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120)
            assert done.returncode == 0, done.stderr


class JavaClient(RemoteClient):
    def __init__(self, bootstrap_server: str, version: str) -> None:
        super().__init__(_command(version, "JavaClient"), bootstrap_server)

    def cluster(self) -> dict[str, Any]:
        """`id`, `controller` and `brokers`."""
        return self._ask("cluster")

    def offsets(self, topic: str) -> dict[int, tuple[int, int]]:
        """Where the log of each partition starts and ends."""
        return {
            int(partition): (start, end)
            for partition, (start, end) in self._ask("offsets", topic=topic).items()
        }

    def replicas(self, topic: str) -> dict[int, tuple[int, list[int]]]:
        """The leader of each partition, and its replicas."""
        found = self._ask("replicas", topic=topic)
        return {int(partition): (leader, replicas) for partition, (leader, replicas) in found.items()}

    def reassign(self, topic: str, partition: int, replicas: Sequence[int]) -> None:
        self._ask("reassign", topic=topic, partition=partition, replicas=list(replicas))

    def reassigned(self) -> list[tuple[str, int]]:
        """The partitions on the move."""
        return [(topic, partition) for topic, partition in self._ask("reassigned")]

    def elect_leader(self, topic: str, partition: int) -> None:
        """The preferred one. Refused if it leads already."""
        self._ask("elect_leader", topic=topic, partition=partition)

    def log_dirs(self) -> dict[int, list[tuple[str, int]]]:
        """What lies in the directories of each broker."""
        found = self._ask("log_dirs")
        return {
            int(broker): [(topic, partition) for topic, partition in held] for broker, held in found.items()
        }


def member_command(version: str) -> list[str]:
    """The program that is a member of a group."""
    return _command(version, "JavaMember")


def _command(version: str, program: str) -> list[str]:
    return ["java", *_OPTIONS, "-cp", f"{_jars(version)}/*:{_classes(version)}", program]


def _jars(version: str) -> Path:
    number = VERSIONS[version]
    return apache_kafka.fetch(_POM, f"kafka-clients-{number}", f"-Dkafka.version={number}")


def _classes(version: str) -> Path:
    return _BUILD / f"java-{VERSIONS[version]}"
