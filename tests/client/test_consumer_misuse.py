"""Consumers that are closed, polled, interrupted and forked in the middle of something: no record is lost or handed out
twice for it, nothing hangs, and nothing is left behind."""

import asyncio
import os
import random
import signal
import threading

import pytest

from ottla.client.consumer.blocking import Consumer
from ottla.client.errors import ClosedError, IllegalStateError
from ottla.client.listener import RebalanceListener
from ottla.client.producer.blocking import Producer
from ottla.core.ids import TopicPartition
from ottla.testing.broker import AsyncBroker, Broker
from tests.client.test_consumer_faults import PARTITION, consumer_of, read, write

HOWS = pytest.mark.parametrize(
    "how",
    [{}, {"group_id": "g"}, {"group_id": "g", "group_protocol": "consumer"}],
    ids=["alone", "classic", "consumer"],
)


def nothing_is_left():
    return not [task for task in asyncio.all_tasks() if "ottla/client" in repr(task)]


class Does(RebalanceListener):
    """Does the same whatever it is told."""

    def __init__(self, function):
        self._function = function

    def on_partitions_assigned(self, assigned):
        return self._function()

    def on_partitions_revoked(self, revoked):
        return self._function()


@HOWS
def test_who_iterates_while_another_task_closes_is_told_and_does_not_join_again(how):
    async def run():
        async with AsyncBroker(memory=True) as broker:
            await broker.create_topic("t")
            await write(broker, 5)
            consumer = consumer_of(broker, "t", **how)
            await consumer.start()
            seen = asyncio.Semaphore(0)

            async def iterate():
                async for _ in consumer:
                    seen.release()

            task = asyncio.ensure_future(iterate())
            async with asyncio.timeout(20):
                for _ in range(5):
                    await seen.acquire()
                await consumer.close()
                with pytest.raises(ClosedError, match="was closed"):
                    await task
            assert nothing_is_left()

    asyncio.run(run())


def test_who_iterates_while_another_thread_closes_is_told():
    with Broker(memory=True) as broker:
        broker.create_topic("t")
        consumer = Consumer("t", bootstrap_servers=broker.bootstrap_server, group_id="g")
        errors = []

        def iterate():
            try:
                for _ in consumer:
                    pass
            except ClosedError as error:
                errors.append(error)

        thread = threading.Thread(target=iterate, daemon=True)
        thread.start()
        while not consumer.assignment():
            pass
        consumer.close()
        thread.join(20)
        assert len(errors) == 1


@HOWS
def test_a_listener_may_close_its_consumer(how):
    async def run():
        async with AsyncBroker(memory=True) as broker:
            await broker.create_topic("t")
            consumer = consumer_of(broker, **how)
            await consumer.start()
            consumer.subscribe(["t"], listener=Does(consumer.close))
            async with asyncio.timeout(20):
                with pytest.raises(ClosedError):
                    await consumer.poll(-1)
            assert nothing_is_left()

    asyncio.run(run())


@HOWS
def test_also_without_an_event_loop(how):
    with Broker(memory=True) as broker:
        broker.create_topic("t")
        consumer = Consumer(bootstrap_servers=broker.bootstrap_server, **how)
        consumer.subscribe(["t"], listener=Does(consumer.close))
        with pytest.raises(ClosedError):
            next(consumer)


@HOWS
def test_a_listener_that_polls_is_told_not_to(how):
    async def run():
        async with AsyncBroker(memory=True) as broker:
            await broker.create_topic("t")
            await write(broker, 5)
            async with consumer_of(broker, **how) as consumer:
                consumer.subscribe(["t"], listener=Does(consumer.poll))
                with pytest.raises(IllegalStateError, match="a poll is under way"):
                    await read(consumer, 5)
                assert await read(consumer, 5) == list(range(5))
                consumer.subscribe(["t"])

    asyncio.run(run())


def test_two_tasks_do_not_poll_at_once():
    async def run():
        async with AsyncBroker(memory=True) as broker:
            await broker.create_topic("t")
            async with consumer_of(broker, "t", group_id="g") as consumer:
                first = asyncio.ensure_future(consumer.getone())
                await asyncio.sleep(0)
                with pytest.raises(IllegalStateError, match="one task reads at a time"):
                    await consumer.poll()
                await write(broker, 1)
                assert (await first).offset == 0

    asyncio.run(run())


