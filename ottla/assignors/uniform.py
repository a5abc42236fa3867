"""Uniform, the coordinator's default: loads as even as subscriptions allow; then as few moves as that allows.

Where all members subscribe to the same topics, loads differ by one at most, and shares can be dealt out in one pass.
Where they do not, it is a question of flows: see `balance`.
"""

from ottla.assignors.balance import balanced
from ottla.assignors.claims import settled
from ottla.assignors.spec import Assignment, Members, PartitionCounts, T


def assign(members: Members[T], partition_counts: PartitionCounts[T]) -> Assignment[T]:
    return balanced(members, partition_counts, settled(members, partition_counts))
