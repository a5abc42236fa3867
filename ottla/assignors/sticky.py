"""Sticky: even loads first, then everybody keeps what it had.

An eager assignor: members give up everything before they join, so a partition may go to its new owner at once. What
they had they remember in their user data (`user_data`), with the generation in which they were given it.
"""

from ottla.assignors.balance import balanced
from ottla.assignors.claims import settled
from ottla.assignors.spec import Assignment, Members, PartitionCounts, T


def assign(members: Members[T], partition_counts: PartitionCounts[T]) -> Assignment[T]:
    return balanced(members, partition_counts, settled(members, partition_counts))
