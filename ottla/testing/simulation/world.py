"""The kernel: one queue of events in virtual time, nodes that can die and sleep, and a look at the invariants after
every event.

Everything that is left to chance comes from the seed: `stream(name)` gives each purpose its own numbers, so that a new
draw in one place leaves the others as they were. Events of the same millisecond run in an order that the seed decides.
What is run must not depend on the hashes of strings: iterate over lists, dicts and what is sorted, not over sets.

A node that crashes loses its events and whatever is on its way to it while it is down. One that is paused (a stopped
process, a long garbage collection) finds everything that was due meanwhile when it is resumed, in order.
"""

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from ottla.core.clock import Moment
from ottla.testing.simulation.network import CALM, Network, Weather
from ottla.testing.simulation.trace import Trace

EVENTS_MAX = (
    2_000_000  # a run that comes this far does not end: somebody schedules for the same moment for ever
)
WALL_MS = 1_700_000_000_000
_BEFORE_OTHERS = -1

Invariant = Callable[[], str | None]
"""None while all is well, else the sentence that says what is not."""


class Violation(AssertionError):
    """An invariant does not hold. The message has the seed, the moment, the sentence and the end of the trace."""


class Node(Protocol):
    """Who gets messages. `crash` loses what is in memory only; `restart` starts from what is not."""

    name: str

    def receive(self, sender: str, message: Any) -> None: ...

    def crash(self) -> None: ...

    def restart(self) -> None: ...


@dataclass(slots=True, eq=False)
class Event:
    """Something that will be done. One that belongs to a node dies with it."""

    call: Callable[..., None]
    arguments: tuple[Any, ...]
    node: str | None
    life: int
    is_cancelled: bool = False

    def cancel(self) -> None:
        self.is_cancelled = True


@dataclass(slots=True)
class _Status:
    node: Node
    life: int = 0
    is_up: bool = True
    is_paused: bool = False
    backlog: list[Event] = field(default_factory=list)


