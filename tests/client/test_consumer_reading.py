"""What a consumer hands out: every record once, in order, as it was written."""

import asyncio
import itertools

import confluent_kafka
import pytest

from ottla.client.consumer.consumer import AsyncConsumer
from ottla.client.errors import DeserializationError, IllegalStateError, WakeupError
from ottla.core.ids import TopicPartition
from tests.client.conftest import unused_name


def consumer_of(server, *topics, **settings):
    return AsyncConsumer(
        *topics, **{"bootstrap_servers": server, "auto_offset_reset": "earliest", **settings}
    )


def produce(server, topic, records, *, partition=0, **settings):
    """Write values, or dicts of what confluent's `produce` takes, with somebody else's producer."""
    producer = confluent_kafka.Producer({"bootstrap.servers": server, "linger.ms": 5, **settings})
    for record in records:
        fields = record if isinstance(record, dict) else {"value": record}
        producer.produce(topic, **{"partition": partition, **fields})
    assert producer.flush(30) == 0


async def read(consumer, count, **how):
    """So many records, polled."""
    found = []
    while len(found) < count:
        polled = await consumer.poll(10_000, **how)
        assert polled, f"only {len(found)} of {count} records came"
        found += itertools.chain.from_iterable(polled.values())
    return found


def values(records):
    return [record.value for record in records]


def test_a_record_comes_out_as_it_was_written(server, new_topic):
    topic = new_topic()
    headers = [("a", b"1"), ("a", b"2"), ("nothing", None), ("ø", b"")]
    produce(
        server,
        topic,
        [
            {"key": b"k", "value": b"v", "headers": headers, "timestamp": 1_700_000_000_123},
            {"key": None, "value": b"", "timestamp": 1_700_000_000_124},
            {"key": b"gone", "value": None, "timestamp": 1_700_000_000_125},
        ],
    )

    async def run():
        async with consumer_of(server) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            first, second, tombstone = await read(consumer, 3)
        assert first[:7] == (topic, 0, 0, 1_700_000_000_123, b"k", b"v", tuple(headers))
        assert (first.timestamp_type, first.leader_epoch) == (0, 0)
        assert (first.serialized_key_size, first.serialized_value_size) == (1, 1)
        assert first.topic_partition == TopicPartition(topic, 0)
        assert (second.key, second.value, second.headers) == (None, b"", ())
        assert (tombstone.key, tombstone.value, tombstone.serialized_value_size) == (b"gone", None, -1)

    asyncio.run(run())


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_is_read(server, new_topic, codec):
    topic = new_topic()
    written = [b"%05d-" % number * 20 for number in range(300)]
    produce(server, topic, written, **{"compression.type": codec})

    async def run():
        async with consumer_of(server) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            records = await read(consumer, 300, max_records=7)
        assert values(records) == written
        assert [record.offset for record in records] == list(range(300))

    asyncio.run(run())


def test_the_brokers_time_is_told_apart_from_the_producers(server, new_topic):
    topic = new_topic(message_timestamp_type="LogAppendTime")
    produce(server, topic, [{"value": b"v", "timestamp": 1}])

    async def run():
        async with consumer_of(server) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            (record,) = await read(consumer, 1)
        assert record.timestamp_type == 1 and record.timestamp > 1_600_000_000_000

    asyncio.run(run())


def transactions(server, topic):
    """Two committed transactions around one that was aborted, and one that is still open."""
    settings = {"bootstrap.servers": server, "transactional.id": unused_name("tx"), "linger.ms": 0}
    producer = confluent_kafka.Producer(settings)
    producer.init_transactions(30)
    for number, is_committed in enumerate((True, False, True)):
        producer.begin_transaction()
        for each in range(3):
            producer.produce(topic, value=b"%d-%d" % (number, each), partition=0)
        producer.flush(30)
        producer.commit_transaction(30) if is_committed else producer.abort_transaction(30)
    producer.begin_transaction()
    producer.produce(topic, value=b"open", partition=0)
    producer.flush(30)
    return producer


def test_aborted_and_open_transactions_are_seen_only_by_those_who_want_to(server, new_topic):
    topic = new_topic()
    producer = transactions(server, topic)
    partition = TopicPartition(topic, 0)
    committed = [b"0-0", b"0-1", b"0-2", b"2-0", b"2-1", b"2-2"]
    everything = [b"%d-%d" % (number, each) for number in range(3) for each in range(3)] + [b"open"]

    async def run():
        async with consumer_of(server, isolation_level="read_committed") as consumer:
            consumer.assign([partition])
            assert values(await read(consumer, 6, max_records=2)) == committed
            assert await consumer.poll(0) == {}
            while await consumer.position(partition) < 12:  # behind the last marker
                assert await consumer.poll(100) == {}
            assert consumer.lag(partition) == 0 and consumer.highwater(partition) == 13
            assert await consumer.end_offsets([partition]) == {partition: 12}
        async with consumer_of(server) as consumer:
            consumer.assign([partition])
            assert values(await read(consumer, 10)) == everything
            assert await consumer.end_offsets([partition]) == {partition: 13}

    asyncio.run(run())
    producer.abort_transaction(30)


