"""Groups in few words: `group(c0="t0 t1")` subscribes c0 to two topics, `shares` writes an assignment the same way."""

import re
from collections.abc import Mapping

from ottla.assignors.spec import Assign, Assignment, MemberSpec

Group = dict[str, MemberSpec[str]]


def group(**subscriptions: str) -> Group:
    return {member_id: member(topics) for member_id, topics in subscriptions.items()}


def member(
    topics: str, had: str = "", instance_id: str | None = None, generation_id: int = -1
) -> MemberSpec[str]:
    """`had` is a list as in "t0-0 t0-1"."""
    current: dict[str, frozenset[int]] = {}
    for topic, partition in re.findall(r"(\w+)-(-?\d+)", had):
        current[topic] = current.get(topic, frozenset()) | {int(partition)}
    return MemberSpec(frozenset(topics.split()), current, instance_id, generation_id=generation_id)


def next_round(members: Group, assignment: Assignment[str], *gone: str) -> Group:
    """The same members, without those who are gone, each with what it was given."""
    return {
        member_id: spec._replace(current=assignment[member_id])
        for member_id, spec in members.items()
        if member_id not in gone
    }


def shares(assignment: Mapping[str, Mapping[str, frozenset[int]]]) -> dict[str, str]:
    return {
        member_id: " ".join(
            f"{topic}-{partition}" for topic in sorted(share) for partition in sorted(share[topic])
        )
        for member_id, share in assignment.items()
    }


def assigned(assign: Assign[str], members: Group, **partition_counts: int) -> dict[str, str]:
    return shares(assign(members, partition_counts))


def loads(assignment: Mapping[str, Mapping[str, frozenset[int]]]) -> dict[str, int]:
    return {member_id: sum(map(len, share.values())) for member_id, share in assignment.items()}


def pairs(assignment: Mapping[str, Mapping[str, frozenset[int]]]) -> dict[tuple[str, int], str]:
    """Who has each partition."""
    return {
        (topic, partition): member_id
        for member_id, share in assignment.items()
        for topic, partitions in share.items()
        for partition in partitions
    }
