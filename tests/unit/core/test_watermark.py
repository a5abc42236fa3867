import asyncio
import gc
from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from ottla.core.errors import ErrorCode, KafkaError, StaleMetadataError
from ottla.core.watermark import Waiter, Watermark

NOT_LEADER = KafkaError.of(ErrorCode.NOT_LEADER_OR_FOLLOWER, "orders-0 moved to broker 2")


async def started(*waits: Coroutine[Any, Any, None]) -> list["asyncio.Task[None]"]:
    """Tasks that have run up to where they wait."""
    tasks = [asyncio.create_task(wait) for wait in waits]
    await asyncio.sleep(0)
    return tasks


async def settled(tasks: list["asyncio.Task[None]"]) -> list[bool]:
    """Which tasks are done, once everything that can run has run."""
    for _ in range(3):
        await asyncio.sleep(0)
    return [task.done() for task in tasks]


async def stop(tasks: list["asyncio.Task[None]"]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def test_an_offset_that_is_reached_already_is_not_waited_for() -> None:
    watermark = Watermark(5)
    coroutine = watermark.reach(5)
    with pytest.raises(StopIteration):
        coroutine.send(None)


def test_waiters_wake_when_the_watermark_reaches_their_offset_and_not_before() -> None:
    async def scenario() -> None:
        watermark = Watermark()
        tasks = await started(watermark.reach(3), watermark.reach(5))
        watermark.advance(4)
        assert await settled(tasks) == [True, False]
        assert watermark.waiting == 1
        watermark.advance(5)
        assert await settled(tasks) == [True, True]
        assert watermark.waiting == 0

    asyncio.run(scenario())


def test_a_watermark_that_would_move_back_by_advance_is_a_bug() -> None:
    watermark = Watermark(5)
    with pytest.raises(AssertionError, match="reset"):
        watermark.advance(4)
    assert watermark.value == 5


def test_after_moving_back_the_waiters_are_judged_by_the_new_value() -> None:
    async def scenario() -> None:
        watermark = Watermark(10)
        tasks = await started(watermark.reach(11), watermark.reach(20))
        watermark.reset(2)
        assert await settled(tasks) == [False, False]
        watermark.advance(10)
        assert await settled(tasks) == [False, False]
        watermark.reset(15)
        assert await settled(tasks) == [True, False]
        await stop(tasks)

    asyncio.run(scenario())


def test_failing_raises_the_same_error_in_every_waiter_but_never_the_same_object() -> None:
    async def scenario() -> None:
        watermark = Watermark()
        tasks = await started(watermark.reach(1), watermark.reach(9))
        watermark.fail(NOT_LEADER)
        errors = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(error) for error in errors] == [StaleMetadataError] * 2
        assert {str(error) for error in errors} == {str(NOT_LEADER)}
        assert len({id(error) for error in [*errors, NOT_LEADER]}) == 3
        assert watermark.waiting == 0

    asyncio.run(scenario())


def test_who_comes_after_a_failure_waits_anew() -> None:
    async def scenario() -> None:
        watermark = Watermark()
        watermark.fail(NOT_LEADER)
        tasks = await started(watermark.reach(1))
        assert await settled(tasks) == [False]
        watermark.advance(1)
        assert await settled(tasks) == [True]
        await tasks[0]

    asyncio.run(scenario())


def test_a_cancelled_task_waits_no_longer_and_the_others_still_do() -> None:
    async def scenario() -> None:
        watermark = Watermark()
        tasks = await started(watermark.reach(1), watermark.reach(1))
        tasks[0].cancel()
        assert await settled(tasks) == [True, False]
        assert tasks[0].cancelled()
        assert watermark.waiting == 1
        watermark.advance(1)
        await tasks[1]

    asyncio.run(scenario())


def test_a_timeout_ends_the_waiting() -> None:
    async def scenario() -> None:
        watermark = Watermark()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(watermark.reach(1), timeout=0)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await watermark.reach(1)
        assert watermark.waiting == 0

    asyncio.run(scenario())


def test_a_task_cancelled_at_the_moment_of_failure_leaves_nothing_unheard() -> None:
    complaints: list[dict[str, Any]] = []

    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        watermark = Watermark()
        tasks = await started(watermark.reach(1))
        watermark.fail(NOT_LEADER)
        tasks[0].cancel()
        assert await settled(tasks) == [True]
        tasks.clear()
        gc.collect()

    asyncio.run(scenario())
    assert complaints == []


def test_a_task_cancelled_just_before_its_offset_is_reached_does_not_disturb_the_watermark() -> None:
    async def scenario() -> None:
        watermark = Watermark()
        tasks = await started(watermark.reach(1), watermark.reach(1))
        tasks[0].cancel()  # its future is cancelled now, the task itself runs later
        watermark.advance(1)
        assert await settled(tasks) == [True, True]
        assert [task.cancelled() for task in tasks] == [True, False]
        assert watermark.waiting == 0

    asyncio.run(scenario())


def test_a_stream_of_timeouts_leaves_bounded_garbage() -> None:
    watermark = Watermark()
    kept = [watermark.on_reach(10, lambda error: None) for _ in range(5)]
    for _ in range(1000):
        watermark.on_reach(10, lambda error: None).cancel()
        assert len(watermark._waiters) <= 40
    assert watermark.waiting == len(kept)