def test_who_reads_nothing_does_not_wait_for_it():
    async def run():
        async with AsyncBroker(memory=True) as broker, consumer_of(broker) as consumer:
            with pytest.raises(IllegalStateError, match="subscribe"):
                await consumer.getone()

    asyncio.run(run())


@HOWS
@pytest.mark.parametrize("way", ["poll", "getone"])
def test_calls_that_are_cancelled_at_any_moment_lose_nothing(how, way):
    async def run():
        async with AsyncBroker(memory=True) as broker:
            await broker.create_topic("t")
            async with consumer_of(broker, "t", **how) as consumer:

                async def fill():
                    for turn in range(30):
                        await write(broker, 10, first=10 * turn)

                filling = asyncio.ensure_future(fill())
                found = []
                while len(found) < 300:
                    try:
                        async with asyncio.timeout(random.random() / 100):
                            if way == "getone":
                                found.append(int((await consumer.getone()).value))
                            else:
                                for records in (await consumer.poll(1000, 7)).values():
                                    found += [int(record.value) for record in records]
                    except TimeoutError:
                        pass
                await filling
                assert found == list(range(300))

    asyncio.run(run())


def test_a_listener_that_fails_without_a_group_does_not_keep_partitions_from_moving():
    async def run():
        async with AsyncBroker(memory=True) as broker:
            await broker.create_topic("t")
            await broker.create_topic("u")
            async with consumer_of(broker) as consumer:
                consumer.subscribe(["t"])
                while not consumer.assignment():
                    await consumer.poll(100)
                consumer.subscribe(["u"], listener=Does(lambda: 1 / 0))
                errors = 0
                async with asyncio.timeout(20):
                    while consumer.assignment() != {TopicPartition("u", 0)}:
                        try:
                            await consumer.poll(100)
                        except ZeroDivisionError:
                            errors += 1
                assert errors in (1, 2), (
                    "for what was given up and what was taken over, in one poll or in two"
                )
                consumer.subscribe(["u"])

    asyncio.run(run())


# --- without an event loop ------------------------------------------------------------------------------------------


@pytest.fixture
def filled():
    with Broker(memory=True) as broker:
        broker.create_topic("t")
        with Producer(bootstrap_servers=broker.bootstrap_server) as producer:
            for number in range(3):
                producer.send("t", b"%d" % number)
        yield broker


def blocking(broker, **settings):
    start = {"bootstrap_servers": broker.bootstrap_server, "auto_offset_reset": "earliest"}
    return Consumer(**start, group_id="g", **settings)


def offsets(consumer):
    found = []
    while len(found) < 3:
        found += [record.offset for records in consumer.poll(500).values() for record in records]
    return found


def test_a_callback_that_fails_does_not_take_away_what_a_poll_returns(filled, caplog):
    with blocking(filled, enable_auto_commit=False) as consumer:
        consumer.assign([PARTITION])
        consumer.commit_async({PARTITION: 0}, lambda offsets, error: 1 / 0)
        assert offsets(consumer) == [0, 1, 2]
        while "ZeroDivisionError" not in caplog.text:
            consumer.poll(10)


class Interrupts:
    """Presses Ctrl-C when records are on their way to the application."""

    is_done = False

    def on_consume(self, records):
        if not self.is_done:
            self.is_done = True
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        return records


def test_records_that_an_interrupt_kept_from_the_application_are_not_committed_but_come_again(filled):
    with blocking(filled, interceptors=[Interrupts()]) as consumer:
        consumer.assign([PARTITION])
        with pytest.raises(KeyboardInterrupt):
            offsets(consumer)
        assert consumer.position(PARTITION) == 0
        assert offsets(consumer) == [0, 1, 2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_that_was_forked_off_does_not_go_on_with_its_parents_records(filled):
    with blocking(filled) as consumer:
        consumer.assign([PARTITION])
        assert next(consumer).offset == 0
        reads, writes = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.write(writes, repr(next(consumer)).encode())
            except BaseException as error:
                os.write(writes, repr(error).encode())
            finally:
                os._exit(0)
        os.close(writes)
        with os.fdopen(reads) as said:
            assert "stayed behind in a fork" in said.read()
        os.waitpid(pid, 0)
        assert next(consumer).offset == 1
