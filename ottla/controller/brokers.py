"""Brokers come and go, and so do controllers: leaders are elected, and everybody is told what concerns them."""

from collections.abc import Collection, Iterable

from ottla.controller import elections, partitions
from ottla.controller.context import Context
from ottla.controller.decision import (
    BrokersChanged,
    Decision,
    StopReplicas,
    TopicChanged,
    UpdateMetadata,
)
from ottla.core.ids import TopicPartition
from ottla.replication.state import BrokerImage, PartitionState, TopicImage


def begin(context: Context, born: Collection[int]) -> Decision:
    """The first decision of a controller: set everything right, and tell everybody everything.

    `born` are brokers that are known to have begun a new life since the states were written: this one, mostly.
    Whoever died half-way through a deletion left its topic doomed: the replicas are stopped once more.
    """
    decision = _settle(context, context.brokers.values(), born, ignorant=context.brokers.keys())
    for name in context.doomed:
        decision.effects += stops(context, name)
    return decision


def change(context: Context, brokers: Iterable[BrokerImage]) -> Decision:
    """These brokers live now. One with another epoch than we knew is in a new life."""
    brokers = tuple(brokers)
    born = {
        b.node_id
        for b in brokers
        if b.node_id not in context.brokers or context.brokers[b.node_id].epoch != b.epoch
    }
    if not born and len(brokers) == len(context.brokers):
        return Decision()
    return _settle(context, brokers, born, ignorant=born)


def stops(context: Context, name: str) -> list[StopReplicas]:
    """Tell every live broker that has replicas of a doomed topic to delete them."""
    doomed = context.doomed.get(name) or context.topics.get(name)
    if doomed is None:
        return []
    mine: dict[int, dict[TopicPartition, bool]] = {}
    for state in doomed.image.partitions:
        for id in state.replicas:
            if id in context.brokers:
                mine.setdefault(id, {})[state.topic_partition] = True
    return [StopReplicas(id, found, {name: doomed.image.topic_id}) for id, found in mine.items()]


def _settle(
    context: Context, brokers: Iterable[BrokerImage], born: Collection[int], ignorant: Collection[int]
) -> Decision:
    """Elect where it is needed. `ignorant` brokers are told everything, the others what has changed."""
    live = {broker.node_id: broker for broker in brokers}
    decision = Decision(changes=[BrokersChanged(tuple(live.values()))])
    images: list[TopicImage] = []
    changed: list[TopicImage] = []
    news: list[PartitionState] = []
    for stored in context.topics.values():
        image, fresh = _settle_topic(context, stored.image, live.keys(), born, decision)
        images.append(image)
        if fresh:
            changed.append(image)
            news += fresh
            decision.changes.append(TopicChanged(partitions.settled(image), stored.version))
    everything = [state for image in images for state in image.partitions]
    decision.effects += partitions.orders(everything, [id for id in live if id in ignorant])
    decision.effects += partitions.orders(news, [id for id in live if id not in ignorant])
    for id in live:
        topics = images if id in ignorant else changed
        shown = tuple(partitions.settled(image) for image in topics)
        decision.effects.append(UpdateMetadata(id, shown, brokers=tuple(live.values())))
    return decision


def _settle_topic(
    context: Context, image: TopicImage, live: Collection[int], born: Collection[int], decision: Decision
) -> tuple[TopicImage, list[PartitionState]]:
    """The topic with the states that it gets, and which of them are different; the writes join the decision."""
    states: list[PartitionState] = []
    fresh: list[PartitionState] = []
    skeleton = partitions.skeleton(image, context.skeletons)
    for before in image.partitions:
        after = elections.settle(before, live, born)
        if after != before:
            writes, after = partitions.store(after, context.epoch, skeleton)
            decision.writes += writes
            fresh.append(after)
        states.append(after)
    return (image._replace(partitions=tuple(states)), fresh) if fresh else (image, fresh)
