"""One step of a member towards its target: give back first, then take what nobody holds.

A partition passes from one member to the next only through nobody's hands: its owner is told to revoke it, reports
that it has, and only then may the next one have it. Pure: the group writes down what comes out.
"""

import uuid
from collections.abc import Callable

from ottla.core.errors import ErrorCode, KafkaError
from ottla.groups.consumer_member import NOTHING, Member, MemberState, Partitions, is_within

IsFree = Callable[[uuid.UUID, int], bool]


def check_epoch(member: Member, epoch: int, owned: Partitions | None) -> None:
    """Raises FENCED_MEMBER_EPOCH unless the member speaks from its epoch, or joins anew and holds nothing.

    The one before will do if it holds nothing but what it was given: then the reply that told it of its new epoch was
    lost on the way.
    """
    if epoch == member.epoch or (epoch == 0 and owned == NOTHING):
        return
    is_a_step_behind = 0 <= epoch == member.previous_epoch < member.epoch
    if not (is_a_step_behind and owned is not None and is_within(owned, member.assigned)):
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"member {member.id} is in epoch {member.epoch}, not {epoch}: it must abandon its partitions and rejoin",
        )


def reconcile(
    member: Member, target_epoch: int, target: Partitions, owned: Partitions | None, is_free: IsFree
) -> Member:
    """The member's next state. `owned` is what it says it holds, None when it says nothing: then it holds all."""
    match member.state:
        case MemberState.STABLE:
            if member.epoch == target_epoch:
                return member
            return _next(member, member.epoch, target_epoch, target, owned, is_free)
        case MemberState.UNREVOKED_PARTITIONS:
            if _still_holds(owned, member.to_revoke):
                return member
            # What it revoked belonged to its epoch: it is out of that one, whatever the target is by now.
            return _next(member, member.epoch + 1, target_epoch, target, owned, is_free)
        case MemberState.UNRELEASED_PARTITIONS:
            return _next(member, member.epoch, target_epoch, target, owned, is_free)
        case MemberState.UNKNOWN:
            if owned is None or owned:
                raise KafkaError(
                    ErrorCode.FENCED_MEMBER_EPOCH,
                    f"member {member.id} is in a state unknown here: it must abandon its partitions and rejoin",
                )
            return _next(member, target_epoch, target_epoch, target, owned, is_free)


def _next(
    member: Member,
    epoch: int,
    target_epoch: int,
    target: Partitions,
    owned: Partitions | None,
    is_free: IsFree,
) -> Member:
    kept: dict[uuid.UUID, frozenset[int]] = {}
    to_revoke: dict[uuid.UUID, frozenset[int]] = {}
    to_add: dict[uuid.UUID, frozenset[int]] = {}
    is_waiting = False
    for topic_id in member.assigned.keys() | target.keys():
        has, wants = member.assigned.get(topic_id, frozenset()), target.get(topic_id, frozenset())
        missing = wants - has
        free = frozenset(index for index in missing if is_free(topic_id, index))
        is_waiting = is_waiting or len(free) < len(missing)
        for found, partitions in ((kept, has & wants), (to_revoke, has - wants), (to_add, free)):
            if partitions:
                found[topic_id] = partitions
    if to_revoke and _still_holds(owned, to_revoke):
        return member.moved_to(epoch)._replace(
            state=MemberState.UNREVOKED_PARTITIONS, assigned=kept, to_revoke=to_revoke
        )
    for topic_id, partitions in to_add.items():
        kept[topic_id] = kept.get(topic_id, frozenset()) | partitions
    state = MemberState.UNRELEASED_PARTITIONS if is_waiting else MemberState.STABLE
    return member.moved_to(target_epoch)._replace(state=state, assigned=kept, to_revoke=NOTHING)


def _still_holds(owned: Partitions | None, partitions: Partitions) -> bool:
    if owned is None:
        return True
    return any(owned.get(topic_id, frozenset()) & indexes for topic_id, indexes in partitions.items())
