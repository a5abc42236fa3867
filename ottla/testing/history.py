"""What clients did and saw: a record of operations, to be judged by `ottla.testing.checker`.

An operation is written down twice: when it is invoked, and when it has ended. How it ended is one of three:

    ok     it was done
    fail   it was surely not done, and never will be
    info   nobody knows: the answer was lost, or said so

The difference between the last two decides what a checker may conclude. A timeout is `info`, an acknowledged abort is
`fail`; `outcome_of` knows the rest. An operation that never ended counts as `info`.

A key is one partition, by any name. Values must be unique within their key.
"""

import itertools
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from ottla.core.errors import ErrorCode, KafkaError, OttlaError

Value = int | str
Key = str


class HistoryError(OttlaError):
    """A file that is no history, or a history that contradicts itself. Names the file and the line."""


class Outcome(StrEnum):
    """How far an operation has come."""

    INVOKE = "invoke"
    OK = "ok"
    FAIL = "fail"
    INFO = "info"


class Action(StrEnum):
    """What an operation does."""

    SEND = "send"
    POLL = "poll"
    TXN = "txn"
    """Sends and polls of one transaction."""
    ASSIGN = "assign"
    """From now on this client reads these keys, wherever it left off."""
    SUBSCRIBE = "subscribe"
    """From now on the group decides what the client reads, and where it starts."""


class Send(NamedTuple):
    """A value for a key. The offset is known once it is acknowledged, if then."""

    key: Key
    value: Value
    offset: int | None = None


class Poll(NamedTuple):
    """What was read: for each key offsets and values, in the order in which they came."""

    records: Mapping[Key, Sequence[tuple[int, Value]]]


Step = Send | Poll
NOTHING_READ = Poll({})


class Operation(NamedTuple):
    """One line of a history. `number` is its place."""

    number: int
    outcome: Outcome
    action: Action
    process: int
    time_ns: int
    steps: tuple[Step, ...] = ()
    keys: tuple[Key, ...] = ()
    """Of `assign` and `subscribe`: what is read from now on."""
    rebalanced: frozenset[Key] = frozenset()
    """Keys that came or went while this operation ran."""
    error: str = ""

    def __str__(self) -> str:
        what = ", ".join(map(_describe, self.steps)) or ", ".join(self.keys)
        why = f" ({self.error})" if self.error else ""
        return f"[{self.number}] process {self.process} {self.outcome} {self.action} {what}{why}"


def _describe(step: Step) -> str:
    if isinstance(step, Send):
        return f"{step.key} <- {step.value!r}" + ("" if step.offset is None else f" at {step.offset}")
    parts = []
    for key, records in step.records.items():
        shown = ", ".join(f"{offset}: {value!r}" for offset, value in records[:6])
        more = f", ... {len(records) - 6} more" if len(records) > 6 else ""
        parts.append(f"{key} -> {shown}{more}")
    return "; ".join(parts) or "nothing"


SURE_FAILURES = frozenset(
    {
        ErrorCode.NOT_ENOUGH_REPLICAS,  # refused before the append; 20 is the one after it
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.INVALID_REQUIRED_ACKS,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.INVALID_RECORD,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_TXN_STATE,
    }
)
"""After these nothing was written, and nothing will be. This is about a single attempt: a client that retries by itself
may have written with an attempt before the last one."""


def outcome_of(error: "KafkaError | ErrorCode | int | Exception") -> Outcome:
    """How a send, or the end of a transaction, ended that was answered like this.

    What is not surely a failure is `info`: REQUEST_TIMED_OUT (7) and NOT_ENOUGH_REPLICAS_AFTER_APPEND (20) say so
    themselves, NOT_LEADER_OR_FOLLOWER (6) may come after the append, and a lost connection says nothing.
    """
    code = error.code if isinstance(error, KafkaError) else error
    if code == ErrorCode.NONE:
        return Outcome.OK
    return Outcome.FAIL if code in SURE_FAILURES else Outcome.INFO


