"""Balance: loads as even as subscriptions allow, and of all such assignments one that moves little.

A load is a number of partitions. What is kept in every result: no member could take a partition, directly or by a
chain of moves, off one that has at least two more. Which partitions members keep is decided last, and each keeps its
own first; so nothing moves that the loads did not ask for.
"""

from collections import deque
from collections.abc import Sequence
from itertools import islice

from ottla.assignors.claims import Owners
from ottla.assignors.flows import Flows
from ottla.assignors.spec import Assignment, Members, PartitionCounts, T, in_order, subscribed_topics

Shares = dict[str, dict[T, list[int]]]


def balanced(members: Members[T], partition_counts: PartitionCounts[T], owners: Owners[T]) -> Assignment[T]:
    """The new assignment. `owners` may only name members that are subscribed to the topic."""
    topics = subscribed_topics(members, partition_counts)
    existing = frozenset(topics)
    wishes = {subscribed & existing for subscribed in {member.subscribed for member in members.values()}}
    if len(wishes) <= 1:
        shares = _deal(in_order(members), topics, partition_counts, owners)
    else:
        shares = _flow(members, topics, partition_counts, owners)
    return {
        member_id: {topic: frozenset(partitions) for topic, partitions in share.items() if partitions}
        for member_id, share in shares.items()
    }


def _deal(
    member_ids: Sequence[str], topics: Sequence[T], partition_counts: PartitionCounts[T], owners: Owners[T]
) -> Shares[T]:
    """All want the same: everybody keeps up to its share, and the rest is dealt like cards."""
    held: dict[str, list[tuple[T, int]]] = {member_id: [] for member_id in member_ids}
    free: list[tuple[T, int]] = []
    for topic in topics:
        owner_of = owners.get(topic, {})
        for partition in range(partition_counts[topic]):
            owner = owner_of.get(partition)
            (free if owner is None else held[owner]).append((topic, partition))

    share, extra_count = divmod(sum(partition_counts[topic] for topic in topics), max(1, len(member_ids)))
    quotas = dict.fromkeys(member_ids, share)
    # One more than the share goes to those who have it already, as long as there are any.
    for member_id in sorted(member_ids, key=lambda member_id: len(held[member_id]) <= share)[:extra_count]:
        quotas[member_id] += 1
    for member_id, quota in quotas.items():
        free += held[member_id][quota:]
        del held[member_id][quota:]

    hungry = deque(member_id for member_id in member_ids if len(held[member_id]) < quotas[member_id])
    for topic, partition in free:
        member_id = hungry.popleft()
        held[member_id].append((topic, partition))
        if len(held[member_id]) < quotas[member_id]:
            hungry.append(member_id)
    return {member_id: _by_topic(partitions) for member_id, partitions in held.items()}


def _by_topic(partitions: list[tuple[T, int]]) -> dict[T, list[int]]:
    share: dict[T, list[int]] = {}
    for topic, partition in partitions:
        share.setdefault(topic, []).append(partition)
    return share


def _flow(
    members: Members[T], topics: Sequence[T], partition_counts: PartitionCounts[T], owners: Owners[T]
) -> Shares[T]:
    """Wishes differ: first how many partitions of each topic everybody gets, then which."""
    member_ids = in_order(members)
    places = {member_id: place for place, member_id in enumerate(member_ids)}
    topic_places = {topic: place for place, topic in enumerate(topics)}
    subscribers: list[list[int]] = [[] for _ in topics]
    for place, member_id in enumerate(member_ids):
        for topic in members[member_id].subscribed & topic_places.keys():
            subscribers[topic_places[topic]].append(place)

    own: list[dict[int, list[int]]] = []  # by topic and member, the partitions
    for topic in topics:
        own_of_topic: dict[int, list[int]] = {}
        for partition, owner in sorted(owners.get(topic, {}).items()):
            own_of_topic.setdefault(places[owner], []).append(partition)
        own.append(own_of_topic)

    flows = Flows(
        member_count=len(member_ids),
        subscribers=subscribers,
        partition_counts=[partition_counts[topic] for topic in topics],
        held=[{place: len(partitions) for place, partitions in each.items()} for each in own],
    )
    flows.settle()

    shares: Shares[T] = {member_id: {} for member_id in member_ids}
    for topic, own_of_topic, counts, takers in zip(topics, own, flows.counts, subscribers, strict=True):
        stays = {place: partitions[: counts[place]] for place, partitions in own_of_topic.items()}
        kept = set().union(*stays.values())
        free = iter([each for each in range(partition_counts[topic]) if each not in kept])
        for place in takers:
            if counts[place]:
                share = stays.get(place, [])
                shares[member_ids[place]][topic] = [*share, *islice(free, counts[place] - len(share))]
    return shares
