"""Where a consumer begins, goes on and comes back to: positions, resets, commits."""

import asyncio
import time

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient

from ottla.client.errors import (
    IllegalStateError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    UnknownTopicError,
)
from ottla.client.records import OffsetAndMetadata, OffsetAndTimestamp
from ottla.core.errors import KafkaError
from ottla.core.ids import TopicPartition
from tests.client.conftest import create_topic, unused_name
from tests.client.test_consumer_reading import consumer_of, produce, read, values

START = int(time.time() * 1000) - 60_000


@pytest.fixture
def filled(server, new_topic):
    """A partition with values 0 to 9, written ten milliseconds apart from START on."""
    topic = new_topic()
    produce(server, topic, [{"value": b"%d" % each, "timestamp": START + 10 * each} for each in range(10)])
    return TopicPartition(topic, 0)


def delete_before(server, partition, offset):
    admin = AdminClient({"bootstrap.servers": server})
    place = confluent_kafka.TopicPartition(partition.topic, partition.partition, offset)
    for future in admin.delete_records([place]).values():
        future.result(30)


def test_positions_can_be_moved_everywhere(server, filled):
    async def run():
        async with consumer_of(server, auto_offset_reset="latest") as consumer:
            consumer.assign([filled])
            assert await consumer.position(filled) == 10
            consumer.seek(filled, 7)
            assert await consumer.position(filled) == 7
            assert values(await read(consumer, 3)) == [b"7", b"8", b"9"]
            await consumer.seek_to_beginning(filled)
            assert (await consumer.getone()).value == b"0"
            await consumer.seek_to_end()
            assert await consumer.position(filled) == 10
            await consumer.seek_to_time(START + 55)
            assert (await consumer.getone()).value == b"6"
            await consumer.seek_to_time({filled: START + 5000})
            assert await consumer.position(filled) == 10
            consumer.seek(filled, OffsetAndMetadata(3, "", 0))
            assert (await consumer.getone()).value == b"3"

    asyncio.run(run())


def test_places_in_the_log_can_be_looked_up_without_reading(server, filled):
    async def run():
        async with consumer_of(server) as consumer:
            assert await consumer.beginning_offsets([filled]) == {filled: 0}
            assert await consumer.end_offsets([filled]) == {filled: 10}
            assert await consumer.offsets_for_times({filled: START + 31}) == {
                filled: OffsetAndTimestamp(4, START + 40, 0)
            }
            assert await consumer.offsets_for_times({filled: START + 9999}) == {filled: None}
            with pytest.raises(IllegalStateError, match="-7 is no time"):
                await consumer.offsets_for_times({filled: -7})

    asyncio.run(run())


def test_what_makes_no_sense_is_refused(server, filled):
    async def run():
        async with consumer_of(server) as consumer:
            with pytest.raises(IllegalStateError, match="is not assigned"):
                consumer.seek(filled, 3)
            consumer.assign([filled])
            with pytest.raises(KafkaError, match="offsets start at 0"):
                consumer.seek(filled, -3)
            with pytest.raises(IllegalStateError, match=r"no group\.id"):
                await consumer.commit()
            with pytest.raises(IllegalStateError, match=r"no group\.id"):
                await consumer.committed(filled)
            with pytest.raises(IllegalStateError, match="unsubscribe"):
                consumer.subscribe([filled.topic])
            with pytest.raises(IllegalStateError, match="max_records is 0"):
                await consumer.poll(0, max_records=0)
            with pytest.raises(UnknownTopicError, match="within 300 ms"):
                await consumer.end_offsets([TopicPartition(filled.topic, 9)], timeout_ms=300)

    asyncio.run(run())


def test_commits_are_there_for_the_next_consumer_with_their_notes(server, filled):
    group = unused_name("g")

    async def run():
        async with consumer_of(server, group_id=group, enable_auto_commit=False) as consumer:
            consumer.assign([filled])
            assert await consumer.committed(filled) is None
            await read(consumer, 4, max_records=4)
            await consumer.commit()
            assert await consumer.committed(filled) == OffsetAndMetadata(4, "", 0)
            await consumer.commit({filled: OffsetAndMetadata(6, "a note", 0)})
            assert await consumer.committed_many([filled]) == {filled: OffsetAndMetadata(6, "a note", 0)}
            await consumer.commit({filled: 5})
            with pytest.raises(KafkaError, match=str(filled)):
                await consumer.commit({filled: OffsetAndMetadata(5, "x" * 10_000)})
        async with consumer_of(server, group_id=group, enable_auto_commit=False) as consumer:
            consumer.assign([filled])
            assert await consumer.position(filled) == 5
            assert (await consumer.getone()).value == b"5"
        other = confluent_kafka.Consumer({"bootstrap.servers": server, "group.id": group})
        (seen,) = other.committed([confluent_kafka.TopicPartition(*filled)], timeout=30)
        assert seen.offset == 5
        other.close()

    asyncio.run(run())


