"""JoinGroup: who may come in, under which id, and whether that means a rebalance.

A dynamic member without an id gets one and must come back with it (from v4 on), so that a client which gives up and
tries again leaves no ghost behind. A static member is known by its instance id: whoever comes with it takes the place
of the one before, which is fenced; in a stable group nobody else needs to notice.
"""

from functools import partial
from typing import Final

from ottla.core.clock import Moment
from ottla.core.errors import ErrorCode, KafkaError
from ottla.groups.classic_member import (
    ClassicMember,
    Supported,
    for_leader,
    protocols_of,
    rebalance_timeout_of,
)
from ottla.groups.classic_rebalance import (
    NEW_MEMBER_JOIN_TIMEOUT_MS,
    Rebalances,
)
from ottla.groups.classic_roster import elected_protocol
from ottla.groups.classic_states import ClassicState
from ottla.groups.classic_turn import Turn, join_refusal, sync_refusal
from ottla.groups.group import Asker, Settings
from ottla.protocol.messages.groups import JoinGroupRequest, JoinGroupResponse
from ottla.replication.machine import LATER, Answer, Decision, Ticket

PENDING_MAX: Final = 10_000
"""Ids given out in one group to members that have not come back: asking for ids must not fill the memory."""

_MEMBER_ID_REQUIRED_SINCE = 4
_SKIP_ASSIGNMENT_SINCE = 9


def check_join(request: JoinGroupRequest, settings: Settings) -> None:
    """What is wrong with the request whatever the group. To be asked before a group is made for it."""
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, "a group must have a name")
    low, high = settings.group_min_session_timeout_ms, settings.group_max_session_timeout_ms
    if not low <= request.session_timeout_ms <= high:
        raise KafkaError(
            ErrorCode.INVALID_SESSION_TIMEOUT, f"{request.session_timeout_ms} ms is not in {low}..{high}"
        )


