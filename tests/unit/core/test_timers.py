import pytest

from ottla.core.timers import Timer, Timers

DAY_MS = 86_400_000


def values(expired: list[Timer[str]]) -> list[str]:
    return [timer.value for timer in expired]


def test_a_timer_fires_at_its_deadline_and_not_before() -> None:
    timers = Timers[str](now_ms=1000)
    timer = timers.add(1500, "a")
    assert timers.advance(1499) == []
    assert timer.is_pending
    assert timers.advance(1500) == [timer]
    assert not timer.is_pending
    assert timers.advance(9999) == []


def test_timers_fire_in_the_order_of_their_deadlines_whatever_wheel_they_were_in() -> None:
    timers = Timers[str](now_ms=0, wheel_size=4)
    for deadline in (700, 3, 64, 5, 1_000_000, 63, 1):
        timers.add(deadline, str(deadline))
    assert values(timers.advance(2_000_000)) == ["1", "3", "5", "63", "64", "700", "1000000"]


def test_timers_of_one_tick_fire_in_the_order_of_adding_even_when_one_came_from_a_higher_wheel() -> None:
    timers = Timers[str](now_ms=0, wheel_size=4)
    timers.add(100, "added first, far away")
    timers.advance(99)
    timers.add(100, "added last, next tick")
    assert values(timers.advance(100)) == ["added first, far away", "added last, next tick"]


def test_a_tick_of_many_milliseconds_rounds_up_so_that_nothing_fires_early() -> None:
    timers = Timers[str](now_ms=0, tick_ms=100)
    timers.add(101, "a")
    timers.add(200, "b")
    assert timers.advance(199) == []
    assert values(timers.advance(200)) == ["a", "b"]


def test_a_deadline_in_the_past_fires_with_the_next_advance() -> None:
    timers = Timers[str](now_ms=1000)
    timers.add(10, "late")
    timers.add(1000, "now")
    assert timers.next_deadline_ms() == 1000
    assert values(timers.advance(1000)) == ["late", "now"]


def test_a_cancelled_timer_never_fires_and_cancelling_again_changes_nothing() -> None:
    timers = Timers[str](now_ms=0)
    timer = timers.add(10, "a")
    assert timers.cancel(timer)
    assert not timers.cancel(timer)
    assert len(timers) == 0
    assert timers.advance(100) == []


def test_cancelling_what_has_fired_says_no() -> None:
    timers = Timers[str](now_ms=0)
    timer = timers.add(10, "a")
    timers.advance(10)
    assert not timers.cancel(timer)
    assert len(timers) == 0


def test_a_timer_that_was_due_when_added_can_still_be_cancelled() -> None:
    timers = Timers[str](now_ms=50)
    assert timers.cancel(timers.add(10, "a"))
    assert timers.next_deadline_ms() is None
    assert timers.advance(60) == []


def test_a_rescheduled_timer_fires_once_at_its_new_deadline() -> None:
    timers = Timers[str](now_ms=0)
    timer = timers.add(10, "session")
    timers.reschedule(timer, 30)
    assert (len(timers), timer.deadline_ms) == (1, 30)
    assert timers.advance(29) == []
    assert timers.advance(30) == [timer]


def test_a_timer_that_fired_can_be_scheduled_again() -> None:
    timers = Timers[str](now_ms=0)
    timer = timers.add(10, "heartbeat")
    timers.advance(10)
    timers.reschedule(timer, 20)
    assert len(timers) == 1
    assert timers.advance(20) == [timer]


def test_without_timers_there_is_nothing_to_wake_up_for() -> None:
    timers = Timers[str](now_ms=0)
    assert timers.next_deadline_ms() is None
    timers.cancel(timers.add(5000, "a"))
    assert timers.next_deadline_ms() is None


def test_waking_up_when_told_reaches_every_timer_at_its_own_millisecond_in_few_steps() -> None:
    timers = Timers[str](now_ms=0)
    deadlines = [3, 64, 4095, 4096, 300_000, 7 * DAY_MS + 1]
    for deadline in deadlines:
        timers.add(deadline, str(deadline))
    fired, steps = [], 0
    while (wake := timers.next_deadline_ms()) is not None:
        fired += [(wake, timer.deadline_ms) for timer in timers.advance(wake)]
        steps += 1
    assert fired == [(deadline, deadline) for deadline in deadlines]
    assert steps <= 5 * len(deadlines), "a timer moves down at most once per wheel"


def test_a_jump_of_days_visits_slots_and_not_ticks() -> None:
    timers = Timers[str](now_ms=0)
    timers.add(400 * DAY_MS, "a")
    assert timers.advance(399 * DAY_MS) == []
    assert values(timers.advance(400 * DAY_MS)) == ["a"]


def test_a_clock_that_goes_back_fires_nothing_and_loses_nothing() -> None:
    timers = Timers[str](now_ms=1000)
    timers.add(2000, "a")
    timers.advance(1500)
    assert timers.advance(700) == []
    assert timers.next_deadline_ms() is not None
    assert values(timers.advance(2000)) == ["a"]


def test_pending_timers_can_be_listed() -> None:
    timers = Timers[str](now_ms=0)
    kept = {timers.add(deadline, "kept") for deadline in (0, 5, 70, 5000)}
    timers.cancel(timers.add(6, "gone"))
    assert set(timers) == kept
    assert len(timers) == 4


def test_a_timer_shows_its_value_deadline_and_state() -> None:
    timers = Timers[str](now_ms=0)
    timer = timers.add(7, "m-1")
    assert repr(timer) == "<Timer 'm-1' at 7, pending>"
    timers.cancel(timer)
    assert repr(timer) == "<Timer 'm-1' at 7, done>"


def test_a_clock_that_starts_below_zero_is_a_bug() -> None:
    with pytest.raises(AssertionError):
        Timers[str](now_ms=-1)


@pytest.mark.parametrize(("tick_ms", "wheel_size"), [(0, 64), (1, 1), (1, 20), (1, 0)])
def test_a_wheel_size_that_is_no_power_of_two_is_a_bug(tick_ms: int, wheel_size: int) -> None:
    with pytest.raises(AssertionError):
        Timers[str](now_ms=0, tick_ms=tick_ms, wheel_size=wheel_size)


def test_a_timer_that_fires_keeps_a_later_one_of_the_same_moment_from_firing():
    timers = Timers[str](0)
    first, second, third = (timers.add(10, name) for name in ("first", "second", "third"))
    fired = []
    for timer in timers.fire(10):
        fired.append(timer.value)
        if timer is first:
            timers.cancel(second)
            timers.reschedule(third, 20)
    assert fired == ["first"]
    assert [timer.value for timer in timers.fire(20)] == ["third"]
