"""Who leads a partition, who is in sync with it, and who may lead it when nobody is (KIP-966).

Pure functions from state to state. Epochs: `leader_epoch` grows with every election, also one that finds nobody;
`partition_epoch` is left alone here, it counts the writes and belongs to who writes.

Whoever dies leaves the ISR at once. As long as fewer than `min.insync.replicas` are left in it, the leader commits
nothing, so those that have left still have everything that is committed: they are eligible (ELR), and lead when nobody
in sync lives. A broker that may have lost what it had not written to the disk is neither. Of this it follows that a
partition without a leader has an empty ISR.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from ottla.controller.context import NO_STATE, Context, Policy, StoredEpoch
from ottla.replication.state import NO_LEADER, BrokerImage, PartitionState

NOBODY: frozenset[int] = frozenset()
DEFAULT_POLICY = Policy()


class Voters(NamedTuple):
    """Brokers at one moment. `born` have begun a new life since the states were written; what `unclean` ones had not
    written to the disk before is lost. `leaving` ones are about to stop: they lead only if nobody else can."""

    live: Collection[int]
    born: Collection[int] = NOBODY
    unclean: Collection[int] = NOBODY
    leaving: Collection[int] = NOBODY


def is_born(broker: BrokerImage, last: StoredEpoch | None) -> bool:
    """Has it begun another life than the last one that a controller knew of?"""
    return last is None or broker.epoch != last.epoch


def lost_its_memory(broker: BrokerImage, last: StoredEpoch | None) -> bool:
    """May a broker that was born lack records that it had? Only a clean shutdown of the last life we know of says no:
    after anything else the disk may have forgotten what was not synced, and nobody can tell kill -9 from a lost
    power supply."""
    return last is None or broker.previous_epoch != last.epoch


def voters(context: Context, brokers: Collection[BrokerImage]) -> Voters:
    """These brokers live. What is known of them?"""
    born = [b for b in brokers if is_born(b, context.epochs.get(b.node_id))]
    unclean = [b for b in born if lost_its_memory(b, context.epochs.get(b.node_id))]
    live, born_ids = frozenset(b.node_id for b in brokers), frozenset(b.node_id for b in born)
    return Voters(
        live,
        born_ids,
        frozenset(b.node_id for b in unclean),
        frozenset(context.shutting_down) & live - born_ids,
    )


def insync_min(state: PartitionState, policy: Policy) -> int:
    """With fewer replicas in sync than this the leader commits nothing."""
    return min(policy.min_insync_replicas, len(state.replicas))


def eligible_after(state: PartitionState, isr: Sequence[int], policy: Policy) -> tuple[int, ...]:
    """The ELR when the ISR becomes this one: whoever was in sync or eligible remains so while nothing can be committed
    without it."""
    if len(isr) >= insync_min(state, policy):
        return ()
    return tuple(id for id in state.replicas if id not in isr and (id in state.isr or id in state.elr))


def settle(state: PartitionState, who: Voters, policy: Policy = DEFAULT_POLICY) -> PartitionState:
    """The state among these brokers.

    A broker that died and came back before anybody noticed has died all the same. Its death and the election that
    follows are one change: they take one leader epoch.
    """
    if any(id in who.born for id in state.offline):  # its disk is tried again
        state = state._replace(offline=tuple(id for id in state.offline if id not in who.born))
    if state.partition_epoch == NO_STATE:
        return elect(state, who.live, policy, who.leaving)
    after = leave(state, [id for id in state.isr if id not in who.live or id in who.born], policy)
    after = forget(after, who.unclean)
    after = elect(after, who.live, policy, who.leaving)
    if after.leader_epoch > state.leader_epoch + 1:
        after = after._replace(leader_epoch=state.leader_epoch + 1)
    return recount(after, policy)


def recount(state: PartitionState, policy: Policy) -> PartitionState:
    """The state when as many must be in sync as we know of. A controller with other defaults may have left somebody
    eligible where enough are in sync: as long as somebody is, the leader commits nothing."""
    return state._replace(elr=()) if state.elr and len(state.isr) >= insync_min(state, policy) else state


def leave(state: PartitionState, gone: Collection[int], policy: Policy = DEFAULT_POLICY) -> PartitionState:
    """The state when these have died: they are in no ISR, and lead nothing."""
    if not gone or (state.leader not in gone and not any(id in gone for id in state.isr)):
        return state
    isr = tuple(id for id in state.isr if id not in gone)
    after = state._replace(isr=isr, elr=eligible_after(state, isr, policy))
    return after if state.leader in isr else _bereft(after, led_last(state))


def forget(state: PartitionState, unclean: Collection[int]) -> PartitionState:
    """The state when these have lost what they knew: they are not eligible any more. They have left the ISR before."""
    if not state.elr or not any(id in unclean for id in state.elr):
        return state
    return state._replace(elr=tuple(id for id in state.elr if id not in unclean))


def elect(
    state: PartitionState,
    live: Collection[int],
    policy: Policy = DEFAULT_POLICY,
    leaving: Collection[int] = NOBODY,
) -> PartitionState:
    """The state with a leader, if there can be one. A leader that lives stays."""
    able = [id for id in state.replicas if id in live and id not in state.offline]
    if state.leader in able:
        return state
    staying = [id for id in able if id not in leaving]
    if state.partition_epoch == NO_STATE:
        return _first_election(state, staying or able)
    after = leave(state, [id for id in state.isr if id not in able], policy)
    elected = _elect_clean(after, staying, policy) or _elect_clean(after, able, policy)
    if elected is None and policy.allows_unclean and staying:
        elected = _lead_alone(after, staying[0])._replace(is_recovering=True)
    if elected is None:
        return after
    return elected._replace(leader_epoch=state.leader_epoch + 1, last_known_leader=NO_LEADER)


def hand_over(state: PartitionState, leader: int) -> PartitionState:
    """Another member of the ISR leads."""
    assert leader in state.isr, f"{leader} is not in sync in {state.topic_partition}"
    return state._replace(leader=leader, leader_epoch=state.leader_epoch + 1)


def led_last(state: PartitionState) -> int:
    """Who led last. Where no leader is on record, the first in sync: so much Kafka, too, leaves on record."""
    if state.leader != NO_LEADER:
        return state.leader
    return (
        next(iter(state.isr), NO_LEADER) if state.last_known_leader == NO_LEADER else state.last_known_leader
    )


def last_one_standing(state: PartitionState, able: Collection[int]) -> bool:
    """Nobody is known to have everything, but who led last lives. Nobody had more than it; what it lost is lost."""
    return not state.isr and not state.elr and state.last_known_leader in able


def _elect_clean(state: PartitionState, able: Sequence[int], policy: Policy) -> PartitionState | None:
    """First whoever is in sync, then whoever is eligible, then who led last; each in the order of the assignment."""
    in_sync = next((id for id in able if id in state.isr), NO_LEADER)
    if in_sync != NO_LEADER:
        return state._replace(leader=in_sync)
    eligible = next((id for id in able if id in state.elr), NO_LEADER)
    if eligible != NO_LEADER:
        return state._replace(
            leader=eligible, isr=(eligible,), elr=eligible_after(state, (eligible,), policy)
        )
    if last_one_standing(state, able):
        return _lead_alone(state, state.last_known_leader)
    return None


def _lead_alone(state: PartitionState, leader: int) -> PartitionState:
    return state._replace(leader=leader, isr=(leader,), elr=())


def _bereft(state: PartitionState, last: int) -> PartitionState:
    """Nobody leads; that is an election, too, if somebody did."""
    epoch = state.leader_epoch + (state.leader != NO_LEADER)
    return state._replace(leader=NO_LEADER, last_known_leader=last, leader_epoch=epoch)


def _first_election(state: PartitionState, able: Sequence[int]) -> PartitionState:
    """A partition that is new and empty: every replica that lives is in sync."""
    if not able:
        return state
    return state._replace(leader=able[0], isr=tuple(able), leader_epoch=0, is_new=True)
