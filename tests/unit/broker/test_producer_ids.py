import asyncio
import gc

import pytest

from ottla.broker.producer_ids import ProducerIds
from ottla.core.errors import ErrorCode, KafkaError


class Blocks:
    """A controller that gives out blocks of `size`, once it is let."""

    def __init__(self, size=3):
        self.size = size
        self.count = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.failure = None

    async def allocate(self):
        await self.gate.wait()
        if self.failure:
            raise self.failure
        first = self.count * self.size
        self.count += 1
        return range(first, first + self.size)


def test_ids_come_from_one_block_after_the_other():
    async def scenario():
        blocks = Blocks(3)
        ids = ProducerIds(blocks.allocate)
        assert [await ids.next() for _ in range(7)] == [0, 1, 2, 3, 4, 5, 6]
        assert blocks.count == 3

    asyncio.run(scenario())


def test_those_who_ask_at_the_same_time_share_a_block():
    async def scenario():
        blocks = Blocks(10)
        blocks.gate.clear()
        ids = ProducerIds(blocks.allocate)
        asking = [asyncio.ensure_future(ids.next()) for _ in range(10)]
        await asyncio.sleep(0)
        blocks.gate.set()
        assert sorted(await asyncio.gather(*asking)) == list(range(10))
        assert blocks.count == 1

    asyncio.run(scenario())


def test_nobody_gets_an_id_twice_when_more_ask_than_a_block_holds():
    async def scenario():
        blocks = Blocks(3)
        ids = ProducerIds(blocks.allocate)
        got = await asyncio.gather(*(ids.next() for _ in range(20)))
        assert sorted(got) == list(range(20))

    asyncio.run(scenario())


def test_a_controller_that_fails_is_asked_again():
    async def scenario():
        blocks = Blocks()
        ids = ProducerIds(blocks.allocate)
        blocks.failure = KafkaError(ErrorCode.NOT_CONTROLLER, "gone")
        outcomes = await asyncio.gather(ids.next(), ids.next(), return_exceptions=True)
        assert [outcome.code for outcome in outcomes] == [ErrorCode.NOT_CONTROLLER] * 2
        blocks.failure = None
        assert await ids.next() == 0

    asyncio.run(scenario())


def test_one_that_hangs_up_does_not_take_the_block_from_the_others():
    async def scenario():
        blocks = Blocks()
        blocks.gate.clear()
        ids = ProducerIds(blocks.allocate)
        first, second = asyncio.ensure_future(ids.next()), asyncio.ensure_future(ids.next())
        await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        blocks.gate.set()
        assert await second == 0

    asyncio.run(scenario())


def test_a_failure_is_nobodys_when_everybody_who_waited_has_hung_up():
    complaints = []

    async def scenario():
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        blocks = Blocks()
        blocks.gate.clear()
        blocks.failure = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no store")
        ids = ProducerIds(blocks.allocate)
        asked = asyncio.create_task(ids.next())
        await asyncio.sleep(0)
        asked.cancel()
        await asyncio.wait([asked])
        blocks.gate.set()
        for _ in range(5):
            await asyncio.sleep(0)
        gc.collect()
        blocks.failure = None
        assert await ids.next() == 0

    asyncio.run(scenario())
    assert not complaints
