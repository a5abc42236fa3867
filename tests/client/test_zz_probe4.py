import asyncio, threading, signal, time, logging, random
import pytest
from ottla.client.consumer.consumer import AsyncConsumer
from ottla.client.consumer.blocking import Consumer
from ottla.client.errors import *
from ottla.client.listener import RebalanceListener
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.testing.broker import AsyncBroker, Broker
from tests.client.test_consumer_faults import consumer_of, write, read, PARTITION

HOWS = [{}, {"group_id": "g"}, {"group_id": "g", "group_protocol": "consumer"}]

@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("which", ["assigned", "revoked"])
def test_listener_closes(how, which):
    async def run():
        async with AsyncBroker(memory=True) as broker:
            await broker.create_topic("t")
            await broker.create_topic("u")
            await write(broker, 5)
            consumer = consumer_of(broker, **how)
            await consumer.start()
            class L(RebalanceListener):
                async def on_partitions_assigned(self, a):
                    if which == "assigned": await consumer.close()
                async def on_partitions_revoked(self, a):
                    if which == "revoked": await consumer.close()
            consumer.subscribe(["t"], listener=L())
            async with asyncio.timeout(10):
                with pytest.raises(ClosedError):
                    await read(consumer, 5)
                    consumer.subscribe(["u"], listener=L())
                    while True: await consumer.poll(100)
            left = [t for t in asyncio.all_tasks() if 'ottla/client' in repr(t)]
            assert not left
    asyncio.run(run())


@pytest.mark.parametrize("how", HOWS)
def test_listener_closes_blocking(how):
    with Broker(memory=True) as broker:
        broker.create_topic("t")
        consumer = Consumer(bootstrap_servers=broker.bootstrap_server, **how)
        class L(RebalanceListener):
            def on_partitions_assigned(self, a):
                consumer.close()
        consumer.subscribe(["t"], listener=L())
        t = time.monotonic()
        with pytest.raises(ClosedError):
            for r in consumer: pass
        print("took", time.monotonic() - t)
        assert time.monotonic() - t < 8


@pytest.mark.parametrize("way", ["poll", "getone", "task"])
@pytest.mark.parametrize("how", HOWS)
def test_cancelled_polls(how, way):
    async def run():
        async with AsyncBroker(memory=True) as broker:
            await broker.create_topic("t")
            async with consumer_of(broker, "t", **how) as consumer:
                async def fill():
                    for i in range(60):
                        await write(broker, 10, first=i * 10)
                        await asyncio.sleep(0.003)
                filling = asyncio.ensure_future(fill())
                got = []
                async with asyncio.timeout(40):
                    while len(got) < 600:
                        try:
                            t = random.random() * 0.01
                            if way == "getone":
                                got.append(int((await asyncio.wait_for(consumer.getone(), t)).value))
                            elif way == "poll":
                                for rs in (await asyncio.wait_for(consumer.poll(1000, 7), t)).values(): got += [int(r.value) for r in rs]
                            else:
                                async with asyncio.timeout(t):
                                    for rs in (await consumer.poll(1000, 7)).values(): got += [int(r.value) for r in rs]
                        except TimeoutError: pass
                await filling
                assert got == list(range(600))
    asyncio.run(run())


def test_alone_listener_raises():
    async def run():
        async with AsyncBroker(memory=True) as broker:
            await broker.create_topic("t")
            await broker.create_topic("u")
            async with consumer_of(broker) as consumer:
                class L(RebalanceListener):
                    def on_partitions_revoked(self, a): raise ValueError("x")
                consumer.subscribe(["t"], listener=L())
                while not consumer.assignment(): await consumer.poll(100)
                consumer.subscribe(["u"], listener=L())
                errors = 0
                async with asyncio.timeout(5):
                    while consumer.assignment() != {TopicPartition("u", 0)}:
                        try: await consumer.poll(100)
                        except ValueError: errors += 1
                print(errors)
                consumer._subscription.listener = None
    asyncio.run(run())


def test_fork_iteration():
    import os
    from ottla.client.producer.blocking import Producer
    with Broker(memory=True) as broker:
        broker.create_topic("t")
        with Producer(bootstrap_servers=broker.bootstrap_server) as p:
            for i in range(5): p.send("t", b"%d" % i)
        with Consumer("t", bootstrap_servers=broker.bootstrap_server, auto_offset_reset="earliest") as c:
            next(c)
            r, w = os.pipe()
            pid = os.fork()
            if pid == 0:
                try:
                    os.write(w, repr(next(c)).encode())
                except BaseException as e:
                    os.write(w, repr(e).encode())
                finally:
                    os._exit(0)
            os.close(w)
            said = os.read(r, 1000); os.waitpid(pid, 0)
            os.close(r)
            print(said)
            assert b"ClosedError" in said
