"""Waiting for watermarks, with an end to patience."""

import asyncio

import pytest

from ottla.broker.stepping import begin
from ottla.broker.waiting import any_moves, reach
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.watermark import Watermark

LONG_MS = 600_000
LOST = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "led by another now")


def play(main):
    async def whole():
        await asyncio.wait_for(main(), 60)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(whole())


async def turn():
    """Let whoever was told have its turn."""
    for _ in range(3):
        await asyncio.sleep(0)


def test_what_is_reached_already_is_not_waited_for():
    async def main():
        assert begin(reach(Watermark(5), 5, 0)) is True

    play(main)


def test_it_ends_when_the_offset_is_reached_and_not_before():
    async def main():
        mark = Watermark(5)
        task = begin(reach(mark, 8, LONG_MS))
        mark.advance(7)
        await turn()
        assert not task.done()
        mark.advance(8)
        assert await task is True
        assert mark.waiting == 0

    play(main)


@pytest.mark.parametrize("timeout_ms", [0, 1, -1])
def test_patience_ends(timeout_ms):
    async def main():
        mark = Watermark(5)
        assert await reach(mark, 6, timeout_ms) is False
        assert await any_moves([mark], timeout_ms) is False
        assert mark.waiting == 0 and not mark.watchers

    play(main)


def test_a_watermark_that_fails_raises_its_error():
    async def main():
        mark = Watermark(5)
        task = begin(reach(mark, 6, LONG_MS))
        mark.fail(LOST)
        with pytest.raises(KafkaError, match="led by another now") as raised:
            await task
        assert raised.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert mark.waiting == 0

    play(main)


@pytest.mark.parametrize("is_started", [False, True])
def test_who_is_cancelled_waits_no_longer(is_started):
    async def main():
        marks = [Watermark(5), Watermark(7)]
        tasks = [begin(reach(marks[0], 6, LONG_MS)), begin(any_moves(marks, LONG_MS))]
        if is_started:
            await turn()
        assert [(mark.waiting, len(mark.watchers)) for mark in marks] == [(1, 1), (0, 1)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert all(task.cancelled() for task in tasks)
        assert [(mark.waiting, len(mark.watchers)) for mark in marks] == [(0, 0), (0, 0)]

    play(main)


def test_being_told_and_cancelled_at_the_same_time_does_no_harm():
    async def main():
        for tell in (lambda mark: mark.advance(6), lambda mark: mark.fail(LOST)):
            mark = Watermark(5)
            task = begin(reach(mark, 6, LONG_MS))
            await turn()
            tell(mark)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            mark = Watermark(5)
            task = begin(reach(mark, 6, LONG_MS))
            await turn()
            task.cancel()
            tell(mark)
            await asyncio.gather(task, return_exceptions=True)
            assert mark.waiting == 0

    play(main)


def test_the_first_of_many_that_moves_is_enough():
    async def main():
        marks = [Watermark(number) for number in range(10)]
        task = begin(any_moves(marks, LONG_MS))
        marks[4].advance(5)
        marks[7].advance(9)
        assert await task is True
        assert not any(mark.watchers for mark in marks)

    play(main)


def test_one_that_moves_back_is_enough_too():
    async def main():
        marks = [Watermark(1), Watermark(9)]
        task = begin(any_moves([*marks, marks[1]], LONG_MS))
        marks[1].reset(5)
        assert await task is True
        assert not any(mark.watchers for mark in marks)

    play(main)


def test_a_failure_is_news():
    async def main():
        marks = [Watermark(1), Watermark(2)]
        task = begin(any_moves(marks, LONG_MS))
        marks[1].fail(LOST)
        assert await task is True
        assert not any(mark.watchers for mark in marks)

    play(main)


def test_with_nothing_to_wait_for_patience_decides():
    async def main():
        assert await any_moves([], 1) is False

    play(main)


def test_an_error_while_asking_leaves_nobody_waiting():
    mark = Watermark(1)

    def marks():
        yield mark
        raise LOST

    async def main():
        with pytest.raises(KafkaError):
            await any_moves(marks(), LONG_MS)
        assert not mark.watchers

    play(main)
