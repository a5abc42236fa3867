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


def test_one_missing_partition():
    async def run():
        async with AsyncBroker() as broker:
            await broker.create_topic("t")
            await write(broker, 5)
            async with consumer_of(broker, request_timeout_ms=2000) as consumer:
                consumer.assign([TopicPartition("t", 7), PARTITION])
                async with asyncio.timeout(5):
                    assert await read(consumer, 5) == list(range(5))
    asyncio.run(run())


@pytest.mark.parametrize("how", [{}, {"group_id": "g"}, {"group_id": "g", "group_protocol": "consumer"}])
def test_close_while_another_task_iterates(how):
    async def run():
        async with AsyncBroker() as broker:
            await broker.create_topic("t")
            await write(broker, 5)
            consumer = consumer_of(broker, "t", **how)
            await consumer.start()
            seen = []
            async def loop():
                async for r in consumer:
                    seen.append(r)
            task = asyncio.ensure_future(loop())
            async with asyncio.timeout(10):
                while len(seen) < 5:
                    await asyncio.sleep(0.01)
                await asyncio.sleep(0.1)
                await consumer.close()
                with pytest.raises(ClosedError):
                    await task
            left = [t for t in asyncio.all_tasks() if 'ottla/client' in repr(t)]
            assert not left
    asyncio.run(run())


def test_close_from_another_thread():
    with Broker() as broker:
        broker.create_topic("t")
        c = Consumer("t", bootstrap_servers=broker.bootstrap_server, group_id="g")
        out = []
        def loop():
            try:
                for r in c: pass
            except BaseException as e:
                out.append(e)
        t = threading.Thread(target=loop, daemon=True); t.start()
        time.sleep(1)
        c.close()
        t.join(5)
        assert not t.is_alive()
        assert isinstance(out[0], ClosedError), out


def test_autocommit_spin():
    async def run():
        async with AsyncBroker() as broker:
            await broker.create_topic("t")
            await write(broker, 5)
            async with consumer_of(broker, group_id="g", auto_commit_interval_ms=20) as consumer:
                consumer.assign([PARTITION])
                await read(consumer, 5)
                broker.delay("OffsetCommit", 1.0)
                n = 0
                tend = consumer._reader._tend
                async def counted(d):
                    nonlocal n
                    n += 1
                    await tend(d)
                consumer._reader._tend = counted
                await consumer.poll(600)
                print("turns", n)
                assert n < 100
    asyncio.run(run())


def test_blocking_callback_error_loses_records():
    with Broker() as broker:
        broker.create_topic("t")
        from ottla.client.producer.blocking import Producer
        with Producer(bootstrap_servers=broker.bootstrap_server) as p:
            for i in range(3): p.send("t", b"%d" % i)
        c = Consumer(bootstrap_servers=broker.bootstrap_server, group_id="g", auto_offset_reset="earliest", enable_auto_commit=False)
        with c:
            c.assign([PARTITION])
            def bad(*_): raise ValueError("x")
            c.commit_async({PARTITION: 0}, bad)
            found = []
            for _ in range(5):
                try:
                    for rs in c.poll(500).values(): found += [r.offset for r in rs]
                except ValueError:
                    pass
            assert found == [0, 1, 2]


def test_recreated_topic(server, new_topic):
    from tests.client.test_consumer_reading import produce
    topic = new_topic()
    tp = TopicPartition(topic, 0)
    async def run():
        produce(server, topic, [b"a", b"b", b"c"])
        async with AsyncConsumer(bootstrap_servers=server, auto_offset_reset="earliest", metadata_max_age_ms=500) as consumer, AsyncAdmin(bootstrap_servers=server) as admin:
            consumer.assign([tp])
            got = []
            async with asyncio.timeout(20):
                while len(got) < 3:
                    for rs in (await consumer.poll(500)).values(): got += [r.value for r in rs]
                await admin.delete_topics([topic])
                from tests.client.conftest import create_topic
                while True:
                    try:
                        await create_topic(server, topic, 1); break
                    except AssertionError: await asyncio.sleep(0.1)
                await asyncio.to_thread(produce, server, topic, [b"d"])
                while len(got) < 4:
                    for rs in (await consumer.poll(500)).values(): got += [r.value for r in rs]
                assert got == [b"a", b"b", b"c", b"d"]
    asyncio.run(run())


