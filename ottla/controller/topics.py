"""Topics are created, grow and are deleted.

Deletion takes two decisions. `doom` marks the topic in the store: from then on it is gone for everybody, and its
replicas are stopped and deleted. `bury` removes what the store holds of it, the mark last. A controller that dies in
between leaves the mark, and its successor begins with the stopping again. Nobody waits for a broker that is down: it
stands on the list of those that still have to delete something (`deletions`), and the name is free at once.
"""

import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from ottla.controller import brokers, configs, deletions, elections, partitions, validation
from ottla.controller.commands import ConfigResource, Growth, NewTopic, ResourceType
from ottla.controller.context import NO_STATE, Context, StoredTopic
from ottla.controller.decision import (
    ConfigChange,
    Decision,
    StopReplicas,
    TopicBuried,
    TopicChanged,
    TopicDoomed,
    UpdateMetadata,
)
from ottla.controller.placement import circle, place, racks_of
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition, collision_key
from ottla.metadata.paths import DeleteTopicNode, TopicNode
from ottla.metadata.store import Create, Delete, Set
from ottla.replication.state import PartitionState, TopicImage


class Defaults(NamedTuple):
    """What -1 stands for in a new topic."""

    partitions: int
    replication_factor: int


class Chance(Protocol):
    """Where the controller gets what it must make up."""

    def new_id(self) -> uuid.UUID: ...

    def below(self, bound: int) -> int:
        """Any number from 0 to `bound`, exclusive."""


CheckConfig = Callable[[ConfigResource, Mapping[str, str]], None]
"""Raises KafkaError for settings that cannot be."""
Created = dict[str, TopicImage | KafkaError]
Answers = dict[str, KafkaError | None]


def create(
    context: Context,
    wanted: Sequence[NewTopic],
    defaults: Defaults,
    chance: Chance,
    check_config: CheckConfig = lambda resource, values: None,
) -> tuple[Decision, Created]:
    """Create all topics that can be; those that cannot have their error in the answer."""
    decision = Decision()
    answers: Created = {}
    made: list[TopicImage] = []
    taken: dict[str, str] = {}  # names of topics created right now, by what they may not share
    partition_count = 0
    named = Counter(topic.name for topic in wanted)
    for topic in wanted:
        try:
            _check_once(topic.name, named)
            _check_apart(topic.name, taken)
            validation.check_name(context, topic.name)
            # Settings are judged before numbers, as Kafka does: who has both wrong is told of the settings.
            config = validation.check_no_nulls(topic)
            resource = ConfigResource(ResourceType.TOPIC, topic.name)
            check_config(resource, config)
            replicas = _check_replicas(context, topic, defaults, chance)
            validation.check_size(partition_count + len(replicas))
        except KafkaError as error:
            answers[topic.name] = error
            continue
        partition_count += len(replicas)
        taken[collision_key(topic.name)] = topic.name
        image = TopicImage(topic.name, chance.new_id(), (), partitions.is_internal(topic.name))
        # Settings go before the topic: it is never seen without them. Some may be left from a topic long gone.
        decision.add(configs.store(context, resource, config))
        decision.writes.append(
            Create(TopicNode.path(topic.name), TopicNode(image.topic_id, tuple(replicas)).encode())
        )
        image = _grow(context, image, replicas, 0, decision)
        made.append(image)
        answers[topic.name] = partitions.settled(image)
    _announce(context, made, [state for image in made for state in image.partitions], decision)
    return decision, answers


def grow(context: Context, wanted: Sequence[Growth], chance: Chance) -> tuple[Decision, Answers]:
    """Add partitions where that is possible."""
    decision = Decision()
    answers: Answers = {}
    made: list[TopicImage] = []
    news: list[PartitionState] = []
    named = Counter(growth.name for growth in wanted)
    for growth in wanted:
        try:
            _check_once(growth.name, named)
            more = _more_replicas(context, growth, validation.check_growth(context, growth), chance)
        except KafkaError as error:
            answers[growth.name] = error
            continue
        stored = context.topics[growth.name]
        node = partitions.topic_node(partitions.newborn(stored.image, more))
        decision.writes.append(Set(TopicNode.path(growth.name), node.encode(), stored.version))
        image = _grow(context, stored.image, more, stored.version + 1, decision)
        made.append(image)
        news += image.partitions[len(stored.image.partitions) :]
        answers[growth.name] = None
    _announce(context, made, news, decision)
    return decision, answers


def doom(
    context: Context, names: Iterable[str], ids: Mapping[str, uuid.UUID] | None = None
) -> tuple[Decision, Answers]:
    """Mark topics to be deleted, and have their replicas deleted. Afterwards, `bury` them.

    One that is among `ids` must have that id: by now there may be another of its name."""
    decision = Decision()
    answers: Answers = {}
    for name in names:
        if name in answers:
            continue
        if name not in context.topics:
            answers[name] = KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist."
            )
            continue
        if ids and name in ids and context.topics[name].image.topic_id != ids[name]:
            answers[name] = KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"the topic {name} has another id by now")
            continue
        answers[name] = None
        decision.writes.append(Create(DeleteTopicNode.path(name)))
        decision.changes.append(TopicDoomed(name))
    doomed = tuple(name for name, error in answers.items() if error is None)
    if doomed:
        decision.effects += [UpdateMetadata(id, deleted=doomed) for id in context.brokers]
        decision.effects += brokers.stops(context, [context.topics[name].image for name in doomed])
    return decision, answers


