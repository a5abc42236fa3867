"""Makes a schedule that fails small: which of its faults, and how much of its work, does it take?

Delta debugging (ddmin): leave out half of them, a quarter, ... as long as the run still breaks the same promise. Then
the same with what clients do.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from ottla.testing.simulation.cluster.runner import run
from ottla.testing.simulation.cluster.schedule import Schedule

T = TypeVar("T")


def shrink(
    schedule: Schedule,
    fails: Callable[[Schedule], bool] | None = None,
    on_try: Callable[[Schedule, bool], None] = lambda tried, failed: None,
) -> Schedule:
    """The smallest schedule found that fails as this one does."""
    if fails is None:
        fails = _fails_like(schedule)

    def still(candidate: Schedule) -> bool:
        failed = fails(candidate)
        on_try(candidate, failed)
        return failed

    faults = minimal(schedule.faults, lambda some: still(replace(schedule, faults=tuple(some))))
    schedule = replace(schedule, faults=tuple(faults))
    work = minimal(schedule.work, lambda some: still(replace(schedule, work=tuple(some))))
    schedule = replace(schedule, work=tuple(work))
    calm = schedule.weather._replace(drop=0.0, duplicate=0.0, straggler=0.0)
    return calmer if still(calmer := replace(schedule, weather=calm)) else schedule


def minimal(items: Sequence[T], still: Callable[[Sequence[T]], bool]) -> list[T]:
    """A part of the items for which `still` holds, of which no single item can be left out."""
    kept, pieces = list(items), 2
    if kept and still([]):
        return []
    while len(kept) >= 2:
        size = -(-len(kept) // pieces)
        for first in range(0, len(kept), size):
            rest = kept[:first] + kept[first + size :]
            if still(rest):
                kept, pieces = rest, max(pieces - 1, 2)
                break
        else:
            if size == 1:
                break
            pieces = min(2 * pieces, len(kept))
    return kept


def _fails_like(schedule: Schedule) -> Callable[[Schedule], bool]:
    promise = promise_of(run(schedule).violation)

    def fails(candidate: Schedule) -> bool:
        violation = run(candidate).violation
        return violation is not None and promise_of(violation) == promise

    return fails


def promise_of(violation: str | None) -> str:
    """Which promise was broken: `seed 1, at 2 ms, after event 3: <promise>: ...`."""
    parts = (violation or "").splitlines()[0].split(": ", 2) if violation else []
    return parts[1] if len(parts) > 1 else ""
