"""The rebalances of a classic group: from the first join to the assignment that its leader hands in.

A rebalance has two phases. In the join phase members come in and wait, until all are there or the time is up; then a
generation begins, and everybody is told so at once. In the sync phase they wait for the leader's assignment, and when
it is written everybody gets its own. Who does not come in time is dropped, and the group rebalances without it.

What the log holds (`apply`) is the outcome: generation, protocol, leader, members with assignments. All else is in
memory. Nobody who waits is forgotten: a ticket that leaves its member leaves it with an answer.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from ottla.core.clock import Moment
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.timers import Timer
from ottla.groups.classic_member import ClassicMember, for_leader, from_record, to_record
from ottla.groups.classic_roster import Roster, elected_protocol
from ottla.groups.classic_states import ClassicState, can_move
from ottla.groups.classic_turn import Turn, join_refusal, sync_refusal
from ottla.groups.group import Surroundings
from ottla.protocol.messages.coordinator_records import GroupMetadataKey, GroupMetadataValue
from ottla.protocol.messages.groups import JoinGroupResponse, SyncGroupResponse
from ottla.replication.machine import Alarm, Answer, Decision, Entry, Ticket

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * 60 * 1000
"""A new member has no session yet. If its client gave up and joined anew, this is how long its ghost stays."""

LOOK_AGAIN_MS: Final = 1_000
"""A group whose members have no patience at all must not keep the broker busy with looking whether they came."""

GENERATION_MAX: Final = (1 << 31) - 1


class Rebalances:
    """The state of one group, and what moves it."""

    def __init__(self, group_id: str, surroundings: Surroundings) -> None:
        self.group_id = group_id
        self.settings = surroundings.settings
        self.timers = surroundings.timers
        self.roster = Roster()
        self.state = ClassicState.EMPTY
        self.state_since_ms: int | None = None
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.lacks_leader = False
        """Does the log know members, but none that leads?"""
        self.is_started = False
        self.incoming: dict[str, ClassicMember] = {}
        """Members with all they brought along, on their way through the log."""
        self._is_initial = False
        """The rebalance under way began with an empty group: it waits for others also when all have joined."""
        self._came_in_meantime = False
        self._unsynced: set[str] = set()
        self._join_timer: Timer[Alarm] | None = None
        self._sync_timer: Timer[Alarm] | None = None

    def move(self, state: ClassicState, wall_ms: int | None) -> None:
        """Only as the table allows."""
        assert can_move(self.state, state), f"{self.group_id} cannot go from {self.state} to {state}"
        self._is_initial = self.state is ClassicState.EMPTY
        self.state, self.state_since_ms = state, wall_ms

    # --- what the log holds --------------------------------------------------------------------------------------

    def record(self, turn: Turn, value: GroupMetadataValue) -> None:
        """Have this written."""
        turn.entries.append(Entry(GroupMetadataKey(group=self.group_id), value))

    def outcome(
        self,
        members: Sequence[ClassicMember],
        leader_id: str | None,
        since_ms: int | None,
        assignments: Mapping[str, bytes] | None = None,
    ) -> GroupMetadataValue:
        """The group with these members; with the assignments that they have, or with new ones."""
        name = self.protocol_name or ""
        return GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol_name,
            leader=leader_id,
            current_state_timestamp=-1 if since_ms is None else since_ms,
            members=[
                to_record(
                    member,
                    name,
                    member.assignment if assignments is None else assignments.get(member.member_id, b""),
                )
                for member in members
            ],
        )

    def apply(self, value: GroupMetadataValue) -> None:
        """Exactly what was written. Once the group is started, members keep what only memory has of them."""
        self.generation = max(value.generation, 0)
        self.protocol_name = value.protocol or "" if value.members else None
        self.protocol_type = value.protocol_type or None
        members = []
        for record in value.members:
            member = self.incoming.pop(record.member_id, None)
            if member is None and self.is_started:
                member = self.roster.members.get(record.member_id)
            if member is None:
                member = from_record(value, record)
            member.assignment = bytes(record.assignment)
            members.append(member)
        self.lacks_leader = bool(members) and value.leader is None
        for gone in self.roster.settle(members, value.leader):
            self.end_session(gone)
        since_ms = value.current_state_timestamp if value.current_state_timestamp >= 0 else None
        after = ClassicState.STABLE if members else ClassicState.EMPTY
        if self.is_started and self.state is not after:
            self.move(after, since_ms)
        else:
            self.state, self.state_since_ms = after, since_ms
        self._expect_syncs(self._unsynced & set(self.roster.members))

    # --- the join phase ------------------------------------------------------------------------------------------

    def go_on(self, turn: Turn) -> None:
        """Something changed: begin a rebalance, or end its join phase if this was what it waited for."""
        if can_move(self.state, ClassicState.PREPARING_REBALANCE):
            self.prepare(turn)
        elif not self._is_initial:
            self.complete_if_joined(turn)

    def prepare(self, turn: Turn) -> None:
        """Everybody must join again; who waits for an assignment learns it from the answer."""
        if self.state is ClassicState.COMPLETING_REBALANCE:
            self.fail_syncs(turn, ErrorCode.REBALANCE_IN_PROGRESS)
        self._expect_syncs(set())
        self.move(ClassicState.PREPARING_REBALANCE, turn.now.wall_ms)
        if self._is_initial:
            delay_ms = self.settings.group_initial_rebalance_delay_ms
            remaining_ms = max(self.roster.rebalance_timeout_ms - delay_ms, 0)
            self._came_in_meantime = False
            self._join_in(delay_ms, partial(self._initial_delay_over, delay_ms, remaining_ms), turn.now)
        elif self.roster.has_all_joined:
            self._complete(turn)
        else:
            self._join_in(self.roster.rebalance_timeout_ms, self._join_time_over, turn.now)

    def complete_if_joined(self, turn: Turn) -> None:
        """End the join phase if nobody is missing."""
        if self.state is ClassicState.PREPARING_REBALANCE and self.roster.has_all_joined:
            self._complete(turn)

    def came(self) -> None:
        """A new member came: an initial delay under way may be extended."""
        self._came_in_meantime = self.state is ClassicState.PREPARING_REBALANCE and self._is_initial

    def _initial_delay_over(self, delay_ms: int, remaining_ms: int, now: Moment) -> Decision[None]:
        turn = Turn(now)
        if self._came_in_meantime and remaining_ms:
            self._came_in_meantime = False
            next_ms = min(self.settings.group_initial_rebalance_delay_ms, remaining_ms)
            rest_ms = max(remaining_ms - delay_ms, 0)
            self._join_in(next_ms, partial(self._initial_delay_over, next_ms, rest_ms), now)
        else:
            self._complete(turn)
        return turn.decision(None)

    def _join_time_over(self, now: Moment) -> Decision[None]:
        turn = Turn(now)
        self._complete(turn)
        return turn.decision(None)

    def _complete(self, turn: Turn) -> None:
        """The join phase is over. Members who did not come are dropped, except static ones: they have their session."""
        self._stop_join_timer()
        for member in [one for one in self.roster if one.join_ticket is None and not one.is_static]:
            self.drop(turn, member)
        if not self.roster.members:
            self._become_empty(turn)
        elif self.roster.elect():
            self._begin_generation(turn)
        else:  # static members alone, and none has come: until their sessions end there may be hope
            delay_ms = max(self.roster.rebalance_timeout_ms, LOOK_AGAIN_MS)
            self._join_in(delay_ms, self._join_time_over, turn.now)

    def _begin_generation(self, turn: Turn) -> None:
        self.generation = self.generation % GENERATION_MAX + 1
        self.protocol_name = elected_protocol(self.roster.members.values())
        self.move(ClassicState.COMPLETING_REBALANCE, turn.now.wall_ms)
        for member in self.roster:
            turn.tell(self.roster.release_join(member), self.joined(member))
            member.is_new = False
            self.beat(member, turn.now)
        self._expect_syncs(set(self.roster.members))
        due_ms = turn.now.monotonic_ms + self.roster.rebalance_timeout_ms
        self._sync_timer = self.timers.add(due_ms, self._sync_time_over)

    def _become_empty(self, turn: Turn) -> None:
        self.generation = self.generation % GENERATION_MAX + 1
        self.protocol_name = None
        value = self.outcome([], None, turn.now.wall_ms)
        self.record(turn, value)

        def in_memory(_: KafkaError) -> Sequence[Answer]:
            # A restart would bring back the generation before, whose members are gone: their sessions end.
            self.apply(value)
            return turn.answers

        turn.instead = in_memory

    def joined(self, member: ClassicMember) -> JoinGroupResponse:
        """The generation under way, for one of its members."""
        is_leader = member.member_id == self.roster.leader_id
        return JoinGroupResponse(
            error_code=ErrorCode.NONE,
            generation_id=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader=self.roster.leader_id or "",
            member_id=member.member_id,
            members=for_leader(self.roster, self.protocol_name) if is_leader else [],
        )

    # --- the sync phase ------------------------------------------------------------------------------------------

    def settle(self, turn: Turn, assignments: Mapping[str, bytes]) -> None:
        """The leader has spoken: have it written, and give everybody who waits its part."""
        turn.instead = partial(self._assignment_refused, turn.now, self._waiting_for_sync())
        leader_id = self.roster.leader_id
        members = list(self.roster)
        self.record(turn, self.outcome(members, leader_id, turn.now.wall_ms, assignments))
        for member, ticket in self._waiting_for_sync():
            member.sync_ticket = None
            turn.tell(ticket, self.synced(assignments.get(member.member_id, b"")))
            self.beat(member, turn.now)

    def _assignment_refused(
        self, now: Moment, waiting: Sequence[tuple[ClassicMember, Ticket]], error: KafkaError
    ) -> Sequence[Answer]:
        turn = Turn(now)
        for member, ticket in waiting:
            member.sync_ticket = ticket
        self.fail_syncs(turn, error.code)
        self.prepare(turn)
        assert not turn.entries, "there are members, and none has joined again"
        return turn.answers

    def _waiting_for_sync(self) -> list[tuple[ClassicMember, Ticket]]:
        return [(member, member.sync_ticket) for member in self.roster if member.sync_ticket is not None]

    def synced(self, assignment: bytes) -> SyncGroupResponse:
        """A member's part."""
        return SyncGroupResponse(
            error_code=ErrorCode.NONE,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            assignment=assignment,
        )

    def has_synced(self, member_id: str) -> None:
        """One less to wait for."""
        self._unsynced.discard(member_id)
        self._expect_syncs(self._unsynced)

    def expect_sync_of(self, member_id: str, *, instead_of: str) -> None:
        """A static member has a new id: what was expected of the old one is expected of it."""
        if instead_of in self._unsynced:
            self._unsynced = self._unsynced - {instead_of} | {member_id}

    def fail_syncs(self, turn: Turn, code: ErrorCode) -> None:
        """Whoever waits for an assignment of this generation gets none."""
        for member, ticket in self._waiting_for_sync():
            member.sync_ticket = None
            turn.tell(ticket, sync_refusal(code))
            self.beat(member, turn.now)
        for member in self.roster:
            member.assignment = b""

    def _expect_syncs(self, member_ids: set[str]) -> None:
        self._unsynced = member_ids
        if not member_ids and self._sync_timer is not None:
            self.timers.cancel(self._sync_timer)
            self._sync_timer = None

    def _sync_time_over(self, now: Moment) -> Decision[None]:
        turn = Turn(now)
        for member_id in sorted(self._unsynced & set(self.roster.members)):
            self.drop(turn, self.roster.members[member_id])
        self.prepare(turn)
        return turn.decision(None)

    # --- sessions ------------------------------------------------------------------------------------------------

    def beat(self, member: ClassicMember, now: Moment, within_ms: int | None = None) -> None:
        """A sign of life: the next one is due within the session timeout."""
        due_ms = now.monotonic_ms + (member.session_timeout_ms if within_ms is None else within_ms)
        if member.session is None:
            member.session = self.timers.add(due_ms, partial(self._session_over, member.member_id))
        else:
            self.timers.reschedule(member.session, due_ms)

    def give_out(self, member_id: str, within_ms: int, now: Moment) -> None:
        """A new member was told its id. A rebalance waits for it to come back."""
        due_ms = now.monotonic_ms + within_ms
        self.roster.pending[member_id] = self.timers.add(due_ms, partial(self._never_came, member_id))

    def take_back(self, member_id: str) -> bool:
        """It came back, or it will not. False if no such id is out."""
        timer = self.roster.pending.pop(member_id, None)
        if timer is not None:
            self.timers.cancel(timer)
        return timer is not None

    def _never_came(self, member_id: str, now: Moment) -> Decision[None]:
        turn = Turn(now)
        if self.take_back(member_id):
            self.complete_if_joined(turn)
        return turn.decision(None)

    def end_session(self, member: ClassicMember) -> None:
        if member.session is not None:
            self.timers.cancel(member.session)

    def _session_over(self, member_id: str, now: Moment) -> Decision[None]:
        turn = Turn(now)
        member = self.roster.members.get(member_id)
        if member is not None and (member.is_new or not member.waits):
            self.drop(turn, member)
            self.lost(turn)
        return turn.decision(None)

    def lost(self, turn: Turn) -> None:
        """A member is gone for good, or one that was expected will not come."""
        if self.state in (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE):
            self.prepare(turn)
        else:
            self.complete_if_joined(turn)

    def drop(self, turn: Turn, member: ClassicMember) -> None:
        """Out of the group. If it still waits, its client learns that it must come as a new member."""
        turn.tell(member.join_ticket, join_refusal(ErrorCode.UNKNOWN_MEMBER_ID, "", member.join_version))
        turn.tell(member.sync_ticket, sync_refusal(ErrorCode.UNKNOWN_MEMBER_ID))
        self.roster.remove(member.member_id)
        self.end_session(member)
        self.has_synced(member.member_id)

    # --- timers --------------------------------------------------------------------------------------------------

    def _join_in(self, delay_ms: int, alarm: Alarm, now: Moment) -> None:
        self._stop_join_timer()
        self._join_timer = self.timers.add(now.monotonic_ms + delay_ms, alarm)

    def _stop_join_timer(self) -> None:
        if self._join_timer is not None:
            self.timers.cancel(self._join_timer)
            self._join_timer = None

    def stop(self) -> None:
        """No timer of this group fires any more."""
        self._stop_join_timer()
        self._expect_syncs(set())
        for member_id in list(self.roster.pending):
            self.take_back(member_id)
        for member in self.roster:
            self.end_session(member)