class Pending:
    """An operation that was invoked. End it with `ok`, `fail` or `info`, once."""

    def __init__(
        self, client: "HistoryClient", action: Action, steps: Sequence[Step], keys: Sequence[Key]
    ) -> None:
        self._client = client
        self._action = action
        self._steps = steps
        self._keys = keys

    def ok(self, steps: Sequence[Step] | None = None, *, rebalanced: Iterable[Key] = ()) -> None:
        """It was done. `steps` now with offsets, and with what was read."""
        self._end(Outcome.OK, steps, rebalanced, "")

    def fail(
        self, error: object = "", steps: Sequence[Step] | None = None, *, rebalanced: Iterable[Key] = ()
    ) -> None:
        """It was surely not done. What a failed transaction has read counts nevertheless."""
        self._end(Outcome.FAIL, steps, rebalanced, str(error))

    def info(
        self, error: object = "", steps: Sequence[Step] | None = None, *, rebalanced: Iterable[Key] = ()
    ) -> None:
        """Nobody knows whether it was done."""
        self._end(Outcome.INFO, steps, rebalanced, str(error))

    def refused(self, error: "KafkaError | ErrorCode | int | Exception") -> None:
        """It was answered with this error, which says itself whether anything may have been done."""
        self._end(outcome_of(error), None, (), str(error))

    def _end(
        self, outcome: Outcome, steps: Sequence[Step] | None, rebalanced: Iterable[Key], error: str
    ) -> None:
        assert self._client.open is self, "an operation ends once"
        self._client.open = None
        steps = self._steps if steps is None else steps
        self._client.history._add(
            outcome, self._action, self._client.process, steps, self._keys, rebalanced, error
        )


class HistoryClient:
    """One client, which does one thing after the other: its process number in the history."""

    def __init__(self, history: "History", process: int) -> None:
        self.history = history
        self.process = process
        self.open: Pending | None = None

    def send(self, key: Key, *values: Value) -> Pending:
        """Several values are a batch: sent at once, in this order, and each may be written without the others."""
        return self._invoke(Action.SEND, [Send(key, value) for value in values])

    def poll(self) -> Pending:
        return self._invoke(Action.POLL, [NOTHING_READ])

    def txn(self, steps: Sequence[Step]) -> Pending:
        return self._invoke(Action.TXN, steps)

    def assign(self, keys: Sequence[Key]) -> Pending:
        return self._invoke(Action.ASSIGN, (), keys)

    def subscribe(self, keys: Sequence[Key]) -> Pending:
        return self._invoke(Action.SUBSCRIBE, (), keys)

    def _invoke(self, action: Action, steps: Sequence[Step], keys: Sequence[Key] = ()) -> Pending:
        assert self.open is None, "one thing after the other; who does two things at once is two clients"
        self.open = Pending(self, action, steps, keys)
        self.history._add(Outcome.INVOKE, action, self.process, steps, keys, (), "")
        return self.open


class History:
    """Operations in the order in which they were written down. Clients in many threads may write."""

    def __init__(self, now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self.operations: list[Operation] = []
        self._now_ns = now_ns
        self._lock = threading.Lock()
        self._processes = itertools.count()

    def client(self) -> HistoryClient:
        with self._lock:
            return HistoryClient(self, next(self._processes))

    def __iter__(self) -> Iterator[Operation]:
        return iter(self.operations)

    def __len__(self) -> int:
        return len(self.operations)

    def _add(
        self,
        outcome: Outcome,
        action: Action,
        process: int,
        steps: Sequence[Step],
        keys: Sequence[Key],
        rebalanced: Iterable[Key],
        error: str,
    ) -> None:
        with self._lock:
            at_ns, index = self._now_ns(), len(self.operations)
            self.operations.append(
                Operation(
                    index,
                    outcome,
                    action,
                    process,
                    at_ns,
                    tuple(steps),
                    tuple(keys),
                    frozenset(rebalanced),
                    error,
                )
            )
