"""Which brokers get the replicas of a partition: around the circle, as Kafka does.

First replicas go to one broker after the other, beginning at `start`; the further replicas of a partition stand
`shift` and more steps away, and the distance grows with every round. So the load of a broker that dies is spread
over all others. Racks are not looked at.
"""

from collections.abc import Sequence


def place(
    brokers: Sequence[int],
    partition_count: int,
    replication_factor: int,
    *,
    start: int,
    shift: int,
    first_partition: int = 0,
) -> list[tuple[int, ...]]:
    """Replicas of `partition_count` partitions, numbered from `first_partition`; the first of each is to lead."""
    assert 1 <= replication_factor <= len(brokers), "the caller checks that there are enough brokers"
    placed = []
    for partition in range(first_partition, first_partition + partition_count):
        if partition > 0 and partition % len(brokers) == 0:
            shift += 1
        first = (partition + start) % len(brokers)
        steps = (_step(shift, follower, len(brokers)) for follower in range(replication_factor - 1))
        placed.append((brokers[first], *(brokers[(first + step) % len(brokers)] for step in steps)))
    return placed


def _step(shift: int, follower: int, broker_count: int) -> int:
    """How far a follower stands from the first replica: 1 to one less than there are brokers."""
    return 1 + (shift + follower) % (broker_count - 1)
