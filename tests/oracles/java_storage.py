"""Apache Kafka's own log, cleaner and DumpLogSegments as an oracle of files: one JVM, asked as often as one likes."""

import fcntl
import json
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.oracles import apache_kafka

_SOURCE = Path(__file__).parent / "java" / "storage" / "KafkaStorage.java"
_TOOLS = _SOURCE.with_name("kafka_tools.xml")
_BUILD = Path(__file__).parents[2] / "build" / "oracle" / "storage"
_PROGRAM = "org.apache.kafka.storage.internals.log.KafkaStorage"


class Refused(Exception):
    """Apache Kafka does not like what it was given; the trace says why."""


class Cleanable(NamedTuple):
    """What Apache's cleaner would choose of a log."""

    first_dirty_offset: int
    end_offset: int
    clean_bytes: int
    cleanable_bytes: int
    is_overdue: bool
    ratio: float


class KafkaStorage:
    """A running JVM. Config has the names and values of a topic's settings; times are milliseconds."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def clean(
        self,
        directory: Path,
        config: Mapping[str, str],
        *,
        first_dirty: int,
        end: int,
        now_ms: int,
        map_bytes: int,
    ) -> dict[str, int]:
        """Run the Cleaner once; its end offset and statistics."""
        how = {"first_dirty": first_dirty, "end": end, "now": now_ms, "map_bytes": map_bytes}
        answer: dict[str, int] = self._ask("clean", directory=str(directory), config=dict(config), **how)
        return answer

    def cleanable(
        self, directory: Path, config: Mapping[str, str], checkpoint: int | None, now_ms: int
    ) -> Cleanable:
        how = {"checkpoint": checkpoint, "now": now_ms}
        return Cleanable(**self._ask("cleanable", directory=str(directory), config=dict(config), **how))

    def recover(self, directory: Path, config: Mapping[str, str], now_ms: int) -> dict[str, int]:
        """Open the log as after a crash: every batch is checked, every index written anew."""
        answer: dict[str, int] = self._ask(
            "recover", directory=str(directory), config=dict(config), now=now_ms
        )
        return answer

    def dump(self, directory: Path) -> list[dict[str, Any]]:
        """Every segment with its batches, records and aborted transactions, as Apache's classes read them."""
        segments: list[dict[str, Any]] = self._ask("dump", directory=str(directory))
        return segments

    def dump_log_segments(self, *arguments: str) -> str:
        """What Apache's DumpLogSegments prints."""
        printed: str = self._ask("tool", arguments=arguments)["printed"]
        return printed

    def _ask(self, what: str, **question: Any) -> Any:
        questions, answers = self._process.stdin, self._process.stdout
        assert questions is not None and answers is not None
        questions.write(json.dumps({"do": what, **question}) + "\n")
        questions.flush()
        line = answers.readline()
        if not line:
            raise Refused("the JVM has gone")
        answer = json.loads(line)
        if isinstance(answer, dict) and "error" in answer:
            raise Refused(answer["error"])
        return answer


@contextmanager
def kafka_storage() -> Iterator[KafkaStorage]:
    """A JVM until the block ends. Raises `apache_kafka.Unavailable` where there is no Java, or no jars."""
    command: Sequence[str] = ("java", "-XX:TieredStopAtLevel=1", "-Xmx512m", "-Djava.awt.headless=true")
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [*command, quiet, "-cp", f"{_class_path()}:{_BUILD}", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            encoding="utf-8",
        )
        with process:
            try:
                yield KafkaStorage(process)
            finally:
                process.kill()


def tools_class_path() -> str:
    """The jars of the broker and of its command line tools."""
    broker = apache_kafka.class_path()
    options = f"-Dkafka.version={apache_kafka.VERSION}"
    tools = apache_kafka.fetch(_TOOLS, f"kafka-tools-{apache_kafka.VERSION}", options)
    return f"{broker}:{tools}/*"


def _class_path() -> str:
    """The jars, and the program compiled against them; both once, by one process at a time."""
    class_path = tools_class_path()
    _BUILD.mkdir(parents=True, exist_ok=True)
    with (_BUILD / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        compiled = _BUILD / f"{_PROGRAM.replace('.', '/')}.class"
        if not compiled.exists() or compiled.stat().st_mtime < _SOURCE.stat().st_mtime:
            _compile(class_path)
    return class_path


def _compile(class_path: str) -> None:
    command = ["javac", "-d", str(_BUILD), "-cp", class_path, str(_SOURCE)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    except FileNotFoundError:
        raise apache_kafka.Unavailable("no javac here: Apache Kafka's storage cannot be asked") from None
    assert done.returncode == 0, done.stderr
