"""Breadth first through all situations within a scope. What is found is found on the shortest way."""

import gc
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from time import perf_counter

from ottla.testing.simulation.explorer.ledger import Broken
from ottla.testing.simulation.explorer.moves import Move, Moves, Situation
from ottla.testing.simulation.explorer.scopes import Scope
from ottla.testing.simulation.explorer.sentences import sentence


@dataclass(slots=True)
class Report:
    """What a search has seen. `violation` is None if everything held."""

    scope: Scope
    states: int = 0
    moves: int = 0
    depth: int = 0
    is_complete: bool = False
    """Was everything seen that is within the scope?"""
    seconds: float = 0.0
    violation: str | None = None
    trace: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        extent = "all" if self.is_complete else "the first"
        speed = self.states / max(self.seconds, 0.001)
        seen = f"{self.scope.name}: {extent} {self.states:,} states, {self.moves:,} moves, depth {self.depth}"
        text = f"{seen}, {self.seconds:.1f} s, {speed:,.0f} states/s"
        if self.violation is None:
            return f"{text}: everything holds"
        steps = "\n".join(f"{at:>4}  {step}" for at, step in enumerate(self.trace, 1))
        return f"{text}\nVIOLATION: {self.violation}\n{steps}"


def explore(scope: Scope) -> Report:
    """Look at everything that can happen within a scope, until something happens that must not."""
    was_enabled = gc.isenabled()
    gc.disable()  # millions of tuples and not one cycle: looking for some takes longer than everything else
    try:
        return _Search(scope).run()
    finally:
        if was_enabled:
            gc.enable()


class _Search:
    def __init__(self, scope: Scope) -> None:
        self._moves = Moves(scope)
        self._report = Report(scope)
        self._came: dict[Situation, tuple[Situation, Move] | None] = {}
        self._queue: deque[tuple[Situation, int]] = deque()

    def run(self) -> Report:
        report, began = self._report, perf_counter()
        first = self._moves.first()
        self._came[first] = None
        self._queue.append((first, 0))
        report.is_complete = self._spread()
        report.states, report.seconds = len(self._came), perf_counter() - began
        return report

    def _spread(self) -> bool:
        """Go on until nothing is left; False if it was cut short."""
        report, came, queue, scope = self._report, self._came, self._queue, self._report.scope
        was_cut = False
        count = 0
        while queue:
            now, depth = queue.popleft()
            if depth > report.depth:
                report.depth = depth
            if depth >= scope.depth_max or len(came) >= scope.states_max:
                was_cut = True
                continue
            try:
                for move, after in self._moves.after(now):
                    count += 1
                    if after not in came:
                        came[after] = now, move
                        queue.append((after, depth + 1))
            except (Broken, AssertionError) as broken:
                report.moves = count
                self._fail(now, broken)
                return False
        report.moves = count
        return not was_cut

    def _fail(self, now: Situation, broken: BaseException) -> None:
        moves, report = self._moves, self._report
        steps = [*self._way_to(now), (now, moves.trying)]
        report.violation = str(broken) if isinstance(broken, Broken) else f"{type(broken).__name__}: {broken}"
        report.trace = [self._tell(before, move) for before, move in steps]

    def _tell(self, before: Situation, move: Move) -> str:
        try:
            return sentence(self._moves.machines, before, move)
        except (Broken, AssertionError):  # the machine breaks whenever it is asked
            return f"{move.kind} of broker {move.who + 1}"

    def _way_to(self, now: Situation) -> Iterator[tuple[Situation, Move]]:
        way: list[tuple[Situation, Move]] = []
        came = self._came[now]
        while came is not None:
            way.append(came)
            came = self._came[came[0]]
        return reversed(way)
