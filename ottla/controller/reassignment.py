"""Replicas move from broker to broker, while the partition goes on (KIP-455).

While a partition moves, its replicas are those of the target, in their order, and behind them those that it had. The
topic's node says which of them are new (`adding`) and which are to go (`removing`); so both sides can be told:

    original = replicas - adding        target = replicas - removing

A new replica joins the ISR when it has caught up, like any other. When all of the target are in it, the move is
completed: the others leave the ISR, somebody of the target leads, and they are deleted. Cancelling is a move back to
the original, and another target may be given at any time. Then replicas that are on neither side go at once, unless
somebody would miss them: one that has what too few others have stays, in `adding` and `removing` both, until enough do.

Every decision compares two states of a partition, before and after, and writes in this order: states, the list of
replicas that are to be deleted, and the topic last. What has left the ISR and is still assigned does no harm.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from ottla.controller import deletions, elections, partitions
from ottla.controller.context import NO_STATE, Context
from ottla.controller.decision import Decision, LeaderAndIsr, StopReplicas, TopicChanged, UpdateMetadata
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.metadata.paths import TopicNode
from ottla.metadata.store import Set
from ottla.replication.state import NO_LEADER, PartitionState, TopicImage

Answers = dict[TopicPartition, KafkaError | None]
Moves = dict[str, dict[int, PartitionState]]
"""States as they are to be, by topic and partition."""


def alter(
    context: Context,
    wanted: Mapping[TopicPartition, Sequence[int] | None],
    *,
    allow_factor_change: bool = True,
) -> tuple[Decision, Answers]:
    """Begin moves to other replicas, change them, or cancel them (None)."""
    answers: Answers = {}
    moves: Moves = {}
    for partition, target in wanted.items():
        try:
            state = _find(context, partition)
            if target is None:
                _check_moving(state)
                goal = original(state)
            else:
                goal = tuple(target)
                _check_target(context, state, goal, allow_factor_change=allow_factor_change)
        except KafkaError as error:
            answers[partition] = error
            continue
        answers[partition] = None
        moves.setdefault(partition.topic, {})[partition.partition] = _complete(
            context, _begin(context, state, goal)
        )
    return _decide(context, moves), answers


def advance(context: Context) -> Decision:
    """Complete what can be. Call it whenever states have changed: somebody came into sync, somebody came back."""
    moves: Moves = {}
    for state in context.states():
        if is_moving(state):
            moves.setdefault(state.topic, {})[state.partition] = _complete(context, state)
    return _decide(context, moves)


def ongoing(
    context: Context, among: Iterable[TopicPartition] | None = None
) -> dict[TopicPartition, PartitionState]:
    """The partitions that move, of all or of these; whatever is not there does not move."""
    if among is None:
        return {state.topic_partition: state for state in context.states() if is_moving(state)}
    found = {}
    for partition in among:
        topic = context.topics.get(partition.topic)
        if topic is not None and 0 <= partition.partition < len(topic.image.partitions):
            state = topic.image.partitions[partition.partition]
            if is_moving(state):
                found[partition] = state
    return found


def is_moving(state: PartitionState) -> bool:
    return bool(state.adding or state.removing)


def original(state: PartitionState) -> tuple[int, ...]:
    """The replicas before the move. Those that stay are in the order of the target: no other is on record."""
    return tuple(id for id in state.replicas if id not in state.adding)


def target(state: PartitionState) -> tuple[int, ...]:
    """The replicas after the move."""
    return tuple(id for id in state.replicas if id not in state.removing)


# What may be


def _find(context: Context, partition: TopicPartition) -> PartitionState:
    topic = context.topics.get(partition.topic)
    if topic is None or not 0 <= partition.partition < len(topic.image.partitions):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
    return topic.image.partitions[partition.partition]


def _check_moving(state: PartitionState) -> None:
    if not is_moving(state):
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, f"{state.topic_partition} is not being moved")


def _check_target(
    context: Context, state: PartitionState, goal: Sequence[int], *, allow_factor_change: bool
) -> None:
    """Some, different, and those that are new are alive. A replica that stays may be down."""
    before = original(state)
    dead = [
        id for id in goal if id not in before and (id not in context.brokers or id in context.shutting_down)
    ]
    fault = None
    if not goal:
        fault = "Empty replica list specified in partition reassignment."
    elif len(set(goal)) != len(goal):
        fault = f"Duplicate replica ids in partition reassignment replica list: {list(goal)}"
    elif min(goal) < 0:
        fault = f"Invalid broker id in replica list: {list(goal)}"
    elif dead:
        fault = (
            f"Replica assignment has brokers that are not alive. Replica list: {dead}, "
            f"live broker list: {sorted(set(context.brokers) - context.shutting_down)}"
        )
    if fault:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, fault)
    factor = len(target(state))
    if len(goal) != factor and not allow_factor_change:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {factor} to {len(goal)}",
        )


# From state to state


def _begin(context: Context, state: PartitionState, goal: Sequence[int]) -> PartitionState:
    """The state on its way to other replicas. Whoever is on neither side goes, if it can be spared."""
    if state.partition_epoch == NO_STATE:  # nobody has ever led it, and nobody has anything of it
        return state._replace(replicas=tuple(goal), adding=(), removing=())
    before = original(state)
    state = _without(context, state, spared(context, state, {*goal, *before}))
    replicas = (*goal, *(id for id in state.replicas if id not in goal))
    return state._replace(
        replicas=replicas,
        adding=tuple(id for id in replicas if id not in before),
        removing=tuple(id for id in replicas if id not in goal),
    )


def _complete(context: Context, state: PartitionState) -> PartitionState:
    """The state when the move is over, if it can be over now."""
    goal = target(state)
    if not is_moving(state):
        return state
    # Going back needs nobody to catch up: it is over as soon as those that had come can be spared.
    is_back = set(goal) == set(original(state))
    if not is_back and not in_sync(state, goal):
        return state
    # In whatever order: who began the move may have had another.
    if set(spared(context, state, goal)) != set(state.removing):
        return state
    return _without(context, state, state.removing)._replace(adding=(), removing=())


def in_sync(state: PartitionState, goal: Iterable[int]) -> bool:
    """Has everybody of the target caught up?"""
    return all(id in state.isr for id in goal)


def spared(context: Context, state: PartitionState, kept: Collection[int]) -> tuple[int, ...]:
    """Who may go, when only these are to be kept? Everybody else, if these have enough; else who has nothing itself.

    They have enough if so many of them are in sync that a leader commits with them, and one of them can lead."""
    unneeded = tuple(id for id in state.replicas if id not in kept)
    rest = state._replace(
        replicas=tuple(sorted(kept)), isr=tuple(id for id in state.isr if id not in unneeded)
    )
    if _able(context, rest) and len(rest.isr) >= elections.insync_min(rest, context.policy(state.topic)):
        return unneeded
    having = (*state.isr, *state.elr, state.leader, state.last_known_leader)
    return tuple(id for id in unneeded if id not in having)


def _able(context: Context, state: PartitionState) -> list[int]:
    """Who could lead, best first."""
    return [
        id
        for id in state.replicas
        if id in state.isr
        and id in context.brokers
        and id not in state.offline
        and id not in context.shutting_down
    ]


def _without(context: Context, state: PartitionState, gone: Collection[int]) -> PartitionState:
    """The state without these replicas, which can be spared. That is a new leader epoch, whoever leads: a replica that
    is gone is not to be taken for one that follows."""
    if not gone:
        return state
    after = state._replace(
        replicas=tuple(id for id in state.replicas if id not in gone),
        isr=tuple(id for id in state.isr if id not in gone),
        elr=tuple(id for id in state.elr if id not in gone),
        offline=tuple(id for id in state.offline if id not in gone),
        adding=tuple(id for id in state.adding if id not in gone),
        removing=tuple(id for id in state.removing if id not in gone),
        leader_epoch=state.leader_epoch + 1,
    )
    if len(after.isr) >= elections.insync_min(after, context.policy(state.topic)):
        after = after._replace(elr=())
    if state.leader != NO_LEADER and state.leader in gone:
        after = after._replace(leader=_able(context, after)[0])
    return after


# From states to a decision


def _decide(context: Context, moves: Moves) -> Decision:
    decision = Decision()
    news: list[tuple[PartitionState, PartitionState]] = []
    images: list[TopicImage] = []
    for name, wanted in moves.items():
        stored = context.topics[name]
        changed = {index: after for index, after in wanted.items() if after != stored.image.partitions[index]}
        if changed:
            pairs = [(stored.image.partitions[index], after) for index, after in changed.items()]
            image, told = _store_topic(context, name, pairs, decision)
            images.append(image)
            news += told
    if images:
        decision.effects += _orders(context, news)
        shown = tuple(partitions.settled(image) for image in images)
        decision.effects += [UpdateMetadata(id, shown) for id in context.brokers]
        decision.effects += _stops(context, news)
    return decision


def _store_topic(
    context: Context, name: str, pairs: Iterable[tuple[PartitionState, PartitionState]], decision: Decision
) -> tuple[TopicImage, list[tuple[PartitionState, PartitionState]]]:
    """The topic with these states. Writes and changes join the decision."""
    stored = context.topics[name]
    states = list(stored.image.partitions)
    told = []
    lost: dict[int, list[int]] = {}
    known = partitions.skeleton(stored.image, context.skeletons)
    for before, after in pairs:
        for id in _lost(before, after):
            lost.setdefault(id, []).append(before.partition)
        if after.partition_epoch == NO_STATE:
            after = elections.elect(
                after, context.brokers.keys(), context.policy(name), context.shutting_down
            )
        if after.leader != NO_LEADER or after.partition_epoch != NO_STATE:
            writes, after = partitions.store(after, context.epoch, known, before)
            decision.writes += writes
        states[before.partition] = after
        told.append((before, after))
    image = stored.image._replace(partitions=tuple(states))
    decision.add(deletions.enlist(context, image, lost))
    decision.writes.append(Set(TopicNode.path(name), partitions.topic_node(image).encode(), stored.version))
    decision.changes.append(TopicChanged(partitions.settled(image), stored.version + 1))
    return image, told


def _lost(before: PartitionState, after: PartitionState) -> list[int]:
    """Who has no replica any more. Of a partition that nobody has ever led, nobody had one."""
    if before.partition_epoch == NO_STATE:
        return []
    return [id for id in before.replicas if id not in after.replicas]


def _orders(context: Context, news: Sequence[tuple[PartitionState, PartitionState]]) -> list[LeaderAndIsr]:
    """Everybody who has a replica now is told; who had none before, that it is new."""
    by_broker: dict[int, list[PartitionState]] = {id: [] for id in context.brokers}
    for before, after in news:
        if after.partition_epoch != NO_STATE:
            for id in after.replicas:
                if id in by_broker:
                    is_new = after.is_new or id not in before.replicas
                    by_broker[id].append(after._replace(is_new=is_new))
    return [LeaderAndIsr(id, tuple(mine)) for id, mine in by_broker.items() if mine]


def _stops(context: Context, news: Sequence[tuple[PartitionState, PartitionState]]) -> list[StopReplicas]:
    """Who has no replica any more deletes what it had. Who is down is on the list."""
    by_broker: dict[int, dict[TopicPartition, bool]] = {}
    for before, after in news:
        for id in _lost(before, after):
            if id in context.brokers:
                by_broker.setdefault(id, {})[before.topic_partition] = True
    return [StopReplicas(id, mine) for id, mine in by_broker.items()]
