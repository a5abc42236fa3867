import asyncio, threading, signal, time, logging
import pytest
from ottla.client.consumer.consumer import AsyncConsumer
from ottla.client.consumer.blocking import Consumer
from ottla.client.admin.admin import AsyncAdmin
from ottla.client.errors import *
from ottla.client.listener import RebalanceListener
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.testing.broker import AsyncBroker, Broker
from tests.client.test_consumer_faults import consumer_of, write, read, PARTITION
from tests.client.test_consumer_reading import produce


@pytest.mark.parametrize("is_manual", [True, False])
def test_deleted_topic_close(server, new_topic, is_manual):
    topic = new_topic()
    tp = TopicPartition(topic, 0)
    async def run():
        await asyncio.to_thread(produce, server, topic, [b"a", b"b", b"c"])
        async with AsyncAdmin(bootstrap_servers=server) as admin:
              consumer = AsyncConsumer(bootstrap_servers=server, auto_offset_reset="earliest", group_id=topic + "g", allow_auto_create_topics=False)
              await consumer.start()
              consumer.assign([tp]) if is_manual else consumer.subscribe([topic])
              got = 0
              while got < 3:
                  got += sum(map(len, (await consumer.poll(500)).values()))
              await admin.delete_topics([topic])
              t = time.monotonic()
              await consumer.close()
              print("took", time.monotonic() - t)
              assert time.monotonic() - t < 10
    asyncio.run(run())


CALLS = {
    "position": lambda c: c.position(TopicPartition("t", 1), timeout_ms=200),
    "begin": lambda c: c.seek_to_beginning(timeout_ms=200),
    "end": lambda c: c.end_offsets([PARTITION], timeout_ms=200),
    "times": lambda c: c.offsets_for_times({PARTITION: 1}, timeout_ms=200),
    "seektime": lambda c: c.seek_to_time(1, timeout_ms=200),
    "commit": lambda c: c.commit({PARTITION: 1}, timeout_ms=200),
    "committed": lambda c: c.committed(PARTITION, timeout_ms=200),
    "topics": lambda c: c.topics(timeout_ms=200),
    "pft": lambda c: c.partitions_for_topic("x", timeout_ms=200),
    "poll": lambda c: c.poll(200),
    "getmany": lambda c: c.getmany(timeout_ms=200),
    "unsubscribe": lambda c: c.unsubscribe(timeout_ms=200),
    "close": lambda c: c.close(timeout_ms=200),
}
@pytest.mark.parametrize("proto", ["classic", "consumer"])
@pytest.mark.parametrize("call", CALLS)
def test_timeouts_paused(call, proto):
    async def run():
        async with AsyncBroker(memory=True) as broker:
            await broker.create_topic("t", 2)
            await write(broker, 5)
            consumer = consumer_of(broker, "t", group_id="g", group_protocol=proto)
            await consumer.start()
            await read(consumer, 5)
            broker.pause()
            t = time.monotonic()
            try:
                r = await CALLS[call](consumer)
                print("returned", r)
            except KafkaError as e:
                print(repr(e))
            took = time.monotonic() - t
            print("took", took)
            t = time.monotonic()
            await consumer.close(timeout_ms=200)
            print("close took", time.monotonic() - t)
            broker.resume()
            assert took < 1.2
            assert time.monotonic() - t < 1.5
    asyncio.run(run())


@pytest.mark.parametrize("what", ["idle", "paused", "dead", "silent", "missing", "leaderless"])
@pytest.mark.parametrize("how", [{}, {"group_id": "g"}, {"group_id": "g", "group_protocol": "consumer"}])
def test_idle_cpu(what, how):
    async def run():
        async with AsyncBroker(memory=True) as broker:
            await broker.create_topic("t", 2)
            await write(broker, 5)
            consumer = AsyncConsumer("t" if what != "missing" else "u", bootstrap_servers=broker.bootstrap_server, auto_offset_reset="earliest", allow_auto_create_topics=False, **how)
            async with consumer:
                if what != "missing":
                    await read(consumer, 5)
                if what == "paused": consumer.pause(*consumer.assignment())
                if what == "dead": await broker.kill()
                if what == "silent": broker.pause()
                n = 0
                tend = consumer._reader._tend
                async def counted(d):
                    nonlocal n
                    n += 1
                    await tend(d)
                consumer._reader._tend = counted
                md = consumer._reader.cluster.metadata.version
                c0 = time.process_time()
                try:
                    await consumer.poll(2000)
                except KafkaError as e: print(repr(e))
                print("CPU", time.process_time() - c0, "turns", n, "metadata", consumer._reader.cluster.metadata.version - md, consumer.metrics())
                broker.resume()
                if what == "dead": await broker.start()
                await consumer.close(timeout_ms=1000)
                assert n < 60
    asyncio.run(run())
