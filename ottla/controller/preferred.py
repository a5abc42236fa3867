"""Elections that somebody asks for, and those that keep leadership where the assignment wants it.

The preferred leader of a partition is the first of its replicas. After failures others lead; when too much of what a
broker should lead is led by others, it gets it back.
"""

from collections.abc import Collection, Iterator
from enum import IntEnum

from ottla.controller import elections, partitions
from ottla.controller.context import NO_STATE, Context
from ottla.controller.decision import Decision
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.replication.state import NO_LEADER, PartitionState

Answers = dict[TopicPartition, KafkaError | None]


class ElectionType(IntEnum):
    """Who is to be elected; the numbers of ElectLeaders."""

    PREFERRED = 0
    UNCLEAN = 1  # anybody alive, where nobody leads


def elect(
    context: Context, kind: ElectionType, wanted: Collection[TopicPartition] | None
) -> tuple[Decision, Answers]:
    """Elect in these partitions; None means all, and says nothing of those that need no election."""
    answers: Answers = {}
    news: list[PartitionState] = []
    for where in _all(context) if wanted is None else wanted:
        if where in answers:
            continue
        try:
            news.append(_elect(context, kind, where))
            answers[where] = None
        except KafkaError as error:
            if wanted is not None or error.code is not ErrorCode.ELECTION_NOT_NEEDED:
                answers[where] = error
    return partitions.change(context, news)[0], answers


def rebalance(context: Context, imbalance_percent: int) -> Decision:
    """Give brokers back what they should lead, where others lead more than this share of it.

    Partitions that are being moved are left alone: who is preferred is about to change.
    """
    mine: dict[int, int] = {}
    astray: dict[int, list[PartitionState]] = {}
    for state in context.states():
        preferred = state.replicas[0]
        mine[preferred] = mine.get(preferred, 0) + 1
        if state.leader != preferred and not state.adding and not state.removing:
            astray.setdefault(preferred, []).append(state)
    news = [
        elections.hand_over(state, broker)
        for broker, states in astray.items()
        if is_imbalanced(len(states), mine[broker], imbalance_percent)
        for state in states
        if can_lead(context, state, broker)
    ]
    return partitions.change(context, news)[0]


def is_imbalanced(astray: int, total: int, imbalance_percent: int) -> bool:
    """Is more than that share led by others?"""
    return astray * 100 > total * imbalance_percent


def can_lead(context: Context, state: PartitionState, broker: int) -> bool:
    """Could it take over from the leader right now, and lose nothing?"""
    return (
        state.leader != NO_LEADER
        and broker in state.isr
        and broker in context.brokers
        and broker not in context.shutting_down
        and broker not in state.offline
    )


def _elect(context: Context, kind: ElectionType, where: TopicPartition) -> PartitionState:
    state = _state(context, where)
    if kind is ElectionType.PREFERRED:
        preferred = state.replicas[0]
        if state.leader == preferred:
            raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED, f"{where} is led by its preferred replica")
        if not can_lead(context, state, preferred):
            raise KafkaError(
                ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, f"broker {preferred} cannot lead {where} now"
            )
        return elections.hand_over(state, preferred)
    if state.leader != NO_LEADER:
        raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED, f"{where} has a leader: broker {state.leader}")
    policy = context.policy(where.topic)._replace(allows_unclean=True)
    elected = elections.elect(state, context.brokers.keys(), policy, context.shutting_down)
    if elected.leader == NO_LEADER:
        raise KafkaError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, f"no replica of {where} is alive")
    return elected


def _state(context: Context, where: TopicPartition) -> PartitionState:
    stored = context.topics.get(where.topic)
    if stored is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{where.topic}' does not exist.")
    if not 0 <= where.partition < len(stored.image.partitions):
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{where.topic} has no partition {where.partition}"
        )
    return stored.image.partitions[where.partition]


def _all(context: Context) -> Iterator[TopicPartition]:
    return (state.topic_partition for state in context.states() if state.partition_epoch != NO_STATE)
