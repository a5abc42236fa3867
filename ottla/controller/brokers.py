"""Brokers come and go, and so do controllers: leaders are elected, and everybody is told what concerns them."""

from collections.abc import Collection, Iterable

from ottla.controller import elections, partitions
from ottla.controller.context import NO_STATE, Context
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
    decision.effects += stops(context, [doomed.image for doomed in context.doomed.values() if doomed])
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


def fail(context: Context, broker: int, failed: Iterable[TopicPartition]) -> Decision:
    """A broker lives, but the disk under these replicas has failed: others lead, if there are any."""
    decision = Decision()
    lost: dict[str, set[int]] = {}
    for partition in failed:
        lost.setdefault(partition.topic, set()).add(partition.partition)
    images: list[TopicImage] = []
    for name in lost.keys() & context.topics.keys():
        stored = context.topics[name]
        states = [
            _fail(context, state, broker, decision) if state.partition in lost[name] else state
            for state in stored.image.partitions
        ]
        images.append(stored.image._replace(partitions=tuple(states)))
        decision.changes.append(TopicChanged(images[-1], stored.version))
    if images:
        states = [s for image in images for s in image.partitions if s.partition in lost[image.name]]
        decision.effects += partitions.orders(states, [id for id in context.brokers if id != broker])
        decision.effects += [UpdateMetadata(id, tuple(images)) for id in context.brokers]
    return decision


def stops(context: Context, doomed: Iterable[TopicImage]) -> list[StopReplicas]:
    """Tell every live broker that has replicas of doomed topics to delete them."""
    mine: dict[int, dict[TopicPartition, bool]] = {}
    for topic in doomed:
        for state in topic.partitions:
            for id in state.replicas:
                if id in context.brokers:
                    mine.setdefault(id, {})[state.topic_partition] = True
    return [StopReplicas(id, found) for id, found in mine.items()]


def _fail(context: Context, state: PartitionState, broker: int, decision: Decision) -> PartitionState:
    """The state without that replica; the writes join the decision."""
    if broker not in state.replicas or broker in state.offline:
        return state
    offline = state._replace(offline=(*state.offline, broker))
    after = elections.without(offline, broker, [id for id in context.brokers if id != broker])
    if after == offline or after.partition_epoch == NO_STATE:
        return offline
    writes, after = partitions.store(after, context.epoch, set())
    decision.writes += writes
    return after


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
        # Who was told by a controller that died since may still believe in a topic that is doomed.
        topics, gone = (images, tuple(context.doomed)) if id in ignorant else (changed, ())
        shown = tuple(partitions.settled(image) for image in topics)
        decision.effects.append(UpdateMetadata(id, shown, gone, tuple(live.values())))
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
