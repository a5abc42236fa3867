"""The JSON files of `kafka-reassign-partitions`: which topics to move, and who is to have which partition."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from ottla.cli.classic.java import Illegal, integer
from ottla.cli.classic.json_fields import array_of, compact, field, object_of, of_kind, parsed, twice
from ottla.client.admin.log_dirs import TopicPartitionReplica
from ottla.core.ids import TopicPartition

_VERSION = 1
ANY_DIR = "any"
Replicas = dict[TopicPartition, tuple[int, ...]]
Dirs = dict[TopicPartitionReplica, str]


class Plan(NamedTuple):
    """Who is to have which partition; and, for replicas whose file names a directory, where."""

    parts: Replicas
    dirs: Dirs


# --- reading ----------------------------------------------------------------------------------------------------------


def read_topics(text: str) -> list[str]:
    """The topics to move. Raises Illegal."""
    try:
        document = object_of(parsed(text))
    except ValueError:
        raise Illegal("The input string is not a valid JSON") from None
    _check_version(document)
    rows = array_of(document["topics"]) if "topics" in document else []
    topics = [of_kind(field(object_of(row), "topic"), str) for row in rows]
    if doubled := twice(topics):
        raise Illegal(f"List of topics to reassign contains duplicate entries: [{', '.join(doubled)}]")
    return topics


def read_brokers(text: str) -> list[int]:
    """`0,1,2`. Raises Illegal."""
    brokers = [integer(each) for each in text.split(",")]
    if doubled := twice(brokers):
        raise Illegal(f"Broker list contains duplicate entries: [{', '.join(map(str, doubled))}]")
    return brokers


def read_plan(text: str, *, is_checked: bool) -> Plan:
    """A reassignment. With `is_checked` it must make sense, as it must before it is executed. Raises Illegal."""
    rows = _rows(text)
    plan = Plan({}, {})
    places = []
    for row in rows:
        place, replicas, dirs = _row(row)
        places.append(place)
        plan.parts[place] = replicas
        for broker, path in zip(replicas, dirs, strict=True):
            if path != ANY_DIR:
                plan.dirs[TopicPartitionReplica(place.topic, place.partition, broker)] = path
    if is_checked:
        _check(places, plan.parts)
    return plan


def _rows(text: str) -> list[Any]:
    if not text.strip():
        raise Illegal("The input string shouldn't be empty")
    try:
        document = object_of(parsed(text))
    except ValueError as error:
        raise Illegal(f"The file is no JSON: {error}") from None
    _check_version(document)
    return array_of(document["partitions"]) if "partitions" in document else []


def _row(value: Any) -> tuple[TopicPartition, tuple[int, ...], list[str]]:
    row = object_of(value)
    place = TopicPartition(of_kind(field(row, "topic"), str), of_kind(field(row, "partition"), int))
    replicas = tuple(of_kind(each, int) for each in array_of(field(row, "replicas")))
    if "log_dirs" not in row:
        return place, replicas, [ANY_DIR] * len(replicas)
    dirs = [of_kind(each, str) for each in array_of(row["log_dirs"])]
    if len(dirs) != len(replicas):
        raise Illegal(
            f"Size of replicas list [{', '.join(map(str, replicas))}] is different from size of log dirs list "
            f"[{', '.join(dirs)}] for partition {place}"
        )
    return place, replicas, dirs


def _check(places: Sequence[TopicPartition], parts: Replicas) -> None:
    if not parts:
        raise Illegal("Partition reassignment list cannot be empty")
    if any(not replicas for replicas in parts.values()):
        raise Illegal("Partition replica list cannot be empty")
    if doubled := twice(places):
        raise Illegal(
            f"Partition reassignment contains duplicate topic partitions: {','.join(map(str, doubled))}"
        )
    faults = [(place, twice(replicas)) for place, replicas in parts.items() if twice(replicas)]
    if faults:
        told = ". ".join(
            f"{place} contains multiple entries for {','.join(map(str, ids))}" for place, ids in faults
        )
        raise Illegal(f"Partition replica lists may not contain duplicate entries: {told}")


def _check_version(document: Mapping[str, Any]) -> None:
    version = of_kind(document.get("version", _VERSION), int)
    if version != _VERSION:
        raise Illegal(f"Not supported version field value {version}")


# --- writing ----------------------------------------------------------------------------------------------------------


def written(
    parts: Mapping[TopicPartition, Collection[int]], dirs: Mapping[TopicPartitionReplica, str]
) -> str:
    """One line of JSON, that can be read again."""
    rows = []
    for place in sorted(parts):
        paths = [
            dirs.get(TopicPartitionReplica(place.topic, place.partition, broker), ANY_DIR)
            for broker in parts[place]
        ]
        rows.append(
            {
                "topic": place.topic,
                "partition": place.partition,
                "replicas": list(parts[place]),
                "log_dirs": paths,
            }
        )
    return compact({"version": _VERSION, "partitions": rows})
