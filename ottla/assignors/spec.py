"""What assignors are given and what they return. Both are plain values; an assignor is a pure function between them.

A topic's key is its name where a consumer assigns for its group, and its id where the coordinator does. Keys must be
of one kind and have an order: the result may not depend on the order in which members and topics are listed.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar


class Ordered(Protocol):
    """A key that can be sorted and looked up: `str`, `UUID`."""

    def __lt__(self, other: Any, /) -> bool: ...

    def __hash__(self) -> int: ...


T = TypeVar("T", bound=Ordered)


class MemberSpec(NamedTuple, Generic[T]):
    """One member: what it wants, and what it has."""

    subscribed: frozenset[T]
    current: Mapping[T, frozenset[int]]
    """What it was given before. It may be out of date: topics or partitions that are gone, or that others claim."""
    instance_id: str | None = None
    rack_id: str | None = None
    generation_id: int = -1
    """The group's generation in which it was given `current`. Of two that claim a partition the newer one is right."""


Members: TypeAlias = Mapping[str, MemberSpec[T]]
"""By member id."""

PartitionCounts: TypeAlias = Mapping[T, int]
"""How many partitions each topic has. Topics that are subscribed but missing here do not exist (yet)."""

Assignment: TypeAlias = dict[str, dict[T, frozenset[int]]]
"""By member id, with every member of the group; a topic of which a member gets nothing is left out."""

Assign: TypeAlias = Callable[
    [Mapping[str, MemberSpec[T]], Mapping[T, int]], dict[str, dict[T, frozenset[int]]]
]


def java_order(text: str) -> bytes:
    """A key that sorts strings as Java does, by their UTF-16 units, so that we agree with Java's assignors."""
    return text.encode("utf-16-be", "surrogatepass")


def in_order(members: Members[T]) -> list[str]:
    """Member ids in Kafka's order: static members by their instance id, which survives restarts, then the others."""

    def place(member_id: str) -> tuple[bool, bytes, bytes]:
        instance_id = members[member_id].instance_id
        return instance_id is None, java_order(instance_id or ""), java_order(member_id)

    return sorted(members, key=place)


def subscribed_topics(members: Members[T], partition_counts: PartitionCounts[T]) -> list[T]:
    """The topics that somebody wants and that have partitions, sorted."""
    wanted: set[T] = set()
    for subscribed in {member.subscribed for member in members.values()}:
        wanted |= subscribed
    return sorted_topics(topic for topic in wanted if partition_counts.get(topic, 0) > 0)


def sorted_topics(topics: Iterable[T]) -> list[T]:
    return sorted(topics, key=lambda topic: java_order(topic) if isinstance(topic, str) else topic)
