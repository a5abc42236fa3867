"""Where replicas are to be: read from a file in Kafka's format, or worked out. Pure: nobody is asked here.

What is worked out moves as little as can be. A drained broker is replaced where it was, and nothing else moves. Where
every broker names its rack, somebody from a rack takes its place in which the partition has no replica yet.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import click

from ottla.cli.cluster_state import Moves, Node, Snapshot, numbered
from ottla.cli.remote import NOT_FOUND, Failed
from ottla.core.ids import TopicPartition, topic_name_fault

VERSION = 1
ANY_DIRECTORY = "any"
Assignment = dict[TopicPartition, tuple[int, ...]]


class Planned(NamedTuple):
    """A partition that is to have other replicas, or the same in another order."""

    place: TopicPartition
    now: tuple[int, ...]
    then: tuple[int, ...]

    @property
    def adds(self) -> tuple[int, ...]:
        return tuple(id for id in self.then if id not in self.now)

    @property
    def removes(self) -> tuple[int, ...]:
        return tuple(id for id in self.now if id not in self.then)

    def row(self) -> dict[str, Any]:
        return {
            "topic": self.place.topic,
            "partition": self.place.partition,
            "now": list(self.now),
            "then": list(self.then),
            "adds": list(self.adds),
            "removes": list(self.removes),
        }


def current(seen: Snapshot, moves: Moves) -> Assignment:
    """The replicas that every partition has, or will have when its move is over."""
    return {
        place: moves[place].target if place in moves else each.replicas
        for place, each in seen.partitions.items()
    }


def changes(seen: Snapshot, moves: Moves, wanted: Assignment) -> list[Planned]:
    """What of it is not so yet, and what is under way already. Raises `Failed` where it names what does not exist."""
    found = []
    for place, replicas in sorted(wanted.items()):
        partition = seen.one(place)
        seen.check_alive(set(replicas) - set(partition.replicas))
        now = moves[place].before if place in moves else partition.replicas
        if place in moves or now != replicas:
            found.append(Planned(place, now, replicas))
    return found


# --- Kafka's format ---------------------------------------------------------------------------------------------------


def written(assignment: Mapping[TopicPartition, Iterable[int]]) -> dict[str, Any]:
    """As kafka-reassign-partitions reads it."""
    return {
        "version": VERSION,
        "partitions": [
            {"topic": place.topic, "partition": place.partition, "replicas": list(replicas)}
            for place, replicas in sorted(assignment.items())
        ],
    }


def read(text: str, where: str) -> Assignment:
    """What `written` wrote, or Kafka's tools, or `--json` here. Raises UsageError with the place of what is wrong."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise click.UsageError(f"{where} is not JSON: {error}") from None
    if isinstance(document, dict) and isinstance(document.get("plan"), dict):
        document = document["plan"]
    rows = document.get("partitions") if isinstance(document, dict) else None
    if not isinstance(rows, list):
        raise click.UsageError(
            f'{where} is no plan: it must look like {{"version": 1, "partitions": [{{"topic": "orders", '
            '"partition": 0, "replicas": [1, 2, 3]}]}'
        )
    if document.get("version", VERSION) != VERSION:
        raise click.UsageError(f"{where} has version {document['version']!r}; only {VERSION} is known")
    found: Assignment = {}
    for at, row in enumerate(rows):
        place, replicas = _row(row, f"{where}: partitions[{at}]")
        if place in found:
            raise click.UsageError(f"{where}: {place.topic}:{place.partition} is there twice")
        found[place] = replicas
    return found


def _row(row: Any, where: str) -> tuple[TopicPartition, tuple[int, ...]]:
    if not isinstance(row, dict):
        raise click.UsageError(f"{where} is no object")
    topic, partition, replicas = row.get("topic"), row.get("partition"), row.get("replicas")
    if not isinstance(topic, str) or topic_name_fault(topic):
        raise click.UsageError(f"{where}: topic must be the name of one, not {topic!r}")
    if not isinstance(partition, int) or not _is_id(partition):
        raise click.UsageError(f"{where}: partition must be a number from 0, not {partition!r}")
    if not isinstance(replicas, list) or not replicas or not all(map(_is_id, replicas)):
        raise click.UsageError(f"{where}: replicas must be a list of broker ids, not {replicas!r}")
    directories = row.get("log_dirs") or []
    if not isinstance(directories, list) or any(each != ANY_DIRECTORY for each in directories):
        raise click.UsageError(f'{where}: log_dirs can only be "{ANY_DIRECTORY}": brokers choose themselves')
    return TopicPartition(topic, partition), distinct(replicas, where)


def _is_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31


def distinct(ids: Sequence[int], where: str) -> tuple[int, ...]:
    if len(set(ids)) != len(ids):
        raise click.UsageError(f"{where}: a broker is named twice in {','.join(map(str, ids))}")
    return tuple(ids)


def racks_of(nodes: Iterable[Node]) -> dict[int, str]:
    """The racks of these brokers if all have one, as Kafka places replicas; else nothing."""
    nodes = list(nodes)
    racks = {node.id: node.rack for node in nodes if node.rack is not None}
    return racks if len(racks) == len(nodes) else {}


# --- draining ---------------------------------------------------------------------------------------------------------


def drained(
    now: Assignment, topics: Collection[str], nodes: Mapping[int, Node], broker: int, onto: Collection[int]
) -> Assignment:
    """These topics without that broker: in its place whoever of the others has least, from a rack that has none."""
    if broker not in nodes and not any(broker in replicas for replicas in now.values()):
        alive = ", ".join(map(str, sorted(nodes)))
        raise Failed(f"there is no broker {broker}, nor has it replicas; alive are: {alive}", NOT_FOUND)
    racks = racks_of(nodes.values())
    hosted, led = Counter[int](), Counter[int]()
    for replicas in now.values():
        hosted.update(replicas)
        led.update(replicas[:1])
    found: Assignment = {}
    for place, replicas in sorted(now.items()):
        if broker not in replicas or place.topic not in topics:
            continue
        rest = [id for id in replicas if id != broker]
        candidates = [id for id in onto if id not in replicas]
        if not candidates:
            raise Failed(
                f"nobody can take {place.topic}:{place.partition} over: "
                f"{numbered('broker', sorted(onto)) if onto else 'no other broker'} cannot have it twice; "
                "name more with --to, start another broker, or move it by hand with fewer --replicas"
            )
        used = {racks[id] for id in rest if id in racks}
        chosen = min(candidates, key=lambda id: (racks.get(id) in used, hosted[id], id))
        hosted[chosen] += 1
        found[place] = _replaced(replicas, broker, chosen, led)
    return found


def _replaced(replicas: Sequence[int], broker: int, chosen: int, led: Counter[int]) -> tuple[int, ...]:
    """The new one stands where the old one stood; but who is to lead is the one of them that leads least."""
    new = [chosen if id == broker else id for id in replicas]
    if replicas[0] == broker:
        first = min(new, key=lambda id: (led[id], new.index(id)))
        led[first] += 1
        new = [first, *(id for id in new if id != first)]
    return tuple(new)
