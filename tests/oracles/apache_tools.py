"""Apache's own command line tools, run one after the other in one JVM: what ours are compared with.

The jars come through Maven, once, into build/jars. What reads stdin (the console producer) has a JVM of its own, by
`run_alone`.
"""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.oracles.apache_kafka import VERSION, Unavailable, fetch

__all__ = ["ApacheTools", "Ran", "Unavailable", "apache_tools", "run_alone"]

_JAVA = Path(__file__).parent / "java"
_AT = "org.apache.kafka.tools"
CLASSES = {
    "kafka-topics": f"{_AT}.TopicCommand",
    "kafka-console-producer": f"{_AT}.ConsoleProducer",
    "kafka-console-consumer": f"{_AT}.consumer.ConsoleConsumer",
    "kafka-consumer-groups": f"{_AT}.consumer.group.ConsumerGroupCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "kafka-get-offsets": f"{_AT}.GetOffsetShell",
    "kafka-reassign-partitions": f"{_AT}.reassign.ReassignPartitionsCommand",
    "kafka-leader-election": f"{_AT}.LeaderElectionCommand",
    "kafka-producer-perf-test": f"{_AT}.ProducerPerformance",
    "kafka-consumer-perf-test": f"{_AT}.ConsumerPerformance",
    "kafka-delete-records": f"{_AT}.DeleteRecordsCommand",
    "kafka-log-dirs": f"{_AT}.LogDirsCommand",
    "kafka-transactions": f"{_AT}.TransactionsCommand",
    "kafka-broker-api-versions": f"{_AT}.BrokerApiVersionsCommand",
}


class Ran(NamedTuple):
    """What a tool did."""

    code: int
    out: str
    err: str


class ApacheTools:
    """Made by `apache_tools`."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process

    def run(self, name: str, *words: str) -> Ran:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        stdin.write("\x1f".join((CLASSES[name], *words)).encode() + b"\n")
        stdin.flush()
        head = stdout.readline()
        assert head, "the JVM has ended"
        code, out, err = map(int, head.split())
        return Ran(code, *(stdout.read(size).decode(errors="surrogateescape") for size in (out, err)))


@contextmanager
def apache_tools() -> Iterator[ApacheTools]:
    """Raises `Unavailable` when there is no Java, or the jars cannot be fetched."""
    command = [*_java(), str(_JAVA / "tools" / "Tools.java")]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        yield ApacheTools(process)
    finally:
        process.kill()
        process.communicate()


def run_alone(name: str, *words: str, stdin: str = "", seconds: float = 120) -> Ran:
    """In a JVM of its own."""
    done = subprocess.run(
        [*_java(), CLASSES[name], *words], input=stdin, capture_output=True, text=True, timeout=seconds
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def _java() -> Sequence[str]:
    import shutil

    if shutil.which("java") is None:
        raise Unavailable("no java here: Apache's tools cannot run")
    jars = fetch(_JAVA / "kafka_tools.xml", f"kafka-commands-{VERSION}", f"-Dkafka.version={VERSION}")
    return ("java", "-Xmx512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off", "-cp", f"{jars}/*")