class Joining:
    """One request to join, and the group that it goes to."""

    def __init__(
        self, group: Rebalances, request: JoinGroupRequest, asker: Asker, ticket: Ticket, now: Moment
    ) -> None:
        self.group = group
        self.roster = group.roster
        self.request = request
        self.asker = asker
        self.ticket = ticket
        self.turn = Turn(now)
        self.protocols: tuple[Supported, ...] = protocols_of(request)

    def decide(self, new_id: str) -> Decision[JoinGroupResponse]:
        """`new_id` is for a member that has none."""
        request = self.request
        try:
            check_join(request, self.group.settings)
        except KafkaError as error:
            return self._refuse(error.code, request.member_id)
        if not self._has_room():
            return self._turn_away()
        if self.group.state is ClassicState.DEAD:
            return self._refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE, request.member_id)
        if not self._is_consistent():
            return self._refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id)
        if request.member_id:
            return self._known()
        if request.group_instance_id is not None:
            return self._static(request.group_instance_id, new_id)
        return self._dynamic(new_id)

    def _refuse(self, code: ErrorCode, member_id: str) -> Decision[JoinGroupResponse]:
        return Decision(join_refusal(code, member_id, self.asker.api_version))

    def _has_room(self) -> bool:
        """While members join again, those who came first keep their place; afterwards everybody who has one."""
        count_max, member_id = self.group.settings.group_max_size, self.request.member_id
        member = self.roster.members.get(member_id)
        match self.group.state:
            case ClassicState.PREPARING_REBALANCE:
                is_waiting = member is not None and member.join_ticket is not None
                return is_waiting or self.roster.joined_count < count_max
            case ClassicState.COMPLETING_REBALANCE | ClassicState.STABLE:
                return member is not None or len(self.roster) < count_max
        return True

    def _turn_away(self) -> Decision[JoinGroupResponse]:
        """The group is full. A member that was in it is in it no longer; the others need not wait for it."""
        member_id = self.request.member_id
        self.group.take_back(member_id)
        member = self.roster.members.get(member_id)
        if member is not None:
            self.group.drop(self.turn, member)
        if self.group.state is ClassicState.PREPARING_REBALANCE:
            self.group.go_on(self.turn)
        return self.turn.decision(join_refusal(ErrorCode.GROUP_MAX_SIZE_REACHED, "", self.asker.api_version))

    def _is_consistent(self) -> bool:
        """Does it speak with somebody? In an empty group, anything that is something will do."""
        if self.group.state is ClassicState.EMPTY:
            return bool(self.request.protocol_type) and bool(self.protocols)
        names = (one.name for one in self.protocols)
        return self.request.protocol_type == self.group.protocol_type and self.roster.supports_any(names)

    # --- new members ---------------------------------------------------------------------------------------------

    def _dynamic(self, new_id: str) -> Decision[JoinGroupResponse]:
        if self.asker.api_version < _MEMBER_ID_REQUIRED_SINCE:
            return self._add(new_id)
        if len(self.roster.pending) >= PENDING_MAX:
            return self._refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE, "")
        self.group.give_out(new_id, self.request.session_timeout_ms, self.turn.now)
        return self._refuse(ErrorCode.MEMBER_ID_REQUIRED, new_id)

    def _add(self, member_id: str) -> Decision[JoinGroupResponse]:
        request = self.request
        member = ClassicMember(
            member_id,
            request.group_instance_id,
            self.asker.client_id,
            self.asker.client_host,
            rebalance_timeout_of(request),
            request.session_timeout_ms,
            request.protocol_type,
            self.protocols,
            is_new=True,
            join_version=self.asker.api_version,
            join_ticket=self.ticket,
        )
        self.group.came()
        if not self.roster.members:
            self.group.protocol_type = request.protocol_type
        self.roster.add(member)
        self.group.beat(member, self.turn.now, NEW_MEMBER_JOIN_TIMEOUT_MS)
        self.group.go_on(self.turn)
        return self.turn.decision(LATER)

    # --- members that were here before ---------------------------------------------------------------------------

    def _known(self) -> Decision[JoinGroupResponse]:
        member_id, instance_id = self.request.member_id, self.request.group_instance_id
        if instance_id is None and self.group.take_back(member_id):
            return self._add(member_id)
        try:
            member = self.roster.check(member_id, instance_id)
        except KafkaError as error:
            return self._refuse(error.code, member_id)
        is_news = tuple(member.protocols) != self.protocols
        match self.group.state:
            case ClassicState.COMPLETING_REBALANCE if not is_news:
                # Its first answer was lost, perhaps; this generation still stands.
                return Decision(self.group.joined(member))
            case ClassicState.STABLE if not is_news and member_id != self.roster.leader_id:
                return Decision(self.group.joined(member))
        # A leader that joins again has its reasons: topics that changed, for one.
        self._change(member)
        self.group.go_on(self.turn)
        return self.turn.decision(LATER)

    def _change(self, member: ClassicMember) -> None:
        request = self.request
        self.roster.change(member, self.protocols, request.session_timeout_ms, rebalance_timeout_of(request))
        refusal = join_refusal(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id, member.join_version)
        self.turn.tell(self.roster.hold_join(member, self.ticket, self.asker.api_version), refusal)

    # --- static members ------------------------------------------------------------------------------------------

    def _static(self, instance_id: str, new_id: str) -> Decision[JoinGroupResponse]:
        old_id = self.roster.id_of(instance_id)
        if old_id is None:
            return self._add(new_id)
        old = self.roster.members[old_id]
        new = self._successor(old, new_id)
        if self.group.state is ClassicState.STABLE:
            others = [new if member is old else member for member in self.roster]
            if elected_protocol(others) == self.group.protocol_name:
                return self._take_over(old, new, others)
        self._fence(old)
        self.roster.replace(old_id, new)
        self.group.end_session(old)
        self.group.beat(new, self.turn.now)
        self.roster.hold_join(new, self.ticket, self.asker.api_version)
        self.group.go_on(self.turn)
        return self.turn.decision(LATER)

    def _successor(self, old: ClassicMember, new_id: str) -> ClassicMember:
        return ClassicMember(
            new_id,
            old.instance_id,
            old.client_id,
            old.client_host,
            rebalance_timeout_of(self.request),
            self.request.session_timeout_ms,
            old.protocol_type,
            self.protocols,
            old.assignment,
        )

    def _fence(self, old: ClassicMember) -> None:
        refusal = join_refusal(ErrorCode.FENCED_INSTANCE_ID, old.member_id, old.join_version)
        self.turn.tell(self.roster.release_join(old), refusal)
        self.turn.tell(old.sync_ticket, sync_refusal(ErrorCode.FENCED_INSTANCE_ID))
        old.sync_ticket = None

    def _take_over(
        self, old: ClassicMember, new: ClassicMember, others: list[ClassicMember]
    ) -> Decision[JoinGroupResponse]:
        """Without a rebalance: the new id is written, and the assignment is the old one's."""
        group, turn, before_id = self.group, self.turn, self.roster.leader_id
        is_leader = old.member_id == before_id
        leader_id = new.member_id if is_leader else before_id
        group.incoming[new.member_id] = new
        group.beat(new, turn.now)
        group.expect_sync_of(new.member_id, instead_of=old.member_id)
        group.record(turn, group.outcome(others, leader_id, group.state_since_ms))
        response = JoinGroupResponse(
            error_code=ErrorCode.NONE,
            generation_id=group.generation,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol_name,
            # A leader that cannot be told to skip the assignment must not know that it leads: it would assign.
            leader=(leader_id if self.asker.api_version >= _SKIP_ASSIGNMENT_SINCE else before_id) or "",
            member_id=new.member_id,
            members=[],
        )
        if is_leader and self.asker.api_version >= _SKIP_ASSIGNMENT_SINCE:
            response.skip_assignment = True
            response.members = for_leader(others, group.protocol_name)
        turn.tell(self.ticket, response)
        turn.instead = partial(self._not_taken_over, old, new, response)
        return turn.decision(LATER)

    def _not_taken_over(
        self, old: ClassicMember, new: ClassicMember, response: JoinGroupResponse, error: KafkaError
    ) -> list[Answer]:
        """The old one stays what it was; the new one may try again."""
        self.group.incoming.pop(new.member_id, None)
        self.group.end_session(new)
        self.group.expect_sync_of(old.member_id, instead_of=new.member_id)
        refusal = join_refusal(error.code)
        refusal.generation_id = response.generation_id
        refusal.protocol_type, refusal.protocol_name = response.protocol_type, response.protocol_name
        refusal.leader = self.roster.leader_id or ""
        return [Answer(self.ticket, refusal)]
