"""What a history says about the log of each key: who wrote which value, who read it, and in which order they lie.

Only what must be in the log counts: values of operations that were done, of those with unknown outcome if somebody has
read one of their values, and whatever was read. Places are counted without holes: offsets of aborted records, markers
and what nobody knows of are no gaps.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from ottla.testing.history import Action, HistoryError, Key, Operation, Outcome, Send, Value

Written = dict[Key, list[Send]]
Read = dict[Key, list[tuple[int, Value]]]
_MOVES_DATA = (Action.SEND, Action.POLL, Action.TXN)


@dataclass(slots=True, eq=False)
class Done:
    """An operation that has ended, with what it wrote and read by key. One that never ended is `info`."""

    operation: Operation
    written: Written = field(default_factory=dict)
    read: Read = field(default_factory=dict)

    @property
    def outcome(self) -> Outcome:
        return self.operation.outcome

    def __str__(self) -> str:
        return str(self.operation)


class VersionOrder:
    """One key. `places` says where each value lies first, `last_places` where it lies last."""

    __slots__ = ("last_places", "offsets", "places", "values")

    def __init__(self, at: dict[int, list[Value]]) -> None:
        self.offsets = sorted(at)
        self.values: list[list[Value]] = [at[offset] for offset in self.offsets]
        self.places: dict[Value, int] = {}
        self.last_places: dict[Value, int] = {}
        for place, values in enumerate(self.values):
            for value in values:
                self.places.setdefault(value, place)
                self.last_places[value] = place

    def distance(self, before: Value, after: Value) -> int | None:
        """How many places lie between them; 1 for neighbours. None if one of them is nowhere."""
        first, second = self.places.get(before), self.places.get(after)
        return None if first is None or second is None else second - first


class Evidence:
    """Everything that the rules look at, gathered once."""

    def __init__(self, history: Iterable[Operation]) -> None:
        self.lines = list(_ended(history))
        """Also assignments, in the order in which they ended."""
        self.done = [each for each in self.lines if each.operation.action in _MOVES_DATA]
        self.writer: dict[tuple[Key, Value], Done] = {}
        self.seen: dict[Key, set[Value]] = defaultdict(set)
        """Read by an operation that was done."""
        for each in self.done:
            self._note(each)
        self.orders = {key: VersionOrder(at) for key, at in self._places().items()}

    def _note(self, each: Done) -> None:
        for key, sends in each.written.items():
            for send in sends:
                if self.writer.setdefault((key, send.value), each) is not each:
                    first = self.writer[key, send.value]
                    raise HistoryError(
                        f"{send.value!r} is sent to {key} twice, by {first} and {each}: values must be unique"
                    )
        if each.outcome is Outcome.OK:
            for key, records in each.read.items():
                self.seen[key].update(value for _, value in records)

    def is_committed(self, each: Done) -> bool:
        """It was done, or must have been: somebody has read of it."""
        if each.outcome is Outcome.INFO:
            return any(
                send.value in self.seen.get(key, ()) for key, sends in each.written.items() for send in sends
            )
        return each.outcome is Outcome.OK

    def _places(self) -> dict[Key, dict[int, list[Value]]]:
        at: dict[Key, dict[int, list[Value]]] = defaultdict(dict)

        def place(key: Key, offset: int, value: Value) -> None:
            values = at[key].setdefault(offset, [])
            if value not in values:
                values.append(value)

        for each in self.done:
            # Reads count whatever became of the operation: a transaction that fails has still read the log.
            for key, records in each.read.items():
                for offset, value in records:
                    place(key, offset, value)
            if each.written and self.is_committed(each):
                for key, sends in each.written.items():
                    for send in sends:
                        if send.offset is not None:
                            place(key, send.offset, send.value)
        return at


def _ended(history: Iterable[Operation]) -> Iterable[Done]:
    """Operations as they ended; at the very end those that never did."""
    open_: dict[int, Operation] = {}
    abandoned: list[Operation] = []
    for operation in history:
        before = open_.pop(operation.process, None)
        if operation.outcome is not Outcome.INVOKE:
            yield _gather(operation)
            continue
        if before is not None:
            abandoned.append(before)
        open_[operation.process] = operation
    for operation in (*abandoned, *open_.values()):
        yield _gather(operation._replace(outcome=Outcome.INFO, error="it never ended"))


def _gather(operation: Operation) -> Done:
    done = Done(operation)
    for step in operation.steps:
        if isinstance(step, Send):
            done.written.setdefault(step.key, []).append(step)
        else:
            for key, records in step.records.items():
                if records:
                    done.read.setdefault(key, []).extend((record[0], record[1]) for record in records)
    return done