class World:
    """One run. Add nodes, schedule something, `run`; the same seed runs the same way."""

    def __init__(self, seed: int, weather: Weather = CALM, *, trace_lines_max: int = 2_000) -> None:
        self.seed = seed
        self.now_ms = 0
        self.events = 0
        self.trace = Trace(trace_lines_max)
        self.is_traced = trace_lines_max > 0
        """Without a trace a run is faster; its digest then says nothing."""
        self.network = Network(self.stream("network"), weather)
        self._ties = self.stream("ties")
        self._queue: list[tuple[int, int, int, Event]] = []
        self._number = 0
        self._nodes: dict[str, _Status] = {}
        self._invariants: dict[str, Invariant] = {}
        self._violation: Violation | None = None
        self._closers: list[Callable[[], None]] = []
        self._mourners: list[Callable[[str], None]] = []
        self.counts: dict[str, int] = {}
        """How often what is rare has happened, by name."""

    def __enter__(self) -> "World":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """The run is over: let go of everything."""
        closers, self._closers = self._closers, []
        for closer in closers:
            closer()
        self._queue.clear()

    def at_close(self, closer: Callable[[], None]) -> None:
        self._closers.append(closer)

    # --- time and chance

    @property
    def now(self) -> Moment:
        """What a machine is handed as the present."""
        return Moment(WALL_MS + self.now_ms, self.now_ms)

    def stream(self, name: str) -> random.Random:
        """Numbers for one purpose, always the same ones for the same seed and name."""
        return random.Random(f"{self.seed}/{name}")

    def after(
        self, delay_ms: int, call: Callable[..., None], *arguments: Any, node: str | None = None
    ) -> Event:
        """Do this in `delay_ms`; as something that `node` does, if it is still the same life of it by then."""
        assert delay_ms >= 0, "the past is over"
        event = Event(call, arguments, node, self._nodes[node].life if node is not None else 0)
        self._push(delay_ms, self._ties.getrandbits(30), event)
        return event

    def _push(self, delay_ms: int, tie: int, event: Event) -> None:
        self._number += 1
        heapq.heappush(self._queue, (self.now_ms + delay_ms, tie, self._number, event))

    # --- nodes

    def add(self, node: Node) -> None:
        assert node.name not in self._nodes, f"there is a {node.name} already"
        self._nodes[node.name] = _Status(node)

    @property
    def nodes(self) -> list[str]:
        return list(self._nodes)

    def is_up(self, name: str) -> bool:
        return self._nodes[name].is_up

    def life(self, name: str) -> int:
        """How often it has crashed. What a node has in memory belongs to one life."""
        return self._nodes[name].life

    def is_running(self, name: str) -> bool:
        """Up, and not paused."""
        return self._nodes[name].is_up and not self._nodes[name].is_paused

    def crash(self, name: str) -> None:
        status = self._nodes[name]
        if status.is_up:
            self.note(f"{name} crashes")
            status.is_up = status.is_paused = False
            status.life += 1
            status.backlog.clear()
            status.node.crash()
            for mourner in self._mourners:
                mourner(name)

    def at_crash(self, mourner: Callable[[str], None]) -> None:
        """Have this called with the name of every node that crashes, after the node itself."""
        self._mourners.append(mourner)

    def restart(self, name: str) -> None:
        status = self._nodes[name]
        if not status.is_up:
            self.note(f"{name} restarts")
            status.is_up = True
            status.node.restart()

    def pause(self, name: str) -> None:
        status = self._nodes[name]
        if status.is_up and not status.is_paused:
            self.note(f"{name} is paused")
            status.is_paused = True

    def resume(self, name: str) -> None:
        status = self._nodes[name]
        if status.is_paused:
            self.note(f"{name} is resumed")
            status.is_paused = False
            backlog, status.backlog = status.backlog, []
            for event in backlog:
                self._push(0, _BEFORE_OTHERS, event)

    # --- messages

    def send(self, sender: str, receiver: str, message: Any) -> None:
        """Hand a message to the network. Nobody is told what becomes of it."""
        delays = self.network.fate(sender, receiver)
        if not delays and self.is_traced:
            self.note(f"{sender} -> {receiver} lost: {label(message)}")
        for delay_ms in delays:
            # It belongs to the receiver only once it is there: a restarted node gets what was sent to its former life.
            self._push(
                delay_ms,
                self._ties.getrandbits(30),
                Event(self._arrive, (sender, receiver, message), None, 0),
            )

    def _arrive(self, sender: str, receiver: str, message: Any) -> None:
        status = self._nodes[receiver]
        if not status.is_up or self.network.is_cut(sender, receiver):
            if self.is_traced:
                self.note(f"{sender} -> {receiver} lost on arrival: {label(message)}")
            return
        event = Event(self._deliver, (sender, receiver, message), receiver, status.life)
        if status.is_paused:
            status.backlog.append(event)
        else:
            self._deliver(sender, receiver, message)

    def _deliver(self, sender: str, receiver: str, message: Any) -> None:
        if self.is_traced:
            self.note(f"{sender} -> {receiver}: {label(message)}")
        self._nodes[receiver].node.receive(sender, message)

    # --- running

    def always(self, name: str, invariant: Invariant) -> None:
        """Look at this after every event. Keep it cheap: compare what changed, not everything."""
        self._invariants[name] = invariant

    def note(self, text: str) -> None:
        """Add a line to the trace."""
        if self.is_traced:
            self.trace.add(self.now_ms, text)

    def sometimes(self, name: str) -> None:
        """Something rare has happened. Runs that never see it prove less than they seem to."""
        self.counts[name] = self.counts.get(name, 0) + 1

    def violate(self, name: str, sentence: str) -> None:
        """Stop the run: something does not hold. It does so even if whoever called handles the exception."""
        if self._violation is None:
            where = f"seed {self.seed}, at {self.now_ms} ms, after event {self.events}"
            self._violation = Violation(f"{where}: {name}: {sentence}\n{self.trace.tail()}")
        raise self._violation

    def step(self) -> bool:
        """Run the next event; False when there is none."""
        while self._queue:
            at_ms, _, _, event = heapq.heappop(self._queue)
            if event.is_cancelled or self._is_of_a_former_life(event):
                continue
            self.now_ms = at_ms
            if event.node is not None and self._nodes[event.node].is_paused:
                self._nodes[event.node].backlog.append(event)
                continue
            self.events += 1
            event.call(*event.arguments)
            if self._violation is not None:
                raise self._violation
            for name, invariant in self._invariants.items():
                sentence = invariant()
                if sentence is not None:
                    self.violate(name, sentence)
            return True
        return False

    def _is_of_a_former_life(self, event: Event) -> bool:
        return event.node is not None and self._nodes[event.node].life != event.life

    def run(self, until_ms: int) -> None:
        """Run everything up to this moment."""
        self.run_until(lambda: False, until_ms)
        self.now_ms = max(self.now_ms, until_ms)

    def run_until(self, condition: Callable[[], bool], until_ms: int) -> bool:
        """Run until the condition holds; False if it does not before `until_ms`."""
        while not condition():
            if not self._queue or self._queue[0][0] > until_ms:
                return False
            self.step()
            assert self.events < EVENTS_MAX, f"seed {self.seed} does not end"
        return True


def label(message: Any) -> str:
    """How a message is called in the trace: its own `label`, or its text."""
    own = getattr(message, "label", None)
    return own if isinstance(own, str) else repr(message)
