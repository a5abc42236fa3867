"""Judges a history: did the log keep its promises to those who wrote and read it?

`check(history)` gives a `Report`. Each anomaly has a kind, a sentence, and the operations that show it. The kinds are
those of Jepsen's work on Kafka, and a few more; `KINDS` says what each means, `ALLOWED` which may be: Kafka does not
keep the writes of transactions apart, and members of a group are moved about.

The checker claims nothing that the history does not prove. What has an unknown outcome may be in the log or not, until
somebody reads it.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from ottla.testing.cycles import cycles
from ottla.testing.history import Action, Key, Operation, Outcome, Send, Value
from ottla.testing.version_order import Done, Evidence

EXAMPLES_MAX = 100  # of each kind in a report; a broken log breaks thousands of times, in the same way
SHOWN_MAX = 5

KINDS = {
    "lost-write": "a value must be in the log, later ones were read, but nobody ever read this one",
    "unseen": "an acknowledged value was read by nobody, although everything was read in the end",
    "duplicate": "a value lies at two offsets",
    "inconsistent-offsets": "an offset holds two values",
    "aborted-read": "somebody read a value that was surely not written (G1a)",
    "precommitted-read": "a transaction read what it had itself written, before it was committed",
    "torn-transaction": "of one transaction some values are there and others are not",
    "never-written": "somebody read a value that nobody sent",
    "poll-skip": "a client jumped over a value from one poll to the next",
    "nonmonotonic-poll": "a client read something again, or went back, from one poll to the next",
    "internal-poll-skip": "a client jumped over a value within one poll",
    "internal-nonmonotonic-poll": "a client read something again, or went back, within one poll",
    "nonmonotonic-send": "a client's later send came to lie before an earlier one",
    "internal-nonmonotonic-send": "sends of one operation lie in another order than they were sent",
    "stale-offset": "a value got a lower offset than one that was acknowledged before it was even sent",
    "read-cycle": "transactions read from each other in a circle (G1c)",
    "group-poll-skip": "the same as poll-skip, of a member of a group",
    "group-nonmonotonic-poll": "the same as nonmonotonic-poll, of a member of a group",
    "internal-send-skip": "somebody else's value lies between two of one operation",
    "write-cycle": "writes of transactions lie in a circle (G0)",
}
ALLOWED = frozenset({"group-poll-skip", "group-nonmonotonic-poll", "internal-send-skip", "write-cycle"})


class Anomaly(NamedTuple):
    """One thing that is not as it should be."""

    kind: str
    sentence: str
    operations: tuple[Operation, ...] = ()

    def __str__(self) -> str:
        return "\n".join([self.sentence, *(f"    {operation}" for operation in self.operations[:SHOWN_MAX])])


@dataclass(slots=True)
class Report:
    """What was found. `str()` is for people."""

    operations: int
    counts: dict[str, int] = field(default_factory=dict)
    examples: dict[str, list[Anomaly]] = field(default_factory=dict)
    """The first of each kind."""

    @property
    def is_valid(self) -> bool:
        return not self.broken

    @property
    def broken(self) -> list[str]:
        """The kinds that must not be, and are."""
        return sorted(kind for kind in self.counts if kind not in ALLOWED)

    def add(self, anomaly: Anomaly) -> None:
        self.counts[anomaly.kind] = self.counts.get(anomaly.kind, 0) + 1
        examples = self.examples.setdefault(anomaly.kind, [])
        if len(examples) < EXAMPLES_MAX:
            examples.append(anomaly)

    def __str__(self) -> str:
        verdict = "nothing is wrong" if self.is_valid else f"wrong: {', '.join(self.broken)}"
        lines = [f"{self.operations} operations; {verdict}"]
        for kind in sorted(self.counts, key=lambda kind: (kind in ALLOWED, kind)):
            allowed = ", which is allowed" if kind in ALLOWED else ""
            lines.append(f"{kind}, {self.counts[kind]} times{allowed}: {KINDS[kind]}")
            lines += (f"  {example}" for example in self.examples[kind][:SHOWN_MAX])
        return "\n".join(lines)


def check(history: Iterable[Operation], *, is_complete: bool = True) -> Report:
    """Judge a history. `is_complete` if at the end somebody has read every key to its end: then what was never read is
    not there. Raises HistoryError if values are not unique."""
    operations = list(history)
    evidence = Evidence(operations)
    report = Report(len(operations))
    rules: list[Callable[[Evidence], Iterator[Anomaly]]] = [
        _misplaced, _wrongly_read, _lost, _within_operations, _between_operations, _in_circles
    ]  # fmt: skip
    for rule in rules:
        for anomaly in rule(evidence):
            report.add(anomaly)
    for anomaly in _missing(evidence, is_complete):
        report.add(anomaly)
    for anomaly in _out_of_time(operations):
        report.add(anomaly)
    return report


def _misplaced(evidence: Evidence) -> Iterator[Anomaly]:
    """One value per offset, one offset per value."""
    for key, order in evidence.orders.items():
        for offset, values in zip(order.offsets, order.values, strict=True):
            if len(values) > 1:
                sentence = f"offset {offset} of {key} holds {' and '.join(map(repr, values))}"
                yield Anomaly("inconsistent-offsets", sentence, _writers(evidence, key, values))
        for value, last in order.last_places.items():
            first = order.places[value]
            if first != last:
                sentence = f"{value!r} lies at {order.offsets[first]} and at {order.offsets[last]} of {key}"
                yield Anomaly("duplicate", sentence, _writers(evidence, key, [value]))


def _wrongly_read(evidence: Evidence) -> Iterator[Anomaly]:
    """What must not be read: aborted, not yet committed, never sent."""
    reported: set[tuple[Key, Value]] = set()
    for each in evidence.done:
        for key, records in each.read.items():
            own = {send.value for send in each.written.get(key, ())}
            for offset, value in records:
                writer = evidence.writer.get((key, value))
                where = f"{value!r} at {offset} of {key}"
                if writer is None:
                    if (key, value) not in reported:
                        reported.add((key, value))
                        yield Anomaly("never-written", f"{where} was sent by nobody", (each.operation,))
                elif value in own:
                    yield Anomaly("precommitted-read", f"{where} is the reader's own", (each.operation,))
                elif writer.outcome is Outcome.FAIL and each.outcome is Outcome.OK:
                    both = (writer.operation, each.operation)
                    yield Anomaly("aborted-read", f"{where} was surely not written, and read", both)


def _lost(evidence: Evidence) -> Iterator[Anomaly]:
    """Whatever lies below something that was read must have been read by somebody."""
    for key, value in _lost_values(evidence):
        order, writer = evidence.orders[key], evidence.writer[key, value]
        sentence = f"{value!r} at {order.offsets[order.places[value]]} of {key} was read by nobody, but later ones were"
        yield Anomaly("lost-write", sentence, (writer.operation,))


def _lost_values(evidence: Evidence) -> Iterator[tuple[Key, Value]]:
    for key, seen in evidence.seen.items():
        order = evidence.orders[key]
        bound = max((order.places[value] for value in seen), default=-1)
        for value, place in order.last_places.items():
            if place <= bound and value not in seen:
                writer = evidence.writer.get((key, value))
                if writer is not None and evidence.is_committed(writer):
                    yield key, value


def _missing(evidence: Evidence, is_complete: bool) -> Iterator[Anomaly]:
    """Acknowledged values that nobody saw in the end, and transactions of which only a part was seen."""
    lost = set() if is_complete else set(_lost_values(evidence))
    for each in evidence.done:
        sends = [send for sends in each.written.values() for send in sends]
        unseen = [send for send in sends if send.value not in evidence.seen.get(send.key, ())]
        if not unseen:
            continue
        if is_complete and each.outcome is Outcome.OK:
            for send in unseen:
                yield Anomaly(
                    "unseen",
                    f"{send.value!r} of {send.key} was acknowledged, and not there",
                    (each.operation,),
                )
        absent = [send for send in unseen if is_complete or (send.key, send.value) in lost]
        if each.operation.action is Action.TXN and absent and len(unseen) < len(sends):
            there = next(send for send in sends if send not in unseen)
            sentence = (
                f"{there.value!r} of {there.key} is there, {absent[0].value!r} of {absent[0].key} is not"
            )
            yield Anomaly("torn-transaction", sentence, (each.operation,))


def _within_operations(evidence: Evidence) -> Iterator[Anomaly]:
    """Order within one operation."""
    for each in evidence.done:
        for key, records in each.read.items():
            if len(records) > 1 and key not in each.operation.rebalanced:
                values = [value for _, value in records]
                yield from _judge_pairs(
                    evidence, each, key, values, "internal-poll-skip", "internal-nonmonotonic-poll"
                )
        for key, sends in each.written.items():
            if len(sends) > 1:
                values = [send.value for send in sends]
                yield from _judge_pairs(
                    evidence, each, key, values, "internal-send-skip", "internal-nonmonotonic-send"
                )


def _judge_pairs(
    evidence: Evidence, each: Done, key: Key, values: list[Value], skip: str, back: str
) -> Iterator[Anomaly]:
    order = evidence.orders.get(key)
    if order is None:
        return
    for before, after in pairwise(values):
        distance = order.distance(before, after)
        if distance is not None and distance != 1:
            kind = skip if distance > 1 else back
            yield Anomaly(kind, f"{after!r} after {before!r} of {key}: {_steps(distance)}", (each.operation,))


@dataclass(slots=True)
class _Position:
    """Where one process is: the last value of each key that it sent or read, and by which operation."""

    is_member: bool = False
    read: dict[Key, tuple[Value, Operation]] = field(default_factory=dict)
    sent: dict[Key, tuple[Value, Operation]] = field(default_factory=dict)


def _between_operations(evidence: Evidence) -> Iterator[Anomaly]:
    """Order from one operation of a process to its next. What failed, or may have, moves no reader."""
    positions: dict[int, _Position] = defaultdict(_Position)
    for each in evidence.lines:
        operation, position = each.operation, positions[each.operation.process]
        if operation.action in (Action.ASSIGN, Action.SUBSCRIBE):
            if each.outcome is not Outcome.FAIL:
                position.is_member = operation.action is Action.SUBSCRIBE
                keys = frozenset(operation.keys)
                position.read = {key: last for key, last in position.read.items() if key in keys}
            continue
        yield from _judge_reads(evidence, each, position)
        if each.outcome is not Outcome.FAIL:
            yield from _judge_sends(evidence, each, position)


def _judge_reads(evidence: Evidence, each: Done, position: _Position) -> Iterator[Anomaly]:
    for key, records in each.read.items():
        last = position.read.get(key)
        if last is not None and key not in each.operation.rebalanced:
            distance = evidence.orders[key].distance(last[0], records[0][1])
            if distance is not None and distance != 1:
                kind = "poll-skip" if distance > 1 else "nonmonotonic-poll"
                kind = f"group-{kind}" if position.is_member else kind
                sentence = f"{records[0][1]!r} after {last[0]!r} of {key}: {_steps(distance)}"
                yield Anomaly(kind, sentence, (last[1], each.operation))
        if each.outcome is Outcome.OK:
            position.read[key] = records[-1][1], each.operation


def _judge_sends(evidence: Evidence, each: Done, position: _Position) -> Iterator[Anomaly]:
    for key, sends in each.written.items():
        last, order = position.sent.get(key), evidence.orders.get(key)
        if last is not None and order is not None:
            distance = order.distance(last[0], sends[0].value)
            if distance is not None and distance < 1:
                sentence = f"{sends[0].value!r} after {last[0]!r} of {key}: {_steps(distance)}"
                yield Anomaly("nonmonotonic-send", sentence, (last[1], each.operation))
        if each.outcome is Outcome.OK:  # one with unknown outcome may be written yet, after what comes now
            position.sent[key] = sends[-1].value, each.operation


def _in_circles(evidence: Evidence) -> Iterator[Anomaly]:
    """Who reads from whom, and who writes behind whom."""
    reads: dict[Done, dict[Done, None]] = defaultdict(dict)
    for each in evidence.done:
        if each.written:  # who only reads is in no circle
            for key, records in each.read.items():
                for _, value in records:
                    writer = evidence.writer.get((key, value))
                    if writer is not None and writer is not each:
                        reads[writer][each] = None
    for circle in cycles(reads):
        sentence = f"{len(circle)} transactions have read from each other"
        yield Anomaly("read-cycle", sentence, tuple(each.operation for each in circle))
    writes: dict[Done, dict[Done, None]] = defaultdict(dict)
    for key, order in evidence.orders.items():
        writers = [evidence.writer.get((key, values[0])) for values in order.values]
        for before, after in pairwise(writers):
            if before is not None and after is not None and before is not after:
                writes[before][after] = None
    for circle in cycles(writes):
        sentence = f"{len(circle)} operations have each written behind the next"
        yield Anomaly("write-cycle", sentence, tuple(each.operation for each in circle))


def _out_of_time(operations: Iterable[Operation]) -> Iterator[Anomaly]:
    """What is sent after something else was acknowledged lies behind it."""
    highest: dict[Key, tuple[int, Operation]] = {}
    bounds: dict[int, dict[Key, tuple[int, Operation]]] = {}
    for operation in operations:
        sends = [step for step in operation.steps if isinstance(step, Send)]
        if operation.outcome is Outcome.INVOKE:
            bounds[operation.process] = {send.key: highest[send.key] for send in sends if send.key in highest}
            continue
        before = bounds.pop(operation.process, {})
        if operation.outcome is not Outcome.OK:
            continue
        for send in sends:
            if send.offset is None:
                continue
            bound = before.get(send.key)
            if bound is not None and send.offset <= bound[0]:
                sentence = (
                    f"{send.value!r} got {send.offset} of {send.key}, after {bound[0]} was acknowledged"
                )
                yield Anomaly("stale-offset", sentence, (bound[1], operation))
            if send.key not in highest or send.offset > highest[send.key][0]:
                highest[send.key] = send.offset, operation


def _writers(evidence: Evidence, key: Key, values: Iterable[Value]) -> tuple[Operation, ...]:
    writers = (evidence.writer.get((key, value)) for value in values)
    return tuple(writer.operation for writer in writers if writer is not None)


def _steps(distance: int) -> str:
    if distance > 1:
        return f"{distance - 1} left out"
    return "the same again" if distance == 0 else f"{-distance} back"
