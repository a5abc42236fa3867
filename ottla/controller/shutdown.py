"""Controlled shutdown: a broker says that it is about to stop, and what it leads moves before it does."""

from ottla.controller import elections, partitions
from ottla.controller.alterations import check_broker_epoch
from ottla.controller.context import NO_STATE, Context, Policy
from ottla.controller.decision import Decision, ShutdownBegun
from ottla.core.ids import TopicPartition
from ottla.replication.state import PartitionState


def prepare(context: Context, broker_id: int, broker_epoch: int) -> tuple[Decision, list[TopicPartition]]:
    """Let others lead and be in sync instead, as far as there are any. Returns what it still leads.

    The broker asks again until nothing is left, or it has waited long enough. A partition whose other replicas are down
    or about to stop is none that could move soon: it is not waited for, or a cluster that is shut down as a whole would
    wait for itself.
    """
    check_broker_epoch(context, broker_id, broker_epoch)
    leaving = context.shutting_down | {broker_id}
    staying = context.brokers.keys() - leaving
    news: list[PartitionState] = []
    remaining: list[TopicPartition] = []
    for stored in context.topics.values():
        policy = context.policy(stored.image.name)
        for before in stored.image.partitions:
            after = relieve(before, broker_id, leaving, policy)
            if after is not before:
                news.append(after)
            if after.leader == broker_id and staying & set(after.replicas):
                remaining.append(after.topic_partition)
    decision = Decision()
    if broker_id not in context.shutting_down:
        decision.changes.append(ShutdownBegun(broker_id))
    decision.add(partitions.change(context, news)[0])
    return decision, remaining


def relieve(state: PartitionState, broker: int, leaving: set[int], policy: Policy) -> PartitionState:
    """The state without that broker in the ISR, unless it is the last that is in sync and stays.

    It leaves as one that dies: while too few are left in sync it is eligible, and its clean shutdown will keep it so.
    """
    if state.partition_epoch == NO_STATE or broker not in state.isr:
        return state
    others = tuple(id for id in state.isr if id != broker)
    heir = next((id for id in state.replicas if id in others and id not in leaving), None)
    if state.leader == broker:
        if heir is None:
            return state
        state = elections.hand_over(state, heir)
    return state._replace(isr=others, elr=elections.eligible_after(state, others, policy))
