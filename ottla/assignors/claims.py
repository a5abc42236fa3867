"""Claims: who owned which partition before, by what members themselves say.

Members may be wrong: one that missed a rebalance still claims what was taken from it. So the claim of the newest
generation counts. If two make it in the same generation nobody knows who is right, and neither keeps the partition.
"""

from collections.abc import Iterator
from typing import TypeAlias

from ottla.assignors.spec import Members, PartitionCounts, T

Owners: TypeAlias = dict[T, dict[int, str]]
"""The member id, by topic and partition. Partitions without an owner are left out."""


def claims(members: Members[T], partition_counts: PartitionCounts[T]) -> Iterator[tuple[T, int, str]]:
    """All claims to partitions that exist, in no order that means anything."""
    for member_id, member in members.items():
        for topic, partitions in member.current.items():
            partition_count = partition_counts.get(topic, 0)
            for partition in partitions:
                if 0 <= partition < partition_count:
                    yield topic, partition, member_id


def settled(members: Members[T], partition_counts: PartitionCounts[T]) -> Owners[T]:
    """The owner of each partition that may keep it: it has the newest claim, alone, and is still subscribed."""
    owners: Owners[T] = {topic: {} for topic in partition_counts}
    disputed: dict[tuple[T, int], int] = {}  # the generation in which two claimed it
    for topic, partition, member_id in claims(members, partition_counts):
        generation_id = members[member_id].generation_id
        rival = owners[topic].get(partition)
        if disputed and generation_id <= disputed.get((topic, partition), generation_id - 1):
            continue
        if rival is None or generation_id > members[rival].generation_id:
            owners[topic][partition] = member_id
        elif generation_id == members[rival].generation_id:
            del owners[topic][partition]
            disputed[topic, partition] = generation_id
    return {topic: _still_subscribed(members, topic, owner_of) for topic, owner_of in owners.items()}


def _still_subscribed(members: Members[T], topic: T, owner_of: dict[int, str]) -> dict[int, str]:
    return {
        partition: member_id
        for partition, member_id in owner_of.items()
        if topic in members[member_id].subscribed
    }
