"""A host for the brains of groups, in memory: it appends to a list, applies at once, delivers answers, moves time.

What is appended goes through the bytes of its record and back, so that nothing is kept that a log would not keep.
"""

import itertools
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from ottla.core.clock import ManualClock, Moment
from ottla.core.errors import KafkaError
from ottla.core.timers import Timers
from ottla.groups.group import Asker, Surroundings
from ottla.protocol.messages import record_types
from ottla.protocol.messages.record_types import CONSUMER_OFFSETS
from ottla.replication.machine import LATER, Alarm, Decision, Entry, Producer, answer_of

START = Moment(wall_ms=1_700_000_000_000, monotonic_ms=0)


@dataclass
class GroupSettings:
    """What the brains obey. Defaults are Kafka's, but for the delay: a test that wants to wait says so."""

    offset_metadata_max_bytes: int = 4096
    offsets_retention_minutes: int = 7 * 24 * 60
    group_initial_rebalance_delay_ms: int = 0
    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_max_size: int = (1 << 31) - 1
    group_consumer_max_size: int = (1 << 31) - 1
    group_consumer_assignors: tuple[str, ...] = ("uniform", "range")
    group_consumer_migration_policy: str = "bidirectional"
    consumer_session_timeout_ms: int = 45_000
    consumer_heartbeat_interval_ms: int = 5_000


class Slip:
    """A ticket that keeps what it is answered; more than one answer is somebody's mistake."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.replies: list[Any] = []

    def answer(self, reply: Any) -> None:
        self.replies.append(reply)

    @property
    def reply(self) -> Any:
        assert len(self.replies) == 1, f"{self.name or 'the ticket'} has {len(self.replies)} replies"
        return self.replies[0]

    @property
    def is_waiting(self) -> bool:
        return not self.replies

    def __repr__(self) -> str:
        return f"<Slip {self.name} {self.replies}>"


def new_ids() -> Callable[[], uuid.UUID]:
    """Ids that can be told apart and told in advance: 00000000-0000-0000-0000-000000000001 comes first."""
    numbers = itertools.count(1)
    return lambda: uuid.UUID(int=next(numbers))


def nothing_known() -> Any:
    """A cluster without topics. Tests that need some put them in."""
    return SimpleNamespace(topics={}, topic_of_id={})


def surroundings(
    settings: GroupSettings | None = None,
    topics: Any = None,
    timers: Timers[Alarm] | None = None,
    new_id: Callable[[], uuid.UUID] | None = None,
) -> Surroundings:
    """What a shard gives its groups."""
    settings = settings or GroupSettings()
    return Surroundings(
        settings=settings,
        settings_of=lambda group_id: settings,
        topics=topics if topics is not None else nothing_known(),
        timers=timers if timers is not None else Timers(START.monotonic_ms),
        new_id=new_id or new_ids(),
    )


def asker(version: int, client_id: str = "client", client_host: str = "/127.0.0.1") -> Asker:
    """Somebody who speaks this version."""
    return Asker(version, client_id, client_host)


@dataclass
class Host:
    """Carries out decisions. `apply` is the machine's, or a group's own, and `timers` are those it was given."""

    apply: Callable[[Entry, Producer | None], None]
    timers: Timers[Alarm]
    clock: ManualClock = field(default_factory=lambda: ManualClock(*START))
    log: list[tuple[Entry, Producer | None]] = field(default_factory=list)
    effects: list[Any] = field(default_factory=list)
    refuse_with: KafkaError | None = None
    """While set, nothing can be appended."""

    @property
    def now(self) -> Moment:
        return Moment(self.clock.now_ms(), self.clock.monotonic_ms())

    def carry_out(self, decision: Decision[Any]) -> Any:
        """Append, apply, deliver; the reply, which is LATER if there is none yet."""
        if decision.entries and self.refuse_with is not None:
            if decision.if_refused is None:
                raise self.refuse_with
            decision = decision.if_refused(answer_of(self.refuse_with))
            assert not decision.entries, "what replaces a refused decision writes nothing"
        for entry in decision.entries:
            kept = as_kept(entry)
            self.log.append((kept, decision.producer))
            self.apply(kept, decision.producer)
        for ticket, reply in decision.answers:
            ticket.answer(reply)
        self.effects += decision.effects
        return decision.reply

    def ask(self, decide: Callable[..., Decision[Any]], request: Any, who: Asker) -> Slip:
        """A request that may have to wait. The slip has the reply at once, or gets it later."""
        slip = Slip()
        try:
            reply = self.carry_out(decide(request, who, slip, self.now))
        except KafkaError as error:
            reply = error
        if reply is not LATER:
            slip.answer(reply)
        return slip

    def advance(self, by_ms: int) -> None:
        """Let time pass; every timer fires at its own moment."""
        end = self.clock.monotonic_ms() + by_ms
        while (due := self.timers.next_deadline_ms()) is not None and due <= end:
            self.clock.advance(max(due - self.clock.monotonic_ms(), 0))
            self._ring()
        self.clock.advance(end - self.clock.monotonic_ms())
        self._ring()

    def replay(self, apply: Callable[[Entry, Producer | None], None]) -> None:
        """Feed everything that was written to a machine that has seen nothing yet."""
        for entry, producer in self.log:
            apply(entry, producer)

    def _ring(self) -> None:
        for timer in self.timers.fire(self.clock.monotonic_ms()):
            self.carry_out(timer.value(self.now))


def as_kept(entry: Entry) -> Entry:
    """The record as the log gives it back."""
    key = record_types.encode_key(entry.key)
    kept_key = record_types.decode_key(CONSUMER_OFFSETS, key)
    if entry.value is None:
        return Entry(kept_key)
    value = record_types.encode_value(entry.value)
    return Entry(kept_key, record_types.decode_value(CONSUMER_OFFSETS, key, value))
