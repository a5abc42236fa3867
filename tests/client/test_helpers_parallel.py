"""Many records at a time, against a real broker."""

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ottla.client import AsyncConsumer, AsyncProducer, Consumer, ConsumerRecord, Producer, TopicPartition
from ottla.client.errors import IllegalStateError
from ottla.client.helpers.attempts import Attempts
from ottla.client.helpers.dead_letters import DeadLetters
from ottla.client.helpers.parallel import AsyncParallel, Parallel, by_partition
from ottla.client.listener import RebalanceListener
from ottla.core.errors import ConfigError
from tests.client.conftest import create_topic, unused_name
from tests.interop.brokers import eventually

BY_HAND: dict[str, Any] = {
    "enable_auto_commit": False,
    "auto_offset_reset": "earliest",
    "heartbeat_interval_ms": 200,  # members hear soon of each other
}
KEYS = 5
PROTOCOLS: dict[str, dict[str, Any]] = {
    "eager": {"partition_assignment_strategy": ["range"]},
    "cooperative": {"partition_assignment_strategy": ["cooperative-sticky"]},
    "consumer": {"group_protocol": "consumer"},
}


@asynccontextmanager
async def consumer(server: str, **more: Any) -> AsyncIterator[AsyncConsumer]:
    settings = {"bootstrap_servers": server, "group_id": unused_name("group"), **BY_HAND, **more}
    async with AsyncConsumer(**settings) as made:
        yield made


def blocking(server: str) -> Consumer:
    return Consumer(bootstrap_servers=server, group_id=unused_name("group"), **BY_HAND)


async def fill(server: str, topic: str, count: int, partitions: int = 1) -> None:
    """Values 0, 1, 2... of five keys."""
    async with AsyncProducer(bootstrap_servers=server) as producer:
        for number in range(count):
            key = number % KEYS
            await producer.send(topic, b"%d" % number, key=b"%d" % key, partition=key % partitions)


async def committed(reader: AsyncConsumer, topic: str, partition: int = 0) -> int:
    place = await reader.committed(TopicPartition(topic, partition))
    return 0 if place is None else place.offset


async def until(condition: Any) -> None:
    while not condition():
        await asyncio.sleep(0.005)


def in_order(values: list[int], count: int) -> bool:
    """Whether each key was worked on in order, and to the end."""
    return all(
        [each for each in values if each % KEYS == key] == list(range(key, count, KEYS))
        for key in range(KEYS)
    )


# --- tasks ----------------------------------------------------------------------------------------------------------


def test_keys_are_in_order_and_different_ones_in_parallel(server, new_topic):
    topic = new_topic(2)

    async def run() -> None:
        await fill(server, topic, 200, 2)
        seen: list[int] = []
        together = asyncio.Barrier(KEYS)

        async def handle(record: ConsumerRecord) -> None:
            if int(record.value) < KEYS:
                await together.wait()  # the first of a key does not pass before those of all others are here
            await asyncio.sleep(0)
            seen.append(int(record.value))

        async with consumer(server) as reader:
            work = AsyncParallel(reader, handle)
            await work.subscribe([topic])
            assert await work.run(200) == 200
            assert await committed(reader, topic, 0) + await committed(reader, topic, 1) == 200
        assert in_order(seen, 200)

    asyncio.run(run())


def test_an_offset_is_committed_when_everything_before_it_is_done(server, new_topic):
    topic = new_topic()

    async def run() -> None:
        await fill(server, topic, 10)
        seen: list[int] = []
        may_go_on = asyncio.Event()

        async def handle(record: ConsumerRecord) -> None:
            if record.value == b"3":
                await may_go_on.wait()
            seen.append(int(record.value))

        async with consumer(server) as reader:
            work = AsyncParallel(reader, handle, commit_interval_ms=0)
            await work.subscribe([topic])
            running = asyncio.create_task(work.run(10))
            await until(lambda: len(seen) == 8)  # all but 3, and 8 of the same key
            while await committed(reader, topic) < 3:
                await asyncio.sleep(0.005)
            assert await committed(reader, topic) == 3
            may_go_on.set()
            assert await running == 10 and await committed(reader, topic) == 10

    asyncio.run(run())