def test_commits_that_nobody_waits_for_stay_in_order_and_call_back(server, filled):
    async def run():
        called = []
        async with consumer_of(server, group_id=unused_name("g"), enable_auto_commit=False) as consumer:
            consumer.assign([filled])
            for offset in range(1, 8):
                consumer.commit_async(
                    {filled: offset}, lambda offsets, error: called.append((offsets, error))
                )
            future = consumer.commit_async({filled: 8})
            await future
            assert [(offsets[filled].offset, error) for offsets, error in called] == [
                (offset, None) for offset in range(1, 8)
            ]
            assert (await consumer.committed(filled)).offset == 8
            refused = consumer.commit_async(
                {filled: OffsetAndMetadata(1, "x" * 10_000)},
                lambda offsets, error: called.append((offsets, error)),
            )
            with pytest.raises(KafkaError):
                await refused
            assert isinstance(called[-1][1], KafkaError)

    asyncio.run(run())


def test_automatic_commits_happen_in_polls_and_in_the_end(server, filled):
    group = unused_name("g")

    async def run():
        settings = {"group_id": group, "auto_commit_interval_ms": 0}
        async with consumer_of(server, **settings) as consumer:
            consumer.assign([filled])
            await read(consumer, 3, max_records=3)
            while await consumer.committed(filled) is None:
                await consumer.poll(0, max_records=1)
        async with consumer_of(server, group_id=group) as consumer:
            consumer.assign([filled])
            await consumer.seek_to_beginning()
            await read(consumer, 6, max_records=6)
            # The interval is not over: closing commits.
        async with consumer_of(server, group_id=group) as consumer:
            consumer.assign([filled])
            assert await consumer.position(filled) == 6

    asyncio.run(run())


def test_without_a_reset_nothing_committed_is_an_error(server, filled):
    async def run():
        settings = {"group_id": unused_name("g"), "auto_offset_reset": "none"}
        async with consumer_of(server, **settings) as consumer:
            consumer.assign([filled])
            for _ in range(2):
                with pytest.raises(NoOffsetForPartitionError, match="nothing was committed") as caught:
                    while True:
                        await consumer.poll(1000)
                assert caught.value.partitions == {filled}
            with pytest.raises(NoOffsetForPartitionError):
                await consumer.position(filled)
            consumer.seek(filled, 9)
            assert (await consumer.getone()).value == b"9"

    asyncio.run(run())


def test_a_position_outside_the_log_is_reset(server, filled):
    delete_before(server, filled, 4)

    async def run():
        async with consumer_of(server) as consumer:
            consumer.assign([filled])
            consumer.seek(filled, 2)
            assert (await consumer.getone()).value == b"4"
            consumer.seek(filled, 1000)
            assert (await consumer.getone()).value == b"4"

    asyncio.run(run())


def test_or_raised(server, filled):
    async def run():
        async with consumer_of(server, auto_offset_reset="none") as consumer:
            consumer.assign([filled])
            consumer.seek(filled, 1000)
            for _ in range(2):
                with pytest.raises(OffsetOutOfRangeError, match="offset 1000 of") as caught:
                    await consumer.poll(10_000)
                assert caught.value.offsets == {filled: 1000}
            consumer.seek(filled, 8)
            assert (await consumer.getone()).value == b"8"

    asyncio.run(run())


def test_a_reset_may_go_back_by_a_duration(server, new_topic):
    topic = new_topic()
    now = int(time.time() * 1000)
    produce(
        server,
        topic,
        [{"value": b"old", "timestamp": now - 7_200_000}, {"value": b"new", "timestamp": now - 1000}],
    )

    async def run():
        async with consumer_of(server, topic, auto_offset_reset="by_duration:PT1H") as consumer:
            assert (await consumer.getone()).value == b"new"
        async with consumer_of(server, topic, auto_offset_reset="by_duration:PT0.001S") as consumer:
            assert await consumer.poll(500) == {}
            assert await consumer.position(TopicPartition(topic, 0)) == 2

    asyncio.run(run())


