"""A KIP-848 group whose last member of the new protocol goes, and that goes on as a classic group.

One decision erases the old records and writes the new one, with what members have at this moment: no partition twice,
and those of the one who goes not at all. So everybody must join again: the classic group begins a rebalance as soon as
it is in its place.
"""

from typing import NamedTuple

from ottla.core.clock import Moment
from ottla.groups.classic import ClassicGroup
from ottla.groups.classic_member import CONSUMER, ClassicMember, Supported, to_record
from ottla.groups.classic_roster import elected_protocol
from ottla.groups.consumer_member import Member
from ottla.groups.consumer_protocol import write_assignment
from ottla.groups.consumer_records import no_group_entries
from ottla.groups.consumer_state import ConsumerState
from ottla.groups.group import Settings, Surroundings
from ottla.protocol.messages.coordinator_records import GroupMetadataKey, GroupMetadataValue
from ottla.replication.machine import Decision, Entry

POLICIES = ("downgrade", "bidirectional")


class Downgrade(NamedTuple):
    """The classic group, which is empty until the last entry is applied to it."""

    group: ClassicGroup
    entries: list[Entry]


def may_downgrade(
    state: ConsumerState, settings: Settings, leaving_id: str, joining: Member | None = None
) -> bool:
    """Whether this member is the last one of the new protocol, and may be."""
    if settings.group_consumer_migration_policy.lower() not in POLICIES:
        return False
    if state.members[leaving_id].classic is not None:
        return False
    rest = _rest(state, leaving_id, joining)
    if not rest or len(rest) > settings.group_max_size or any(one.classic is None for one in rest):
        return False
    names = [{name for name, _ in one.classic.protocols} for one in rest if one.classic is not None]
    return bool(set.intersection(*names))


def to_classic(
    group_id: str,
    state: ConsumerState,
    around: Surroundings,
    now: Moment,
    *,
    leaving_id: str,
    joining: Member | None = None,
    epoch: int | None = None,
) -> Downgrade:
    """The group without the leaving member, and with the joining one in its place if there is one."""
    members = [_converted(one, around) for one in _rest(state, leaving_id, joining)]
    protocol = elected_protocol(members)
    value = GroupMetadataValue(
        protocol_type=CONSUMER,
        generation=state.epoch if epoch is None else epoch,
        protocol=protocol,
        leader=None,  # nobody leads until all have joined again
        current_state_timestamp=now.wall_ms,
        members=[to_record(member, protocol, member.assignment) for member in members],
    )
    group = ClassicGroup(group_id, around)
    group.expect(members)

    def rebalance(later: Moment) -> Decision[None]:
        group.started(later)
        return group.decide_rebalance(later)

    around.timers.add(now.monotonic_ms, rebalance)
    ids = [*state.members] if joining is None else [*state.members, joining.id]
    tombstones = no_group_entries(group_id, dict.fromkeys(ids), state.regexes)
    return Downgrade(group, [*tombstones, Entry(GroupMetadataKey(group=group_id), value)])


def _rest(state: ConsumerState, leaving_id: str, joining: Member | None) -> list[Member]:
    rest = [one for one in state.members.values() if one.id != leaving_id]
    return rest if joining is None else [*rest, joining]


def _converted(member: Member, around: Surroundings) -> ClassicMember:
    classic = member.classic
    assert classic is not None, "who stays speaks the classic protocol"
    return ClassicMember(
        member.id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        classic.session_timeout_ms,
        CONSUMER,
        tuple(Supported(name, metadata) for name, metadata in classic.protocols),
        write_assignment(member.assigned, classic.protocols[0][1], around.topics),
    )
