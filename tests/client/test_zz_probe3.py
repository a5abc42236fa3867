import asyncio, threading, signal, time, logging
import pytest
from ottla.client.consumer.consumer import AsyncConsumer
from ottla.client.errors import *
from ottla.client.listener import RebalanceListener
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.testing.broker import AsyncBroker, Broker
from tests.client.test_consumer_faults import consumer_of, write, read, PARTITION


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_async_commit_before_rebalance(strategy):
    async def run():
        async with AsyncBroker(memory=True) as broker:
            await broker.create_topic("t")
            await write(broker, 5)
            async with consumer_of(broker, "t", group_id="g", enable_auto_commit=False, partition_assignment_strategy=strategy) as consumer:
                await read(consumer, 5)
                broker.delay("OffsetCommit", 0.5)
                done = [consumer.commit_async(), consumer.commit_async()]
                consumer.enforce_rebalance()
                got = []
                async with asyncio.timeout(10):
                    while not all(f.done() for f in done):
                        for rs in (await consumer.poll(100)).values(): got += rs
                    for rs in (await consumer.poll(500)).values(): got += rs
                print([f.exception() for f in done], len(got))
                assert not any(f.exception() for f in done) and not got
    asyncio.run(run())


@pytest.mark.parametrize("proto", ["classic", "consumer"])
def test_async_commit_before_unsubscribe(proto):
    async def run():
        async with AsyncBroker(memory=True) as broker:
            await broker.create_topic("t")
            await write(broker, 5)
            async with consumer_of(broker, "t", group_id="g", enable_auto_commit=False, group_protocol=proto) as consumer:
                await read(consumer, 5)
                broker.delay("OffsetCommit", 0.2)
                done = [consumer.commit_async(), consumer.commit_async()]
                await consumer.unsubscribe()
                await asyncio.wait(done)
                print([f.exception() for f in done])
                assert not any(f.exception() for f in done)
    asyncio.run(run())
