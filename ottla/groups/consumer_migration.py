"""Groups change their protocol in place: from classic when the first member of the new protocol joins, and back.

Going up, every classic member becomes a member that is where the last generation put it; it is told of a rebalance with
its next heartbeat and joins again. Entries erase the old group and write the new one, all in one decision.

Whoever hosts the groups puts `Upgrade.group` in the place of the classic group when the tombstone of its GroupMetadata
record is applied, and then applies the rest of the entries to it: they say again what it knows already.
"""

from typing import NamedTuple

from ottla.core.clock import Moment
from ottla.core.errors import ErrorCode, KafkaError, ProtocolError
from ottla.groups.classic import ClassicGroup
from ottla.groups.classic_member import ClassicMember
from ottla.groups.consumer import ConsumerGroup
from ottla.groups.consumer_downgrade import Downgrade, may_downgrade, to_classic
from ottla.groups.consumer_member import ClassicClient, Member
from ottla.groups.consumer_protocol import read_assignment, read_subscription
from ottla.groups.consumer_records import (
    current_entry,
    epoch_entry,
    member_entry,
    target_entry,
    target_epoch_entry,
)
from ottla.groups.consumer_requests import check_heartbeat
from ottla.groups.group import Asker, Surroundings
from ottla.protocol.messages.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from ottla.replication.machine import Answer, Decision, Entry, fail

__all__ = [
    "Downgrade",
    "Upgrade",
    "check_upgrade",
    "decide_upgrade",
    "from_classic",
    "may_downgrade",
    "to_classic",
]

_POLICIES = ("upgrade", "bidirectional")


class Upgrade(NamedTuple):
    """The new group, which has taken in the entries, and replies for those who waited in the old one."""

    group: ConsumerGroup
    entries: list[Entry]
    answers: list[Answer]


def check_upgrade(classic: ClassicGroup, surroundings: Surroundings) -> None:
    """Raises GROUP_ID_NOT_FOUND unless the classic group may change its protocol. An empty one always may."""
    if classic.is_empty:
        return
    settings = surroundings.settings
    if settings.group_consumer_migration_policy.lower() not in _POLICIES:
        reason = "the migration policy does not allow it"
    elif not classic.is_of_consumers:
        reason = f"its members speak {classic.protocol_type!r}"
    elif len(classic.members) > settings.group_consumer_max_size:
        reason = f"it has more than {settings.group_consumer_max_size} members"
    else:
        return
    raise _stays_classic(classic, reason)


def from_classic(classic: ClassicGroup, surroundings: Surroundings, now: Moment) -> Upgrade:
    """The group as one of the new protocol. Nothing of the classic group is changed."""
    check_upgrade(classic, surroundings)
    entries = classic.tombstones()
    group = ConsumerGroup(classic.group_id, surroundings)
    if classic.is_empty:
        return Upgrade(group, entries, [])
    try:
        members = [_converted(one, classic, surroundings) for one in classic.members.values()]
    except ProtocolError as error:
        raise _stays_classic(classic, f"of what its members say, not all can be read: {error}") from error
    epoch = classic.generation
    created = [
        *(member_entry(classic.group_id, one) for one in members),
        epoch_entry(classic.group_id, epoch, 0),
        *(target_entry(classic.group_id, one.id, one.assigned) for one in members),
        target_epoch_entry(classic.group_id, epoch, now.wall_ms),
        *(current_entry(classic.group_id, one) for one in members),
    ]
    for entry in created:
        group.apply(entry)
    waiting = fail(
        classic.waiting(), KafkaError(ErrorCode.REBALANCE_IN_PROGRESS, "the group changes its protocol")
    )
    return Upgrade(group, [*entries, *created], waiting)


def decide_upgrade(
    classic: ClassicGroup,
    surroundings: Surroundings,
    request: ConsumerGroupHeartbeatRequest,
    asker: Asker,
    now: Moment,
) -> tuple[ConsumerGroup, Decision[ConsumerGroupHeartbeatResponse]]:
    """A member of the new protocol joins a classic group: the group that takes its place, and the decision for both.

    Only a join can bring it about; whoever comes with an epoch has none in this group.
    """
    check_heartbeat(request, asker.api_version, surroundings.settings.group_consumer_assignors)
    if request.member_epoch != 0:
        raise _stays_classic(classic, "nobody joins")
    upgrade = from_classic(classic, surroundings, now)
    try:
        decision = upgrade.group.decide_heartbeat(request, asker, now)
    except KafkaError:
        upgrade.group.clocks.stop_everything()
        raise
    for member in upgrade.group.state.members.values():
        upgrade.group.keep_session(member, now)
    decision.entries = [*upgrade.entries, *decision.entries]
    decision.answers = [*upgrade.answers, *decision.answers]
    decision.if_refused = None  # then there is no such group: that is for whoever hosts them
    return upgrade.group, decision


def _stays_classic(classic: ClassicGroup, reason: str) -> KafkaError:
    detail = f"Group {classic.group_id} is not a consumer group, and does not become one: {reason}"
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, detail)


def _converted(one: ClassicMember, classic: ClassicGroup, surroundings: Surroundings) -> Member:
    """The member, with what the last generation gave it: if it holds less by now, it will say so when it joins."""
    blob = one.metadata(classic.protocol_name) or one.protocols[0].metadata
    subscription = read_subscription(blob, surroundings.topics)
    return Member(
        one.member_id,
        epoch=classic.generation,
        previous_epoch=classic.generation,
        instance_id=one.instance_id,
        rack_id=subscription.rack_id,
        rebalance_timeout_ms=one.rebalance_timeout_ms,
        client_id=one.client_id,
        client_host=one.client_host,
        topic_names=subscription.topic_names,
        assigned=read_assignment(one.assignment, surroundings.topics),
        classic=ClassicClient(
            one.session_timeout_ms, tuple((each.name, each.metadata) for each in one.protocols)
        ),
    )
