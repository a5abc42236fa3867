"""Cooperative sticky: as sticky, in two steps, so that members read on while their group rebalances.

Members keep what they own when they join. A partition that is to move is given to nobody at first: its owner sees that
it is missing, gives it up and joins again; in that second round nobody claims it, and its new owner gets it. So a
partition never has two readers.
"""

from ottla.assignors import sticky
from ottla.assignors.claims import claims
from ottla.assignors.spec import Assignment, Members, PartitionCounts, T


def assign(members: Members[T], partition_counts: PartitionCounts[T]) -> Assignment[T]:
    wanted = sticky.assign(members, partition_counts)
    claimants: dict[tuple[T, int], list[str]] = {}
    for topic, partition, member_id in claims(members, partition_counts):
        claimants.setdefault((topic, partition), []).append(member_id)

    def is_free_for(member_id: str, partition: tuple[T, int]) -> bool:
        claimed_by = claimants.get(partition, [])
        if member_id not in claimed_by:
            return not claimed_by
        # Who claims it from an earlier generation has missed that it was given to this member since.
        generation_id = members[member_id].generation_id
        return all(each == member_id or members[each].generation_id < generation_id for each in claimed_by)

    assignment: Assignment[T] = {}
    for member_id, share in wanted.items():
        given = {
            topic: frozenset(each for each in partitions if is_free_for(member_id, (topic, each)))
            for topic, partitions in share.items()
        }
        assignment[member_id] = {topic: partitions for topic, partitions in given.items() if partitions}
    return assignment
