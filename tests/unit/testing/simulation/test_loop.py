"""The loop of a node: asyncio as everybody knows it, in virtual time, and silence after death."""

import asyncio
import gc

import pytest

from ottla.broker.stepping import begin
from ottla.testing.simulation.loop import UNSEEN_MS, NodeLoop, WorldClock
from ottla.testing.simulation.world import Violation, World
from tests.unit.testing.simulation.nodes import Host, finish


@pytest.fixture
def world():
    with World(7) as world:
        yield world


@pytest.fixture
def loop(world) -> NodeLoop:
    return Host(world, "a").loop


def test_sleeping_takes_virtual_time_only_and_fractions_are_rounded_up(world, loop):
    async def sleep():
        times = [loop.time()]
        for seconds in (3600, 0.0001, 0.1, 0.2):
            await asyncio.sleep(seconds)
            times.append(loop.time())
        return times

    times = finish(world, loop, sleep(), 4_000_000)
    assert times == pytest.approx([0, 3600, 3600.001, 3600.101, 3600.301], abs=1e-9)


def test_who_waits_for_a_moment_finds_that_it_has_come(world, loop):
    async def wait_for_moments():
        waits = 0
        for number in range(500):
            moment = loop.time() + (number % 7 + 1) / 1_000
            while loop.time() < moment:
                await asyncio.sleep(moment - loop.time())
                waits += 1
        return waits

    assert finish(world, loop, wait_for_moments()) == 500


def test_callbacks_of_a_node_keep_their_order_and_see_their_loop(world, loop):
    ran = []
    for number in range(20):
        loop.call_soon(lambda n=number: ran.append((n, asyncio.get_running_loop())))
    world.run(0)
    assert ran == [(number, loop) for number in range(20)]
    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()


def test_timers_of_the_same_millisecond_keep_their_order(world, loop):
    ran = []
    for number in range(20):
        loop.call_at(0.0101 + number / 100_000, ran.append, number)
    loop.call_later(0.001, ran.append, "early")
    loop.call_later(0.005, ran.append, "cancelled").cancel()
    world.run(100)
    assert ran == ["early", *range(20)]


def test_a_cancelled_first_timer_does_not_hide_the_others(world, loop):
    ran = []
    first = loop.call_later(0.010, ran.append, "first")
    loop.call_later(0.020, ran.append, "second")
    first.cancel()
    world.run(100)
    assert ran == ["second"]


def test_loops_run_side_by_side_and_hand_things_to_each_other(world):
    loops = [Host(world, name).loop for name in ("one", "two")]
    futures = [each.create_future() for each in loops]

    async def play(mine: int):
        other = 1 - mine
        if mine == 0:
            loops[other].call_soon_threadsafe(futures[other].set_result, "ball")
        return await futures[mine], asyncio.get_running_loop() is loops[mine]

    async def back():
        got = await play(1)
        loops[0].call_soon_threadsafe(futures[0].set_result, "ball back")
        return got

    tasks = [loops[0].run(play(0)), loops[1].run(back())]
    world.run(10)
    assert [task.result() for task in tasks] == [("ball back", True), ("ball", True)]


def test_the_tools_of_asyncio_work(world, loop):
    async def use_them():
        lock, event, order = asyncio.Lock(), asyncio.Event(), []

        async def work(name: str, seconds: float):
            async with lock:
                await asyncio.sleep(seconds)
                order.append(name)
            await event.wait()
            return name

        async def let_go():
            await asyncio.sleep(1)
            event.set()

        names = await asyncio.gather(work("a", 0.02), work("b", 0.01), let_go())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.sleep(10), 0.5)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.25):
                await asyncio.Event().wait()
        async with asyncio.TaskGroup() as group:
            late = group.create_task(asyncio.sleep(0.25, "late"))
        done, pending = await asyncio.wait([asyncio.ensure_future(asyncio.sleep(9))], timeout=1)
        for task in pending:
            task.cancel()
        return order, names, late.result(), loop.time(), await asyncio.to_thread(lambda: "thread"), done

    assert finish(world, loop, use_them()) == (
        ["a", "b"], ["a", "b", None], "late", pytest.approx(3.0), "thread", set(),
    )  # fmt: skip


def test_a_coroutine_that_was_stepped_by_hand_goes_on_in_a_task(world, loop):
    async def twice(value: int):
        await asyncio.sleep(0.01)
        return 2 * value

    async def now(value: int):
        return value

    async def both():
        return begin(now(1)), await begin(twice(21))

    assert finish(world, loop, both()) == (1, 42)


