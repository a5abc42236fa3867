"""States of partitions on their way into the store and out to the brokers."""

from collections.abc import Collection, Iterable, Sequence

from ottla.controller import tables
from ottla.controller.context import INTERNAL_TOPICS, NO_STATE, Context
from ottla.controller.decision import Decision, LeaderAndIsr, TopicChanged, UpdateMetadata
from ottla.core.ids import TopicPartition
from ottla.metadata.paths import PartitionStateNode, TopicNode
from ottla.metadata.store import Create, Op, Set
from ottla.replication.state import NO_LEADER, PartitionState, TopicImage


def newborn(topic: TopicImage, replicas: Sequence[tuple[int, ...]]) -> TopicImage:
    """The topic with more partitions, which nobody leads yet."""
    first = len(topic.partitions)
    more = [
        PartitionState(topic.name, topic.topic_id, first + index, NO_LEADER, -1, NO_STATE, ids, ())
        for index, ids in enumerate(replicas)
    ]
    return topic._replace(partitions=(*topic.partitions, *more))


def topic_node(topic: TopicImage) -> TopicNode:
    """The node of a topic: its replicas, and which of them move."""
    return TopicNode(
        topic.topic_id,
        tuple(state.replicas for state in topic.partitions),
        {state.partition: state.adding for state in topic.partitions if state.adding},
        {state.partition: state.removing for state in topic.partitions if state.removing},
    )


def is_internal(name: str) -> bool:
    return name in INTERNAL_TOPICS


def skeleton(topic: TopicImage, known: frozenset[str] = frozenset()) -> set[str]:
    """Nodes above the states of a topic that are known to be there, for `store`."""
    if any(state.partition_epoch != NO_STATE for state in topic.partitions):
        return {*known, PartitionStateNode.parents(topic.name, 0)[0]}
    return set(known)


def differs(before: PartitionState, after: PartitionState) -> bool:
    """Is there something to be written? Whose disk has failed is not: brokers find out again."""
    return before != after and before._replace(offline=after.offline) != after


def store(
    state: PartitionState, controller_epoch: int, skeleton: set[str], before: PartitionState | None = None
) -> tuple[list[Op], PartitionState]:
    """The writes that make a state last, and the state with the epoch that they give it.

    A state that is new needs the nodes above it: those that are not in `skeleton` are made, and join it. Whoever has
    the state before gives it: that one may follow upon the other is checked.
    """
    tables.check_state(state, before)
    node = PartitionStateNode(
        state.leader,
        state.leader_epoch,
        state.isr,
        controller_epoch,
        state.elr,
        state.last_known_leader,
        state.is_recovering,
    )
    path = PartitionStateNode.path(state.topic, state.partition)
    if state.partition_epoch != NO_STATE:
        after = state._replace(partition_epoch=state.partition_epoch + 1)
        return [Set(path, node.encode(), state.partition_epoch)], after
    parents = [p for p in PartitionStateNode.parents(state.topic, state.partition) if p not in skeleton]
    skeleton.update(parents)
    return [*map(Create, parents), Create(path, node.encode())], state._replace(partition_epoch=0)


def change(
    context: Context,
    states: Iterable[PartitionState],
    *,
    orders_too: bool = True,
    anew: Collection[TopicPartition] = (),
) -> tuple[Decision, dict[TopicPartition, PartitionState]]:
    """Put these states in the place of those that are known, and tell everybody: one call each. Returns them as they
    will be, too. Without `orders_too` only metadata is told: no replica has to do anything. Those that are to be stored
    `anew` get another partition epoch though nothing is different."""
    decision = Decision()
    changed: dict[TopicPartition, PartitionState] = {}
    images: dict[str, list[PartitionState]] = {}
    for state in states:
        stored = context.topics[state.topic]
        before = stored.image.partitions[state.partition]
        is_anew = state.topic_partition in anew
        if state == before and not is_anew:
            continue
        if is_anew or differs(before, state):
            writes, state = store(state, context.epoch, skeleton(stored.image, context.skeletons), before)
            decision.writes += writes
        changed[state.topic_partition] = state
        images.setdefault(state.topic, list(stored.image.partitions))[state.partition] = state
    shown = []
    for name, all_states in images.items():
        stored = context.topics[name]
        shown.append(settled(stored.image._replace(partitions=tuple(all_states))))
        decision.changes.append(TopicChanged(shown[-1], stored.version))
    if shown:
        decision.effects += orders(changed.values(), context.brokers) if orders_too else []
        decision.effects += [UpdateMetadata(id, tuple(shown)) for id in context.brokers]
    return decision, changed


def settled(topic: TopicImage) -> TopicImage:
    """The topic as it is remembered: what was new has been told."""
    if not any(state.is_new for state in topic.partitions):
        return topic
    return topic._replace(partitions=tuple(state._replace(is_new=False) for state in topic.partitions))


def orders(states: Iterable[PartitionState], live: Iterable[int]) -> list[LeaderAndIsr]:
    """One call for each live broker that has replicas of these partitions. A partition without state is none yet."""
    by_broker: dict[int, list[PartitionState]] = {id: [] for id in live}
    for state in states:
        if state.partition_epoch != NO_STATE:
            for id in state.replicas:
                if id in by_broker:
                    by_broker[id].append(state)
    return [LeaderAndIsr(id, tuple(mine)) for id, mine in by_broker.items() if mine]
