"""A group of the classic protocol: its members join, elect a leader, sync with what it assigned, and send heartbeats.

This is the group's face: what clients ask, what its shard asks, and what the log says. How a rebalance goes is in
`classic_rebalance.py`, who may join in `classic_join.py`. The log holds what was settled; see `classic_states.py`.
"""

from collections.abc import Iterable, Mapping

from ottla.core.clock import Moment
from ottla.core.errors import ErrorCode, KafkaError
from ottla.groups.classic_join import Joining
from ottla.groups.classic_member import CONSUMER, ClassicMember, described, new_member_id
from ottla.groups.classic_rebalance import Rebalances
from ottla.groups.classic_states import ClassicState
from ottla.groups.classic_turn import Turn, sync_refusal
from ottla.groups.group import Asker, Surroundings
from ottla.protocol.messages.coordinator_records import GroupMetadataKey, GroupMetadataValue
from ottla.protocol.messages.groups import (
    DescribeGroupsResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from ottla.replication.machine import LATER, Decision, Entry, Ticket

_MANY_LEAVE_SINCE = 3
_PROTOCOL_NAMED_SINCE = 5  # by a SyncGroup


class ClassicGroup:
    """One group. Made empty; fed with `apply_metadata` if the log knows it; `started` when its shard is active."""

    type_name = "Classic"

    def __init__(self, group_id: str, surroundings: Surroundings) -> None:
        self.group_id = group_id
        self._new_id = surroundings.new_id
        self._rebalances = Rebalances(group_id, surroundings)
        self._roster = self._rebalances.roster

    # --- what it is ----------------------------------------------------------------------------------------------

    @property
    def state(self) -> ClassicState:
        return self._rebalances.state

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def protocol_type(self) -> str:
        return self._rebalances.protocol_type or ""

    @property
    def protocol_name(self) -> str | None:
        """The assignor of this generation; None while there is none."""
        return self._rebalances.protocol_name

    @property
    def generation(self) -> int:
        return self._rebalances.generation

    @property
    def leader_id(self) -> str | None:
        return self._roster.leader_id

    @property
    def members(self) -> Mapping[str, ClassicMember]:
        """By id. To look at, not to change."""
        return self._roster.members

    @property
    def is_empty(self) -> bool:
        return self.state is ClassicState.EMPTY

    # --- what members ask ----------------------------------------------------------------------------------------

    def decide_join(
        self, request: JoinGroupRequest, asker: Asker, ticket: Ticket, now: Moment
    ) -> Decision[JoinGroupResponse]:
        """Errors come as responses: they carry the member's id."""
        self.started(now)
        new_id = new_member_id(asker.client_id, request.group_instance_id, self._new_id())
        return Joining(self._rebalances, request, asker, ticket, now).decide(new_id)

    def decide_sync(
        self, request: SyncGroupRequest, asker: Asker, ticket: Ticket, now: Moment
    ) -> Decision[SyncGroupResponse]:
        """The leader brings assignments, the others wait for them."""
        self.started(now)
        member = self._check_sync(request, asker)
        rebalances = self._rebalances
        match self.state:
            case ClassicState.PREPARING_REBALANCE:
                raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS, f"{self.group_id} waits for its members")
            case ClassicState.STABLE:
                rebalances.has_synced(member.member_id)
                return Decision(rebalances.synced(member.assignment))
        turn = Turn(now)
        turn.tell(member.sync_ticket, sync_refusal(ErrorCode.REBALANCE_IN_PROGRESS))
        member.sync_ticket = ticket
        rebalances.has_synced(member.member_id)
        if member.member_id == self.leader_id:
            rebalances.settle(turn, {one.member_id: bytes(one.assignment) for one in request.assignments})
        return turn.decision(LATER)

    def _check_sync(self, request: SyncGroupRequest, asker: Asker) -> ClassicMember:
        rebalances = self._rebalances
        names = (request.protocol_type, request.protocol_name)
        if asker.api_version >= _PROTOCOL_NAMED_SINCE and None in names:
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "a sync must name type and protocol")
        member = self._check_member(request.member_id, request.group_instance_id, request.generation_id)
        for said, settled in zip(names, (rebalances.protocol_type, rebalances.protocol_name), strict=True):
            if said is not None and settled is not None and said != settled:
                raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"it is {settled!r}, not {said!r}")
        return member

    def decide_heartbeat(
        self, request: HeartbeatRequest, asker: Asker, now: Moment
    ) -> Decision[HeartbeatResponse]:
        """It lives; and is told if it must join again."""
        self.started(now)
        member = self._check_member(request.member_id, request.group_instance_id, request.generation_id)
        self._rebalances.beat(member, now)
        is_over = self.state is ClassicState.PREPARING_REBALANCE
        code = ErrorCode.REBALANCE_IN_PROGRESS if is_over else ErrorCode.NONE
        return Decision(HeartbeatResponse(error_code=code))

    def _check_member(self, member_id: str, instance_id: str | None, generation: int) -> ClassicMember:
        """Who is this, and does it live in the same generation?"""
        self._check_alive()
        member = self._roster.check(member_id, instance_id)
        if generation != self.generation:
            raise KafkaError(
                ErrorCode.ILLEGAL_GENERATION, f"{self.group_id} is in {self.generation}, not in {generation}"
            )
        return member

    def _check_alive(self) -> None:
        if self.state is ClassicState.DEAD:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{self.group_id} was removed")

    def decide_leave(
        self, request: LeaveGroupRequest, asker: Asker, now: Moment
    ) -> Decision[LeaveGroupResponse]:
        """Members go by themselves, or an administrator shows them the door: then by their instance id."""
        self.started(now)
        self._check_alive()
        is_single = asker.api_version < _MANY_LEAVE_SINCE
        leaving = [LeaveGroupRequest.Member(member_id=request.member_id)] if is_single else request.members
        turn = Turn(now)
        left = [
            LeaveGroupResponse.Member(
                member_id=one.member_id,
                group_instance_id=one.group_instance_id,
                error_code=self._leave(turn, one.member_id, one.group_instance_id),
            )
            for one in leaving
        ]
        if any(one.error_code == ErrorCode.NONE for one in left) and not self.is_empty:
            self._rebalances.go_on(turn)
        if is_single:
            return turn.decision(LeaveGroupResponse(error_code=left[0].error_code))
        return turn.decision(LeaveGroupResponse(error_code=ErrorCode.NONE, members=left))

    def _leave(self, turn: Turn, member_id: str, instance_id: str | None) -> ErrorCode:
        if not member_id and instance_id is not None:
            member_id = self._roster.id_of(instance_id) or ""
        elif self._rebalances.take_back(member_id):
            return ErrorCode.NONE
        try:
            member = self._roster.check(member_id, instance_id)
        except KafkaError as error:
            return error.code
        self._rebalances.drop(turn, member)
        return ErrorCode.NONE

    # --- what the shard asks -------------------------------------------------------------------------------------

    def check_commit(
        self, member_id: str, epoch: int, instance_id: str | None, asker: Asker, now: Moment, *, is_txn: bool
    ) -> None:
        """Members commit in their generation. Whoever is no member commits while there are none, or in a transaction:
        that was enough before producers named the member (KIP-447)."""
        self._check_alive()
        if epoch < 0 and self.is_empty:
            return
        if epoch >= 0 or member_id or instance_id is not None:
            member = self._check_member(member_id, instance_id, epoch)
            if not is_txn and self.state is not ClassicState.COMPLETING_REBALANCE:
                self._rebalances.beat(member, now)
        elif not is_txn:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"{self.group_id} has members: only they commit")
        if not is_txn and self.state is ClassicState.COMPLETING_REBALANCE:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS, f"{self.group_id} waits for its assignment")

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Anybody may look."""
        self._check_not_removed()

    def check_delete(self) -> None:
        """Only when nobody is in it."""
        self._check_not_removed()
        if not self.is_empty:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP, f"{self.group_id} has {len(self.members)} members")

    def _check_not_removed(self) -> None:
        if self.state is ClassicState.DEAD:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"{self.group_id} was removed")

    def is_subscribed_to(self, topic: str) -> bool:
        """Whoever says it so that we cannot read it, or speaks of something else than topics, may mean this one."""
        return self._roster.subscribes_to(topic)

    def empty_since_ms(self) -> int | None:
        """A group without a protocol type never had members: it only keeps offsets."""
        return self._rebalances.state_since_ms if self.is_empty and self.protocol_type else None

    def tombstones(self) -> list[Entry]:
        return [Entry(GroupMetadataKey(group=self.group_id))]

    def waiting(self) -> Iterable[Ticket]:
        for member in self._roster:
            for ticket in (member.join_ticket, member.sync_ticket):
                if ticket is not None:
                    yield ticket

    def describe(self) -> DescribeGroupsResponse.Group:
        """What members say about themselves is shown when a protocol is settled, and that is in Stable."""
        settled = self.protocol_name if self.state is ClassicState.STABLE else None
        return DescribeGroupsResponse.Group(
            error_code=ErrorCode.NONE,
            group_id=self.group_id,
            group_state=self.state_name,
            protocol_type=self.protocol_type,
            protocol_data=settled or "",
            members=[described(member, settled) for member in self._roster],
        )

    @property
    def is_of_consumers(self) -> bool:
        """Whether it can be turned into a group of the consumer protocol."""
        return self.protocol_type == CONSUMER

    # --- what the log says ---------------------------------------------------------------------------------------

    def apply_metadata(self, value: GroupMetadataValue) -> None:
        """An entry was written, now or before the group was loaded."""
        self._rebalances.apply(value)

    def apply_tombstone(self) -> None:
        """It was removed. Whoever still waits is for the caller to tell, see `waiting`."""
        self._rebalances.stop()
        if self.state is not ClassicState.DEAD:
            self._rebalances.move(ClassicState.DEAD, None)

    def expect(self, members: Iterable[ClassicMember]) -> None:
        """Ahead of the entry that brings them in: members with all their protocols, of which an entry has only one."""
        self._rebalances.incoming.update((member.member_id, member) for member in members)

    def started(self, now: Moment) -> None:
        """Sessions begin. A group above the size that is allowed today rebalances, and takes the first to come; so does
        one without a leader, which came from the consumer protocol and has not joined anew since."""
        rebalances = self._rebalances
        if rebalances.is_started or self.state is ClassicState.DEAD:
            return
        rebalances.is_started = True
        for member in self._roster:
            rebalances.beat(member, now)
        if rebalances.lacks_leader or len(self.members) > rebalances.settings.group_max_size:
            self.decide_rebalance(now)

    def decide_rebalance(self, now: Moment) -> Decision[None]:
        """Have everybody join again, for reasons that are not the members' own."""
        turn = Turn(now)
        if self.state in (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE):
            self._rebalances.prepare(turn)
        return turn.decision(None)
