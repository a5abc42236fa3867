"""The timing wheel against a heap: whatever is added, cancelled and moved, both fire the same."""

import heapq

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from ottla.core.timers import Timer, Timers

# Near deadlines stay in the lowest wheel, far ones go through several; past ones are due at once.
delays = st.one_of(st.integers(-50, 50), st.integers(0, 5000), st.integers(0, 10**9))


class HeapOfTimers:
    """The obvious implementation: a heap ordered by tick, then by age; cancelled entries are skipped."""

    def __init__(self, now_ms: int, tick_ms: int) -> None:
        self.tick_ms = tick_ms
        self.now = now_ms // tick_ms
        self.heap: list[tuple[int, int, str]] = []
        self.entries: dict[str, tuple[int, int, str]] = {}
        self.age = 0

    def add(self, deadline_ms: int, name: str) -> None:
        self.age += 1
        tick = max(-(-deadline_ms // self.tick_ms), self.now)
        self.entries[name] = (tick, self.age, name)
        heapq.heappush(self.heap, self.entries[name])

    def cancel(self, name: str) -> bool:
        return self.entries.pop(name, None) is not None

    def advance(self, now_ms: int) -> list[str]:
        self.now = max(self.now, now_ms // self.tick_ms)
        fired = []
        while self.heap and self.heap[0][0] <= self.now:
            entry = heapq.heappop(self.heap)
            if self.entries.get(entry[2]) == entry:
                del self.entries[entry[2]]
                fired.append(entry[2])
        return fired


class TimersAgainstHeap(RuleBasedStateMachine):
    timers_made = Bundle("timers_made")

    @initialize(now_ms=st.integers(0, 2**42), tick_ms=st.integers(1, 40), bits=st.integers(1, 6))
    def start(self, now_ms: int, tick_ms: int, bits: int) -> None:
        self.now_ms = now_ms
        self.wheel = Timers[str](now_ms, tick_ms=tick_ms, wheel_size=1 << bits)
        self.model = HeapOfTimers(now_ms, tick_ms)
        self.made = 0

    @rule(target=timers_made, delay_ms=delays)
    def add(self, delay_ms: int) -> Timer[str]:
        self.made += 1
        name = f"t{self.made}"
        self.model.add(self.now_ms + delay_ms, name)
        return self.wheel.add(self.now_ms + delay_ms, name)

    @rule(timer=timers_made)
    def cancel(self, timer: Timer[str]) -> None:
        assert self.wheel.cancel(timer) == self.model.cancel(timer.value)

    @rule(timer=consumes(timers_made))
    def cancel_twice(self, timer: Timer[str]) -> None:
        self.cancel(timer)
        assert not self.wheel.cancel(timer)

    @rule(timer=timers_made, delay_ms=delays)
    def reschedule(self, timer: Timer[str], delay_ms: int) -> None:
        self.model.cancel(timer.value)
        self.model.add(self.now_ms + delay_ms, timer.value)
        self.wheel.reschedule(timer, self.now_ms + delay_ms)

    @rule(by_ms=st.one_of(st.integers(-100, 300), st.integers(0, 10_000), st.integers(0, 2 * 10**9)))
    def advance(self, by_ms: int) -> None:
        self.now_ms = max(0, self.now_ms + by_ms)
        assert [timer.value for timer in self.wheel.advance(self.now_ms)] == self.model.advance(self.now_ms)

    @rule()
    def advance_to_where_the_wheel_says(self) -> None:
        wake = self.wheel.next_deadline_ms()
        if wake is not None:
            self.advance(wake - self.now_ms)

    @invariant()
    def counts_agree(self) -> None:
        assert len(self.wheel) == len(self.model.entries)
        assert {timer.value for timer in self.wheel} == set(self.model.entries)

    @invariant()
    def nothing_is_due_before_the_next_deadline(self) -> None:
        wake = self.wheel.next_deadline_ms()
        ticks = [tick for tick, _, _ in self.model.entries.values()]
        assert (wake is None) == (not ticks)
        if wake is not None:
            assert wake <= min(ticks) * self.model.tick_ms


TimersAgainstHeap.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestTimersAgainstHeap = TimersAgainstHeap.TestCase
