"""A hierarchical timing wheel: many timers, most of them cancelled before they fire.

Time is cut into ticks. A wheel has one slot per value of a digit of the tick, written in base `wheel_size`:
slot 5 of the lowest wheel holds the timers of one tick, slot 5 of the one above those of `wheel_size` ticks.
A timer sits in the wheel of the highest digit in which its tick differs from the current one; higher wheels
are made on demand. So the first to fire are always in the lowest slot of the lowest wheel that holds any.
When the clock enters a slot of a higher wheel, its timers move down: at most once per wheel for each timer.

    now  = 1 2 7        timer 1 2 9 -> wheel 0, slot 9
                        timer 1 5 0 -> wheel 1, slot 5   (moves to wheel 0 when the clock reaches 1 5 0)

A timer never fires early, and at most one tick late if `advance` is called when `next_deadline_ms` says so.
Timers of one tick fire in the order in which they were added.
"""

from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Timer(Generic[T]):
    """One timer. `value` is whatever the owner wants back: a callback, a member id, a transactional id."""

    __slots__ = ("_slot", "_tick", "deadline_ms", "is_cancelled", "value")

    def __init__(self, deadline_ms: int, value: T) -> None:
        self.deadline_ms = deadline_ms
        self.value = value
        self.is_cancelled = False
        self._tick = 0
        self._slot: _Slot[T] | None = None

    @property
    def is_pending(self) -> bool:
        """Whether it has yet to fire: false once it fired or was cancelled."""
        return self._slot is not None

    def __repr__(self) -> str:
        state = "pending" if self.is_pending else "done"
        return f"<Timer {self.value!r} at {self.deadline_ms}, {state}>"


# A dict keeps the order of insertion and forgets a key in constant time: both are needed, no list has both.
_Slot = dict[Timer[T], None]


class _Wheel(Generic[T]):
    """The slots of one digit. Bit n of `occupied`: slot n may hold timers; cancelling leaves it set."""

    __slots__ = ("occupied", "shift", "slots")

    def __init__(self, size: int, shift: int) -> None:
        self.slots: list[_Slot[T]] = [{} for _ in range(size)]
        self.occupied = 0
        self.shift = shift

    def first_slot(self) -> int:
        """The lowest slot that holds timers, or -1."""
        while self.occupied:
            lowest = (self.occupied & -self.occupied).bit_length() - 1
            if self.slots[lowest]:
                return lowest
            self.take(lowest)
        return -1

    def take(self, index: int) -> _Slot[T]:
        """Empty one slot. A dict never shrinks: with a new one, a crowded moment holds no memory for good."""
        slot = self.slots[index]
        self.slots[index] = {}
        self.occupied &= ~(1 << index)
        return slot


class Timers(Generic[T]):
    """Timers of one owner. Adding and cancelling take constant time; nothing fires but from `advance`.

    The owner must call `advance` when the clock reaches `next_deadline_ms()`.
    """

    def __init__(self, now_ms: int, *, tick_ms: int = 1, wheel_size: int = 64) -> None:
        assert now_ms >= 0, "digits of ticks are compared, and a negative number has no highest one"
        assert tick_ms >= 1 and wheel_size >= 2 and wheel_size & (wheel_size - 1) == 0, (
            "a power of two, please"
        )
        self._tick_ms = tick_ms
        self._size = wheel_size
        self._digit_bits = wheel_size.bit_length() - 1
        self._now = now_ms // tick_ms
        self._due: _Slot[T] = {}  # added when their time had come already
        self._wheels: list[_Wheel[T]] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, deadline_ms: int, value: T) -> Timer[T]:
        """Fire at `deadline_ms`, or with the next `advance` if that has passed."""
        timer = Timer(deadline_ms, value)
        self._count += 1
        self._place(timer)
        return timer

    def cancel(self, timer: Timer[T]) -> bool:
        """Forget the timer. False if it had fired or been cancelled before."""
        timer.is_cancelled = True
        slot = timer._slot
        if slot is None:
            return False
        del slot[timer]
        timer._slot = None
        self._count -= 1
        return True

    def reschedule(self, timer: Timer[T], deadline_ms: int) -> None:
        """Move a timer to another deadline. One that has fired or was cancelled starts anew."""
        self.cancel(timer)
        timer.is_cancelled = False
        timer.deadline_ms = deadline_ms
        self._count += 1
        self._place(timer)

    def advance(self, now_ms: int) -> list[Timer[T]]:
        """Everything that is due at `now_ms`, in the order of its ticks; all of it counts as fired at once.

        A jump over days visits each occupied slot once, however many ticks it spans. If the clock went back,
        only what was added too late fires.
        """
        expired = list(self._due)
        self._due = {}
        target = now_ms // self._tick_ms
        while (found := self._first()) is not None:
            wheel, index, start = found
            if start > target:
                break
            slot = wheel.take(index)
            self._now = start
            if wheel.shift == 0:
                expired += slot
            elif start + (1 << wheel.shift) - 1 <= target:
                # All of it is due; a stable sort keeps the order of adding.
                expired += sorted(slot, key=_tick_of)
            else:
                self._move_down(slot, expired)
        self._now = max(self._now, target)
        for timer in expired:
            timer._slot = None
        self._count -= len(expired)
        return expired

    def fire(self, now_ms: int) -> Iterator[Timer[T]]:
        """What is due, one by one: those that come first may cancel or move those behind them, which are left out."""
        for timer in self.advance(now_ms):
            if not timer.is_cancelled and not timer.is_pending:
                yield timer

    def next_deadline_ms(self) -> int | None:
        """When to call `advance` next; None when there are no timers. Nothing fires before that moment.

        While the next timer is still in a higher wheel, this is the moment at which it moves down.
        """
        if self._due:
            return self._now * self._tick_ms
        found = self._first()
        return None if found is None else found[2] * self._tick_ms

    def __iter__(self) -> Iterator[Timer[T]]:
        """Every pending timer, in no particular order."""
        yield from self._due
        for wheel in self._wheels:
            for slot in wheel.slots:
                yield from slot

    def _place(self, timer: Timer[T]) -> None:
        timer._tick = tick = -(-timer.deadline_ms // self._tick_ms)  # rounded up: never early
        now = self._now
        if tick <= now:
            slot = self._due
        else:
            level = ((tick ^ now).bit_length() - 1) // self._digit_bits
            while level >= len(self._wheels):
                self._wheels.append(_Wheel(self._size, len(self._wheels) * self._digit_bits))
            wheel = self._wheels[level]
            index = (tick >> wheel.shift) & (self._size - 1)
            wheel.occupied |= 1 << index
            slot = wheel.slots[index]
        slot[timer] = None
        timer._slot = slot

    def _first(self) -> tuple[_Wheel[T], int, int] | None:
        """The slot that comes first: its wheel, its index, and the first tick it stands for."""
        for wheel in self._wheels:
            index = wheel.first_slot()
            if index >= 0:
                above = wheel.shift + self._digit_bits
                return wheel, index, (self._now >> above << above) + (index << wheel.shift)
        return None

    def _move_down(self, slot: _Slot[T], expired: list[Timer[T]]) -> None:
        for timer in slot:
            if timer._tick == self._now:
                expired.append(timer)
            else:
                self._place(timer)


def _tick_of(timer: Timer[T]) -> int:
    return timer._tick
