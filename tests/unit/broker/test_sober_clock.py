"""A clock for decisions that cannot be taken back: what it believes, when, and what a restart knows of that."""

import logging
import random

import pytest

from ottla.broker.sober_clock import (
    AWAY_MS_MAX,
    BELIEVED_AFTER_MS,
    CHECKPOINT,
    JUMP_MS_MAX,
    Noted,
    SoberClock,
    read_note,
    write_note,
)
from ottla.core.clock import ManualClock
from ottla.storage import checkpoints
from ottla.storage.files import write_whole
from ottla.testing.disk import SimDisk
from tests.unit.storage.helpers import NOW

MINUTE, HOUR, DAY, YEAR = 60_000, 3_600_000, 86_400_000, 365 * 86_400_000


class Machine:
    """A machine with a clock, and a broker that runs on it from time to time."""

    def __init__(self) -> None:
        self.true_ms = NOW
        self.error_ms = 0
        self.noted: Noted | None = None
        self.sober: SoberClock | None = None
        self._clock = ManualClock(NOW)

    def start(self) -> int:
        """What the broker believes right after a start; time is counted from any zero anew."""
        self._clock = ManualClock(self.true_ms + self.error_ms, random.Random(self.true_ms).randrange(10**9))
        self.sober = SoberClock(self._clock)
        if self.noted is not None:
            self.sober.resume(self.noted)
        return self.now()

    def now(self) -> int:
        return self.sober.now_ms()

    def run(self, ms: int) -> int:
        for _ in range(max(1, ms // (10 * MINUTE))):
            step = min(ms, 10 * MINUTE)
            self._clock.advance(step)
            self.true_ms += step
            ms -= step
            self.now()
        return self.now()

    def be_off(self, ms: int) -> None:
        self.noted = self.sober.noted
        self.true_ms += ms

    def set_clock(self, by_ms: int) -> None:
        self._clock.step_wall(by_ms)
        self.error_ms += by_ms

    @property
    def behind(self) -> int:
        return self.true_ms - self.now()


@pytest.fixture
def machine():
    machine = Machine()
    machine.start()
    return machine


# --- while it runs -------------------------------------------------------------------------------------------------


def test_a_clock_that_was_wrong_for_an_hour_does_no_harm():
    clock = ManualClock(NOW)
    sober = SoberClock(clock)
    clock.step_wall(YEAR)
    clock.advance(HOUR)
    assert sober.now_ms() == NOW + HOUR
    clock.step_wall(-YEAR)
    clock.advance(HOUR)
    assert sober.now_ms() == NOW + 2 * HOUR == clock.now_ms()


def test_a_jump_that_stays_is_believed_in_the_end():
    clock = ManualClock(NOW)
    sober = SoberClock(clock)
    clock.step_wall(YEAR)
    assert sober.now_ms() == NOW
    clock.advance(BELIEVED_AFTER_MS - 1)
    assert sober.now_ms() == NOW + DAY - 1
    clock.advance(1)
    assert sober.now_ms() == NOW + YEAR + DAY == clock.now_ms()


def test_small_steps_and_steps_back_are_believed_at_once():
    clock = ManualClock(NOW)
    sober = SoberClock(clock)
    for step in (JUMP_MS_MAX, -HOUR, -YEAR, 1):
        clock.step_wall(step)
        assert sober.now_ms() == clock.now_ms()


def test_a_clock_that_was_back_for_a_while_returns_without_doubt(machine):
    machine.set_clock(-20 * YEAR)
    machine.run(MINUTE)
    machine.set_clock(20 * YEAR)
    assert machine.behind == 0


def test_after_a_day_what_was_believed_before_the_clock_went_back_is_forgotten(machine):
    machine.set_clock(-YEAR)
    machine.now()
    machine.run(DAY)
    machine.set_clock(YEAR)
    assert machine.behind == YEAR


def test_one_jump_is_mentioned_once(machine, caplog):
    machine.set_clock(YEAR)
    machine.run(3 * HOUR)
    assert caplog.text.count("the clock jumped ahead by 31536000 s") == 1


# --- over restarts -------------------------------------------------------------------------------------------------


def test_a_restart_that_takes_minutes_changes_nothing(machine, caplog):
    caplog.set_level(logging.INFO)
    machine.be_off(JUMP_MS_MAX)
    machine.start()
    assert (machine.behind, caplog.text) == (0, "")


def test_a_clock_that_is_wrong_at_the_start_is_not_believed(machine, caplog):
    machine.be_off(MINUTE)
    machine.error_ms = YEAR
    assert machine.start() == machine.true_ms - MINUTE
    assert "was away for 31536060 s, if the clock is right" in caplog.text


def test_a_broker_that_crashes_again_and_again_believes_a_wrong_clock_no_sooner(machine):
    machine.be_off(MINUTE)
    machine.error_ms = YEAR
    machine.start()
    began = machine.true_ms
    while machine.true_ms < began + DAY - 10 * MINUTE:
        machine.run(5 * MINUTE)
        machine.be_off(MINUTE)
        machine.start()
        assert machine.now() <= machine.true_ms
    machine.run(20 * MINUTE)
    assert machine.now() == machine.true_ms + YEAR, "it has stood for a day"


def test_one_that_crashes_before_it_noted_anything_believes_nothing(machine):
    machine.be_off(MINUTE)
    machine.error_ms, noted = YEAR, machine.noted
    for _ in range(1000):
        machine.start()
        machine.true_ms += 3 * MINUTE
        machine.noted = noted
        assert machine.now() <= machine.true_ms


def test_a_wrong_clock_that_is_put_right_meanwhile_leaves_no_doubt(machine):
    machine.be_off(MINUTE)
    machine.error_ms = YEAR
    machine.start()
    machine.run(HOUR)
    machine.be_off(MINUTE)
    machine.error_ms = 0
    machine.start()
    assert machine.behind == 0


@pytest.mark.parametrize("hours_on", [1, 2, 4, 8, 12, 16, 23])
def test_a_laptop_that_is_off_every_night_is_never_more_than_some_days_behind(machine, hours_on):
    worst = 0
    for _ in range(60):
        machine.run(hours_on * HOUR)
        machine.be_off((24 - hours_on) * HOUR)
        machine.start()
        worst = max(worst, machine.behind)
    assert worst <= 2 * DAY


def test_after_a_holiday_it_takes_a_day(machine):
    machine.be_off(21 * DAY)
    machine.start()
    assert machine.behind == 21 * DAY
    machine.run(DAY)
    assert machine.behind == 0


def test_a_clock_that_goes_on_jumping_is_not_believed_because_of_that(machine):
    machine.be_off(MINUTE)
    for _ in range(2):
        machine.error_ms += YEAR
        machine.start()
        machine.run(HOUR)
        machine.be_off(MINUTE)
    assert machine.noted.stood_ms <= 2 * HOUR + AWAY_MS_MAX + MINUTE
    assert machine.noted.believed_ms <= machine.true_ms


def test_a_clock_that_jumps_three_times_within_an_hour_is_not_believed(machine):
    for _ in range(3):
        machine.set_clock(YEAR)
        machine.run(HOUR // 3)
    assert machine.now() == machine.true_ms


def test_a_clock_that_went_back_while_nobody_looked_is_obeyed(machine):
    for back in (YEAR, 30 * YEAR, NOW - 1):
        machine.be_off(MINUTE)
        machine.error_ms = -back
        machine.start()
        assert machine.now() == machine.true_ms - back
        machine.be_off(MINUTE)
        machine.error_ms = 0
        machine.start()
        assert machine.behind == 0, "and so is its return"


# --- the note ------------------------------------------------------------------------------------------------------


@pytest.fixture
def disk():
    disk = SimDisk()
    for path in ("d", "e"):
        disk.make_directory(path)
    return disk


def test_what_was_noted_is_read_again(disk):
    noted = Noted(NOW, NOW + 5, 7)
    write_note(disk, "d", noted)
    assert read_note(disk, ["d"]) == read_note(disk, ["e", "d"]) == noted
    write_note(disk, "e", Noted(NOW + 1, NOW + 1))
    assert read_note(disk, ["d", "e"]) == Noted(NOW + 1, NOW + 1)


def test_in_a_new_directory_nothing_is_known(disk):
    assert read_note(disk, ["d", "e"]) is None


def test_where_nothing_was_noted_the_files_tell_when_a_broker_last_ran(disk):
    disk.now_ms = NOW - YEAR
    checkpoints.write_offsets(disk, f"d/{checkpoints.HIGH_WATERMARK}", {})
    disk.now_ms = NOW
    checkpoints.write_offsets(disk, f"e/{checkpoints.RECOVERY_POINT}", {})
    assert read_note(disk, ["d", "e"]) == Noted(NOW, NOW)
    assert read_note(disk, ["d"]) == Noted(NOW - YEAR, NOW - YEAR)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[]",
        b"7",
        b"null",
        b'{"version": 0}',
        b'{"version": 1, "believed_ms": 1, "wall_ms": 1, "stood_ms": 0}',
        b'{"version": 0, "believed_ms": -1, "wall_ms": 1, "stood_ms": 0}',
        b'{"version": 0, "believed_ms": "1", "wall_ms": 1, "stood_ms": 0}',
        b'{"version": 0, "believed_ms": 1e300, "wall_ms": 1, "stood_ms": 0}',
        b'{"version": 0, "believed_ms": true, "wall_ms": 1, "stood_ms": 0}',
        b"[" * 100_000,
    ],
)
def test_a_note_that_makes_no_sense_is_no_obstacle(disk, content, caplog):
    write_whole(disk, f"d/{CHECKPOINT}", content)
    assert read_note(disk, ["d"]) is None
    assert caplog.text.count(f"d/{CHECKPOINT} is ignored") == 1
