"""A schedule is a value: drawn from a seed, kept as JSON, cut down to what it takes."""

import pytest

from ottla.testing.simulation.cluster.crowd import parse_seeds
from ottla.testing.simulation.cluster.faults import FOR_EVER, Fault
from ottla.testing.simulation.cluster.profiles import PROFILES, profile_of
from ottla.testing.simulation.cluster.runner import Result
from ottla.testing.simulation.cluster.schedule import Schedule, draw
from ottla.testing.simulation.cluster.shrink import minimal, promise_of, shrink


@pytest.mark.parametrize("name", PROFILES)
def test_a_schedule_comes_back_from_its_json(name):
    for seed in range(20):
        schedule = draw(seed, PROFILES[name])
        assert Schedule.from_json(schedule.to_json()) == schedule
        assert draw(seed, PROFILES[name]) == schedule
        assert all(str(fault) in str(schedule) for fault in schedule.faults)


def test_each_seed_uses_some_kinds_of_faults_only():
    kinds = [frozenset(fault.kind for fault in draw(seed, PROFILES["default"]).faults) for seed in range(50)]
    assert len(set(kinds)) > 20
    assert frozenset().union(*kinds) == {kind for kind, _ in PROFILES["default"].kinds}


def test_one_fault_lasts_for_ever_where_one_is_to():
    for seed in range(30):
        lasting = [fault for fault in draw(seed, PROFILES["forever"]).faults if fault.lasts_ms == FOR_EVER]
        assert len(lasting) == 1
        assert "for ever" in str(lasting[0])


def test_the_power_goes_only_where_it_may():
    for name in ("default", "stragglers", "moves", "forever"):
        faults = [fault for seed in range(50) for fault in draw(seed, PROFILES[name]).faults]
        assert not [fault for fault in faults if fault.kind in ("power", "blackout")]


def test_seeds_take_turns_with_the_profiles():
    names = [profile_of(seed).name for seed in range(len(PROFILES))]
    assert names == list(PROFILES)
    assert profile_of(3, "power").name == "power"


def test_lists_of_seeds():
    assert parse_seeds("7") == [7]
    assert parse_seeds("1,5,10-12") == [1, 5, 10, 11, 12]
    with pytest.raises(ValueError):
        parse_seeds("x")


def test_nothing_can_be_left_out_of_what_is_minimal():
    tried: list[list[int]] = []

    def still(some):
        tried.append(list(some))
        return {3, 17, 18} <= set(some)

    assert minimal(range(40), still) == [3, 17, 18]
    assert len(tried) < 120
    assert minimal(range(9), lambda some: True) == []


def test_a_schedule_shrinks_to_the_faults_and_the_work_that_it_takes():
    schedule = draw(5, PROFILES["default"])
    guilty, worker = schedule.faults[2], schedule.work[1]

    def fails(candidate):
        return guilty in candidate.faults and worker in candidate.work

    small = shrink(schedule, fails)
    assert (small.faults, small.work) == ((guilty,), (worker,))
    assert small.weather.drop == small.weather.straggler == 0


def test_a_violation_names_its_promise():
    assert (
        promise_of("seed 1, at 2 ms, after event 3: LSO <= HW <= LEO: b1 has 1\ntrace") == "LSO <= HW <= LEO"
    )
    assert promise_of(None) == ""


def test_a_result_says_how_to_see_it_again():
    result = Result(draw(5, PROFILES["power"]))
    assert result.command == "ottla sim --seed 5 --profile power"
    result.level = "brokers"
    assert result.command.endswith("--level brokers")


def test_a_fault_is_one_line():
    fault = Fault("cut", 1_000, 50, "b1", ("b2", "store"), both_ways=False, outwards=False)
    assert str(fault) == "  1000 ms  cut b1 <- b2, store for 50 ms"
    assert Fault.from_json(fault.to_json()) == fault
