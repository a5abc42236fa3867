"""Members that speak the classic protocol in a KIP-848 group: one member's move, told in four requests.

A join is a step towards the target with what the member says it owns, a sync tells it what it has, a heartbeat tells it
to join again when it is not where it should be. Nobody leads, and nobody waits for the others.
"""

from typing import TYPE_CHECKING

from ottla.core.clock import Moment
from ottla.core.errors import ErrorCode, KafkaError, ProtocolError
from ottla.groups.classic_join import check_join
from ottla.groups.classic_member import CONSUMER, new_member_id, protocols_of, rebalance_timeout_of
from ottla.groups.consumer_clocks import Clock
from ottla.groups.consumer_downgrade import may_downgrade, to_classic
from ottla.groups.consumer_member import NOTHING, ClassicClient, Member, MemberState
from ottla.groups.consumer_protocol import Subscription, read_subscription, write_assignment
from ottla.groups.consumer_step import Step
from ottla.groups.group import Asker
from ottla.protocol.messages.groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from ottla.replication.machine import Decision

if TYPE_CHECKING:
    from ottla.groups.consumer import ConsumerGroup

_MEMBER_ID_REQUIRED_SINCE = 4
_NULL_PROTOCOL_SINCE = 7
_MANY_LEAVE_SINCE = 3


def decide_join(
    group: "ConsumerGroup", request: JoinGroupRequest, asker: Asker, now: Moment
) -> Decision[JoinGroupResponse]:
    """The member's epoch is its generation. MEMBER_ID_REQUIRED comes as a response, for it carries the id."""
    check_join(request, group.around.settings)
    is_known = request.member_id in group.state.members or _holder(group, request) is not None
    if not is_known:
        group.check_room()
    subscription = _subscription_of(group, request)
    new_id = request.member_id or new_member_id(
        asker.client_id, request.group_instance_id, group.around.new_id()
    )
    is_nameless = not request.member_id and request.group_instance_id is None
    if is_nameless and asker.api_version >= _MEMBER_ID_REQUIRED_SINCE:
        return Decision(_come_again(new_id, asker.api_version))
    step = group.step(now)
    before = _who(group, request, new_id, step)
    member = _taken_in(before, request, subscription, asker)
    after = group.advance(step, before, member, subscription.owned, now)
    assert after.classic is not None, "it was just taken in as a classic member"
    reply = _joined(after, after.classic.protocols[0][0])
    if step.replaced is not None and may_downgrade(
        group.state, group.around.settings, step.replaced.id, after
    ):
        group.successor, entries = to_classic(
            group.group_id,
            group.state,
            group.around,
            now,
            leaving_id=step.replaced.id,
            joining=after,
            epoch=step.epoch,
        )
        return group.decided(reply, [*step.entries, *entries], now)
    group.clocks.stop(Clock.JOIN, after.id)
    group.keep_session(after, now)
    group.start_clock(Clock.SYNC, after.id, after.rebalance_timeout_ms, now)
    return group.decided(reply, step.entries, now)


def _holder(group: "ConsumerGroup", request: JoinGroupRequest) -> Member | None:
    instance_id = request.group_instance_id
    return None if instance_id is None else group.state.static_member(instance_id)


def _subscription_of(group: "ConsumerGroup", request: JoinGroupRequest) -> Subscription:
    """Raises INCONSISTENT_GROUP_PROTOCOL for who is no consumer, or supports nothing that all classic members do."""
    others = [one.classic for one in group.state.members.values() if one.classic is not None]
    supported = [{name for name, _ in other.protocols} for other in others]
    protocols = protocols_of(request)
    is_shared = any(all(one.name in names for names in supported) for one in protocols)
    if request.protocol_type != CONSUMER or not is_shared:
        raise KafkaError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"{group.group_id!r} has no protocol in common with what {request.member_id!r} supports",
        )
    try:
        for one in protocols[1:]:
            read_subscription(one.metadata, group.around.topics)
        return read_subscription(protocols[0].metadata, group.around.topics)
    except ProtocolError as error:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"no subscription: {error}") from error


def _who(group: "ConsumerGroup", request: JoinGroupRequest, new_id: str, step: Step) -> Member:
    """A dynamic member is found or made. A static one without an id takes the place of whoever had its instance id."""
    if request.group_instance_id is None:
        return group.state.members.get(new_id) or Member(new_id)
    holder = _holder(group, request)
    if request.member_id:
        return group.static_member(request.group_instance_id, request.member_id)
    return Member(new_id) if holder is None else step.replace(holder, new_id)


def _taken_in(member: Member, request: JoinGroupRequest, said: Subscription, asker: Asker) -> Member:
    instance_id = request.group_instance_id
    return member._replace(
        instance_id=instance_id if instance_id is not None else member.instance_id,
        rack_id=said.rack_id if said.rack_id is not None else member.rack_id,
        rebalance_timeout_ms=rebalance_timeout_of(request),
        topic_names=said.topic_names,
        topic_regex=None,
        assignor=None,
        client_id=asker.client_id,
        client_host=asker.client_host,
        classic=ClassicClient(
            request.session_timeout_ms, tuple((one.name, one.metadata) for one in protocols_of(request))
        ),
    )


