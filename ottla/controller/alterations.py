"""AlterPartition: the leader of a partition asks for another ISR, and the controller checks and writes it (KIP-497).

Only the controller changes an ISR. The proposal says upon which state it was made; if that is not the present one, it
is refused, and the leader looks again. A broker that has begun another life since the leader counted it in is refused
as well: it may have lost what it had then (KIP-903).
"""

from collections.abc import Sequence

from ottla.controller import elections, partitions
from ottla.controller.context import Context
from ottla.controller.decision import Decision
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.replication.exchange import BrokerLife, Proposal
from ottla.replication.state import NO_EPOCH, PartitionState

Answers = dict[TopicPartition, PartitionState | KafkaError]
_OLD_NEWS = {ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.INVALID_UPDATE_VERSION}


def alter(
    context: Context, broker_id: int, broker_epoch: int, proposals: Sequence[Proposal]
) -> tuple[Decision, Answers]:
    """Change each ISR as proposed, where that can be. The answers are states after the change.

    A proposal for what is already so is answered with it: the leader has not heard that it was done.
    """
    check_broker_epoch(context, broker_id, broker_epoch)
    answers: Answers = {}
    accepted: dict[TopicPartition, PartitionState] = {}
    behind: list[PartitionState] = []
    unseen: dict[TopicPartition, PartitionState] = {}
    for proposal in proposals:
        where = proposal.topic_partition
        try:
            if where in accepted:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"the request names {where} twice")
            state = _present(context, proposal)
            check_epochs(state, broker_id, proposal)
            answers[where] = state
            if not is_done(state, proposal):
                check_partition_epoch(state, proposal)
                check_members(context, state, proposal)
                accepted[where] = altered(context, state, proposal)
        except KafkaError as error:
            answers[where] = error
            accepted.pop(where, None)
            if error.code in _OLD_NEWS:
                behind.append(_present(context, proposal))
            elif error.code is ErrorCode.INELIGIBLE_REPLICA and is_ahead(context, proposal):
                unseen[where] = _present(context, proposal)
    news = [*accepted.values(), *unseen.values()]
    decision, changed = partitions.change(context, news, orders_too=False, anew=unseen)
    answers.update({where: changed[where] for where in accepted})
    # It waits for the present state, which no order may have told it.
    behind += [changed[where] for where in unseen]
    decision.effects += partitions.orders(behind, [broker_id])
    return decision, answers


def altered(context: Context, state: PartitionState, proposal: Proposal) -> PartitionState:
    """The state with the ISR that is proposed. Whoever leaves it is eligible while too few are left."""
    isr = tuple(id for id in state.replicas if id in proposal.members)
    elr = elections.eligible_after(state, isr, context.policy(state.topic))
    return state._replace(isr=isr, elr=elr, is_recovering=False)


def check_broker_epoch(context: Context, broker_id: int, broker_epoch: int) -> None:
    """A request of a life that is over changes nothing."""
    broker = context.brokers.get(broker_id)
    if broker is None or broker.epoch != broker_epoch:
        known = "is not registered" if broker is None else f"lives in epoch {broker.epoch}"
        raise KafkaError(
            ErrorCode.STALE_BROKER_EPOCH, f"epoch {broker_epoch} of broker {broker_id} is stale: it {known}"
        )


def check_epochs(state: PartitionState, broker_id: int, proposal: Proposal) -> None:
    """Does it come from the leader, and of this epoch?"""
    where = proposal.topic_partition
    if (
        proposal.leader_epoch > state.leader_epoch or proposal.partition_epoch > state.partition_epoch
    ):  # somebody has decided something that we do not know of
        raise KafkaError(ErrorCode.NOT_CONTROLLER, f"{where} has newer epochs than this controller knows")
    if is_fenced(state, proposal):
        raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH, f"{where} is in leader epoch {state.leader_epoch}")
    if broker_id != state.leader:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{where} is led by broker {state.leader}")


def check_partition_epoch(state: PartitionState, proposal: Proposal) -> None:
    """Was it made upon the present state?"""
    if not is_upon_present(state, proposal):
        raise KafkaError(
            ErrorCode.INVALID_UPDATE_VERSION,
            f"{proposal.topic_partition} is in partition epoch {state.partition_epoch}",
        )


def check_members(context: Context, state: PartitionState, proposal: Proposal) -> None:
    """May these be in sync?"""
    where, members = proposal.topic_partition, proposal.members
    if len(members) != len(proposal.isr) or not members <= set(state.replicas):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{sorted(members)} cannot be the ISR of {where}")
    if state.leader not in members:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"the leader must be in the ISR of {where}")
    for life in proposal.isr:
        fault = _fault(context, state, life)
        if fault:
            raise KafkaError(ErrorCode.INELIGIBLE_REPLICA, f"broker {life.broker} {fault}: {where}")


def is_fenced(state: PartitionState, proposal: Proposal) -> bool:
    """Has there been an election since?"""
    return proposal.leader_epoch < state.leader_epoch


def is_upon_present(state: PartitionState, proposal: Proposal) -> bool:
    """Is the state the one upon which the proposal was made?"""
    return proposal.partition_epoch == state.partition_epoch


def is_done(state: PartitionState, proposal: Proposal) -> bool:
    """Is the ISR what is asked for? The leader may ask again because it has not heard."""
    return proposal.members == frozenset(state.isr)


def is_same_life(context: Context, life: BrokerLife) -> bool:
    """Is it the broker that the leader has counted in, or one that has come after it?"""
    return life.epoch in (NO_EPOCH, context.brokers[life.broker].epoch)


def is_ahead(context: Context, proposal: Proposal) -> bool:
    """Does the leader know a life of somebody that we have not seen yet? What we refuse now we would accept soon, and a
    late copy of the proposal, too, when the leader counts with it no more: the state must be another by then."""
    lives = [(life.epoch, context.epochs.get(life.broker)) for life in proposal.isr]
    return any(last is None or epoch > last.epoch for epoch, last in lives)


def _fault(context: Context, state: PartitionState, life: BrokerLife) -> str | None:
    """Why a broker may not be in sync."""
    if life.broker not in context.brokers:
        return "is not alive"
    # A leader that is to stop but cannot yet lets others in: to one of them it can hand over.
    if life.broker in context.shutting_down and life.broker != state.leader:
        return "is shutting down"
    if life.broker in state.offline:
        return "has lost its disk"
    if not is_same_life(context, life):
        return f"has begun another life since epoch {life.epoch}"
    return None


def _present(context: Context, proposal: Proposal) -> PartitionState:
    topic, index = proposal.topic_partition
    stored = context.topics.get(topic)
    if stored is None or stored.image.topic_id != proposal.topic_id:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"there is no topic {topic} with that id")
    if not 0 <= index < len(stored.image.partitions):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic} has no partition {index}")
    return stored.image.partitions[index]
