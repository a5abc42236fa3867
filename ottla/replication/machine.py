"""A replicated state machine: what every coordinator is, whatever it coordinates.

A machine is the state of one partition of an internal topic. It *decides*: what a request asks for becomes a
`Decision`, records to append and a reply. Its host *appends* the records and at once lets the machine *apply* them, as
it does with every record of the partition when the machine is loaded. The reply leaves when the high watermark has
passed the records. So failover is replay.

What the log holds changes by `apply` alone. What lives in memory only (who waits for a rebalance, when a session ends)
a decision may change on the spot: it dies with the machine, and clients bring it back.

An append that fails after a decision leaves memory ahead of the log: then `if_refused` decides anew. Where there is
none, the machine is dropped and loaded again, unless the entries were only too large: whoever asks for too much must
not disturb the others.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from ottla.core.clock import Moment
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.timers import Timers

R = TypeVar("R")


class Entry(NamedTuple):
    """One record: a message for its key and one for its value. Without a value it is a tombstone."""

    key: Any
    value: Any = None


class Producer(NamedTuple):
    """Whose transaction records belong to."""

    id: int
    epoch: int


class Ticket(Protocol):
    """Somebody who waits for a reply. Answered once; what comes later is ignored."""

    def answer(self, reply: Any) -> None:
        """`reply` is a response, or the KafkaError to raise."""


class Answer(NamedTuple):
    """A reply for somebody who has waited: a response, or the KafkaError to raise."""

    ticket: Ticket
    reply: Any


class Later:
    """The reply is yet to come: as the answer to the ticket that came with the request."""

    def __repr__(self) -> str:
        return "LATER"


LATER: Final = Later()


@dataclass(slots=True)
class Decision(Generic[R]):
    """What is to be written, and who is to be told what once it is committed."""

    reply: R | Later
    entries: Sequence[Entry] = ()
    answers: Sequence[Answer] = ()
    """For others, who have waited."""
    effects: Sequence[Any] = ()
    """For the host to carry out once the entries are committed."""
    producer: Producer | None = None
    """The transaction that the entries belong to, if they do."""
    is_atomic: bool = True
    """Whether all entries must go into one batch. Many tombstones need not."""
    if_refused: "Callable[[KafkaError], Decision[R]] | None" = field(default=None, repr=False)
    """What to do instead if the entries could not be appended. Its decision writes nothing."""


Alarm = Callable[[Moment], Decision[None]]
"""What a timer of a machine holds: it decides when its time has come."""


class Machine(Protocol):
    """One partition's state. Made empty, fed with `apply`, then `activate`d; `retire`d when leadership goes."""

    timers: Timers[Alarm]
    """By the monotonic clock."""

    def apply(self, entry: Entry, producer: Producer | None) -> None:
        """A record was written, now or before the machine was loaded."""

    def apply_end(self, producer: Producer, is_commit: bool) -> None:
        """A marker in the partition ends the producer's transaction."""

    def activate(self, now: Moment) -> None:
        """Everything was applied: start the clocks. What is to be done at once is a timer that is due."""

    def retire(self) -> Iterable[Ticket]:
        """Leadership is lost: whoever waits for a reply of this machine."""


ANSWERS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""What an error of the log means to a client that knows of groups and transactions only."""


def answer_of(error: KafkaError) -> KafkaError:
    """An error of the log in the words of coordinators. Hosts say it before `if_refused` or a client hears of it."""
    code = ANSWERS.get(error.code)
    return error if code is None else KafkaError(code, error.detail)


def fail(tickets: Iterable[Ticket], error: KafkaError) -> list[Answer]:
    """The same error for each of them."""
    return [Answer(ticket, KafkaError.of(error.code, error.detail)) for ticket in tickets]