def test_a_thread_is_a_later_event_that_takes_its_time_and_knows_no_loop(world):
    loop = Host(world, "a", thread_ms=(5, 9)).loop

    def work():
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()
        return world.now_ms

    async def scenario():
        assert 5 <= await asyncio.to_thread(work) <= 9
        with pytest.raises(ZeroDivisionError):
            await loop.run_in_executor(None, lambda: 1 // 0)

    finish(world, loop, scenario())


def test_what_a_thread_does_is_done_although_nobody_waits_for_it(world, loop):
    ran = []

    async def give_up():
        waiting = asyncio.ensure_future(asyncio.to_thread(ran.append, 1))
        await asyncio.sleep(0)
        waiting.cancel()

    finish(world, loop, give_up())
    world.run(10)
    assert ran == [1]


def test_after_a_crash_nothing_of_that_life_runs_not_even_what_it_would_clean_up(world):
    ran = []

    async def live(host: Host):
        life = world.life(host.name)
        try:
            while True:
                await asyncio.sleep(0.01)
                ran.append((life, world.now_ms))
        finally:
            ran.append((life, "cleaned up"))

    host = Host(world, "a", live)
    former = host.loop
    world.run(25)
    world.crash("a")
    former.call_soon(ran.append, "a call")
    former.call_later(0.001, ran.append, "a timer")
    former.run_in_executor(None, ran.append, "a thread")
    world.run(50)
    gc.collect()
    world.restart("a")
    assert former.is_over and not host.loop.is_over
    world.run(75)
    assert ran == [(0, 10), (0, 20), (1, 60), (1, 70)]


def test_a_node_that_ends_itself_stops_in_the_midst_of_a_turn(world, loop):
    ran = []
    for call in (lambda: ran.append(1), lambda: world.crash("a"), lambda: ran.append(2)):
        loop.call_soon(call)
    world.run(10)
    assert ran == [1]


def test_while_it_is_paused_it_waits(world, loop):
    ran = []
    loop.call_later(0.010, ran.append, "timer")
    world.pause("a")
    loop.call_soon(ran.append, "call")
    world.run(50)
    assert ran == []
    world.resume("a")
    world.run(50)
    assert sorted(ran) == ["call", "timer"]


def test_the_collector_is_silent_about_lives_that_are_over(world, recwarn):
    async def stubborn(_: Host):
        try:
            await asyncio.sleep(100)
        finally:
            await asyncio.sleep(100)

    Host(world, "a", stubborn)
    Host(world, "never ran", stubborn)
    world.after(5, world.crash, "a")
    world.run(10)
    world.close()
    gc.collect()
    assert not recwarn.list


def test_a_task_that_fails_unseen_is_a_violation(world, loop):
    async def fail():
        raise ZeroDivisionError("by nothing")

    loop.run(fail())
    with pytest.raises(Violation, match=r"fail failed, and nobody looks at it(.|\n)*by nothing"):
        world.run(UNSEEN_MS + 1)


def test_a_callback_that_fails_is_a_violation(world, loop):
    loop.call_soon(lambda: 1 // 0)
    with pytest.raises(Violation, match="ZeroDivisionError"):
        world.run(1)


def test_a_task_that_fails_before_those_who_wait_is_none(world, loop):
    async def fail():
        await asyncio.sleep(0.01)
        raise ZeroDivisionError("by nothing")

    async def look():
        with pytest.raises(ZeroDivisionError):
            await asyncio.gather(fail(), asyncio.sleep(1))

    finish(world, loop, look())
    world.run(10_000)


def test_a_violation_inside_a_task_stops_the_run_although_the_task_is_awaited(world, loop):
    async def violate():
        try:
            world.violate("all is well", "it is not")
        except AssertionError:
            await asyncio.sleep(1)

    loop.run(violate())
    with pytest.raises(Violation, match="all is well: it is not"):
        world.run(1)


def test_the_same_seed_interleaves_nodes_in_the_same_way_and_another_does_not():
    def order(seed: int) -> str:
        async def talk(host: Host):
            for number in range(5):
                await asyncio.sleep(0.01)
                host.world.note(f"{host.name}{number}")

        with World(seed) as world:
            for name in "abc":
                Host(world, name, talk)
            world.run(1_000)
            return world.trace.digest()

    assert order(1) == order(1)
    assert len({order(seed) for seed in range(10)}) > 5


def test_both_clocks_show_the_time_of_the_world(world):
    clock = WorldClock(world)
    before = clock.now_ms(), clock.monotonic_ms()
    world.run(1_500)
    assert (clock.now_ms(), clock.monotonic_ms()) == (before[0] + 1_500, before[1] + 1_500)


def test_rare_events_are_counted(world):
    world.sometimes("rain")
    world.sometimes("rain")
    assert world.counts == {"rain": 2}
