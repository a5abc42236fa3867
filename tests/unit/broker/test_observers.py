"""Whoever hangs on the list is told of every append and every fetch, and only of those that were."""

import asyncio

import pytest

from ottla.core.ids import TopicPartition
from ottla.testing.broker import AsyncBroker
from tests.unit.broker.client import Caller, batch, fetch_frame, produce_frame


class Witness:
    def __init__(self):
        self.seen = []

    def appended(self, topic_partition, appended, bytes_count):
        self.seen.append(("appended", topic_partition, appended.first_offset, bytes_count))

    def fetched(self, topic_partition, offset, bytes_count):
        self.seen.append(("fetched", topic_partition, offset, bytes_count))

    def committed(self, group, topic_partition, offset):
        self.seen.append(("committed", group, topic_partition, offset))


@pytest.mark.parametrize("is_short", [True, False])
def test_every_observer_is_told_what_came_in_and_what_went_out(is_short):
    async def main():
        async with AsyncBroker(memory=True) as broker:
            await broker.create_topic("tea")
            witnesses = [Witness(), Witness()]
            broker.node.observers += witnesses
            caller = Caller(broker.node, keeps_shortcut=is_short)
            data = batch(3)
            for _ in range(2):
                await caller.ask(produce_frame(9, "tea", data))
            await caller.ask(produce_frame(9, "tea", data[:-1] + b"?"))
            await caller.ask(produce_frame(9, "nowhere", data))
            await caller.ask(fetch_frame("tea", 3))
            await caller.ask(fetch_frame("tea", 6))
            place = TopicPartition("tea", 0)
            for witness in witnesses:
                assert witness.seen == [
                    ("appended", place, 0, len(data)),
                    ("appended", place, 3, len(data)),
                    ("fetched", place, 3, len(data)),
                ]

    asyncio.run(main())


def test_a_batch_that_was_there_before_is_not_told_again():
    async def main():
        async with AsyncBroker(memory=True) as broker:
            await broker.create_topic("tea")
            witness = Witness()
            broker.node.observers.append(witness)
            caller = Caller(broker.node)
            for _ in range(4):
                await caller.ask(produce_frame(9, "tea", batch(2, producer=(5, 0, 0))))
            assert [event for event, *_ in witness.seen] == ["appended"]

    asyncio.run(main())