def _come_again(member_id: str, version: int) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=ErrorCode.MEMBER_ID_REQUIRED,
        protocol_name=None if version >= _NULL_PROTOCOL_SINCE else "",
        leader="",
        member_id=member_id,
        members=[],
    )


def _joined(member: Member, protocol_name: str) -> JoinGroupResponse:
    """Nobody leads: so everybody comes to sync without assignments."""
    return JoinGroupResponse(
        error_code=ErrorCode.NONE,
        generation_id=member.epoch,
        protocol_type=CONSUMER,
        protocol_name=protocol_name,
        leader="",
        member_id=member.id,
        members=[],
    )


def decide_sync(
    group: "ConsumerGroup", request: SyncGroupRequest, now: Moment
) -> Decision[SyncGroupResponse]:
    """What the member has. Whoever moved on since it joined must join again."""
    member = _member(group, request.member_id, request.group_instance_id, request.generation_id)
    assert member.classic is not None, "checked"
    name, blob = member.classic.protocols[0]
    if request.protocol_type not in (None, CONSUMER) or request.protocol_name not in (None, name):
        raise KafkaError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"{member.id!r} joined as {CONSUMER}/{name}, not {request.protocol_type}/{request.protocol_name}",
        )
    # Who has something to revoke has joined already: it must learn what is left to it before it joins again.
    if group.state.epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        group.start_clock_once(Clock.JOIN, member.id, member.rebalance_timeout_ms, now)
        raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS, f"{group.group_id!r} has moved on")
    group.clocks.stop(Clock.SYNC, member.id)
    group.keep_session(member, now)
    return Decision(
        SyncGroupResponse(
            error_code=ErrorCode.NONE,
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=write_assignment(member.assigned, blob, group.around.topics),
        )
    )


def decide_heartbeat(
    group: "ConsumerGroup", request: HeartbeatRequest, now: Moment
) -> Decision[HeartbeatResponse]:
    """REBALANCE_IN_PROGRESS when there is something to gain or to give by joining again."""
    member = _member(group, request.member_id, request.group_instance_id, request.generation_id)
    group.keep_session(member, now)
    must_join = (
        member.epoch < group.state.epoch
        or member.state is MemberState.UNREVOKED_PARTITIONS
        or (member.state is MemberState.UNRELEASED_PARTITIONS and not _waits_for_others(group, member))
    )
    if must_join:
        group.start_clock_once(Clock.JOIN, member.id, member.rebalance_timeout_ms, now)
    code = ErrorCode.REBALANCE_IN_PROGRESS if must_join else ErrorCode.NONE
    return Decision(HeartbeatResponse(error_code=code))


def _waits_for_others(group: "ConsumerGroup", member: Member) -> bool:
    target = group.state.targets.get(member.id, NOTHING)
    return any(
        not group.state.is_free(topic_id, index)
        for topic_id, indexes in target.items()
        for index in indexes - member.assigned.get(topic_id, frozenset())
    )


def _member(group: "ConsumerGroup", member_id: str, instance_id: str | None, generation: int) -> Member:
    if instance_id is None:
        member = group.member(member_id)
    else:
        member = group.static_member(instance_id, member_id)
    if member.classic is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"{member.id!r} does not speak the classic protocol")
    if generation != member.epoch:
        raise KafkaError(
            ErrorCode.ILLEGAL_GENERATION, f"{member.id!r} is in generation {member.epoch}, not {generation}"
        )
    return member


def decide_leave(
    group: "ConsumerGroup", request: LeaveGroupRequest, asker: Asker, now: Moment
) -> Decision[LeaveGroupResponse]:
    """Each member has its own result; before v3 there is one member and one result."""
    if asker.api_version < _MANY_LEAVE_SINCE:
        leaving = [LeaveGroupRequest.Member(member_id=request.member_id)]
    else:
        leaving = request.members
    gone: dict[str, None] = {}
    results = []
    for one in leaving:
        code, member_id = ErrorCode.NONE, one.member_id
        try:
            member_id = _leaving(group, one, gone).id
            gone[member_id] = None
        except KafkaError as error:
            code = error.code
        results.append(
            LeaveGroupResponse.Member(
                member_id=member_id, group_instance_id=one.group_instance_id, error_code=code
            )
        )
    entries = group.remove(list(gone), now) if gone else ()
    if asker.api_version < _MANY_LEAVE_SINCE:
        return group.decided(LeaveGroupResponse(error_code=results[0].error_code), entries, now)
    return group.decided(LeaveGroupResponse(error_code=ErrorCode.NONE, members=results), entries, now)


def _leaving(group: "ConsumerGroup", one: LeaveGroupRequest.Member, gone: dict[str, None]) -> Member:
    """An administrator names the instance id only."""
    if one.group_instance_id is None:
        member = group.member(one.member_id)
    else:
        holder = group.state.static_members.get(one.group_instance_id, "")
        member = group.static_member(one.group_instance_id, one.member_id or holder)
    if member.classic is None or member.id in gone:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"{member.id!r} is not a classic member")
    return member
