"""A group of the consumer protocol (KIP-848): the coordinator assigns, and members follow at their own pace.

Members send one request, the heartbeat. It may change what the group reads, which starts an epoch; the epoch gets
targets; and each member moves to its target by its own heartbeats. A partition has one owner at a time.

    Empty        no members
    Assigning    an epoch without targets: the next heartbeat computes them
    Reconciling  some member is not where it should be
    Stable       all are
    Dead         erased

What the log holds is in `state`; timers, and whether topics must be looked at again, live in memory.

When the last member of the new protocol goes and classic ones stay, the group ends, and `successor` is the classic
group that takes its place: the shard puts it there when the tombstone of the ConsumerGroupMetadata record is applied.
"""

import functools
from collections.abc import Collection, Iterable, Sequence
from typing import NoReturn, TypeVar

from ottla.core.clock import Moment
from ottla.core.errors import ErrorCode, KafkaError
from ottla.groups import consumer_classic
from ottla.groups.classic import ClassicGroup
from ottla.groups.consumer_clocks import Clock, Clocks
from ottla.groups.consumer_downgrade import may_downgrade, to_classic
from ottla.groups.consumer_member import LEAVES_FOR_A_WHILE, NOTHING, Member, MemberState, Partitions
from ottla.groups.consumer_reconcile import check_epoch
from ottla.groups.consumer_records import current_entry, no_group_entries
from ottla.groups.consumer_requests import (
    check_heartbeat,
    described,
    farewell,
    heartbeat_reply,
    leaves,
    owned_by,
    taken_in,
)
from ottla.groups.consumer_state import ConsumerState
from ottla.groups.consumer_step import Step
from ottla.groups.consumer_target import preferred_assignor
from ottla.groups.group import Asker, Surroundings
from ottla.protocol.messages.consumer_groups import (
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
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
from ottla.replication.machine import Decision, Entry, Ticket

R = TypeVar("R")

_COMMITS_WITH_EPOCHS_SINCE = 9  # the version of OffsetCommit that knows members' epochs
_NO_GENERATION = -1


class ConsumerGroup:
    """One group. `decide_*` decide, `apply` takes in what was written."""

    type_name = "Consumer"
    protocol_type = "consumer"

    def __init__(self, group_id: str, surroundings: Surroundings) -> None:
        self.group_id = group_id
        self.state = ConsumerState()
        self.around = surroundings
        self.clocks = Clocks(surroundings.timers)
        self.looks_again = True
        """Whether topics may have changed since the group last looked at them. Nobody knows after a restart."""
        self.successor: ClassicGroup | None = None
        self._emptied_ms: int | None = None

    # --- what a group is to its shard ---------------------------------------------------------------------------

    @property
    def state_name(self) -> str:
        state = self.state
        if state.is_erased:
            return "Dead"
        if not state.members:
            return "Empty"
        if state.epoch > state.assignment_epoch:
            return "Assigning"
        if all(member.is_reconciled_to(state.assignment_epoch) for member in state.members.values()):
            return "Stable"
        return "Reconciling"

    @property
    def is_empty(self) -> bool:
        return not self.state.members

    def check_commit(
        self, member_id: str, epoch: int, instance_id: str | None, asker: Asker, now: Moment, *, is_txn: bool
    ) -> None:
        """Raises UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH (ILLEGAL_GENERATION for classic members)."""
        if epoch < 0 and self.is_empty:
            return
        if is_txn and epoch == _NO_GENERATION and not member_id and instance_id is None:
            return  # a producer need not say whose offsets it commits
        member = self.member(member_id)
        if not is_txn and member.classic is None and asker.api_version < _COMMITS_WITH_EPOCHS_SINCE:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"members of the consumer protocol commit with version {_COMMITS_WITH_EPOCHS_SINCE} or newer",
            )
        _check_generation(member, epoch)

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        if not member_id and epoch < 0:
            return
        _check_generation(self.member(member_id or ""), epoch)

    def check_delete(self) -> None:
        if self.state.is_erased:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {self.group_id} not found.")
        if not self.is_empty:
            count = len(self.state.members)
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP, f"{self.group_id!r} has {count} members")

    def is_subscribed_to(self, topic: str) -> bool:
        return self.state.subscribes_to(topic)

    def empty_since_ms(self) -> int | None:
        """The log does not say; after a restart it counts from there, which is late and never early."""
        return self._emptied_ms if self.is_empty else None

    def tombstones(self) -> list[Entry]:
        return no_group_entries(self.group_id, self.state.members, self.state.regexes)

    def waiting(self) -> Iterable[Ticket]:
        """Nobody ever waits: whoever must come back is told so at once."""
        return ()

    def apply(self, entry: Entry) -> None:
        """One of the group's records was written."""
        self.state.apply(entry)
        if entry.value is None:
            member_id = getattr(entry.key, "member_id", None)
            if member_id is not None and member_id not in self.state.members:
                self.clocks.stop_all(member_id)
            if self.state.is_erased:
                self.clocks.stop_everything()

    def activate(self, now: Moment) -> None:
        """Everything was applied: the clocks start. Members get a whole session and a whole rebalance timeout anew."""
        self.looks_again = True
        if self.is_empty and self.state.epoch > 0:
            self._emptied_ms = now.wall_ms
        for member in self.state.members.values():
            self.keep_session(member, now)
            self._watch_revocation(member, now)

    def topics_changed(self, names: Collection[str], now: Moment | None = None) -> None:
        """Topics came, went or grew: the next heartbeat looks at them if they may concern the group."""
        if self.state.regexes or any(map(self.state.subscribes_to, names)):
            self.looks_again = True

    def describe(self) -> ConsumerGroupDescribeResponse.Group:
        names = self.around.settings.group_consumer_assignors
        assignor = preferred_assignor(self.state.members.values(), names)
        return described(self.group_id, self.state_name, self.state, assignor, self.around.topics)

    # --- members of the consumer protocol -----------------------------------------------------------------------

    def decide_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, asker: Asker, now: Moment
    ) -> Decision[ConsumerGroupHeartbeatResponse]:
        """Join, stay, change the subscription, report what was revoked, leave."""
        check_heartbeat(request, asker.api_version, self.around.settings.group_consumer_assignors)
        if leaves(request):
            return self._decide_leave(request, now)
        step = self.step(now)
        before = self._who(request, step)
        after = self.advance(step, before, taken_in(before, request, asker), owned_by(request), now)
        self.keep_session(after, now)
        interval_ms = self.around.settings_of(self.group_id).consumer_heartbeat_interval_ms
        return self.decided(heartbeat_reply(request, before, after, interval_ms), step.entries, now)

    def _who(self, request: ConsumerGroupHeartbeatRequest, step: Step) -> Member:
        """The member as it is before the request: found, made, or put in another's place. Raises if it is fenced."""
        joins, member_id = request.member_epoch == 0, request.member_id
        holder = None if request.instance_id is None else self.state.static_member(request.instance_id)
        if joins and holder is not None:
            return self._returning(holder, request, step)
        known = self.state.members.get(member_id)
        if joins and known is None:
            self.check_room()
            return Member(member_id or str(self.around.new_id()))
        if request.instance_id is None or joins:
            member = self.member(member_id)
        else:
            member = self.static_member(request.instance_id, member_id)
        check_epoch(member, request.member_epoch, owned_by(request))
        return member

    def _returning(self, holder: Member, request: ConsumerGroupHeartbeatRequest, step: Step) -> Member:
        """Somebody joins under an instance id that is taken: its holder must have left for a while, or be classic."""
        if holder.classic is None and not holder.has_left_for_a_while:
            raise KafkaError(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"the instance id {request.instance_id!r} is held by {holder.id!r}, which has not left",
            )
        return step.replace(holder, request.member_id or str(self.around.new_id()))

    def _decide_leave(
        self, request: ConsumerGroupHeartbeatRequest, now: Moment
    ) -> Decision[ConsumerGroupHeartbeatResponse]:
        if request.instance_id is None:
            member = self.member(request.member_id)
        else:
            member = self.static_member(request.instance_id, request.member_id)
        reply = farewell(member.id, request.member_epoch)
        if request.member_epoch != LEAVES_FOR_A_WHILE:
            return self.decided(reply, self.expel(member.id, now), now)
        # It keeps what it has for whoever comes back, and it works on nothing: so nothing is left to be revoked.
        away = member._replace(epoch=LEAVES_FOR_A_WHILE, state=MemberState.STABLE, to_revoke=NOTHING)
        self.clocks.stop(Clock.REVOCATION, member.id)
        return self.decided(reply, [current_entry(self.group_id, away)], now)

    # --- members of the classic protocol ------------------------------------------------------------------------

    def decide_join(
        self, request: JoinGroupRequest, asker: Asker, ticket: Ticket, now: Moment
    ) -> Decision[JoinGroupResponse]:
        """The reply comes at once: nobody waits for others in this protocol."""
        return consumer_classic.decide_join(self, request, asker, now)

    def decide_sync(
        self, request: SyncGroupRequest, asker: Asker, ticket: Ticket, now: Moment
    ) -> Decision[SyncGroupResponse]:
        return consumer_classic.decide_sync(self, request, now)

    def decide_classic_heartbeat(
        self, request: HeartbeatRequest, asker: Asker, now: Moment
    ) -> Decision[HeartbeatResponse]:
        return consumer_classic.decide_heartbeat(self, request, now)

    def decide_leave(
        self, request: LeaveGroupRequest, asker: Asker, now: Moment
    ) -> Decision[LeaveGroupResponse]:
        return consumer_classic.decide_leave(self, request, asker, now)

    # --- for both -----------------------------------------------------------------------------------------------

    def member(self, member_id: str) -> Member:
        """Raises UNKNOWN_MEMBER_ID."""
        member = self.state.members.get(member_id)
        if member is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id!r} is not a member of {self.group_id!r}"
            )
        return member

    def static_member(self, instance_id: str, member_id: str) -> Member:
        """Raises UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID when another holds the instance id."""
        member = self.state.static_member(instance_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"nobody has the instance id {instance_id!r}")
        if member.id != member_id:
            raise KafkaError(
                ErrorCode.FENCED_INSTANCE_ID, f"{instance_id!r} is {member.id!r} now, not {member_id!r}"
            )
        return member

    def check_room(self) -> None:
        """Raises GROUP_MAX_SIZE_REACHED when there is none for one more."""
        count_max = self.around.settings.group_consumer_max_size
        if len(self.state.members) >= count_max:
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED, f"{self.group_id!r} may have {count_max} members"
            )

    def step(self, now: Moment) -> Step:
        return Step(self.group_id, self.state, self.around, now)

    def advance(
        self, step: Step, before: Member, member: Member, owned: Partitions | None, now: Moment
    ) -> Member:
        """Take the step, and watch the member if it has something to give back."""
        after = step.advance(before, member, owned, looks_again=self.looks_again)
        self.looks_again = False
        if after != member:
            self._watch_revocation(after, now)
        return after

    def expel(self, member_id: str, now: Moment) -> Sequence[Entry]:
        """What it takes to go on without this member; the group may go on as a classic one."""
        if may_downgrade(self.state, self.around.settings, member_id):
            self.successor, entries = to_classic(
                self.group_id, self.state, self.around, now, leaving_id=member_id
            )
            return entries
        return self.remove([member_id], now)

    def remove(self, member_ids: list[str], now: Moment) -> Sequence[Entry]:
        step = self.step(now)
        step.remove(member_ids)
        if len(self.state.members) == len(member_ids):
            self._emptied_ms = now.wall_ms
        return step.entries

    def decided(self, reply: R, entries: Sequence[Entry], now: Moment) -> Decision[R]:
        """If the entries cannot be written, nothing has happened: memory goes back to what the log says."""

        def put_back(error: KafkaError) -> NoReturn:
            self._put_back(now)
            raise error

        return Decision(reply, entries, if_refused=put_back if entries else None)

    def _put_back(self, now: Moment) -> None:
        self.successor = None
        self.clocks.stop_everything()
        self.activate(now)

    # --- clocks -------------------------------------------------------------------------------------------------

    def keep_session(self, member: Member, now: Moment) -> None:
        """A sign of life: the member has its session timeout from now on."""
        if member.classic is not None:
            timeout_ms = member.classic.session_timeout_ms
        else:
            timeout_ms = self.around.settings_of(self.group_id).consumer_session_timeout_ms
        self.start_clock(Clock.SESSION, member.id, timeout_ms, now)

    def start_clock(self, kind: Clock, member_id: str, timeout_ms: int, now: Moment) -> None:
        """When it rings, the member is expelled."""
        alarm = functools.partial(self._expel_if_there, member_id)
        self.clocks.start(kind, member_id, now.monotonic_ms + timeout_ms, alarm)

    def start_clock_once(self, kind: Clock, member_id: str, timeout_ms: int, now: Moment) -> None:
        alarm = functools.partial(self._expel_if_there, member_id)
        self.clocks.start_if_stopped(kind, member_id, now.monotonic_ms + timeout_ms, alarm)

    def _watch_revocation(self, member: Member, now: Moment) -> None:
        """Classic members have clocks for joining and syncing instead."""
        if member.classic is None and member.state is MemberState.UNREVOKED_PARTITIONS:
            alarm = functools.partial(self._expel_if_in_epoch, member.id, member.epoch)
            deadline_ms = now.monotonic_ms + max(member.rebalance_timeout_ms, 0)
            self.clocks.start(Clock.REVOCATION, member.id, deadline_ms, alarm)
        else:
            self.clocks.stop(Clock.REVOCATION, member.id)

    def _expel_if_there(self, member_id: str, now: Moment) -> Decision[None]:
        return self._rung(self.expel(member_id, now) if member_id in self.state.members else (), now)

    def _expel_if_in_epoch(self, member_id: str, epoch: int, now: Moment) -> Decision[None]:
        """It had its rebalance timeout to give back what it was told to, and it is still where it was."""
        member = self.state.members.get(member_id)
        is_stuck = member is not None and member.epoch == epoch
        return self._rung(self.expel(member_id, now) if is_stuck else (), now)

    def _rung(self, entries: Sequence[Entry], now: Moment) -> Decision[None]:
        """If the entries cannot be written, the clocks run once more."""

        def try_later(error: KafkaError) -> Decision[None]:
            self._put_back(now)
            return Decision(None)

        return Decision(None, entries, if_refused=try_later if entries else None)


def _check_generation(member: Member, epoch: int) -> None:
    if epoch != member.epoch:
        code = ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION
        raise KafkaError(code, f"member {member.id!r} is in epoch {member.epoch}, not {epoch}")
