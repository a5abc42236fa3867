"""Apache Kafka's own message classes as an oracle: one JVM per Kafka reads and writes all messages of a run.

The jars come through Maven, once, into build/jars. Kafka's JSON shows bytes and uuids in base64, of records
only the size, and leaves out tagged fields that hold their default.
"""

import base64
import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ottla.protocol.schema import Field, declaration
from ottla.protocol.wiretypes import BLOB, RECORDS, UUID_BYTES, ArrayOf, StructOf, WireType

_HERE = Path(__file__).parent / "java"
_JARS = Path(__file__).parents[2] / "build" / "jars"
_SHARED = (
    "jackson-databind-2.17.2",
    "jackson-core-2.17.2",
    "jackson-annotations-2.17.2",
    "slf4j-api-1.7.36",
)
KAFKAS = {
    "3.9": ("kafka-clients-3.9.2", *_SHARED),
    "4.3": (
        "kafka-clients-4.3.1",
        "kafka-group-coordinator-4.3.1",
        "kafka-transaction-coordinator-4.3.1",
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


def known(kafka: str, questions: Sequence[Question]) -> list[Question]:
    """The questions whose message and version this Kafka has, whatever it makes of the bytes."""
    answers = zip(questions, _run(kafka, questions), strict=True)
    return [question for question, answer in answers if answer != "unknown"]


def _run(kafka: str, questions: Sequence[Question]) -> list[str]:
    class_path = ":".join(str(_JARS / f"{name}.jar") for name in KAFKAS[kafka])
    lines = [f"{each.cls.__name__} {each.version} {each.data.hex()}\n" for each in questions]
    done = subprocess.run(
        ["java", "-XX:TieredStopAtLevel=1", "-cp", class_path, str(_HERE / "Oracle.java")],
        input="".join(lines),
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    answers = done.stdout.split("\n")[:-1]
    assert len(answers) == len(questions), done.stderr
    return answers


def fetch_jars() -> None:
    """Get the jars, or skip the test that needs them."""
    if shutil.which("java") is None:
        pytest.skip("no java here: Apache Kafka's classes cannot be asked")
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
        done = subprocess.run(command, capture_output=True, text=True, timeout=240)
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


def from_json(cls: type, values: dict[str, Any], version: int) -> dict[str, Any]:
    """Kafka's JSON with our names. Its values stay as they are: `as_json` brings ours into that form."""
    left = {name.lower(): value for name, value in values.items()}
    found = {}
    for each in declaration(cls).fields:
        squeezed = each.name.replace("_", "")
        for key in (squeezed, f"{squeezed}sizeinbytes"):  # the latter for records that are not null
            if version in each.versions and key in left:
                found[each.name] = _from_json(each.type, left.pop(key), version)
    assert not left, f"Kafka's {cls.__qualname__} has {sorted(left)}, we do not"
    return found


def _from_json(kind: WireType, value: Any, version: int) -> Any:
    match kind:
        case ArrayOf(element) if value is not None:
            return [_from_json(element, each, version) for each in value]
        case StructOf(cls) if value is not None:
            return from_json(cls, value, version)
    return value


def as_json(message: Any, version: int) -> dict[str, Any]:
    """The fields of a message in the form of Kafka's JSON."""
    return {
        each.name: _as_json(each.type, getattr(message, each.name), version)
        for each in declaration(type(message)).fields
        if version in each.versions and not _is_left_out(each, getattr(message, each.name), version)
    }


def _is_left_out(field: Field, value: Any, version: int) -> bool:
    return field.is_tagged(version) and value == field.default


def _as_json(kind: WireType, value: Any, version: int) -> Any:
    match kind:
        case _ if value is None:
            return None
        case ArrayOf(element):
            return [_as_json(element, each, version) for each in value]
        case StructOf():
            return as_json(value, version)
    if kind == UUID_BYTES:
        return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()
    if kind == BLOB:
        return base64.b64encode(value).decode()
    return len(value) if kind == RECORDS else value