def test_offsets_may_be_kept_elsewhere(server, filled):
    """A listener seeks to what a database remembers, before the first record is fetched."""
    from ottla.client.listener import RebalanceListener

    database = {filled: 6}

    async def run():
        consumer = consumer_of(server, group_id=unused_name("g"), enable_auto_commit=False)

        class Kept(RebalanceListener):
            def on_partitions_assigned(self, assigned):
                for partition in assigned:
                    consumer.seek(partition, database[partition])

        async with consumer:
            consumer.subscribe([filled.topic], listener=Kept())
            found = [(await consumer.getone()).value for _ in range(4)]
        assert found == [b"6", b"7", b"8", b"9"]

    asyncio.run(run())


def test_an_open_transaction_that_commits_offsets_is_waited_for(server, filled):
    """UNSTABLE_OFFSET_COMMIT: what the transaction will commit is not known yet."""
    group = unused_name("g")
    settings = {"bootstrap.servers": server, "transactional.id": unused_name("tx")}
    producer = confluent_kafka.Producer(settings)
    producer.init_transactions(30)
    producer.begin_transaction()
    member = confluent_kafka.Consumer({"bootstrap.servers": server, "group.id": group})
    place = confluent_kafka.TopicPartition(filled.topic, 0, 5)
    producer.send_offsets_to_transaction([place], member.consumer_group_metadata(), 30)

    async def run():
        async with consumer_of(server, group_id=group, enable_auto_commit=False) as consumer:
            with pytest.raises(KafkaError, match="UNSTABLE_OFFSET_COMMIT"):
                await consumer.committed(filled, timeout_ms=300)
            asked = asyncio.ensure_future(consumer.committed(filled))
            await asyncio.to_thread(producer.commit_transaction, 30)
            assert (await asked).offset == 5

    asyncio.run(run())
    member.close()


def test_a_topic_that_was_made_anew_can_be_committed_for(server, new_topic):
    """Committed offsets go under the topic's id in new versions: the old one is nobody's by now."""
    topic = new_topic()
    partition = TopicPartition(topic, 0)
    admin = AdminClient({"bootstrap.servers": server})

    async def run():
        group = {"group_id": unused_name("g"), "enable_auto_commit": False}
        async with consumer_of(server, **group, allow_auto_create_topics=False) as consumer:
            consumer.assign([partition])
            await consumer.commit({partition: 1})
            assert consumer._running.cluster.metadata.topic_id(topic).int
            await asyncio.to_thread(lambda: admin.delete_topics([topic])[topic].result(30))
            await create_topic(server, topic)
            await consumer.commit({partition: 2})
            assert (await consumer.committed(partition)).offset == 2

    asyncio.run(run())


def test_a_topic_that_was_made_anew_is_read_from_where_the_setting_says(server, new_topic):
    """Its offsets are other records than those of the same number before."""
    topic = new_topic()
    partition = TopicPartition(topic, 0)
    admin = AdminClient({"bootstrap.servers": server})
    produce(server, topic, [b"a", b"b", b"c"])

    def make_anew():
        admin.delete_topics([topic])[topic].result(30)
        asyncio.run(create_topic(server, topic))

    async def run():
        only_ours = {"allow_auto_create_topics": False}  # or they might make the topic before we do
        async with (
            consumer_of(server, **only_ours) as one,
            consumer_of(server, auto_offset_reset="none", **only_ours) as other,
        ):
            for consumer in (one, other):
                consumer.assign([partition])
            other.seek(partition, 0)
            for consumer in (one, other):
                assert values(await read(consumer, 3)) == [b"a", b"b", b"c"]
            for count in (1, 5):
                await asyncio.to_thread(make_anew)
                written = [b"%d" % number for number in range(count)]
                await asyncio.to_thread(produce, server, topic, written)
                assert values(await read(one, count)) == written
            with pytest.raises(
                OffsetOutOfRangeError, match="belongs to a topic of this name that was deleted"
            ):
                await read(other, 1)

    asyncio.run(run())


@pytest.mark.parametrize("is_manual", [True, False], ids=["assigned", "subscribed"])
def test_a_consumer_of_a_topic_that_was_deleted_can_be_closed(server, filled, is_manual):
    admin = AdminClient({"bootstrap.servers": server})

    async def run():
        consumer = consumer_of(server, group_id=unused_name("g"), allow_auto_create_topics=False)
        await consumer.start()
        if is_manual:
            consumer.assign([filled])
        else:
            consumer.subscribe([filled.topic])
        await read(consumer, 10)
        await asyncio.to_thread(lambda: admin.delete_topics([filled.topic])[filled.topic].result(30))
        async with asyncio.timeout(20):
            await consumer.close(timeout_ms=-1)

    asyncio.run(run())
