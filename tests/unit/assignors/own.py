"""Assignors as a user might bring them along: good ones, and the mistakes one can make."""

from ottla.assignors.registry import Assignor
from ottla.assignors.spec import Assignment, Members, PartitionCounts

NOT_CALLABLE = 42


def first_takes_all(members: Members[str], partition_counts: PartitionCounts[str]) -> Assignment[str]:
    first = min(members)
    wanted = members[first].subscribed
    return {first: {topic: frozenset(range(partition_counts.get(topic, 0))) for topic in wanted}}


def raises(members: Members[str], partition_counts: PartitionCounts[str]) -> Assignment[str]:
    raise LookupError("lost my way")


def gives_twice(members: Members[str], partition_counts: PartitionCounts[str]) -> Assignment[str]:
    return {member_id: {"t": frozenset({0})} for member_id in members}


def invents_a_partition(members: Members[str], partition_counts: PartitionCounts[str]) -> Assignment[str]:
    return {min(members): {"t": frozenset({99})}}


def invents_a_member(members: Members[str], partition_counts: PartitionCounts[str]) -> Assignment[str]:
    return {"nobody": {}}


def ignores_subscriptions(members: Members[str], partition_counts: PartitionCounts[str]) -> Assignment[str]:
    return {min(members): {"unwanted": frozenset({0})}}


def returns_nothing(members: Members[str], partition_counts: PartitionCounts[str]) -> None:
    return None


class Family:
    @staticmethod
    def assign(members: Members[str], partition_counts: PartitionCounts[str]) -> Assignment[str]:
        return first_takes_all(members, partition_counts)


NAMED = Assignor("fair", first_takes_all, is_cooperative=True)
