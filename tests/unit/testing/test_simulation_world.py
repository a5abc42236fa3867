"""The kernel: the same seed runs the same way, the dead hear nothing, the paused hear it later."""

import pytest

from ottla.testing.simulation.network import CALM, ROUGH, Network, Weather
from ottla.testing.simulation.storms import KINDS, Storm
from ottla.testing.simulation.trace import Trace
from ottla.testing.simulation.world import Violation, World


class Ear:
    """A node that remembers what it heard, and says it to the next one."""

    def __init__(self, world: World, name: str, tell: str | None = None) -> None:
        self.world, self.name, self.tell = world, name, tell
        self.heard = []
        world.add(self)

    def receive(self, sender, message):
        self.heard.append(message)
        if self.tell:
            self.world.send(self.name, self.tell, message)

    def crash(self):
        self.heard = ["(forgot)"]

    def restart(self):
        self.heard.append("(restarted)")


def talk(seed: int, weather: Weather = ROUGH) -> World:
    """Two nodes that hand forty messages on, in a storm."""
    world = World(seed, weather)
    Ear(world, "a", tell="b")
    Ear(world, "b")
    Storm(world, ["a", "b"], end_ms=3_000).start()
    for number in range(40):
        world.after(number * 50, world.send, "b", "a", number)
    world.run(5_000)
    return world


def test_the_same_seed_runs_the_same_way_and_another_does_not():
    first, second = talk(7), talk(7)
    assert first.trace.digest() == second.trace.digest()
    assert first.trace.first_difference(second.trace) is None
    assert str(first.trace) == str(second.trace)
    assert len({talk(seed).trace.digest() for seed in range(20)}) == 20


def test_where_two_runs_part_is_shown():
    left, right = Trace(), Trace()
    for trace in (left, right):
        trace.add(1, "the same")
    left.add(2, "left")
    right.add(2, "right")
    difference = left.first_difference(right)
    assert "left" in difference and "right" in difference and "the same" not in difference
    right.add(3, "more")
    shorter = Trace()
    shorter.add(1, "the same")
    assert "1 lines, the other 3" in shorter.first_difference(right)


def test_a_trace_keeps_the_end_and_counts_everything():
    trace = Trace(lines_max=3)
    for number in range(10):
        trace.add(number, f"event {number}")
    assert trace.count == 10
    assert [line.text for line in trace.lines] == ["event 7", "event 8", "event 9"]
    assert trace.tail(1).endswith("event 9")


def test_events_run_in_the_order_of_time_and_ties_in_an_order_of_the_seed():
    def order(seed):
        world, ran = World(seed), []
        for number in range(6):
            world.after(10, ran.append, number)
        world.after(5, ran.append, "early")
        world.run(20)
        return ran

    assert order(1)[0] == "early"
    assert order(1) == order(1)
    assert len({tuple(order(seed)) for seed in range(30)}) > 10


def test_streams_do_not_disturb_each_other():
    one, other = World(3), World(3)
    one.stream("a").random()
    assert one.stream("b").random() == other.stream("b").random()
    assert one.stream("a").random() != one.stream("b").random()


def test_time_is_virtual_and_both_clocks_move_together():
    world = World(1)
    start = world.now
    world.after(86_400_000, lambda: None)
    world.run(86_400_000)
    assert world.now.monotonic_ms - start.monotonic_ms == world.now.wall_ms - start.wall_ms == 86_400_000


def test_a_crashed_node_loses_its_events_and_its_messages():
    world = World(1)
    ear = Ear(world, "a")
    world.after(10, ear.heard.append, "its own event", node="a")
    world.after(0, world.send, "somebody", "a", "too early to be lost")
    world.after(6, world.crash, "a")
    world.after(6, world.send, "somebody", "a", "lost")
    world.after(30, world.restart, "a")
    world.after(31, world.send, "somebody", "a", "heard")
    world.run(50)
    assert ear.heard == ["(forgot)", "(restarted)", "heard"]


def test_what_was_sent_to_a_former_life_reaches_the_next():
    world = World(1, Weather(delay_ms_min=100, delay_ms_max=100))
    ear = Ear(world, "a")
    world.send("somebody", "a", "late")
    world.after(10, world.crash, "a")
    world.after(20, world.restart, "a")
    world.run(200)
    assert ear.heard == ["(forgot)", "(restarted)", "late"]


def test_a_paused_node_finds_everything_in_order_when_it_is_resumed():
    world = World(1)
    ear = Ear(world, "a")
    world.pause("a")
    assert world.is_up("a") and not world.is_running("a")
    for number in range(5):
        world.after(number * 10, world.send, "somebody", "a", number)
    world.after(25, ear.heard.append, "timer", node="a")
    world.run(100)
    assert ear.heard == []
    world.resume("a")
    world.run(101)
    assert ear.heard[:2] == [0, 1]
    assert sorted(ear.heard, key=str) == [0, 1, 2, 3, 4, "timer"]
    assert [each for each in ear.heard if each != "timer"] == [0, 1, 2, 3, 4]