def test_reading_stops_while_there_is_no_room(server, new_topic):
    topic = new_topic()

    async def run() -> None:
        await fill(server, topic, 100)
        may_go_on = asyncio.Event()

        async def handle(record: ConsumerRecord) -> None:
            await may_go_on.wait()

        async with consumer(server) as reader:
            work = AsyncParallel(reader, handle, in_flight_max=10)
            await work.subscribe([topic])
            running = asyncio.create_task(work.run(100))
            await until(reader.paused)
            assert await reader.position(TopicPartition(topic, 0)) == 10
            may_go_on.set()
            assert await running == 100

    asyncio.run(run())


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_members_come_and_go_and_nothing_is_done_twice_or_lost(server, new_topic, protocol):
    topic = new_topic(4)

    async def run() -> None:
        seen: Counter[int] = Counter()
        owners: list[set[int]] = [set(), set()]
        works: list[AsyncParallel] = []

        async def member(number: int, reader: AsyncConsumer) -> None:
            async def handle(record: ConsumerRecord) -> None:
                await asyncio.sleep(0)
                seen[int(record.value)] += 1
                owners[number].add(record.partition)

            work = AsyncParallel(reader, handle, in_flight_max=50)
            works.append(work)
            await work.subscribe([topic])
            await work.run()

        group, sent = unused_name("group"), 0
        settings = {"group_id": group, **PROTOCOLS[protocol]}
        async with consumer(server, **settings) as one, consumer(server, **settings) as two:
            tasks = [asyncio.create_task(member(0, one))]
            async with AsyncProducer(bootstrap_servers=server) as producer:
                while not all(owners):  # the work goes on while the second one comes
                    await producer.send_and_wait(topic, b"%d" % sent, key=b"%d" % (sent % 20))
                    sent += 1
                    if len(seen) > 20 and len(tasks) == 1:
                        tasks.append(asyncio.create_task(member(1, two)))
            await until(lambda: len(seen) == sent)
            for work in works:
                work.stop()
            await asyncio.gather(*tasks)
            ends = await one.end_offsets([TopicPartition(topic, number) for number in range(4)])
            assert {each: await committed(one, topic, each.partition) for each in ends} == ends
        assert set(seen.values()) == {1}

    asyncio.run(run())


def test_what_is_worked_on_is_finished_and_committed_before_a_partition_goes(server, new_topic):
    topic = new_topic()

    async def run() -> None:
        await fill(server, topic, 3)
        started, may_finish = asyncio.Event(), asyncio.Event()
        told: list[int] = []

        class Listener(RebalanceListener):
            async def on_partitions_revoked(self, revoked: Any) -> None:
                told.append(await committed(reader, topic))

        async def handle(record: ConsumerRecord) -> None:
            started.set()
            await may_finish.wait()

        async with consumer(server) as reader:
            work = AsyncParallel(reader, handle, workers=2)
            await work.subscribe([topic], listener=Listener())
            running = asyncio.create_task(work.run())
            await started.wait()
            reader.enforce_rebalance()
            asyncio.get_running_loop().call_later(0.01, may_finish.set)
            await until(lambda: told)
            assert told[0] >= 2  # the two that were under way
            while await committed(reader, topic) < 3:
                await asyncio.sleep(0.005)
            work.stop()
            await running

    asyncio.run(run())


