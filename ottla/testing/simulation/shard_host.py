"""A host for machines in the simulated world: decide, append, apply, and reply when the high watermark has passed.

It does what a broker's host does, in virtual time: load by replay when elected (which takes a while), answer
COORDINATOR_LOAD_IN_PROGRESS meanwhile, retire when somebody else leads, run the machine's timers, load anew when an
append was refused after the machine had changed. Records go through their bytes, so what is loaded is what a real log
would give back.

Subclasses may break a rule on purpose: `_release` decides when a reply leaves, `_apply_end` what a marker does.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from ottla.core.clock import Moment
from ottla.core.errors import ErrorCode, KafkaError
from ottla.protocol.messages.record_types import (
    RecordType,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from ottla.replication.machine import LATER, Decision, Entry, Machine, Producer, Ticket
from ottla.testing.simulation.producer_states import Marker, ProducerStates
from ottla.testing.simulation.replicated_log import Leadership, ReplicatedLog
from ottla.testing.simulation.world import Event, World

M = TypeVar("M", bound=Machine)
Decide = Callable[[Any, Moment], Decision[Any]]
"""With the machine and the present: what to do."""


class Written(NamedTuple):
    """A record of a machine, as bytes."""

    key: bytes
    value: bytes | None
    producer: Producer | None = None


class OnceTicket:
    """Calls `send` with the first answer, and forgets the others."""

    __slots__ = ("_send",)

    def __init__(self, send: Callable[[Any], None]) -> None:
        self._send: Callable[[Any], None] | None = send

    def answer(self, reply: Any) -> None:
        send, self._send = self._send, None
        if send is not None:
            send(reply)


NOBODY = OnceTicket(lambda reply: None)
"""For what nobody asked for, such as alarms."""


class SimShardHost(Generic[M]):
    """One partition of an internal topic on one node."""

    def __init__(
        self,
        world: World,
        name: str,
        log: ReplicatedLog,
        table: Mapping[int, RecordType],
        new_machine: Callable[[int, Moment], M],
        *,
        carry_out: Callable[[Any], None] = lambda effect: None,
        load_ms: tuple[int, int] = (1, 200),
    ) -> None:
        self.world = world
        self.name = name
        self.log = log
        self.machine: M | None = None
        """None while nothing is loaded."""
        self._table = table
        self._new_machine = new_machine
        self._carry_out = carry_out
        self._load_ms = load_ms
        self._chance = world.stream(f"host {name} {log.name}")
        self._leadership: Leadership | None = None
        self._producers = ProducerStates()
        self._pending: dict[Ticket, None] = {}  # their replies wait for the high watermark
        self._alarm: Event | None = None
        self._alarm_ms = -1
        log.join(self)

    @property
    def epoch(self) -> int:
        """The leader epoch in which this host believes to lead; -1 if it does not."""
        return -1 if self._leadership is None else self._leadership.epoch

    # --- leadership

    def lead(self, leadership: Leadership) -> None:
        """Load everything that was written, then serve."""
        if leadership.epoch <= self.epoch:
            return
        self._unload(KafkaError(ErrorCode.NOT_COORDINATOR, f"{self.log.name} is loaded anew"))
        self._leadership = leadership
        self._load_later()

    def _load_later(self) -> None:
        delay_ms = self._chance.randint(*self._load_ms)
        self.world.after(delay_ms, self._load, self._leadership, node=self.name)

    def _load(self, leadership: Leadership) -> None:
        if leadership is not self._leadership or self.machine is not None:
            return
        machine = self._new_machine(leadership.epoch, self.world.now)
        self._producers = ProducerStates()
        for record in leadership.records:
            self._replay(machine, record.item)
        machine.activate(self.world.now)
        self.machine = machine
        self.world.note(f"{self.name} has loaded {self.log.name}: {leadership.end_offset} records")
        self._set_alarm()

    def _replay(self, machine: M, item: Written | Marker) -> None:
        if isinstance(item, Marker):
            self._producers.end(item)
            self._apply_end(machine, item)
            return
        if item.producer is not None:
            self._producers.write(item.producer)
        key = decode_key(self._table, item.key)
        value = None if item.value is None else decode_value(self._table, item.key, item.value)
        machine.apply(Entry(key, value), item.producer)

    def resign(self, epoch: int) -> None:
        """Somebody else leads: whoever waits here must ask there."""
        if self.epoch < epoch:
            self._unload(KafkaError(ErrorCode.NOT_COORDINATOR, f"{self.log.name} has moved"))
            self._leadership = None

    def crash(self) -> None:
        """The node died; nobody is told anything."""
        self.machine = self._leadership = self._alarm = None
        self._pending.clear()
        self.log.crashed(self.name)

    def _unload(self, error: KafkaError) -> None:
        machine, self.machine = self.machine, None
        pending, self._pending = list(self._pending), {}
        self._set_alarm()
        waiting: Iterable[Ticket] = () if machine is None else machine.retire()
        for ticket in (*pending, *waiting):
            ticket.answer(error)

    # --- requests

    def ask(self, decide: Decide, ticket: Ticket = NOBODY) -> None:
        """Let the machine decide; the ticket gets the reply, or a KafkaError."""
        if self._leadership is None:
            ticket.answer(KafkaError(ErrorCode.NOT_COORDINATOR, f"{self.name} does not lead {self.log.name}"))
        elif self.machine is None:
            ticket.answer(KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"{self.log.name} is loading"))
        else:
            try:
                decision = decide(self.machine, self.world.now)
            except KafkaError as error:
                ticket.answer(error)
            else:
                self._carry(decision, ticket)
            self._set_alarm()

    def mark(self, marker: Marker, ticket: Ticket = NOBODY) -> None:
        """End a transaction in this partition; the ticket is answered with None when that is committed."""
        if self._leadership is None or self.machine is None:
            ticket.answer(
                KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self.name} cannot write {self.log.name}")
            )
            return
        try:
            self._producers.check_marker(marker)
            self._leadership.append([marker])
        except KafkaError as error:
            ticket.answer(error)
            return
        self._producers.end(marker)
        self._apply_end(self.machine, marker)
        self._carry(Decision(None), ticket)

    def _apply_end(self, machine: M, marker: Marker) -> None:
        machine.apply_end(marker.producer, marker.is_commit)

    def _carry(self, decision: Decision[Any], ticket: Ticket) -> None:
        leadership, machine = self._leadership, self.machine
        assert leadership is not None and machine is not None, "asked and loaded"
        if decision.entries:
            try:
                self._append(leadership, decision)
            except KafkaError as error:
                self._refused(decision, ticket, error)
                return
            for entry in decision.entries:
                machine.apply(entry, decision.producer)
        if decision.reply is not LATER:
            self._pending[ticket] = None
        self._release(leadership, partial(self._reply, leadership, decision, ticket))

    def _append(self, leadership: Leadership, decision: Decision[Any]) -> None:
        if decision.producer is not None:
            self._producers.check(decision.producer)
        leadership.append([_written(entry, decision.producer) for entry in decision.entries])
        if decision.producer is not None:
            self._producers.write(decision.producer)

    def _refused(self, decision: Decision[Any], ticket: Ticket, error: KafkaError) -> None:
        if error.code is ErrorCode.NOT_ENOUGH_REPLICAS:
            error = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.detail)
        if decision.if_refused is not None:
            try:
                self._carry(decision.if_refused(error), ticket)
            except KafkaError as final:
                ticket.answer(final)
            return
        for waiting in (ticket, *(answer.ticket for answer in decision.answers)):
            waiting.answer(error)
        self.world.note(f"{self.name} was refused by {self.log.name}, and loads it anew")
        self._unload(KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"{self.log.name} is loaded anew"))
        self._load_later()

    def _release(self, leadership: Leadership, reply: Callable[[], None]) -> None:
        """Also what wrote nothing waits: it may speak of what is not committed yet."""
        leadership.when_committed(leadership.end_offset, reply)

    def _reply(self, leadership: Leadership, decision: Decision[Any], ticket: Ticket) -> None:
        self._pending.pop(ticket, None)
        if leadership is not self._leadership:
            return
        if decision.reply is not LATER:
            ticket.answer(decision.reply)
        for answer in decision.answers:
            answer.ticket.answer(answer.reply)
        for effect in decision.effects:
            self._carry_out(effect)

    # --- timers

    def _set_alarm(self) -> None:
        deadline_ms = None if self.machine is None else self.machine.timers.next_deadline_ms()
        if self._alarm is not None and not self._alarm.is_cancelled:
            if deadline_ms == self._alarm_ms:
                return
            self._alarm.cancel()
            self._alarm = None
        if deadline_ms is not None:
            delay_ms = max(0, deadline_ms - self.world.now_ms)
            self._alarm_ms = deadline_ms
            self._alarm = self.world.after(delay_ms, self._ring, self.machine, node=self.name)

    def _ring(self, machine: M) -> None:
        self._alarm = None
        if machine is not self.machine:
            return
        for timer in machine.timers.fire(self.world.now_ms):
            if machine is self.machine:
                self._carry(timer.value(self.world.now), NOBODY)
        self._set_alarm()


def _written(entry: Entry, producer: Producer | None) -> Written:
    value = None if entry.value is None else encode_value(entry.value)
    return Written(encode_key(entry.key), value, producer)
