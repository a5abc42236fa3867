"""Replicas that brokers have lost are deleted, also by brokers that are down.

Whoever is to delete replicas stands on a list in the store, one node for each broker and topic, before they are taken
from it: a topic is buried, or a move is completed, whether its brokers answer or not. Who lives is told by StopReplicas
and taken off when it has answered. Who is down finds itself on the list when it starts, and deletes what it finds by
the topic's id: by then another topic may have the name. It is told once more when it is back, because it may have read
the list too early.

Nothing is deleted because it is on the list alone: a replica that is assigned stays, whatever the list says. So one
that a broker gets back may remain on it for a while.
"""

import uuid
from collections.abc import Collection, Iterable, Mapping

from ottla.controller import partitions, tables
from ottla.controller.context import Context
from ottla.controller.decision import Decision, DeletionStored, ReplicasDeleted, StopReplicas
from ottla.controller.tables import ReplicaPhase
from ottla.core.ids import TopicPartition
from ottla.metadata.paths import DeletedReplicasNode
from ottla.metadata.store import Create, Delete, Set
from ottla.replication.state import TopicImage

Holder = tuple[int, uuid.UUID]
"""A broker, and the id of a topic of which it has replicas."""


def enlist(context: Context, topic: TopicImage, lost: Mapping[int, Collection[int]]) -> Decision:
    """Brokers have lost these partitions of the topic, and are to delete them."""
    decision = Decision()
    for broker, indexes in lost.items():
        known = context.deletions.get((broker, topic.topic_id))
        owed = {*(known.partitions if known else ()), *indexes}
        _store(context, (broker, topic.topic_id), topic.name, owed, decision)
    return decision


def strike(context: Context, holder: Holder, indexes: Collection[int]) -> Decision:
    """The broker need not delete these partitions any more."""
    decision = Decision()
    known = context.deletions.get(holder)
    if known is not None:
        _store(context, holder, known.topic, set(known.partitions).difference(indexes), decision)
    return decision


def confirm(context: Context, broker: int, deleted: Collection[TopicPartition]) -> Decision:
    """A broker has answered StopReplicas without an error: it has deleted these. Call it for every such answer.

    Who has died since remains on the list, and is asked again in its next life."""
    decision = Decision()
    if broker not in context.brokers:
        return decision
    gone: dict[str, set[int]] = {}
    for partition in deleted:
        gone.setdefault(partition.topic, set()).add(partition.partition)
    doomed = frozenset(tp for tp in deleted if tp.topic in context.doomed)
    if doomed:  # it need not get on the list
        decision.changes.append(ReplicasDeleted(broker, doomed))
    for holder, known in context.deletions.items():
        if holder[0] == broker and known.topic in gone:
            decision.add(strike(context, holder, gone[known.topic]))
    return decision


def remind(context: Context, brokers: Collection[int], *, born: bool) -> Decision:
    """Tell these live brokers what they still have to delete. Call it for everybody when a controller begins, and for
    brokers that are `born`, when they have been told the rest."""
    decision = Decision()
    orders: dict[int, dict[TopicPartition, bool]] = {}
    for (broker, topic_id), known in context.deletions.items():
        if broker not in brokers or broker not in context.brokers:
            continue
        owner = context.topics.get(known.topic)
        if owner is not None and owner.image.topic_id != topic_id:
            # The name means another topic now. Who has just started has gone by the id.
            if born:
                decision.add(strike(context, (broker, topic_id), known.partitions))
            continue
        assigned = [s.partition for s in owner.image.partitions if broker in s.replicas] if owner else []
        decision.add(strike(context, (broker, topic_id), assigned))
        for index in known.partitions:
            if index not in assigned:
                orders.setdefault(broker, {})[TopicPartition(known.topic, index)] = True
    decision.effects += [StopReplicas(broker, mine) for broker, mine in orders.items()]
    return decision


def make_room(context: Context, broker: int, refused: Collection[TopicPartition]) -> Decision:
    """A broker refuses replicas: it still has those of a topic that had the name before. It was not told to delete them
    while a controller could not know which ones it has. These go first now, and it is told again."""
    owed = {
        TopicPartition(known.topic, index)
        for (id, topic_id), known in context.deletions.items()
        if id == broker and known.topic in context.topics
        if context.topics[known.topic].image.topic_id != topic_id
        for index in known.partitions
    }
    former = sorted(owed.intersection(refused))
    states = [context.topics[topic].image.partitions[index] for topic, index in former]
    decision = Decision()
    if former:
        decision.effects.append(StopReplicas(broker, dict.fromkeys(former, True)))
        decision.effects += partitions.orders((state._replace(is_new=True) for state in states), [broker])
    return decision


def _store(context: Context, holder: Holder, topic: str, owed: Iterable[int], decision: Decision) -> None:
    known = context.deletions.get(holder)
    indexes = tuple(sorted(owed))
    if indexes == (known.partitions if known else ()):
        return
    _check_moves(context, holder, topic, set(known.partitions if known else ()), set(indexes))
    path, data = DeletedReplicasNode.path(*holder), DeletedReplicasNode(topic, indexes).encode()
    if known is None:
        decision.writes.append(Create(path, data))
    elif indexes:
        decision.writes.append(Set(path, data, known.version))
    else:
        decision.writes.append(Delete(path, known.version))
    version = 0 if known is None else known.version + 1
    decision.changes.append(DeletionStored(*holder, topic, indexes, version))


def _check_moves(
    context: Context, holder: Holder, topic: str, before: Collection[int], after: Collection[int]
) -> None:
    """Whoever gets on the list had a replica; whoever gets off it has deleted it, or has been given it back."""
    broker, topic_id = holder
    stored = context.topics.get(topic) or context.doomed.get(topic)
    is_known = stored is not None and stored.image.topic_id == topic_id
    states = stored.image.partitions if stored is not None and is_known else ()
    owed = tables.owed_phase(broker, context.brokers)
    for index in sorted({*before, *after}):
        state = states[index] if index < len(states) else None
        is_assigned = topic in context.topics and state is not None and broker in state.replicas
        if index not in before:
            had = tables.replica_phase(state, broker, context.brokers)
            tables.check_replica_path(had, ReplicaPhase.OFFLINE, owed)
        elif index not in after and not is_assigned:
            tables.check_replica_path(owed, ReplicaPhase.DELETION_SUCCESSFUL, ReplicaPhase.NON_EXISTENT)
