"""A member of a classic group, without a socket: who it is, what it says next, and what an answer means for it.

A member has an id, which the coordinator gives it, and takes part in generations of its group: every rebalance begins
one. Without a generation it holds nothing; whatever it held then is lost. Nothing here waits: answers lead to a `Next`,
or to an error that waiting would not help.
"""

import enum
from collections.abc import Sequence

from ottla.client.records import GroupMetadata
from ottla.core.errors import ErrorCode, KafkaError
from ottla.protocol.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    SyncGroupRequest,
    SyncGroupResponse,
)

PROTOCOL_TYPE = "consumer"
NO_GENERATION = -1
_REASON_LENGTH_MAX = 255  # as Kafka's own clients cut it
_MEMBERS_SINCE = 3  # LeaveGroup


class Step(enum.Enum):
    """How far a member is."""

    OUT = "out"
    JOINING = "joining"
    """JoinGroup is under way: the group waits for us, or we for the group. No heartbeats."""
    SYNCING = "syncing"
    """In a new generation, and waiting for what we are to read."""
    STABLE = "stable"


class Next(enum.Enum):
    """What to do after an answer."""

    GO_ON = "go on"
    AT_ONCE = "ask again at once"
    AGAIN = "ask again after a pause"
    ELSEWHERE = "ask again, and ask first who coordinates"
    PREPARE = "begin anew: what we held may be gone"


_JOIN_AGAIN = {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.REBALANCE_IN_PROGRESS}
_ELSEWHERE = {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE}
_FORGOTTEN = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION}