def test_an_error_ends_the_work_and_the_rest_is_read_again(server, new_topic):
    topic = new_topic()

    async def run() -> None:
        await fill(server, topic, 20)
        seen: list[int] = []

        async def handle(record: ConsumerRecord) -> None:
            if record.value == b"7" and 7 not in seen:
                seen.append(7)
                raise ValueError("no")
            seen.append(int(record.value))

        async with consumer(server) as reader:
            work = AsyncParallel(reader, handle, workers=1, key_of=by_partition)
            await work.subscribe([topic])
            with pytest.raises(ValueError, match="no"):
                await work.run()
            assert await committed(reader, topic) == 7
            assert await work.run(13) == 13
            assert await committed(reader, topic) == 20
        assert seen == [*range(8), *range(7, 20)]

    asyncio.run(run())


def test_a_record_that_fails_is_tried_again_while_other_keys_go_on(server, new_topic):
    topic = new_topic()

    async def run() -> None:
        await fill(server, topic, 50)
        seen: list[int] = []

        def handle(record: ConsumerRecord) -> None:
            if record.value == b"0" and len(seen) < 40:
                raise ValueError("the others first")
            seen.append(int(record.value))

        async with consumer(server) as reader:
            work = AsyncParallel(reader, handle, attempts=Attempts(10_000, 1, 1))
            await work.subscribe([topic])
            assert await work.run(50) == 50
        assert in_order(seen, 50)

    asyncio.run(run())


def test_a_run_that_is_cancelled_leaves_nothing_behind(server, new_topic):
    topic = new_topic()

    async def run() -> None:
        await fill(server, topic, 10)
        started, seen = asyncio.Event(), []

        async def handle(record: ConsumerRecord) -> None:
            started.set()
            await asyncio.sleep(3600)

        async with consumer(server) as reader:
            work = AsyncParallel(reader, handle)
            await work.subscribe([topic])
            running = asyncio.create_task(work.run())
            await started.wait()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            again = AsyncParallel(reader, lambda record: seen.append(int(record.value)))
            await again.subscribe([topic])
            assert await again.run(10) == 10 and in_order(seen, 10)

    asyncio.run(run())


def test_a_handler_that_cancels_itself_is_an_error(server, new_topic):
    topic = new_topic()

    async def run() -> None:
        await fill(server, topic, 1)

        async def handle(record: ConsumerRecord) -> None:
            raise asyncio.CancelledError

        async with consumer(server) as reader:
            work = AsyncParallel(reader, handle)
            await work.subscribe([topic])
            with pytest.raises(IllegalStateError, match="offset 0 of"):
                await work.run(1)

    asyncio.run(run())


# --- threads --------------------------------------------------------------------------------------------------------


def test_threads_keep_keys_in_order_too(server, new_topic):
    topic = new_topic(2)
    asyncio.run(fill(server, topic, 200, 2))
    seen: list[int] = []
    together = threading.Barrier(KEYS)

    def handle(record: ConsumerRecord) -> None:
        if int(record.value) < KEYS:
            together.wait()
        seen.append(int(record.value))

    with blocking(server) as reader:
        work = Parallel(reader, handle)
        work.subscribe([topic])
        assert work.run(200) == 200
        places = [reader.committed(TopicPartition(topic, number)).offset for number in (0, 1)]
        assert sum(places) == 200
    assert in_order(seen, 200)
    assert eventually(
        lambda: not [each for each in threading.enumerate() if each.name.startswith("ottla-worker")]
    )


def test_threads_try_again_and_write_dead_letters(server, new_topic):
    topic = new_topic()
    asyncio.run(create_topic(server, f"{topic}.dlq"))
    asyncio.run(fill(server, topic, 20))
    tries: Counter[bytes] = Counter()

    def handle(record: ConsumerRecord) -> None:
        tries[record.value] += 1
        if record.value == b"7":
            raise ValueError("never")

    with blocking(server) as reader, Producer(bootstrap_servers=server) as producer:
        work = Parallel(
            reader, handle, attempts=Attempts(3, first_pause_ms=1), on_exhausted=DeadLetters(producer)
        )
        work.subscribe([topic])
        assert work.run(20) == 20
    assert tries[b"7"] == 3 and sum(tries.values()) == 22
    with Consumer(f"{topic}.dlq", bootstrap_servers=server, auto_offset_reset="earliest") as letters:
        assert letters.getone().value == b"7"


