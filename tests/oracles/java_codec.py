"""Apache Kafka's own message classes as an oracle: one JVM per Kafka reads and writes all messages of a run.

The jars come through Maven, once, into build/jars.
"""

import fcntl
import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.oracles.kafka_json import from_json

_HERE = Path(__file__).parent / "java"
_JARS = Path(__file__).parents[2] / "build" / "jars"
_BUILD = Path(__file__).parents[2] / "build" / "oracle"
_SHARED = (
    "jackson-databind-2.17.2",
    "jackson-core-2.17.2",
    "jackson-annotations-2.17.2",
    "slf4j-api-1.7.36",
)
KAFKAS = {
    "3.9": ("kafka-clients-3.9.2", "kafka-metadata-3.9.2", *_SHARED),
    "4.3": (
        "kafka-clients-4.3.1",
        "kafka-group-coordinator-4.3.1",
        "kafka-transaction-coordinator-4.3.1",
        "kafka-metadata-4.3.1",
        *_SHARED,
    ),
}


class Question(NamedTuple):
    cls: type
    version: int
    data: bytes


class Answer(NamedTuple):
    data: bytes
    key: int  # API key of a request or response, record type of a key or value; else -1
    values: dict[str, Any]


def ask(kafka: str, questions: Sequence[Question]) -> list[Answer | None]:
    """What this Kafka makes of the messages; None for a message or version that it does not know."""
    return [_parse(*each) for each in zip(questions, _run(kafka, questions), strict=True)]


def schemas(kafka: str, questions: Sequence[tuple[type, int]]) -> list[str]:
    """The fields that this Kafka gives to each message and version, as text; "unknown" where it has none."""
    return _lines(kafka, [f"{cls.__name__} {version} schema" for cls, version in questions])


def known(kafka: str, questions: Sequence[Question]) -> list[Question]:
    """The questions whose message and version this Kafka has, whatever it makes of the bytes."""
    answers = zip(questions, _run(kafka, questions), strict=True)
    return [question for question, answer in answers if answer != "unknown"]


def refusals(kafka: str, questions: Sequence[Question], code: int) -> list[bytes | None]:
    """How this Kafka says the error to each request; None where it does not know the request, or says nothing."""
    asked = [f"{each.cls.api_key} {each.version} {code} {each.data.hex()}" for each in questions]
    return [
        None if answer in ("unknown", "null") or answer.startswith("error") else bytes.fromhex(answer)
        for answer in _lines(kafka, asked, "Refusals")
    ]


def _run(kafka: str, questions: Sequence[Question]) -> list[str]:
    return _lines(kafka, [f"{each.cls.__name__} {each.version} {each.data.hex()}" for each in questions])


def _lines(kafka: str, lines: Sequence[str], program: str = "Oracle") -> list[str]:
    class_path = f"{_class_path(kafka)}:{_BUILD}"
    done = subprocess.run(
        ["java", "-XX:TieredStopAtLevel=1", "-cp", class_path, program],
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    answers = done.stdout.split("\n")[:-1]
    assert len(answers) == len(lines), done.stderr
    return answers


def _class_path(kafka: str) -> str:
    return ":".join(str(_JARS / f"{name}.jar") for name in KAFKAS[kafka])


def prepare() -> None:
    """Fetch the jars and compile the oracles, both once; or skip the test that needs them."""
    if shutil.which("java") is None or shutil.which("javac") is None:
        pytest.skip("no JDK here: Apache Kafka's classes cannot be asked")
    _BUILD.mkdir(parents=True, exist_ok=True)
    with (_BUILD / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several test processes may come here at once
        _fetch_jars()
        _compile()


def _compile() -> None:
    for source in _HERE.glob("*.java"):
        compiled = _BUILD / f"{source.stem}.class"
        if compiled.exists() and compiled.stat().st_mtime >= source.stat().st_mtime:
            continue
        command = ["javac", "-d", str(_BUILD), "-cp", _class_path("3.9"), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr


def _fetch_jars() -> None:
    wanted = {f"{name}.jar" for names in KAFKAS.values() for name in names}
    if all((_JARS / name).exists() for name in wanted):
        return
    if shutil.which("mvn") is None:
        pytest.skip("no Maven here: Apache Kafka's jars cannot be fetched")
    command = [
        "mvn",
        "-q",
        "-B",
        "-f",
        str(_HERE / "pom.xml"),
        "dependency:copy",
        f"-DoutputDirectory={_JARS}",
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=150)
    except subprocess.TimeoutExpired:
        pytest.skip("Maven took too long to fetch Apache Kafka's jars")
    if done.returncode:
        pytest.skip("Maven could not fetch Apache Kafka's jars")


def _parse(question: Question, line: str) -> Answer | None:
    if line == "unknown":
        return None
    assert not line.startswith("error"), f"{question.cls.__name__} v{question.version}: {line}"
    data, key, values = line.split(" ", 2)
    return Answer(
        bytes.fromhex(data), int(key), from_json(question.cls, json.loads(values), question.version)
    )