def test_a_record_larger_than_a_fetch_comes_nevertheless(server, new_topic):
    topic = new_topic()
    written = [b"a" * 300_000, b"b" * 10, b"c" * 200_000]
    produce(server, topic, written)

    async def run():
        limits = {"max_partition_fetch_bytes": 1000, "fetch_max_bytes": 1000}
        async with consumer_of(server, **limits) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            assert values(await read(consumer, 3)) == written

    asyncio.run(run())


def test_many_partitions_are_read_at_once_each_in_order(server, new_topic):
    topic = new_topic(5)
    for number in range(5):
        produce(server, topic, [b"%d-%d" % (number, each) for each in range(200)], partition=number)

    async def run():
        async with consumer_of(server, max_partition_fetch_bytes=2000) as consumer:
            consumer.assign([TopicPartition(topic, number) for number in range(5)])
            records = await read(consumer, 1000, max_records=33)
        for number in range(5):
            own = [record.value for record in records if record.partition == number]
            assert own == [b"%d-%d" % (number, each) for each in range(200)]

    asyncio.run(run())


def test_without_a_group_all_partitions_of_a_topic_are_read(server, new_topic):
    topic = new_topic(3)
    for number in range(3):
        produce(server, topic, [b"%d" % number], partition=number)

    async def run():
        async with consumer_of(server, topic) as consumer:
            found = [await consumer.getone() for _ in range(3)]
            assert sorted(values(found)) == [b"0", b"1", b"2"]
            assert consumer.subscription() == {topic}
            assert consumer.assignment() == {TopicPartition(topic, number) for number in range(3)}
            await consumer.unsubscribe()
            assert consumer.assignment() == set() == consumer.subscription()

    asyncio.run(run())


def test_a_pattern_without_a_group_finds_topics_and_tells_the_listener(server, new_topic):
    topic, other = new_topic(), new_topic()
    produce(server, topic, [b"v"])
    from ottla.client.listener import RebalanceListener

    class Listener(RebalanceListener):
        assigned = ()

        async def on_partitions_assigned(self, assigned):
            self.assigned = tuple(assigned)

    async def run():
        listener = Listener()
        async with consumer_of(server) as consumer:
            consumer.subscribe(pattern=f"{topic}|nothing", listener=listener)
            assert (await consumer.getone()).value == b"v"
            assert consumer.subscription() == {topic} and other not in consumer.subscription()
        assert listener.assigned == (TopicPartition(topic, 0),)

    asyncio.run(run())


def test_one_by_one_the_position_is_behind_the_record_that_was_seen(server, new_topic):
    topic = new_topic()
    partition = TopicPartition(topic, 0)
    produce(server, topic, [b"%d" % number for number in range(20)])

    async def run():
        async with consumer_of(server, group_id=unused_name("g"), enable_auto_commit=False) as consumer:
            consumer.assign([partition])
            async for record in consumer:
                if record.offset == 4:
                    break
            assert await consumer.position(partition) == 5
            await consumer.commit()
            committed = await consumer.committed(partition)
            assert committed is not None and committed.offset == 5
            assert (await consumer.getone(partition)).offset == 5
            assert [record.offset for record in await read(consumer, 2, max_records=2)] == [6, 7]
            assert (await consumer.getone()).offset == 8
            assert consumer.lag(partition) == 11

    asyncio.run(run())


def test_iterating_ends_after_a_while_without_records(server, new_topic):
    topic = new_topic()
    produce(server, topic, [b"a", b"b"])

    async def run():
        async with consumer_of(server, topic, consumer_timeout_ms=500) as consumer:
            assert [record.value async for record in consumer] == [b"a", b"b"]

    asyncio.run(run())


def test_what_is_paused_is_not_handed_out_and_not_lost(server, new_topic):
    topic = new_topic(2)
    quiet, loud = TopicPartition(topic, 0), TopicPartition(topic, 1)
    produce(server, topic, [b"q%d" % number for number in range(10)])
    produce(server, topic, [b"l%d" % number for number in range(10)], partition=1)

    async def run():
        async with consumer_of(server) as consumer:
            consumer.assign([quiet, loud])
            first = await consumer.getone(quiet)
            consumer.pause(quiet)
            assert consumer.paused() == {quiet}
            assert values(await read(consumer, 10)) == [b"l%d" % number for number in range(10)]
            assert await consumer.poll(0) == {}
            consumer.resume(quiet)
            assert consumer.paused() == set()
            rest = await read(consumer, 9)
            assert values([first, *rest]) == [b"q%d" % number for number in range(10)]

    asyncio.run(run())


