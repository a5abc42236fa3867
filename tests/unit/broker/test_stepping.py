"""A coroutine that runs at once, and becomes a Task only where it has to wait."""

import asyncio
import gc

import pytest
import uvloop

from ottla.broker.stepping import begin

LOOPS = {"stdlib": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
on_both_loops = pytest.mark.parametrize("loop", LOOPS)


def run(loop, main):
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(main)


@on_both_loops
def test_what_need_not_wait_is_done_at_once_and_is_no_task(loop):
    async def add(one, other):
        return one + other

    async def main():
        assert begin(add(1, 2)) == 3
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(loop, main())


@on_both_loops
def test_what_it_raises_before_it_waits_is_raised_at_once(loop):
    async def fail():
        raise ValueError("at once")

    async def main():
        with pytest.raises(ValueError, match="at once"):
            begin(fail())

    run(loop, main())


@on_both_loops
def test_what_has_to_wait_goes_on_where_it_stood(loop):
    steps = []

    async def work(first, second):
        steps.append("started")
        steps.append(await first)
        await asyncio.sleep(0)
        steps.append(await second)
        return await asyncio.to_thread(lambda: "result")

    async def main():
        first, second = (asyncio.get_running_loop().create_future() for _ in range(2))
        task = begin(work(first, second))
        assert steps == ["started"]
        first.set_result(1)
        await asyncio.sleep(0)
        second.set_result(2)
        assert await task == "result"
        assert steps == ["started", 1, 2]

    run(loop, main())


@on_both_loops
def test_a_bare_yield_to_the_others_works_too(loop):
    async def work():
        for _ in range(3):
            await asyncio.sleep(0)
        return "done"

    async def main():
        assert await begin(work()) == "done"

    run(loop, main())


@on_both_loops
def test_what_it_waits_for_may_be_there_before_the_task_begins(loop):
    async def work(future):
        return await future

    async def main():
        future = asyncio.get_running_loop().create_future()
        task = begin(work(future))
        future.set_result("early")
        assert await task == "early"

    run(loop, main())


@on_both_loops
def test_errors_that_come_later_reach_the_coroutine_where_it_waits(loop):
    seen = []

    async def work(future):
        try:
            await future
        except ValueError as error:
            seen.append(str(error))
            await asyncio.sleep(0)
            raise KeyError("mine") from error
        finally:
            seen.append("finally")

    async def main():
        future = asyncio.get_running_loop().create_future()
        task = begin(work(future))
        future.set_exception(ValueError("theirs"))
        with pytest.raises(KeyError, match="mine"):
            await task
        assert seen == ["theirs", "finally"]

    run(loop, main())


@on_both_loops
@pytest.mark.parametrize("steps", range(4))
def test_a_cancelled_task_is_cancelled_where_its_coroutine_stands_however_early(loop, steps):
    """Also before the Task has taken its first step: what is to be cleaned up may have to wait."""
    seen = []

    async def work():
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise
        finally:
            await asyncio.sleep(0)
            seen.append("cleaned up")

    async def main():
        task = begin(work())
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert seen == ["cancelled", "cleaned up"]

    run(loop, main())


@on_both_loops
@pytest.mark.parametrize("steps", range(2))
def test_a_coroutine_may_survive_being_cancelled(loop, steps):
    async def work():
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            asyncio.current_task().uncancel()
            await asyncio.sleep(0)
            return "survived"

    async def main():
        task = begin(work())
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        assert await task == "survived"

    run(loop, main())


@on_both_loops
@pytest.mark.parametrize("steps", range(2))
def test_a_task_that_is_forgotten_closes_its_coroutine(loop, steps):
    seen = []

    async def work(future):
        try:
            await future
        finally:
            seen.append("closed")

    async def main():
        future = asyncio.get_running_loop().create_future()
        coroutine = work(future)
        task = begin(coroutine)
        for _ in range(steps):
            await asyncio.sleep(0)
        rest = task.get_coro()
        rest.close()
        assert seen == ["closed"]
        task.cancel()
        with pytest.raises((asyncio.CancelledError, RuntimeError)):
            await task
        del task, rest, coroutine
        gc.collect()

    run(loop, main())


@on_both_loops
def test_once_it_has_waited_it_runs_in_a_task_of_its_own(loop):
    async def work():
        await asyncio.sleep(0)
        async with asyncio.timeout(60):
            await asyncio.sleep(0)
        return asyncio.current_task()

    async def main():
        task = begin(work())
        assert await task is task

    run(loop, main())


@on_both_loops
def test_many_at_once_do_not_mix(loop):
    async def work(number):
        total = 0
        for step in range(number % 5):
            await asyncio.sleep(0)
            total += step
        return number, total

    async def main():
        begun = [begin(work(number)) for number in range(100)]
        results = [await each if isinstance(each, asyncio.Task) else each for each in begun]
        assert results == [(number, sum(range(number % 5))) for number in range(100)]
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(loop, main())
