"""Records that fail: tried again where they lie, or in other topics, against a real broker."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ottla.client import AsyncConsumer, AsyncProducer, Consumer, ConsumerRecord, Producer, TopicPartition
from ottla.client.helpers.attempts import Attempts, drop
from ottla.client.helpers.dead_letters import AsyncDeadLetters, DeadLetters
from ottla.client.helpers.failures import Failure
from ottla.client.helpers.retry import AsyncRetryInPlace, RetryInPlace
from ottla.client.helpers.retry_topics import AsyncRetryTopics, RetryPlan, RetryTopics
from ottla.core.errors import ConfigError, KafkaError
from tests.client.conftest import create_topic, unused_name

PROTOCOLS: dict[str, dict[str, Any]] = {
    "eager": {"partition_assignment_strategy": ["range"]},
    "cooperative": {"partition_assignment_strategy": ["cooperative-sticky"]},
    "consumer": {"group_protocol": "consumer"},
}
SOON = Attempts(count=1000, first_pause_ms=1, pause_ms_max=5)
BY_HAND: dict[str, Any] = {
    "enable_auto_commit": False,
    "auto_offset_reset": "earliest",
    "heartbeat_interval_ms": 200,  # members hear soon of each other
}


@asynccontextmanager
async def consumer(server: str, *topics: str, **more: Any) -> AsyncIterator[AsyncConsumer]:
    settings = {"bootstrap_servers": server, "group_id": unused_name("group"), **BY_HAND, **more}
    async with AsyncConsumer(*topics, **settings) as made:
        yield made


async def fill(server: str, topic: str, count: int, partitions: int = 1) -> None:
    """Values 0, 1, 2... with a header, by turns in each partition."""
    async with AsyncProducer(bootstrap_servers=server) as producer:
        for number in range(count):
            await producer.send(
                topic, b"%d" % number, key=b"k", headers=[("trace", b"x")], partition=number % partitions
            )


async def read(server: str, topic: str, count: int) -> list[ConsumerRecord]:
    """The first records of a topic, as one sees them who reads what is committed."""
    found: list[ConsumerRecord] = []
    settings = {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}
    async with AsyncConsumer(topic, bootstrap_servers=server, **settings) as reader:
        while len(found) < count:
            for records in (await reader.poll(timeout_ms=500)).values():
                found += records
    return found


async def committed(reader: AsyncConsumer, topic: str, partition: int = 0) -> int | None:
    place = await reader.committed(TopicPartition(topic, partition))
    return None if place is None else place.offset


# --- in place -------------------------------------------------------------------------------------------------------


def test_a_record_is_tried_again_before_those_behind_it(server, new_topic):
    topic = new_topic()

    async def run() -> None:
        await fill(server, topic, 5)
        seen: list[int] = []

        async def handle(record: ConsumerRecord) -> None:
            seen.append(int(record.value))
            if seen.count(2) < 3 and record.value == b"2":
                raise ValueError("not yet")

        async with consumer(server, topic) as reader:
            assert await AsyncRetryInPlace(reader, handle, SOON).run(5) == 5
            assert seen == [0, 1, 2, 2, 2, 3, 4]
            assert await committed(reader, topic) == 5
            assert reader.paused() == set()

    asyncio.run(run())


def test_other_partitions_go_on_while_one_waits(server, new_topic):
    topic = new_topic(2)

    async def run() -> None:
        await fill(server, topic, 20, 2)
        seen: list[int] = []

        def handle(record: ConsumerRecord) -> None:
            if record.value == b"0" and len(seen) < 10:
                raise ValueError("the others first")
            seen.append(int(record.value))

        async with consumer(server, topic) as reader:
            assert await AsyncRetryInPlace(reader, handle, SOON).run(20) == 20
        assert sorted(seen[:10]) == list(range(1, 20, 2))
        assert seen[10:] == list(range(0, 20, 2))

    asyncio.run(run())


def test_in_the_end_a_record_becomes_a_dead_letter_and_stays_as_it_is(server, new_topic):
    topic = new_topic()

    async def run() -> None:
        await create_topic(server, f"{topic}.dlq")
        await fill(server, topic, 3)

        def handle(record: ConsumerRecord) -> None:
            if record.value == b"1":
                raise LookupError("no such customer")

        async with consumer(server, topic) as reader, AsyncProducer(bootstrap_servers=server) as producer:
            work = AsyncRetryInPlace(
                reader, handle, Attempts(count=3, first_pause_ms=1), AsyncDeadLetters(producer)
            )
            assert await work.run(3) == 3
            assert await committed(reader, topic) == 3
        (letter,) = await read(server, f"{topic}.dlq", 1)
        assert (letter.key, letter.value, letter.headers[0]) == (b"k", b"1", ("trace", b"x"))
        found = Failure.of(letter)
        assert (found.topic, found.partition, found.offset, found.attempt) == (topic, 0, 1, 3)
        assert (found.exception, found.reason) == ("builtins.LookupError", "no such customer")
        assert 0 < found.timestamp <= found.first_failure_ms <= found.last_failure_ms and found.due_ms == -1

    asyncio.run(run())


def test_an_error_that_ends_the_loop_loses_nothing(server, new_topic):
    topic = new_topic()

    async def run() -> None:
        await fill(server, topic, 4)
        seen: list[bytes] = []

        def handle(record: ConsumerRecord) -> None:
            seen.append(record.value)
            if seen == [b"0", b"1", b"2"]:
                raise ValueError("no")

        async with consumer(server, topic) as reader:
            work = AsyncRetryInPlace(reader, handle, Attempts(count=1))
            with pytest.raises(ValueError, match="no"):
                await work.run()
            assert await committed(reader, topic) == 2
            assert await work.run(2) == 2
        assert seen == [b"0", b"1", b"2", b"2", b"3"]

    asyncio.run(run())


def test_a_record_that_cannot_be_read_becomes_a_dead_letter_with_its_bytes(server, new_topic):
    topic = new_topic()

    async def run() -> None:
        await create_topic(server, f"{topic}.dlq")
        async with AsyncProducer(bootstrap_servers=server) as producer:
            for value in (b"1", b"\xff", b"3"):
                await producer.send(topic, value)
            await producer.flush()
            seen: list[int] = []
            async with consumer(server, topic, value_deserializer=int) as reader:
                work = AsyncRetryInPlace(
                    reader, lambda record: seen.append(record.value), SOON, AsyncDeadLetters(producer)
                )
                assert await work.run(3) == 3
                assert await committed(reader, topic) == 3
        assert seen == [1, 3]
        (letter,) = await read(server, f"{topic}.dlq", 1)
        assert letter.value == b"\xff" and Failure.of(letter).offset == 1

    asyncio.run(run())


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_partition_that_moves_while_its_record_waits_is_not_worked_on_twice_at_once(
    server, new_topic, protocol
):
    topic = new_topic(2)

    async def run() -> None:
        await fill(server, topic, 20, 2)
        done: list[int] = []
        works: list[AsyncRetryInPlace] = []
        assigned: list[frozenset[TopicPartition]] = [frozenset(), frozenset()]

        def handle(member: int, reader: AsyncConsumer, record: ConsumerRecord) -> None:
            assigned[member] = frozenset(reader.assignment())
            if record.offset == 5 and not all(assigned):
                raise ValueError("until the other one has come")
            assert record.topic_partition in reader.assignment()
            done.append(int(record.value))
            if len(set(done)) == 20:
                for work in works:
                    work.stop()

        async def member(number: int, reader: AsyncConsumer) -> None:
            work = AsyncRetryInPlace(reader, lambda record: handle(number, reader, record), SOON)
            works.append(work)
            await work.run()

        settings = {"group_id": unused_name("group"), **PROTOCOLS[protocol]}
        async with consumer(server, topic, **settings) as one, consumer(server, topic, **settings) as two:
            first = asyncio.create_task(member(0, one))
            while len(done) < 10:  # both partitions are stuck in the middle
                await asyncio.sleep(0.01)
            await asyncio.gather(first, member(1, two))
            assert await committed(one, topic, 0) == await committed(one, topic, 1) == 10
        assert sorted(done) == list(range(20))  # what was done is committed before anything moves

    asyncio.run(run())


def test_the_blocking_one_does_the_same(server, new_topic):
    topic = new_topic()
    asyncio.run(create_topic(server, f"{topic}.dlq"))
    asyncio.run(fill(server, topic, 4))
    seen: list[int] = []

    def handle(record: ConsumerRecord) -> None:
        seen.append(int(record.value))
        if record.value == b"1":
            raise ValueError("never")

    with (
        Consumer(topic, bootstrap_servers=server, group_id=unused_name(), **BY_HAND) as reader,
        Producer(bootstrap_servers=server) as producer,
    ):
        work = RetryInPlace(reader, handle, Attempts(count=2, first_pause_ms=1), DeadLetters(producer))
        while work.step() == 0 or not work.waiting:
            pass
        assert work.waiting == {TopicPartition(topic, 0)} == reader.paused()
        assert work.run(3) == 3
        assert seen == [0, 1, 1, 2, 3]
        assert reader.committed(TopicPartition(topic, 0)).offset == 4
    assert len(asyncio.run(read(server, f"{topic}.dlq", 1))) == 1


def test_a_handler_can_stop_the_loop(server, new_topic):
    topic = new_topic()
    asyncio.run(fill(server, topic, 3))
    with Consumer(topic, bootstrap_servers=server, group_id=unused_name(), **BY_HAND) as reader:
        work = RetryInPlace(reader, lambda record: work.stop(), on_exhausted=drop)
        assert work.run() == 3


def test_a_consumer_that_commits_by_itself_is_refused(server):
    with (
        Consumer(bootstrap_servers=server, group_id="g") as reader,
        pytest.raises(ConfigError, match=r"enable\.auto\.commit"),
    ):
        RetryInPlace(reader, print)


# --- in other topics ------------------------------------------------------------------------------------------------


async def plan_for(server: str, topic: str, *delays_ms: float, **settings: str) -> RetryPlan:
    plan = RetryPlan(topic, delays_ms)
    for each in [*plan.topics[1:], *plan.dead_letter_topics]:
        await create_topic(server, each, configs=settings)
    return plan


def test_a_record_is_tried_again_in_later_topics_and_looks_the_same_there(server, new_topic):
    topic = new_topic()

    async def run() -> None:
        plan = await plan_for(server, topic, 1, 5)
        await fill(server, topic, 4)
        seen: list[ConsumerRecord] = []

        async def handle(record: ConsumerRecord) -> None:
            seen.append(record)
            if record.value == b"1" and len([each for each in seen if each.value == b"1"]) < 3:
                raise ValueError("not yet")

        async with (
            consumer(server, *plan.topics) as reader,
            AsyncProducer(bootstrap_servers=server) as producer,
        ):
            assert await AsyncRetryTopics(reader, producer, handle, plan).run(6) == 6
            for each in plan.topics:
                assert await committed(reader, each) == (4 if each == topic else 1)
        assert [each.value for each in seen] == [b"0", b"1", b"2", b"3", b"1", b"1"]
        tries = {
            (each.topic, each.offset, each.timestamp, each.key, each.headers)
            for each in seen
            if each.value == b"1"
        }
        assert len(tries) == 1

    asyncio.run(run())


def test_what_fails_everywhere_or_is_not_worth_it_is_a_dead_letter(server, new_topic):
    topic = new_topic()

    async def run() -> None:
        plan = await plan_for(server, topic, 1)
        await fill(server, topic, 3)

        def handle(record: ConsumerRecord) -> None:
            raise TypeError("hopeless") if record.value == b"2" else OSError("away")

        async with (
            consumer(server, *plan.topics) as reader,
            AsyncProducer(bootstrap_servers=server) as producer,
        ):
            work = AsyncRetryTopics(reader, producer, handle, plan, lambda error: isinstance(error, OSError))
            assert await work.run(5) == 5
        letters = await read(server, f"{topic}.dlq", 3)
        assert {(each.value, Failure.of(each).attempt) for each in letters} == {
            (b"0", 2),
            (b"1", 2),
            (b"2", 1),
        }

    asyncio.run(run())


def test_a_delay_pauses_its_partition_and_nothing_else(server, new_topic):
    topic = new_topic()

    async def run() -> None:
        plan = await plan_for(server, topic, 3_600_000)
        await fill(server, topic, 1)
        retry = TopicPartition(plan.topics[1], 0)

        def handle(record: ConsumerRecord) -> None:
            if record.value == b"0":
                raise ValueError("in an hour")

        async with (
            consumer(server, *plan.topics) as reader,
            AsyncProducer(bootstrap_servers=server) as producer,
        ):
            work = AsyncRetryTopics(reader, producer, handle, plan)
            assert await work.run(1) == 1
            while not reader.paused():
                await work.step()
            assert reader.paused() == {retry} and await reader.position(retry) == 0
            await producer.send_and_wait(topic, b"1")
            assert await work.run(1) == 1
            assert await committed(reader, retry.topic) is None
        # Who reads it next finds it there, and waits as well.
        async with (
            consumer(server, retry.topic) as reader,
            AsyncProducer(bootstrap_servers=server) as producer,
        ):
            work = AsyncRetryTopics(reader, producer, handle, plan)
            while not reader.paused():
                assert await work.step() == 0

    asyncio.run(run())


@pytest.mark.parametrize("is_transactional", [False, True])
def test_a_copy_that_cannot_be_written_keeps_the_record_where_it_is(server, new_topic, is_transactional):
    topic = new_topic()

    async def run() -> None:
        plan = await plan_for(server, topic, **{"max.message.bytes": "300"})
        async with AsyncProducer(bootstrap_servers=server) as producer:
            for value in (b"small", b"x" * 1000, b"small too"):
                await producer.send(topic, value)
        seen: list[bytes] = []

        def handle(record: ConsumerRecord) -> None:
            seen.append(record.value)
            if record.value[:1] == b"x" and seen.count(record.value) < 3:
                raise ValueError("no")

        name = {"transactional_id": unused_name("id")} if is_transactional else {}
        async with (
            consumer(server, topic) as reader,
            AsyncProducer(bootstrap_servers=server, **name) as producer,
        ):
            if is_transactional:
                await producer.init_transactions()
            work = AsyncRetryTopics(reader, producer, handle, plan)
            for _ in range(2):
                with pytest.raises(KafkaError):
                    await work.run(3)
                assert await committed(reader, topic) is None
            assert await work.run(3) == 3
            assert await committed(reader, topic) == 3
        assert len(seen) == 9

    asyncio.run(run())


def test_a_transaction_holds_the_copy_and_the_offset(server, new_topic):
    topic = new_topic()
    plan = asyncio.run(plan_for(server, topic))
    asyncio.run(fill(server, topic, 3))

    def handle(record: ConsumerRecord) -> None:
        if record.value != b"1":
            raise ValueError("no")

    with (
        Producer(bootstrap_servers=server, transactional_id=unused_name("id")) as producer,
        Consumer(topic, bootstrap_servers=server, group_id=unused_name(), **BY_HAND) as reader,
    ):
        producer.init_transactions()
        assert RetryTopics(reader, producer, handle, plan).run(3) == 3
        assert reader.committed(TopicPartition(topic, 0)).offset == 3
        with pytest.raises(ConfigError, match="transactional"):
            DeadLetters(producer)
    letters = asyncio.run(read(server, f"{topic}.dlq", 2))
    assert [each.value for each in letters] == [b"0", b"2"]