def test_many_can_be_had_of_some_partitions_only(server, new_topic):
    topic = new_topic(2)
    one, two = TopicPartition(topic, 0), TopicPartition(topic, 1)
    produce(server, topic, [b"a"])
    produce(server, topic, [b"b"], partition=1)

    async def run():
        async with consumer_of(server) as consumer:
            consumer.assign([one, two])
            found = await consumer.getmany(two, timeout_ms=10_000)
            assert {key: values(records) for key, records in found.items()} == {two: [b"b"]}
            found = await consumer.getmany(one, timeout_ms=10_000)
            assert {key: values(records) for key, records in found.items()} == {one: [b"a"]}
            with pytest.raises(IllegalStateError, match="is not assigned"):
                await consumer.getmany(TopicPartition(topic, 7))

    asyncio.run(run())


def test_keys_and_values_are_deserialized(server, new_topic):
    topic = new_topic()
    produce(server, topic, [{"key": b"k", "value": b'{"a": 1}'}, {"key": None, "value": None}])

    async def run():
        settings = {"key_deserializer": bytes.decode, "value_deserializer": "json"}
        async with consumer_of(server, **settings) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            first, second = await read(consumer, 2)
        assert (first.key, first.value, first.serialized_value_size) == ("k", {"a": 1}, 8)
        assert (second.key, second.value) == (None, None)

    asyncio.run(run())


def test_a_poisoned_record_is_raised_until_somebody_seeks_past_it(server, new_topic):
    topic = new_topic()
    partition = TopicPartition(topic, 0)
    produce(server, topic, [b"1", b"2", b"poison", b"4"])

    async def run():
        async with consumer_of(server, value_deserializer=int) as consumer:
            consumer.assign([partition])
            assert values(await read(consumer, 2)) == [1, 2]
            for _ in range(2):
                with pytest.raises(DeserializationError, match="value of the record at offset 2") as caught:
                    await consumer.poll(10_000)
                assert (caught.value.partition, caught.value.offset) == (partition, 2)
                assert caught.value.record.value == b"poison"
                assert await consumer.position(partition) == 2
            with pytest.raises(DeserializationError):
                await consumer.getone()
            consumer.seek(partition, caught.value.offset + 1)
            assert values(await read(consumer, 1)) == [4]

    asyncio.run(run())


def test_interceptors_see_records_and_commits(server, new_topic):
    topic = new_topic()
    partition = TopicPartition(topic, 0)
    produce(server, topic, [b"a", b"b", b"c"])

    class Spy:
        def __init__(self):
            self.commits = []

        def on_consume(self, records):
            return {key: [each for each in found if each.value != b"b"] for key, found in records.items()}

        def on_commit(self, offsets):
            self.commits.append(offsets)

    class Broken:
        def on_consume(self, records):
            raise RuntimeError("not my day")

    async def run():
        spy = Spy()
        settings = {
            "group_id": unused_name("g"),
            "interceptors": [Broken(), spy],
            "enable_auto_commit": False,
        }
        async with consumer_of(server, **settings) as consumer:
            consumer.assign([partition])
            assert values(await read(consumer, 2)) == [b"a", b"c"]
            await consumer.commit()
            assert [offsets[partition].offset for offsets in spy.commits] == [3]
            await consumer.seek_to_beginning()
            assert [(await consumer.getone()).value for _ in range(2)] == [b"a", b"c"]

    asyncio.run(run())


def test_wakeup_ends_a_poll_that_waits_and_the_next_if_none_does(server, new_topic):
    topic = new_topic()

    async def run():
        async with consumer_of(server) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            waiting = asyncio.ensure_future(consumer.poll(-1))
            await consumer.position(TopicPartition(topic, 0))
            await asyncio.to_thread(consumer.wakeup)
            with pytest.raises(WakeupError):
                await waiting
            consumer.wakeup()
            with pytest.raises(WakeupError):
                await consumer.poll(0)
            assert await consumer.poll(0) == {}

    asyncio.run(run())


def test_the_cluster_can_be_asked_for_topics(server, new_topic):
    topic = new_topic(2)

    async def run():
        async with consumer_of(server, allow_auto_create_topics=False) as consumer:
            assert topic in await consumer.topics()
            assert await consumer.partitions_for_topic(topic) == {0, 1}
            assert await consumer.partitions_for_topic(unused_name("none")) is None
            assert consumer.metrics()["records_consumed_total"] == 0

    asyncio.run(run())
