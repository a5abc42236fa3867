"""Range: of each topic, every subscriber gets a run of neighbouring partitions.

The first members in order get one more where it does not come out even. Each topic is cut for itself, so topics with
equally many partitions and the same subscribers are cut at the same places: whoever has partition 3 of one has
partition 3 of the other, as joins need it. Kafka's consumers and its coordinator cut alike, so one function serves
both. What members had before does not matter; static members keep their place in the order, and so their runs.
"""

from ottla.assignors.spec import Assignment, Members, PartitionCounts, T, in_order, subscribed_topics


def assign(members: Members[T], partition_counts: PartitionCounts[T]) -> Assignment[T]:
    assignment: Assignment[T] = {member_id: {} for member_id in in_order(members)}
    for topic in subscribed_topics(members, partition_counts):
        subscribers = [member_id for member_id in assignment if topic in members[member_id].subscribed]
        share, extra_count = divmod(partition_counts[topic], len(subscribers))
        start = 0
        for place, member_id in enumerate(subscribers):
            end = start + share + (place < extra_count)
            if start == end:
                break  # more members than partitions: this one and those behind it get nothing
            assignment[member_id][topic] = frozenset(range(start, end))
            start = end
    return assignment