class ClassicMember:
    """One consumer in one group."""

    def __init__(
        self, group_id: str, instance_id: str | None, session_timeout_ms: int, rebalance_timeout_ms: int
    ) -> None:
        self.group_id, self.instance_id = group_id, instance_id
        self._session_timeout_ms, self._rebalance_timeout_ms = session_timeout_ms, rebalance_timeout_ms
        self.step = Step.OUT
        self.member_id = ""
        self.generation_id = NO_GENERATION
        self.protocol_name: str | None = None
        self.is_leader = False
        self.rejoin_reason: str | None = None
        """Why to join again, if there is a reason."""
        self._joins_because: str | None = None

    @property
    def is_in(self) -> bool:
        """Whether what it holds is its own."""
        return self.generation_id != NO_GENERATION

    @property
    def beats(self) -> bool:
        return self.step in (Step.SYNCING, Step.STABLE)

    @property
    def needs_join(self) -> bool:
        return self.step is Step.OUT or (self.step is Step.STABLE and self.rejoin_reason is not None)

    @property
    def metadata(self) -> GroupMetadata:
        return GroupMetadata(self.group_id, self.generation_id, self.member_id, self.instance_id)

    def rejoin(self, reason: str) -> None:
        """Join again when there is time."""
        if self.rejoin_reason is None:
            self.rejoin_reason = reason

    def forget(self, *, keeps_id: bool = False) -> None:
        """Be nobody: what was held is lost."""
        self.step, self.generation_id, self.is_leader = Step.OUT, NO_GENERATION, False
        if not keeps_id:
            self.member_id = ""

    def stop(self) -> None:
        """Something else failed while it joined. It is as it was before, and must join again."""
        self.step = Step.OUT

    # --- joining --------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """The partitions that had to be given up are: join."""
        self.step, self.is_leader = Step.JOINING, False
        self._joins_because, self.rejoin_reason = self.rejoin_reason, None

    def join_request(self, protocols: Sequence[JoinGroupRequest.Protocol]) -> JoinGroupRequest:
        self.step = Step.JOINING
        reason = self._joins_because
        return JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=self._session_timeout_ms,
            rebalance_timeout_ms=self._rebalance_timeout_ms,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=list(protocols),
            reason=None if reason is None else reason[:_REASON_LENGTH_MAX],
        )

    def joined(self, answer: JoinGroupResponse, voted_for: Sequence[str]) -> Next:
        """An answer to JoinGroup. Raises what waiting does not help."""
        code = answer.error_code
        if code == ErrorCode.NONE:
            return self._enter(answer, voted_for)
        if code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            self._joins_because = self._joins_because or "the coordinator has given this member an id"
            return Next.AT_ONCE
        if code in _FORGOTTEN:
            return self._begin_anew(code, "JoinGroup")
        if code in _JOIN_AGAIN:
            return Next.AGAIN
        if code in _ELSEWHERE:
            return Next.ELSEWHERE
        raise self._refused(code, "JoinGroup")

    def _enter(self, answer: JoinGroupResponse, voted_for: Sequence[str]) -> Next:
        is_ours = answer.protocol_type in (None, PROTOCOL_TYPE) and answer.protocol_name in voted_for
        if not is_ours:
            chosen = f"{answer.protocol_type or PROTOCOL_TYPE}/{answer.protocol_name}"
            self.forget()
            raise KafkaError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"the group {self.group_id} uses {chosen}, for which this member did not vote",
            )
        self.member_id, self.generation_id = answer.member_id, answer.generation_id
        self.protocol_name = answer.protocol_name
        self.is_leader = answer.leader == answer.member_id
        self.step = Step.SYNCING
        return Next.GO_ON

    def sync_request(self, assignments: Sequence[SyncGroupRequest.Assignment] = ()) -> SyncGroupRequest:
        return SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=self.protocol_name,
            assignments=list(assignments),
        )

    def synced(self, request: SyncGroupRequest, answer: SyncGroupResponse) -> Next:
        """An answer to SyncGroup. Raises what waiting does not help."""
        if self.step is not Step.SYNCING or request.generation_id != self.generation_id:
            return Next.PREPARE  # a heartbeat was faster, and said that we are out
        code = answer.error_code
        if code == ErrorCode.NONE:
            if answer.protocol_name not in (None, self.protocol_name):
                raise self._refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "SyncGroup")
            self.step = Step.STABLE
            return Next.GO_ON
        if code in _FORGOTTEN:
            return self._begin_anew(code, "SyncGroup")
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            self._joins_because = "the group began another rebalance before this member had its partitions"
            return Next.AT_ONCE
        if code in _ELSEWHERE:
            return Next.ELSEWHERE
        if code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return Next.AGAIN
        raise self._refused(code, "SyncGroup")

    def _begin_anew(self, code: int, api: str) -> Next:
        self.forget(keeps_id=code == ErrorCode.ILLEGAL_GENERATION)
        self.rejoin(f"{api} was answered with {ErrorCode(code).name}")
        return Next.PREPARE

    def _refused(self, code: int, api: str) -> KafkaError:
        """A final answer. The member is out, or was never in."""
        self.forget(keeps_id=code not in (ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNKNOWN_MEMBER_ID))
        who = "" if self.instance_id is None else f" as {self.instance_id}"
        return KafkaError.of(code, f"{api} in the group {self.group_id}{who}")

    # --- staying --------------------------------------------------------------------------------------------------

    def heartbeat_request(self) -> HeartbeatRequest:
        return HeartbeatRequest(
            group_id=self.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )

    def beaten(self, request: HeartbeatRequest, code: int) -> Next:
        """An answer to Heartbeat. Raises what waiting does not help."""
        is_about_us = (request.generation_id, request.member_id) == (self.generation_id, self.member_id)
        if code == ErrorCode.NONE or not is_about_us or not self.beats:
            return Next.GO_ON  # also what concerns somebody that we are no more
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            if self.step is Step.STABLE:
                self.rejoin("the group rebalances")
            return Next.GO_ON
        if code in _FORGOTTEN:
            self.forget(keeps_id=code == ErrorCode.ILLEGAL_GENERATION)
            self.rejoin(f"a heartbeat was answered with {ErrorCode(code).name}")
            return Next.PREPARE
        if code in _ELSEWHERE:
            return Next.ELSEWHERE
        if code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return Next.AGAIN
        if code == ErrorCode.FENCED_INSTANCE_ID:
            raise self._refused(code, "Heartbeat")
        raise KafkaError.of(code, f"Heartbeat in the group {self.group_id}")

    # --- leaving --------------------------------------------------------------------------------------------------

    @property
    def says_goodbye(self) -> bool:
        """Not if nobody knows us, and not if we mean to come back."""
        return self.instance_id is None and bool(self.member_id)

    def leave_request(self, version: int, reason: str) -> LeaveGroupRequest:
        if version < _MEMBERS_SINCE:
            return LeaveGroupRequest(group_id=self.group_id, member_id=self.member_id)
        member = LeaveGroupRequest.Member(member_id=self.member_id, reason=reason[:_REASON_LENGTH_MAX])
        return LeaveGroupRequest(group_id=self.group_id, members=[member])
