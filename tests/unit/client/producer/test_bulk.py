"""Many records at once: in order, within the limits of memory, and each of them counted once, well or not."""

import asyncio
import itertools
from contextlib import asynccontextmanager

import pytest

from ottla.client import AsyncConsumer, AsyncProducer
from ottla.client.errors import (
    BufferFullError,
    ClosedError,
    IllegalStateError,
    RecordTooLargeError,
    SerializationError,
    UnknownTopicError,
)
from ottla.client.producer.batch import RECORD_OVERHEAD, Batch, Home, Landed, Stretch
from ottla.core.errors import KafkaError
from ottla.core.ids import TopicPartition
from ottla.testing.broker import AsyncBroker
from ottla.testing.proxy import Proxy

QUICK = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 20, "reconnect_backoff_ms": 1}


@asynccontextmanager
async def broker_and_producer(partitions=1, configs=None, **settings):
    async with AsyncBroker(memory=True) as broker:
        await broker.create_topic("t", partitions, **(configs or {}))
        async with AsyncProducer(
            bootstrap_servers=broker.bootstrap_server, **{**QUICK, **settings}
        ) as producer:
            yield broker, producer


async def values(broker, partition=0):
    return [each.value for each in await broker.records("t", partition, timeout=0)]


def numbers(count, start=0):
    return [b"%d" % number for number in range(start, start + count)]


async def counts(producer, stretches):
    """Acknowledged, and failed."""
    await producer.flush()
    done = [each.settled() for each in stretches]
    return sum(each.acknowledged for each in done), sum(each.failed for each in done)


@pytest.mark.parametrize("settings", [{}, {"batch_size": 0}, {"batch_max_records": 7}, {"batch_size": 300}])
def test_they_arrive_in_order_whatever_batches_they_fill(settings):
    async def run():
        async with broker_and_producer(**settings) as (broker, producer):
            stretches = []
            for start in range(0, 500, 100):
                stretches += await producer.send_many("t", numbers(100, start))
                stretches += await producer.send_many("t", [])
            assert await counts(producer, stretches) == (500, 0)
            assert await values(broker) == numbers(500)
            assert max(each.settled().last_offset for each in stretches) == 499
            origins = [place for each in stretches for place in each.origins]
            assert origins == list(range(100)) * 5

    asyncio.run(run())


def test_records_with_a_key_go_where_single_ones_with_that_key_go():
    async def run():
        async with broker_and_producer(partitions=3) as (broker, producer):
            keys = [b"k%d" % (number % 10) for number in range(100)]
            stretches = await producer.send_many("t", numbers(100), keys)
            assert await counts(producer, stretches) == (100, 0)
            for key in set(keys):
                place = await producer.send_and_wait("t", b"one", key)
                found = [
                    each for each in await broker.records("t", place.partition, timeout=0) if each.key == key
                ]
                assert [each.value for each in found[:-1]] == [
                    value for value, each in zip(numbers(100), keys, strict=True) if each == key
                ]
            placed = {each.partition.partition: [] for each in stretches}
            for each in stretches:
                placed[each.partition.partition] += each.origins
            assert sorted(itertools.chain(*placed.values())) == list(range(100))
            assert all(places == sorted(places) for places in placed.values())

    asyncio.run(run())


def test_records_without_a_key_stay_in_order_within_each_partition_while_there_is_no_room():
    async def run():
        async with broker_and_producer(partitions=4, buffer_memory=3000, batch_size=500) as (
            broker,
            producer,
        ):
            sent = [b"%06d" % number + b"." * (number % 5 * 40) for number in range(2000)]
            stretches = await producer.send_many("t", sent)
            assert await counts(producer, stretches) == (2000, 0)
            found = [await values(broker, partition) for partition in range(4)]
            assert sorted(itertools.chain(*found)) == sorted(sent)
            assert all(each == sorted(each) for each in found)

    asyncio.run(run())


