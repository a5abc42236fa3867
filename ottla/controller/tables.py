"""States of partitions and replicas, and which may follow upon which: Kafka's own tables.

The controller keeps no state machine beside what is stored: the state of a partition is read off it. Every state that
is written is held against these tables first. A move that is not in them is a bug of ours, not of anybody's input.
"""

from collections.abc import Collection, Mapping
from enum import Enum
from itertools import pairwise
from typing import TypeVar

from ottla.controller.context import NO_STATE
from ottla.replication.state import NO_LEADER, PartitionState


class PartitionPhase(Enum):
    """What a partition is to the cluster."""

    NON_EXISTENT = "NonExistentPartition"
    NEW = "NewPartition"  # it has replicas, but nobody has ever led it
    ONLINE = "OnlinePartition"  # somebody leads it
    OFFLINE = "OfflinePartition"  # nobody can lead it


class ReplicaPhase(Enum):
    """What a replica is to its partition."""

    NON_EXISTENT = "NonExistentReplica"
    NEW = "NewReplica"  # assigned, and not told yet
    ONLINE = "OnlineReplica"  # on a broker that lives
    OFFLINE = "OfflineReplica"  # its broker is dead, or its disk has failed
    DELETION_STARTED = "ReplicaDeletionStarted"
    DELETION_SUCCESSFUL = "ReplicaDeletionSuccessful"
    DELETION_INELIGIBLE = "ReplicaDeletionIneligible"  # it cannot be deleted now: nobody answers


Phase = TypeVar("Phase", bound=Enum)
_P, _R = PartitionPhase, ReplicaPhase

PARTITION_PREDECESSORS: Mapping[PartitionPhase, Collection[PartitionPhase]] = {
    _P.NON_EXISTENT: (_P.OFFLINE,),
    _P.NEW: (_P.NON_EXISTENT,),
    _P.ONLINE: (_P.NEW, _P.ONLINE, _P.OFFLINE),
    _P.OFFLINE: (_P.NEW, _P.ONLINE, _P.OFFLINE),
}
"""From where a partition may come."""

REPLICA_PREDECESSORS: Mapping[ReplicaPhase, Collection[ReplicaPhase]] = {
    _R.NON_EXISTENT: (_R.DELETION_SUCCESSFUL,),
    _R.NEW: (_R.NON_EXISTENT,),
    _R.ONLINE: (_R.NEW, _R.ONLINE, _R.OFFLINE, _R.DELETION_INELIGIBLE),
    _R.OFFLINE: (_R.NEW, _R.ONLINE, _R.OFFLINE, _R.DELETION_INELIGIBLE),
    _R.DELETION_STARTED: (_R.OFFLINE,),
    _R.DELETION_SUCCESSFUL: (_R.DELETION_STARTED,),
    _R.DELETION_INELIGIBLE: (_R.OFFLINE, _R.DELETION_STARTED),
}
"""From where a replica may come."""


def partition_phase(state: PartitionState | None) -> PartitionPhase:
    """What a partition is, by its state; None if there is no such partition."""
    if state is None:
        return PartitionPhase.NON_EXISTENT
    if state.partition_epoch == NO_STATE:
        return PartitionPhase.NEW
    return PartitionPhase.OFFLINE if state.leader == NO_LEADER else PartitionPhase.ONLINE


def replica_phase(state: PartitionState | None, broker: int, live: Collection[int]) -> ReplicaPhase:
    """What a replica is while nobody deletes it."""
    if state is None or broker not in state.replicas:
        return ReplicaPhase.NON_EXISTENT
    if state.partition_epoch == NO_STATE:
        return ReplicaPhase.NEW
    return ReplicaPhase.ONLINE if broker in live and broker not in state.offline else ReplicaPhase.OFFLINE


def owed_phase(broker: int, live: Collection[int]) -> ReplicaPhase:
    """What a replica is that a broker has lost and still has to delete: who lives is told to, again and again."""
    return ReplicaPhase.DELETION_STARTED if broker in live else ReplicaPhase.DELETION_INELIGIBLE


def check_replica_move(before: ReplicaPhase, after: ReplicaPhase) -> None:
    assert before in REPLICA_PREDECESSORS[after], f"a replica went from {before.value} to {after.value}"


def check_replica_path(*phases: ReplicaPhase) -> None:
    """Some moves are made in one step: each of them must be one of the table."""
    for before, after in pairwise(phases):
        check_replica_move(before, after)


def check_state(state: PartitionState, before: PartitionState | None = None) -> None:
    """A state that is about to be stored is sound, and follows upon the one before. `state` has the partition epoch
    that it was decided upon: storing it makes it the next."""
    where = state.topic_partition
    members = (*state.isr, *state.elr)
    assert len(set(members)) == len(members), f"{where}: ISR and ELR overlap: {state}"
    assert all(id in state.replicas for id in members), (
        f"{where}: in sync or eligible, but no replica: {state}"
    )
    assert (state.leader == NO_LEADER) == (not state.isr), f"{where}: in sync with nobody: {state}"
    assert state.leader == NO_LEADER or state.leader in state.isr, (
        f"{where}: the leader is not in sync: {state}"
    )
    assert state.leader == NO_LEADER or state.last_known_leader == NO_LEADER, f"{where}: two leaders: {state}"
    if before is not None:
        _check_move(before, state)


def _check_move(before: PartitionState, after: PartitionState) -> None:
    was = partition_phase(before)
    becomes = PartitionPhase.OFFLINE if after.leader == NO_LEADER else PartitionPhase.ONLINE
    assert was in PARTITION_PREDECESSORS[becomes], f"{after.topic_partition}: {was.value} to {becomes.value}"
    assert after.partition_epoch == before.partition_epoch, (
        f"{after.topic_partition}: decided upon another state"
    )
    assert after.leader_epoch >= before.leader_epoch, f"{after.topic_partition}: the leader epoch falls"
    if after.leader != before.leader:
        assert after.leader_epoch > before.leader_epoch, (
            f"{after.topic_partition}: a new leader in an old epoch"
        )


def render_partitions() -> str:
    """A picture of the table of partitions, for the docs."""
    return _mermaid(PARTITION_PREDECESSORS)


def render_replicas() -> str:
    """A picture of the table of replicas, for the docs."""
    return _mermaid(REPLICA_PREDECESSORS)


def _mermaid(predecessors: Mapping[Phase, Collection[Phase]]) -> str:
    moves = [(before.value, after.value) for after, many in predecessors.items() for before in many]
    return "\n".join(["stateDiagram-v2", *(f"    {before} --> {after}" for before, after in moves)]) + "\n"
