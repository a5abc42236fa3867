"""Apache Kafka's own assignors as an oracle: one JVM assigns for all groups of a run.

Names of members and topics may not contain spaces, colons and commas.
"""

import subprocess
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from ottla.assignors.exchange import decode_assignment
from ottla.assignors.spec import Assignment, MemberSpec
from ottla.protocol.messages.groups import JoinGroupResponse
from tests.oracles import apache_kafka, java_codec

KAFKAS = ("3.9.2", "4.3.1")
_BUILD = Path(__file__).parents[2] / "build" / "oracle"


class Joined(NamedTuple):
    """A classic group as its leader sees it."""

    assignor: str
    members: Sequence[JoinGroupResponse.Member]
    partition_counts: Mapping[str, int]


class Target(NamedTuple):
    """A group of the consumer protocol as its coordinator sees it. Only the last 8 bytes of topic ids count."""

    assignor: str
    members: Mapping[str, MemberSpec[uuid.UUID]]
    partition_counts: Mapping[uuid.UUID, int]


def ask_consumer(kafka: str, groups: Sequence[Joined]) -> list[Assignment[str]]:
    """How the assignors of this Kafka's consumer assign."""
    answers = []
    for line in _run(kafka, "Assignors", [_joined_line(group) for group in groups]):
        pairs = [word.split(":") for word in line.split(" ") if word]
        answers.append({member_id: decode_assignment(bytes.fromhex(blob)) for member_id, blob in pairs})
    return answers


def ask_coordinator(kafka: str, groups: Sequence[Target]) -> list[Assignment[uuid.UUID]]:
    """How the assignors of this Kafka's coordinator assign."""
    lines = _run(kafka, "CoordinatorAssignors", [_target_line(group) for group in groups])
    return [
        {
            member_id: _partitions(text)
            for member_id, text in (word.split(":") for word in line.split(" ") if word)
        }
        for line in lines
    ]


def _joined_line(group: Joined) -> str:
    topics = ",".join(f"{topic}:{count}" for topic, count in group.partition_counts.items())
    members = [
        f"{each.member_id}:{each.group_instance_id or ''}:{bytes(each.metadata).hex()}"
        for each in group.members
    ]
    return " ".join([group.assignor, topics, *members])


def _target_line(group: Target) -> str:
    topics = ",".join(f"{topic.int}:{count}" for topic, count in group.partition_counts.items())
    members = [
        ":".join(
            [
                member_id,
                member.instance_id or "",
                "+".join(str(topic.int) for topic in member.subscribed),
                "+".join(
                    f"{topic.int}-{each}"
                    for topic, partitions in member.current.items()
                    for each in partitions
                ),
            ]
        )
        for member_id, member in group.members.items()
    ]
    return " ".join([group.assignor.capitalize(), topics, *members])


def _partitions(text: str) -> dict[uuid.UUID, frozenset[int]]:
    share: dict[uuid.UUID, frozenset[int]] = {}
    for pair in text.split("+") if text else []:
        number, partition = pair.split("-")
        topic = uuid.UUID(int=int(number))
        share[topic] = share.get(topic, frozenset()) | {int(partition)}
    return share


def _run(kafka: str, program: str, lines: Sequence[str]) -> list[str]:
    java_codec.prepare()  # compiles the programs
    try:
        jars = apache_kafka.class_path(kafka)
    except apache_kafka.Unavailable as reason:
        pytest.skip(str(reason))
    done = subprocess.run(
        ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}:{_BUILD}", program],
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    answers = done.stdout.split("\n")[:-1]
    assert len(answers) == len(lines), done.stderr
    return answers