def test_partitions_move_between_threads_too(server, new_topic):
    topic, group = new_topic(4), unused_name("group")
    seen: Counter[int] = Counter()
    owners: list[set[int]] = [set(), set()]
    works: list[Parallel] = []

    def member(number: int) -> None:
        def handle(record: ConsumerRecord) -> None:
            seen[int(record.value)] += 1
            owners[number].add(record.partition)

        with Consumer(bootstrap_servers=server, group_id=group, **BY_HAND) as reader:
            work = Parallel(reader, handle, workers=3)
            works.append(work)
            work.subscribe([topic])
            work.run()

    sent, threads = 0, [threading.Thread(target=member, args=(number,)) for number in (0, 1)]
    threads[0].start()
    with Producer(bootstrap_servers=server) as producer:
        while not all(owners):
            producer.send(topic, b"%d" % sent, key=b"%d" % (sent % 20)).get()
            sent += 1
            if len(seen) > 20 and threads[1].ident is None:
                threads[1].start()
    assert eventually(lambda: len(seen) == sent)
    for work in works:
        work.stop()
    for thread in threads:
        thread.join()
    assert set(seen.values()) == {1}


def test_a_record_that_waits_for_its_next_attempt_does_not_hold_up_the_end(server, new_topic):
    topic = new_topic()
    asyncio.run(fill(server, topic, 5))
    seen: list[int] = []

    def handle(record: ConsumerRecord) -> None:
        if record.value == b"2":
            raise ValueError("in an hour")
        seen.append(int(record.value))
        if len(seen) == 4:
            work.stop()

    with blocking(server) as reader:
        work = Parallel(reader, handle, attempts=Attempts(10, 3_600_000, 3_600_000), finish_ms=50)
        work.subscribe([topic])
        assert work.run() == 4
        assert reader.committed(TopicPartition(topic, 0)).offset == 2
        assert reader.position(TopicPartition(topic, 0)) == 2  # another run begins with it


def test_records_that_cannot_be_read_are_passed_on_and_passed_over(server, new_topic):
    topic = new_topic()
    asyncio.run(create_topic(server, f"{topic}.dlq"))
    with Producer(bootstrap_servers=server) as producer:
        for value in (b"1", b"\xff", b"3"):
            producer.send(topic, value)
        producer.flush()
        seen: list[int] = []
        settings = {"group_id": unused_name("group"), "value_deserializer": int, **BY_HAND}
        with Consumer(bootstrap_servers=server, **settings) as reader:
            work = Parallel(
                reader,
                lambda record: seen.append(record.value),
                workers=1,
                on_exhausted=DeadLetters(producer),
            )
            work.subscribe([topic])
            assert work.run(3) == 3
            assert reader.committed(TopicPartition(topic, 0)).offset == 3
    assert sorted(seen) == [1, 3]


def test_a_handler_that_wants_to_end_the_program_ends_the_work(server, new_topic):
    topic = new_topic()
    asyncio.run(fill(server, topic, 1))

    def handle(record: ConsumerRecord) -> None:
        raise SystemExit(1)

    with blocking(server) as reader:
        work = Parallel(reader, handle)
        work.subscribe([topic])
        with pytest.raises(IllegalStateError, match="SystemExit"):
            work.run(1)


def test_what_could_not_work_is_refused(server, new_topic):
    with Consumer("t", bootstrap_servers=server, group_id="g", **BY_HAND) as reader:
        with pytest.raises(IllegalStateError, match="subscribe"):
            Parallel(reader, print).run(1)
        with pytest.raises(ConfigError, match="workers"):
            Parallel(reader, print, workers=0)
    with Consumer(bootstrap_servers=server, group_id="g") as reader, pytest.raises(ConfigError):
        Parallel(reader, print)