@pytest.mark.parametrize("limit", [{"buffer_memory": 2000}, {"buffer_max_records": 20}])
def test_no_more_than_the_buffer_takes_waits_at_any_time(limit):
    async def run():
        async with broker_and_producer(batch_size=400, **limit) as (_, producer):
            accumulator = producer._core.accumulator
            most = []

            def placed(stretches):
                most.append((accumulator.used_bytes, accumulator.used_records))
                seen.extend(stretches)

            seen = []
            assert await producer.send_many("t", numbers(1000), placed=placed) == []
            assert await counts(producer, seen) == (1000, 0)
            assert len(most) > 1
            assert max(size for size, _ in most) <= limit.get("buffer_memory", 1 << 30)
            assert max(count for _, count in most) <= limit.get("buffer_max_records", 1 << 30)
            assert (accumulator.used_bytes, accumulator.used_records) == (0, 0)

    asyncio.run(run())


@pytest.mark.parametrize(
    "settings", [{"max_block_ms": 30}, {"buffer_full": "raise"}, {"buffer_full": "drop"}]
)
def test_who_finds_no_room_is_told_and_knows_what_is_under_way(settings):
    async def run():
        async with broker_and_producer(buffer_memory=1000, batch_size=200, **settings) as (broker, producer):
            await producer.send_and_wait("t", b"first")
            broker.delay("Produce", 0.3)
            seen = []
            with pytest.raises(BufferFullError):
                await producer.send_many("t", numbers(200), placed=seen.extend)
            count = sum(each.count for each in seen)
            assert 0 < count < 200
            assert await counts(producer, seen) == (count, 0)
            assert await values(broker) == [b"first", *numbers(count)]

    asyncio.run(run())


def test_an_answer_that_is_lost_doubles_nothing_and_is_counted_once():
    async def run():
        async with AsyncBroker(memory=True) as broker, Proxy("127.0.0.1", broker.port) as proxy:
            await broker.create_topic("t")
            async with AsyncProducer(
                bootstrap_servers=proxy.bootstrap_server, batch_max_records=7, **QUICK
            ) as producer:
                for side in ("request", "response"):
                    proxy.lose("Produce", side)
                stretches = await producer.send_many("t", numbers(300))
                assert await counts(producer, stretches) == (300, 0)
                assert await values(broker) == numbers(300)

    asyncio.run(run())


def test_a_batch_that_is_too_large_for_the_topic_is_cut_and_only_what_is_too_large_fails():
    async def run():
        configs = {"max.message.bytes": 1000}
        async with broker_and_producer(configs=configs, batch_size=8000) as (broker, producer):
            sent = [b"%03d" % number + b"." * 100 for number in range(60)]
            sent[41] = b"." * 2000
            stretches = await producer.send_many("t", sent)
            assert await counts(producer, stretches) == (59, 1)
            assert await values(broker) == [each for each in sent if len(each) < 1000]
            bad = [each for each in stretches if each.settled().error is not None]
            assert [each.origins[each.settled().first_failed] for each in bad] == [41]
            assert bad[0].settled().error.code.name in ("MESSAGE_TOO_LARGE", "RECORD_LIST_TOO_LARGE")

    asyncio.run(run())


def test_what_the_broker_refuses_is_counted_once_as_failed():
    async def run():
        async with broker_and_producer(batch_max_records=10) as (broker, producer):
            await producer.send_and_wait("t", b"first")
            broker.fail_next("Produce", "INVALID_RECORD")
            calls = []
            stretches = await producer.send_many("t", numbers(30))
            for each in stretches:
                each.when_done(calls.append)
            assert await counts(producer, stretches) == (20, 10)
            assert calls == stretches
            assert len(await values(broker)) == 21

    asyncio.run(run())


