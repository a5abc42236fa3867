import time

import pytest

from ottla.core.clock import Clock, ManualClock, SystemClock


def test_the_system_clock_reads_milliseconds_since_1970() -> None:
    before = time.time_ns() // 1_000_000
    now = SystemClock().now_ms()
    assert before <= now <= time.time_ns() // 1_000_000


def test_the_system_clocks_monotonic_time_never_goes_back() -> None:
    clock = SystemClock()
    readings = [clock.monotonic_ms() for _ in range(100)]
    assert readings == sorted(readings)


def test_a_manual_clock_moves_only_when_told_to() -> None:
    clock: Clock = ManualClock(now_ms=1000, monotonic_ms=5)
    assert (clock.now_ms(), clock.monotonic_ms()) == (1000, 5)
    assert (clock.now_ms(), clock.monotonic_ms()) == (1000, 5)


def test_time_that_passes_moves_both_readings() -> None:
    clock = ManualClock(now_ms=1000, monotonic_ms=5)
    clock.advance(250)
    assert (clock.now_ms(), clock.monotonic_ms()) == (1250, 255)


def test_setting_the_wall_clock_back_lets_no_time_pass() -> None:
    clock = ManualClock(now_ms=1000, monotonic_ms=5)
    clock.step_wall(-600)
    assert (clock.now_ms(), clock.monotonic_ms()) == (400, 5)


def test_time_cannot_be_told_to_run_backwards() -> None:
    with pytest.raises(AssertionError):
        ManualClock().advance(-1)