def test_a_node_that_dies_while_it_is_paused_has_no_backlog():
    world = World(1)
    ear = Ear(world, "a")
    world.pause("a")
    world.send("somebody", "a", "gone")
    world.run(50)
    world.crash("a")
    world.restart("a")
    world.run(100)
    assert ear.heard == ["(forgot)", "(restarted)"]


def test_a_cancelled_event_does_not_run():
    world, ran = World(1), []
    event = world.after(10, ran.append, 1)
    event.cancel()
    world.run(20)
    assert ran == []
    assert not world.step()


def test_an_invariant_is_looked_at_after_every_event_and_its_violation_says_where():
    world, numbers = World(99), [0]

    def grow():
        numbers[0] += 1
        world.note(f"grew to {numbers[0]}")
        world.after(10, grow)

    world.always("small", lambda: f"{numbers[0]} is too much" if numbers[0] > 3 else None)
    world.after(0, grow)
    with pytest.raises(Violation, match=r"seed 99, at 30 ms, after event 4: small: 4 is too much") as raised:
        world.run(1_000)
    assert "grew to 4" in str(raised.value)


def test_a_condition_ends_a_run_early_or_is_reported_as_not_met():
    world, ran = World(1), []
    for number in range(5):
        world.after(number * 10, ran.append, number)
    assert world.run_until(lambda: len(ran) == 2, 1_000)
    assert world.now_ms == 10
    assert not world.run_until(lambda: len(ran) == 9, 1_000)


# --- network


def fates(weather: Weather, count: int = 4_000) -> list[list[int]]:
    network = Network(World(5).stream("network"), weather)
    return [network.fate("a", "b") for _ in range(count)]


def test_a_calm_network_delivers_everything_once_and_soon():
    assert all(len(fate) == 1 and 1 <= fate[0] <= 5 for fate in fates(CALM))


@pytest.mark.parametrize(
    ("weather", "is_so"),
    [
        (Weather(drop=0.1), lambda fate: not fate),
        (Weather(duplicate=0.1), lambda fate: len(fate) == 2),
        (Weather(straggler=0.1, straggler_ms_max=1_000), lambda fate: fate[0] > 100),
    ],
)
def test_the_weather_does_what_it_says_about_as_often_as_it_says(weather, is_so):
    share = sum(map(is_so, fates(weather))) / 4_000
    assert 0.07 < share < 0.13


def test_copies_have_delays_of_their_own_so_messages_overtake_each_other():
    world = World(2, Weather(delay_ms_max=50))
    ear = Ear(world, "a")
    for number in range(20):
        world.after(number, world.send, "somebody", "a", number)
    world.run(200)
    assert sorted(ear.heard) == list(range(20)) != ear.heard


def test_a_link_can_be_cut_in_one_direction_only():
    world = World(1)
    a, b = Ear(world, "a"), Ear(world, "b")
    world.network.cut("a", "b")
    world.send("a", "b", 1)
    world.send("b", "a", 2)
    world.run(10)
    assert (a.heard, b.heard) == ([2], [])
    world.network.heal("a", "b")
    world.send("a", "b", 3)
    world.run(20)
    assert b.heard == [3]


def test_what_is_under_way_when_both_ways_are_cut_is_lost():
    world = World(1, Weather(delay_ms_min=10, delay_ms_max=10))
    a, b = Ear(world, "a"), Ear(world, "b")
    world.send("a", "b", 1)
    world.send("b", "a", 2)
    world.after(5, lambda: world.network.cut("a", "b", both_ways=True))
    world.run(20)
    assert (a.heard, b.heard) == ([], [])
    world.network.heal("a", "b", both_ways=True)
    world.send("a", "b", 1)
    world.send("b", "a", 2)
    world.run(40)
    assert (a.heard, b.heard) == ([2], [1])


def test_a_slow_link_takes_longer_until_it_is_no_longer_slow():
    network = Network(World(1).stream("network"))
    network.slow_down("a", "b", 500)
    assert network.fate("a", "b")[0] > 500 > network.fate("b", "a")[0]
    network.slow_down("a", "b", 0)
    assert network.fate("a", "b")[0] < 10


# --- storms


def test_a_storm_draws_its_kinds_from_the_seed_and_leaves_everything_healed():
    drawn = set()
    for seed in range(40):
        world = World(seed)
        Ear(world, "a")
        Ear(world, "b")
        struck = []
        storm = Storm(world, ["a", "b"], others={"own": lambda s=struck: s.append(1)}, end_ms=2_000)
        storm.start()
        world.run(10_000)
        drawn.add(tuple(storm.kinds))
        assert bool(struck) <= ("own" in storm.kinds)
        assert world.is_running("a") and world.is_running("b")
        assert not world.network.is_cut("a", "b") and not world.network.is_cut("b", "a")
    assert len(drawn) > 10
    assert {kind for kinds in drawn for kind in kinds} == {*KINDS, "own"}
