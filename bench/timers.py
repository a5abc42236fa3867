"""Is the timing wheel worth it? A million timers, nine in ten cancelled before they fire, against a heap.

The heap is the best simple alternative: `heapq` on tuples, cancelled entries skipped when they surface. Both run in
turns within one process; each line is the median of the repetitions.
"""

import gc
import heapq
import random
import statistics
import time
from collections.abc import Callable

from ottla.core.timers import Timers

TIMER_COUNT = 1_000_000
SPAN_MS = 600_000
STEP_MS = 100
REPETITIONS = 3

Phases = dict[str, float]


class HeapTimer:
    __slots__ = ("is_cancelled", "value")

    def __init__(self, value: int) -> None:
        self.value = value
        self.is_cancelled = False


def run_wheel(deadlines: list[int], cancelled: list[bool]) -> tuple[Phases, int]:
    timers = Timers[int](0)
    started = time.perf_counter()
    made = [timers.add(deadline, index) for index, deadline in enumerate(deadlines)]
    inserted = time.perf_counter()
    for timer, is_cancelled in zip(made, cancelled, strict=True):
        if is_cancelled:
            timers.cancel(timer)
    thinned = time.perf_counter()
    fired = sum(len(timers.advance(now)) for now in range(0, SPAN_MS + STEP_MS, STEP_MS))
    return _phases(started, inserted, thinned, time.perf_counter()), fired


def run_heap(deadlines: list[int], cancelled: list[bool]) -> tuple[Phases, int]:
    heap: list[tuple[int, int, HeapTimer]] = []
    started = time.perf_counter()
    made = []
    for index, deadline in enumerate(deadlines):
        timer = HeapTimer(index)
        heapq.heappush(heap, (deadline, index, timer))
        made.append(timer)
    inserted = time.perf_counter()
    for timer, is_cancelled in zip(made, cancelled, strict=True):
        if is_cancelled:
            timer.is_cancelled = True
    thinned = time.perf_counter()
    fired = 0
    for now in range(0, SPAN_MS + STEP_MS, STEP_MS):
        while heap and heap[0][0] <= now:
            fired += not heapq.heappop(heap)[2].is_cancelled
    return _phases(started, inserted, thinned, time.perf_counter()), fired


def _phases(started: float, inserted: float, thinned: float, ended: float) -> Phases:
    return {
        "insert": inserted - started,
        "cancel": thinned - inserted,
        "advance": ended - thinned,
        "all": ended - started,
    }


def measure() -> dict[str, Phases]:
    """Median seconds of each phase, for the wheel and for the heap."""
    source = random.Random(1)
    deadlines = [source.randint(1, SPAN_MS) for _ in range(TIMER_COUNT)]
    cancelled = [source.random() < 0.9 for _ in range(TIMER_COUNT)]
    runners: dict[str, Callable[[list[int], list[bool]], tuple[Phases, int]]] = {
        "wheel": run_wheel,
        "heap": run_heap,
    }
    results: dict[str, list[Phases]] = {name: [] for name in runners}
    for _ in range(REPETITIONS):
        counts = set()
        for name, runner in runners.items():
            gc.collect()
            phases, fired = runner(deadlines, cancelled)
            results[name].append(phases)
            counts.add(fired)
        assert counts == {cancelled.count(False)}, "both must fire exactly what was not cancelled"
    return {
        name: {phase: statistics.median(run[phase] for run in runs) for phase in runs[0]}
        for name, runs in results.items()
    }


def main() -> None:
    result = measure()
    for phase, wheel_s in result["wheel"].items():
        heap_s = result["heap"][phase]
        print(
            f"timers {phase:8} wheel {wheel_s:6.2f} s  heap {heap_s:6.2f} s  "
            f"heap / wheel {heap_s / wheel_s:5.2f}  ({TIMER_COUNT} timers, 90% cancelled)"
        )


if __name__ == "__main__":
    main()