@pytest.mark.parametrize("how", [{}, {"group_protocol": "consumer"}])
def test_listener_polls(how):
    async def run():
        async with AsyncBroker() as broker:
            await broker.create_topic("t")
            await write(broker, 5)
            async with consumer_of(broker, group_id="g", **how) as consumer:
                calls = []
                class L(RebalanceListener):
                    async def on_partitions_assigned(self, a):
                        calls.append("a")
                        await consumer.poll(0)
                    async def on_partitions_revoked(self, a):
                        calls.append("r")
                        await consumer.poll(0)
                consumer.subscribe(["t"], listener=L())
                with pytest.raises(IllegalStateError):
                    async with asyncio.timeout(5):
                        await read(consumer, 5)
                print(calls)
                consumer._subscription.listener = None
    asyncio.run(run())


def test_deleted_topic_close():
    async def run():
        async with AsyncBroker() as broker:
            await broker.create_topic("t")
            await write(broker, 5)
            async with AsyncAdmin(bootstrap_servers=broker.bootstrap_server) as admin:
              consumer = consumer_of(broker, group_id="g")
              await consumer.start()
              consumer.assign([PARTITION])
              await read(consumer, 5)
              await admin.delete_topics(["t"])
              async with asyncio.timeout(5):
                await consumer.close()
    asyncio.run(run())


def test_getone_unsubscribed():
    async def run():
        async with AsyncBroker() as broker:
            async with consumer_of(broker) as consumer:
                with pytest.raises(IllegalStateError):
                    async with asyncio.timeout(2):
                        await consumer.getone()
    asyncio.run(run())


def test_session_errors_spin():
    async def run():
        async with AsyncBroker() as broker:
            await broker.create_topic("t")
            await write(broker, 5)
            async with consumer_of(broker, retry_backoff_ms=50) as consumer:
                consumer.assign([PARTITION])
                await read(consumer, 5)
                broker.fail_next("Fetch", "FETCH_SESSION_ID_NOT_FOUND", times=100000)
                await consumer.poll(500)
                left = broker.faults.pending["Fetch"]
                print("fetches", 100000 - left)
                broker.faults.clear()
                assert left > 99950
    asyncio.run(run())


def test_hostile_host():
    from ottla.client.metadata import Node
    async def run():
        async with AsyncBroker() as broker:
            await broker.create_topic("t")
            await write(broker, 5)
            async with consumer_of(broker) as consumer:
                from ottla.core.hosts import Address
                for a in [Address("a" * 100, 9), Address("127.0.0.1", 99999), Address("", 1), Address("a..b", 1), Address("127.0.0.1", -1), Address("a\0b", 1)]:
                    try:
                        await consumer._reader.cluster.connections.to(a)
                    except Exception as e:
                        print(a, type(e), e)
                        assert isinstance(e, KafkaError)
    asyncio.run(run())


def test_never_retrieved(caplog):
    import gc
    async def run():
        async with AsyncBroker() as broker:
            await broker.create_topic("t")
            consumer = consumer_of(broker, default_api_timeout_ms=200)
            await consumer.start()
            broker.pause()
            with pytest.raises(KafkaError):
                await consumer.topics(timeout_ms=100)
            await consumer.close(timeout_ms=100)
            broker.resume()
    asyncio.run(run())
    gc.collect()
    assert "never retrieved" not in caplog.text


def test_empty_group_id():
    async def run():
        async with AsyncBroker() as broker:
            await broker.create_topic("t")
            async with consumer_of(broker, "t", group_id="") as consumer:
                with pytest.raises(KafkaError) as e:
                    await consumer.poll(5000)
                print(repr(e.value))
    asyncio.run(run())


def test_interrupt_gives_back():
    from ottla.client.producer.blocking import Producer
    main = threading.main_thread().ident
    class Interrupts:
        left = 1
        def on_consume(self, records):
            if self.left:
                self.left = 0
                signal.pthread_kill(main, signal.SIGINT)
            return records
    with Broker() as broker:
        broker.create_topic("t")
        with Producer(bootstrap_servers=broker.bootstrap_server) as p:
            for i in range(3): p.send("t", b"%d" % i)
        with Consumer(bootstrap_servers=broker.bootstrap_server, group_id="g", auto_offset_reset="earliest", interceptors=[Interrupts()]) as c:
            c.assign([PARTITION])
            with pytest.raises(KeyboardInterrupt):
                while True: c.poll(5000)
            assert c.position(PARTITION) == 0
            got = []
            while len(got) < 3:
                for rs in c.poll(500).values(): got += [r.offset for r in rs]
            assert got == [0, 1, 2]
