"""A decision of a classic group in the making: who is told what, what is written, and what if that is refused."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from ottla.core.clock import Moment
from ottla.core.errors import ErrorCode, KafkaError
from ottla.protocol.messages.groups import JoinGroupResponse, SyncGroupResponse
from ottla.replication.machine import Answer, Decision, Entry, Later, Ticket

R = TypeVar("R")

_NULL_PROTOCOL_SINCE = 7


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
