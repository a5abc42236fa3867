"""A heart that beats now and then, and sooner when it is told to."""

import asyncio

from ottla.client.consumer.heartbeat import Heart

FOR_EVER_MS = 1e9


class Beats:
    """Counts them, and lets others wait for the next."""

    def __init__(self, pause_ms):
        self.count, self.pause_ms, self.errors = 0, pause_ms, []
        self.beaten = asyncio.Condition()
        self.is_failing = False

    async def beat(self):
        async with self.beaten:
            self.count += 1
            self.beaten.notify_all()
        if self.is_failing:
            raise RuntimeError("of a broken heart")
        return self.pause_ms

    async def reach(self, count):
        async with self.beaten, asyncio.timeout(10):
            await self.beaten.wait_for(lambda: self.count >= count)


def test_it_beats_again_after_the_pause_it_was_told():
    async def run():
        beats = Beats(1)
        heart = Heart(beats.beat, beats.errors.append)
        heart.start()
        heart.start()
        await beats.reach(3)
        await heart.stop()
        assert not heart.is_beating and not beats.errors

    asyncio.run(run())


def test_it_beats_at_once_when_told_to():
    async def run():
        beats = Beats(FOR_EVER_MS)
        heart = Heart(beats.beat, beats.errors.append)
        heart.start()
        await beats.reach(1)
        heart.soon()
        await beats.reach(2)
        await heart.stop()
        assert beats.count == 2

    asyncio.run(run())


def test_whoever_asks_during_a_beat_gets_another():
    async def run():
        started, may_end = asyncio.Event(), asyncio.Event()
        count = 0

        async def beat():
            nonlocal count
            count += 1
            started.set()
            await may_end.wait()
            return FOR_EVER_MS

        heart = Heart(beat, pytest_fails)
        heart.start()
        await started.wait()
        heart.soon()
        started.clear()
        may_end.set()
        async with asyncio.timeout(10):
            await started.wait()
        await heart.stop()
        assert count == 2

    asyncio.run(run())


def test_a_heart_that_fails_tells_why_and_can_be_started_again():
    async def run():
        beats = Beats(FOR_EVER_MS)
        beats.is_failing = True
        told = asyncio.Event()

        def failed(error):
            beats.errors.append(error)
            told.set()

        heart = Heart(beats.beat, failed)
        heart.start()
        async with asyncio.timeout(10):
            await told.wait()
        assert [str(each) for each in beats.errors] == ["of a broken heart"]
        while heart.is_beating:
            await asyncio.sleep(0)
        beats.is_failing = False
        heart.start()
        await beats.reach(2)
        await heart.stop()

    asyncio.run(run())


def test_a_heart_that_never_beat_can_be_stopped():
    async def run():
        await Heart(Beats(1).beat, pytest_fails).stop()

    asyncio.run(run())


def pytest_fails(error):
    raise AssertionError(error)