def test_who_is_not_answered_in_time_hears_what_was_wrong_the_last_time():
    async def run():
        async with broker_and_producer(delivery_timeout_ms=100, request_timeout_ms=50) as (broker, producer):
            broker.fail_next("Produce", "KAFKA_STORAGE_ERROR", times=1000)
            (stretch,) = await producer.send_many("t", numbers(3))
            assert await counts(producer, [stretch]) == (0, 3)
            assert "within 100 ms (sent " in str(stretch.settled().error)
            assert "KAFKA_STORAGE_ERROR" in str(stretch.settled().error)

    asyncio.run(run())


def test_closing_fails_what_was_not_acknowledged():
    async def run():
        async with broker_and_producer() as (broker, producer):
            await producer.send_and_wait("t", b"first")
            broker.delay("Produce", 5)
            stretches = await producer.send_many("t", numbers(10))
            await producer.close(timeout_ms=0)
            assert sum(each.settled().failed for each in stretches) == 10
            with pytest.raises(ClosedError):
                await producer.send_many("t", [b"late"])

    asyncio.run(run())


def test_nothing_is_placed_if_one_of_them_is_impossible():
    async def run():
        async with broker_and_producer(max_request_size=100, buffer_memory=1000) as (broker, producer):
            seen = []
            with pytest.raises(RecordTooLargeError):
                await producer.send_many("t", [b"small", b"." * 100], placed=seen.extend)
            with pytest.raises(SerializationError, match=r"a value .* is of type str"):
                await producer.send_many("t", [b"small", "text"], placed=seen.extend)
            with pytest.raises(SerializationError, match=r"a key .* is of type int"):
                await producer.send_many("t", [b"small"], [5], placed=seen.extend)
            with pytest.raises(SerializationError, match="1 keys for 2 values"):
                await producer.send_many("t", [b"a", b"b"], [b"k"], placed=seen.extend)
            with pytest.raises(SerializationError, match="timestamp"):
                await producer.send_rows("t", [(-5, None, b"", ())], placed=seen.extend)
            await producer.flush()
            assert not seen and not await values(broker)

    asyncio.run(run())


def test_a_topic_that_is_missing_is_waited_for_and_a_partition_as_well():
    async def run():
        async with broker_and_producer(max_block_ms=50, allow_auto_create_topics=False) as (broker, producer):
            with pytest.raises(UnknownTopicError):
                await producer.send_many("none", [b"a"])
            assert "none" not in broker.topics()
            with pytest.raises(KafkaError):
                await producer.send_many("t", [b"a"], partition=7)
            await producer.send_many("t", [b"a", None], partition=0)
            await producer.flush()
            assert await values(broker) == [b"a", None]

    asyncio.run(run())


def test_rows_keep_their_own_times_and_headers():
    async def run():
        async with broker_and_producer() as (broker, producer):
            rows = [(5, b"k", b"v", [("a", b"1")]), (7, None, None, {"b": "2"}), (6, b"", b"", ())]
            await producer.send_rows("t", rows)
            await producer.send_many("t", [b"x"], headers={"all": b"3"})
            await producer.flush()
            found = await broker.records("t", 0, timeout=0)
            assert [(each.timestamp, each.key, each.value) for each in found[:3]] == [
                (5, b"k", b"v"),
                (7, None, None),
                (6, b"", b""),
            ]
            headers = [[(name, bytes(content)) for name, content in each.headers] for each in found]
            assert headers == [[("a", b"1")], [("b", b"2")], [], [("all", b"3")]]

    asyncio.run(run())


def test_a_partitioner_chooses_and_whoever_wants_to_see_single_records_is_refused():
    async def run():
        async with broker_and_producer(partitions=3, partitioner="round_robin") as (broker, producer):
            await producer.send_many("t", numbers(9))
            await producer.flush()
            assert [len(await values(broker, number)) for number in range(3)] == [3, 3, 3]
        for settings in ({"value_serializer": "string"}, {"send_waits": True}, {"interceptors": [object()]}):
            async with broker_and_producer(**settings) as (_, producer):
                with pytest.raises(IllegalStateError):
                    await producer.send_many("t", [b"a"])

    asyncio.run(run())


