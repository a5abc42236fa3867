"""Brokers come and go, and so do controllers: leaders are elected, and everybody is told what concerns them."""

from collections.abc import Collection, Iterable, Sequence

from ottla.controller import elections, partitions
from ottla.controller.context import NO_STATE, Context
from ottla.controller.decision import (
    BrokersChanged,
    Decision,
    EpochStored,
    StopReplicas,
    TopicChanged,
    UpdateMetadata,
)
from ottla.controller.elections import Voters
from ottla.core.ids import TopicPartition
from ottla.metadata.paths import BrokerEpochNode
from ottla.metadata.store import Create, Set
from ottla.replication.state import BrokerImage, PartitionState, TopicImage


def begin(context: Context) -> Decision:
    """The first decision of a controller: set everything right, and tell everybody everything.

    Who has begun a new life since the states were written is seen by the epochs that are stored. Whoever died half-way
    through a deletion left its topic doomed: the replicas are stopped once more.
    """
    decision = _settle(context, tuple(context.brokers.values()), ignorant=context.brokers.keys())
    decision.effects += stops(context, [doomed.image for doomed in context.doomed.values() if doomed])
    return decision


def change(context: Context, brokers: Iterable[BrokerImage]) -> Decision:
    """These brokers live now. One with another epoch than we knew is in a new life."""
    brokers = tuple(brokers)
    new = {
        b.node_id
        for b in brokers
        if b.node_id not in context.brokers or context.brokers[b.node_id].epoch != b.epoch
    }
    if not new and len(brokers) == len(context.brokers):
        return Decision()
    return _settle(context, brokers, ignorant=new)


def fail(context: Context, broker: int, failed: Iterable[TopicPartition]) -> Decision:
    """A broker lives, but the disk under these replicas has failed: others lead, if there are any."""
    decision = Decision()
    lost: dict[str, set[int]] = {}
    for partition in failed:
        lost.setdefault(partition.topic, set()).add(partition.partition)
    images: list[TopicImage] = []
    news: list[PartitionState] = []
    for name, indexes in lost.items():
        stored = context.topics.get(name)
        if stored is None:
            continue
        states = list(stored.image.partitions)
        for index in sorted(indexes):
            if 0 <= index < len(states):
                states[index] = _fail(context, states[index], broker, decision)
                news.append(states[index])
        images.append(stored.image._replace(partitions=tuple(states)))
        decision.changes.append(TopicChanged(images[-1], stored.version))
    if images:
        decision.effects += partitions.orders(news, [id for id in context.brokers if id != broker])
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


def remember(
    context: Context, brokers: Sequence[BrokerImage], born: Collection[int], decision: Decision
) -> None:
    """Write down who has begun which life.

    This goes after the states: a controller that is cut short in between leaves the next one to find the same brokers
    born. The other way round it would find nothing to do, and believe those who have lost their memory.
    """
    for broker in brokers:
        if broker.node_id in born:
            last = context.epochs.get(broker.node_id)
            path, data = BrokerEpochNode.path(broker.node_id), BrokerEpochNode.encode(broker.epoch)
            decision.writes.append(Create(path, data) if last is None else Set(path, data, last.version))
            version = 0 if last is None else last.version + 1
            decision.changes.append(EpochStored(broker.node_id, broker.epoch, version))


def _fail(context: Context, state: PartitionState, broker: int, decision: Decision) -> PartitionState:
    """The state without that replica; the writes join the decision. What a failed disk has kept, nobody knows."""
    if broker not in state.replicas or broker in state.offline:
        return state
    before = state._replace(offline=(*state.offline, broker))
    if state.partition_epoch == NO_STATE:
        return before
    policy = context.policy(state.topic)
    after = elections.forget(elections.leave(before, [broker], policy), [broker])
    after = elections.elect(after, context.brokers.keys(), policy, context.shutting_down)
    if after == before:
        return before
    after = after._replace(leader_epoch=min(after.leader_epoch, state.leader_epoch + 1))
    writes, after = partitions.store(after, context.epoch, set(), state)
    decision.writes += writes
    return after


def _settle(context: Context, brokers: Sequence[BrokerImage], ignorant: Collection[int]) -> Decision:
    """Elect where it is needed. `ignorant` brokers are told everything, the others what has changed."""
    who = elections.voters(context, brokers)
    decision = Decision(changes=[BrokersChanged(tuple(brokers))])
    images: list[TopicImage] = []
    changed: list[TopicImage] = []
    news: list[PartitionState] = []
    for stored in context.topics.values():
        image, fresh = _settle_topic(context, stored.image, who, decision)
        images.append(image)
        if fresh:
            changed.append(image)
            news += fresh
            decision.changes.append(TopicChanged(partitions.settled(image), stored.version))
    remember(context, brokers, who.born, decision)
    everything = [state for image in images for state in image.partitions] if ignorant else []
    decision.effects += partitions.orders(everything, [b.node_id for b in brokers if b.node_id in ignorant])
    decision.effects += partitions.orders(news, [b.node_id for b in brokers if b.node_id not in ignorant])
    _tell(context, brokers, ignorant, images, changed, decision)
    return decision


def _tell(
    context: Context,
    brokers: Sequence[BrokerImage],
    ignorant: Collection[int],
    images: Sequence[TopicImage],
    changed: Sequence[TopicImage],
    decision: Decision,
) -> None:
    """Metadata for everybody, once."""
    # Who was told by a controller that died since may still believe in a topic that is doomed.
    everything = tuple(map(partitions.settled, images)), tuple(context.doomed)
    news = tuple(map(partitions.settled, changed)), ()
    for broker in brokers:
        topics, gone = everything if broker.node_id in ignorant else news
        decision.effects.append(UpdateMetadata(broker.node_id, topics, gone, tuple(brokers)))


def _settle_topic(
    context: Context, image: TopicImage, who: Voters, decision: Decision
) -> tuple[TopicImage, list[PartitionState]]:
    """The topic with the states that it gets, and which of them are different; the writes join the decision."""
    states: list[PartitionState] = []
    fresh: list[PartitionState] = []
    skeleton = partitions.skeleton(image, context.skeletons)
    policy = context.policy(image.name)
    for before in image.partitions:
        after = elections.settle(before, who, policy)
        if after != before:
            if partitions.differs(before, after):
                writes, after = partitions.store(after, context.epoch, skeleton, before)
                decision.writes += writes
            fresh.append(after)
        states.append(after)
    return (image._replace(partitions=tuple(states)), fresh) if fresh else (image, fresh)
