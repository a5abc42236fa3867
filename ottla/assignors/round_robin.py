"""Round robin: all partitions of all topics in a row are dealt to the members in turn.

A member that does not subscribe to a topic is passed over, and its turn is not made up for: with uneven subscriptions
loads are uneven. The turn goes on from one topic to the next, so nobody is first every time.
"""

from ottla.assignors.spec import Assignment, Members, PartitionCounts, T, in_order, subscribed_topics


def assign(members: Members[T], partition_counts: PartitionCounts[T]) -> Assignment[T]:
    member_ids = in_order(members)
    shares: dict[str, dict[T, list[int]]] = {member_id: {} for member_id in member_ids}
    turn = 0
    for topic in subscribed_topics(members, partition_counts):
        # Those who are asked for this topic, by their place in the ring.
        places = [place for place, each in enumerate(member_ids) if topic in members[each].subscribed]
        first = next((index for index, place in enumerate(places) if place >= turn), 0)
        partition_count = partition_counts[topic]
        for index in range(min(len(places), partition_count)):
            member_id = member_ids[places[(first + index) % len(places)]]
            shares[member_id][topic] = list(range(index, partition_count, len(places)))
        turn = (places[(first + partition_count - 1) % len(places)] + 1) % len(member_ids)
    return {
        member_id: {topic: frozenset(partitions) for topic, partitions in share.items()}
        for member_id, share in shares.items()
    }