def test_in_a_transaction_they_are_there_together_or_not_at_all():
    async def run():
        async with broker_and_producer(transactional_id="me") as (broker, producer):
            await producer.init_transactions()
            with pytest.raises(IllegalStateError):
                await producer.send_many("t", [b"before"])
            await producer.begin_transaction()
            lost = await producer.send_many("t", numbers(5))
            await producer.abort_transaction()
            assert all(each.settled().acknowledged + each.settled().failed == each.count for each in lost)
            async with producer.transaction():
                await producer.send_many("t", numbers(5))
            assert await committed(broker) == numbers(5)

    asyncio.run(run())


async def committed(broker):
    place = TopicPartition("t", 0)
    async with AsyncConsumer(
        bootstrap_servers=broker.bootstrap_server, isolation_level="read_committed"
    ) as consumer:
        consumer.assign([place])
        await consumer.seek_to_beginning()
        end, found = (await consumer.end_offsets([place]))[place], []
        while await consumer.position(place) < end:
            for rows in (await consumer.getmany(timeout_ms=100)).values():
                found += [each.value for each in rows]
    return found


@pytest.mark.parametrize("is_many", [True, False])
@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize("count", [50, 200])
def test_who_waits_for_room_while_a_transaction_ends_does_not_join_the_next_one(is_many, commits, count):
    async def run():
        limits = {"buffer_memory": 1000, "batch_size": 200}
        async with broker_and_producer(transactional_id="me", **limits) as (broker, producer):
            seen = []

            async def send_all():
                if is_many:
                    await producer.send_many("t", numbers(count), placed=many.extend)
                else:
                    for each in numbers(count):
                        seen.append(await producer.send("t", each))

            many = []
            await producer.init_transactions()
            await producer.begin_transaction()
            await producer.send_and_wait("t", b"first")
            broker.delay("Produce", 0.02)
            sending = asyncio.create_task(send_all())
            while not producer._core.accumulator._room_waiters:
                await asyncio.sleep(0)
            await (producer.commit_transaction() if commits else producer.abort_transaction())
            with pytest.raises(IllegalStateError):
                await sending
            taken = len(seen) + sum(each.count for each in many)
            async with producer.transaction():
                await producer.send("t", b"next")
            assert 0 < taken < count
            assert await committed(broker) == [*([b"first", *numbers(taken)] if commits else []), b"next"]

    asyncio.run(run())


def test_a_stretch_over_both_halves_of_a_batch_knows_which_of_its_records_failed():
    batch = Batch(TopicPartition("t", 0), (1,), 0.0, 9.0, Home())
    batch.rows = [(0, None, b"%d" % number, ()) for number in range(10)]
    batch.in_stretches = 10
    left, right = batch.halved()
    inner, last = right.halved()
    left.finish(Landed(100))
    error = KafkaError.of(10, "too large")
    inner.finish(error)
    last.finish(Landed(105))
    right.finish(Landed(-1))
    batch.finish(Landed(-1))
    whole = Stretch(batch, 0, 10, range(10)).settled()
    assert (whole.acknowledged, whole.failed, whole.last_offset, whole.first_failed) == (8, 2, 107, 5)
    some = Stretch(batch, 3, 4, range(4)).settled()
    assert (some.acknowledged, some.failed, some.first_failed, some.error) == (2, 2, 2, error)
    good = Stretch(batch, 0, 5, range(5)).settled()
    assert (good.acknowledged, good.failed, good.first_failed, good.error) == (5, 0, -1, None)


def test_every_record_takes_what_single_ones_take():
    async def run():
        async with broker_and_producer() as (broker, producer):
            broker.delay("Produce", 0.2)
            await producer.send("t", b"0")
            accumulator = producer._core.accumulator
            before = accumulator.used_bytes
            await producer.send_many("t", [b"value", None], [b"key", None])
            assert accumulator.used_bytes - before == 2 * RECORD_OVERHEAD + len(b"keyvalue")

    asyncio.run(run())