def bury(context: Context, leftovers: Mapping[str, Sequence[str]]) -> Decision:
    """Remove what is in the store of doomed topics: `leftovers` are the nodes of each, children first.

    Replicas that nobody has confirmed to be deleted are put on a list before the topic goes: their brokers are down, or
    may die before they answer. Whoever lives should have been given the time to."""
    decision = Decision()
    for name, nodes in leftovers.items():
        decision.add(_orphans(context, context.doomed.get(name)))
        decision.writes += [Delete(path) for path in nodes]
        decision.writes.append(Delete(DeleteTopicNode.path(name)))
        decision.changes.append(TopicBuried(name))
        decision.effects.append(ConfigChange(ConfigResource(ResourceType.TOPIC, name), None))
    return decision


def _orphans(context: Context, doomed: StoredTopic | None) -> Decision:
    """Replicas of a doomed topic that nobody has said to be gone."""
    if doomed is None:
        return Decision()
    lost: dict[int, list[int]] = {}
    for state in doomed.image.partitions:
        if state.partition_epoch == NO_STATE:
            continue  # nobody was ever told of it
        for id in state.replicas:
            if state.topic_partition not in context.deleted.get(id, ()):
                lost.setdefault(id, []).append(state.partition)
    decision = deletions.enlist(context, doomed.image, lost)
    # Who came back after the stopping began has not heard of it.
    decision.effects += [
        StopReplicas(id, {TopicPartition(doomed.image.name, index): True for index in indexes})
        for id, indexes in lost.items()
        if id in context.brokers
    ]
    return decision


def _check_once(name: str, named: Mapping[str, int]) -> None:
    if named[name] > 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"The request names topic '{name}' {named[name]} times.")


def _check_apart(name: str, taken: Mapping[str, str]) -> None:
    similar = taken.get(collision_key(name))
    if similar is not None:
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with another new topic: {similar}"
        )


def _check_replicas(
    context: Context, topic: NewTopic, defaults: Defaults, chance: Chance
) -> list[tuple[int, ...]]:
    """The replicas of a topic, as they were assigned or as we place them."""
    if topic.assignments:
        validation.check_assigned_only(topic)
        assigned = validation.check_assignments(context, topic.assignments)
        for ids in assigned:
            validation.check_any_stays(context, ids)
        return assigned
    count = defaults.partitions if topic.partitions == -1 else topic.partitions
    factor = defaults.replication_factor if topic.replication_factor == -1 else topic.replication_factor
    validation.check_counts(context, count, factor)
    return _place(context, count, factor, chance)


def _more_replicas(context: Context, growth: Growth, more: int, chance: Chance) -> list[tuple[int, ...]]:
    """Replicas of additional partitions: as many as the first one has, or will have when it has moved."""
    old = context.topics[growth.name].image.partitions
    factor = len(old[0].replicas) - len(old[0].removing)
    if growth.assignments is not None:
        for ids in growth.assignments:
            validation.check_replicas(ids, factor, context.brokers.keys())
            validation.check_any_stays(context, ids)
        return [tuple(ids) for ids in growth.assignments]
    validation.check_counts(context, more, factor)
    return _place(context, more, factor, chance, old)


def _place(
    context: Context, count: int, factor: int, chance: Chance, old: Sequence[PartitionState] = ()
) -> list[tuple[int, ...]]:
    """Replicas on live brokers, in different racks where all brokers have one; behind old partitions, they go on around
    the circle where those began."""
    # Who is about to stop gets replicas only if there are too few others: they would be out of sync at once.
    staying = [broker for id, broker in context.brokers.items() if id not in context.shutting_down]
    chosen = staying if len(staying) >= factor else list(context.brokers.values())
    validation.check_any_stays(context, [broker.node_id for broker in staying], placed=True)
    racks = racks_of(chosen)
    around = circle((broker.node_id for broker in chosen), racks)
    start = _beginning(old[0], around) if old else chance.below(len(around))
    shift = chance.below(len(around))
    return place(around, count, factor, start=start, shift=shift, first_partition=len(old), racks=racks)


def _beginning(first: PartitionState, around: Sequence[int]) -> int:
    """Where the first partition stands on the circle; if its broker is not there, at the next one by id."""
    leader = first.replicas[0]
    if leader in around:
        return around.index(leader)
    return around.index(min((id for id in around if id > leader), default=around[0]))


def _grow(
    context: Context, image: TopicImage, replicas: Sequence[tuple[int, ...]], version: int, decision: Decision
) -> TopicImage:
    """The topic with more partitions that have leaders, as far as any of their replicas lives."""
    grown = partitions.newborn(image, replicas)
    known = partitions.skeleton(image)
    states = list(image.partitions)
    for state in grown.partitions[len(states) :]:
        elected = elections.elect(
            state, context.brokers.keys(), context.policy(image.name), context.shutting_down
        )
        if elected is not state:
            writes, elected = partitions.store(elected, context.epoch, known)
            decision.writes += writes
        states.append(elected)
    grown = grown._replace(partitions=tuple(states))
    decision.changes.append(TopicChanged(partitions.settled(grown), version))
    return grown


def _announce(
    context: Context, images: Sequence[TopicImage], news: Sequence[PartitionState], decision: Decision
) -> None:
    """Replicas first, metadata second: who reads of a partition finds it working."""
    if images:
        decision.effects += partitions.orders(news, context.brokers)
        shown = tuple(partitions.settled(image) for image in images)
        decision.effects += [UpdateMetadata(id, shown) for id in context.brokers]