def test_callbacks_are_told_once_in_the_order_of_offset_and_arrival() -> None:
    watermark = Watermark()
    told: list[object] = []
    for name, offset in [("c", 7), ("a", 3), ("b", 3), ("d", 8)]:
        watermark.on_reach(offset, lambda error, name=name: told.append((name, error)))  # type: ignore[misc]
    watermark.advance(7)
    watermark.advance(7)
    assert told == [("a", None), ("b", None), ("c", None)]
    watermark.fail(NOT_LEADER)
    assert told[3][0] == "d"  # type: ignore[index]
    assert told[3][1].code is ErrorCode.NOT_LEADER_OR_FOLLOWER  # type: ignore[index]


def test_a_callback_may_move_the_watermark_and_wait_again() -> None:
    watermark = Watermark()
    told: list[str] = []

    def first(error: KafkaError | None) -> None:
        told.append("first")
        watermark.advance(5)
        watermark.on_reach(6, lambda error: told.append("third"))

    watermark.on_reach(1, first)
    watermark.on_reach(5, lambda error: told.append("second"))
    watermark.advance(1)
    assert told == ["first", "second"]
    watermark.advance(6)
    assert told == ["first", "second", "third"]


def test_a_waiter_cancelled_by_another_callback_is_not_told() -> None:
    watermark = Watermark()
    told: list[str] = []
    later = watermark.on_reach(2, lambda error: told.append("later"))
    watermark.on_reach(1, lambda error: later.cancel())
    watermark.advance(2)
    later.cancel()
    assert told == []
    assert watermark.waiting == 0


def test_waiters_cancelled_while_the_watermark_fails_are_not_told_and_not_counted() -> None:
    watermark = Watermark()
    told: list[str] = []
    later = watermark.on_reach(2, lambda error: told.append("later"))
    watermark.on_reach(1, lambda error: later.cancel())
    watermark.fail(NOT_LEADER)
    assert told == []
    assert watermark.waiting == 0


def test_watchers_are_told_of_every_move_and_failure_behind_those_who_wait() -> None:
    watermark = Watermark()
    told: list[str] = []

    def leaves() -> None:
        told.append("leaves")
        watermark.watchers.pop(leaves)

    watermark.watchers[leaves] = None
    watermark.watchers[lambda: told.append("stays")] = None
    watermark.on_reach(1, lambda error: told.append("waits"))
    watermark.advance(1)
    assert told == ["waits", "leaves", "stays"]
    watermark.advance(2)
    watermark.reset(0)
    watermark.fail(NOT_LEADER)
    assert told[3:] == ["stays"] * 3


def test_it_shows_its_value_and_who_waits() -> None:
    watermark = Watermark(4)
    watermark.on_reach(5, lambda error: None)
    assert repr(watermark) == "<Watermark 4, 1 waiting>"


class WatermarkAgainstList(RuleBasedStateMachine):
    """Each waiter is told exactly once, and exactly when a plain list of offsets says so."""

    waiters = Bundle("waiters")

    def __init__(self) -> None:
        super().__init__()
        self.watermark = Watermark()
        self.waiting: dict[int, int] = {}
        self.expected: set[int] = set()
        self.told: list[int] = []
        self.made = 0

    @rule(target=waiters, offset=st.integers(0, 60))
    def wait(self, offset: int) -> tuple[int, Waiter]:
        self.made += 1
        name = self.made
        self.waiting[name] = offset
        waiter = self.watermark.on_reach(offset, lambda error: self.told.append(name))
        self.judge()
        return name, waiter

    @rule(entry=waiters)
    def cancel(self, entry: tuple[int, Waiter]) -> None:
        self.waiting.pop(entry[0], None)
        entry[1].cancel()

    @rule(by=st.integers(0, 5))
    def advance(self, by: int) -> None:
        self.watermark.advance(self.watermark.value + by)
        self.judge()

    @rule(to=st.integers(0, 60))
    def reset(self, to: int) -> None:
        self.watermark.reset(to)
        self.judge()

    @rule()
    def fail(self) -> None:
        self.watermark.fail(NOT_LEADER)
        self.expected |= self.waiting.keys()
        self.waiting.clear()

    @rule(count=st.integers(15, 40))
    def time_out_many(self, count: int) -> None:
        for waiter in [
            self.watermark.on_reach(1000, lambda error: self.told.append(0)) for _ in range(count)
        ]:
            waiter.cancel()

    def judge(self) -> None:
        reached = {name for name, offset in self.waiting.items() if offset <= self.watermark.value}
        self.expected |= reached
        for name in reached:
            del self.waiting[name]

    @invariant()
    def everybody_was_told_once(self) -> None:
        assert sorted(self.told) == sorted(self.expected)
        assert self.watermark.waiting == len(self.waiting)
        assert len(self.watermark._waiters) <= 2 * len(self.waiting) + 40


WatermarkAgainstList.TestCase.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
TestWatermarkAgainstList = WatermarkAgainstList.TestCase
