"""A decision of a classic group in the making: who is told what, what is written, and what if that is refused."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from ottla.core.clock import Moment
from ottla.core.errors import ErrorCode, KafkaError
from ottla.protocol.messages.groups import JoinGroupResponse, SyncGroupResponse
from ottla.replication.machine import Answer, Decision, Entry, Later, Ticket

R = TypeVar("R")

_NULL_PROTOCOL_SINCE = 7

_REFUSED_AS: Final[Mapping[ErrorCode, ErrorCode]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""Members know nothing of the log: what it says about an append, in their words."""


def refused_as(error: KafkaError) -> ErrorCode:
    """What a member is told when the entry of its group could not be appended."""
    return _REFUSED_AS.get(error.code, error.code)


@dataclass(slots=True)
class Turn:
    """A decision in the making."""

    now: Moment
    answers: list[Answer] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    instead: Callable[[KafkaError], Sequence[Answer]] | None = None
    """Puts memory right when the entries are refused; who is told what in that case."""

    def tell(self, ticket: Ticket | None, reply: JoinGroupResponse | SyncGroupResponse) -> None:
        """Answer somebody, if anybody waits."""
        if ticket is not None:
            self.answers.append(Answer(ticket, reply))

    def decision(self, reply: R | Later) -> Decision[R]:
        """All of it, as the host wants it."""
        if not self.entries:
            return Decision(reply, answers=self.answers)
        instead = self.instead
        assert instead is not None, "a refused entry must not leave memory ahead of the log"
        return Decision(
            reply,
            self.entries,
            self.answers,
            if_refused=lambda error: Decision(reply, answers=instead(error)),
        )


def join_refusal(code: ErrorCode, member_id: str = "", version: int = 0) -> JoinGroupResponse:
    """A join that comes to nothing. The member's id comes back with it. Before v7, no protocol is an empty one."""
    nothing = None if version >= _NULL_PROTOCOL_SINCE else ""
    return JoinGroupResponse(
        error_code=code, member_id=member_id, leader="", protocol_name=nothing, members=[]
    )


def sync_refusal(code: ErrorCode) -> SyncGroupResponse:
    """A sync that comes to nothing."""
    return SyncGroupResponse(error_code=code, assignment=b"")
