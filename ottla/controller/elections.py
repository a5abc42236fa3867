"""Who leads a partition. Leaders are looked for in the order of the assignment, and only among replicas in sync.

Pure functions from state to state. Epochs: `leader_epoch` grows with every election, also one that finds nobody;
`partition_epoch` is left alone here, it counts the writes and belongs to who writes.
"""

from collections.abc import Collection

from ottla.controller.context import NO_STATE
from ottla.replication.state import NO_LEADER, PartitionState


def elect(state: PartitionState, live: Collection[int]) -> PartitionState:
    """The state with a leader, if there can be one. A leader that lives stays."""
    if state.partition_epoch == NO_STATE:
        return _first_election(state, live)
    if state.leader in live and state.leader not in state.offline:
        return state
    able = [id for id in state.replicas if id in live and id not in state.offline]
    leader = next((id for id in able if id in state.isr), NO_LEADER)
    if leader == state.leader:  # there was none, and there is none
        return state
    # The last replicas in sync stay on record when nobody of them lives: only they have everything.
    isr = tuple(id for id in state.isr if id in able) or state.isr
    return state._replace(leader=leader, isr=isr, leader_epoch=state.leader_epoch + 1)


def without(state: PartitionState, dead: int, live: Collection[int]) -> PartitionState:
    """The state after the death of a broker; `live` are the others."""
    if state.partition_epoch == NO_STATE:
        return state
    if state.leader == dead:
        return elect(state, live)
    isr = tuple(id for id in state.isr if id != dead)
    return state._replace(isr=isr) if isr else state


def settle(state: PartitionState, live: Collection[int], born: Collection[int] = ()) -> PartitionState:
    """The state when just `live` brokers live, of which `born` have begun a new life.

    A broker that died and came back before anybody noticed has died all the same: what it had not written to the disk
    is gone. It leads only if nobody in sync has lived through it, under a new epoch, and alone in the ISR: what the
    others that came back have is not known.
    """
    if state.partition_epoch == NO_STATE:
        return elect(state, live)
    survivors = tuple(id for id in state.isr if id in live and id not in born and id not in state.offline)
    if survivors:
        return elect(state._replace(isr=survivors), survivors)
    after = elect(state, [id for id in live if id not in born])  # finds nobody
    after = elect(after, live)
    isr = state.isr if after.leader == NO_LEADER else (after.leader,)
    # Death and resurrection in one write are one election.
    return after._replace(isr=isr, leader_epoch=min(after.leader_epoch, state.leader_epoch + 1))


def _first_election(state: PartitionState, live: Collection[int]) -> PartitionState:
    """A partition that is new and empty: every replica that lives is in sync."""
    isr = tuple(id for id in state.replicas if id in live)
    if not isr:
        return state
    return state._replace(leader=isr[0], isr=isr, leader_epoch=0, is_new=True)
