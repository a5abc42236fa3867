"""What a consumer makes of brokers that die, forget, refuse or send damage. They fail on demand, so they are ours."""

import asyncio
import socket
import time
import tracemalloc
from pathlib import Path

import pytest

from ottla.client.consumer.consumer import AsyncConsumer
from ottla.client.errors import ClosedError, NoBrokersAvailable
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.network.peer import connect
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.produce import ProduceRequest
from ottla.records.builder import build
from ottla.records.record import Record
from ottla.testing.broker import AsyncBroker

PARTITION = TopicPartition("t", 0)
NOW = int(time.time() * 1000)


def consumer_of(broker, *topics, **settings):
    quick = {"retry_backoff_ms": 10, "reconnect_backoff_ms": 10, "fetch_max_wait_ms": 50}
    start = {"bootstrap_servers": broker.bootstrap_server, "auto_offset_reset": "earliest"}
    return AsyncConsumer(*topics, **{**start, **quick, **settings})


async def write(broker, count, *, first=0, size=10):
    """Values that end with their number, in one batch."""
    records = [Record(each, NOW, None, b"%*d" % (size, first + each)) for each in range(count)]
    row = ProduceRequest.Topic.Partition(index=0, records=build(records))
    async with await connect("127.0.0.1", broker.port) as peer:
        topic = (await peer.send(MetadataRequest(topics=[MetadataRequest.Topic(name="t")]))).topics[0]
        rows = [ProduceRequest.Topic(name="t", topic_id=topic.topic_id, partition_data=[row])]
        answer = await peer.send(ProduceRequest(acks=-1, timeout_ms=5000, topic_data=rows))
        assert answer.responses[0].partition_responses[0].error_code == 0


async def read(consumer, count):
    found = []
    async with asyncio.timeout(20):
        while len(found) < count:
            for records in (await consumer.poll(500)).values():
                found += [int(record.value) for record in records]
    return found


def test_a_broker_that_dies_and_comes_back_loses_and_repeats_nothing():
    async def run():
        async with AsyncBroker() as broker:
            await broker.create_topic("t")
            await write(broker, 50)
            async with consumer_of(broker) as consumer:
                consumer.assign([PARTITION])
                found = await read(consumer, 50)
                for turn in range(1, 4):
                    waiting = asyncio.ensure_future(read(consumer, 50))
                    await broker.kill()
                    await broker.start()
                    await write(broker, 50, first=50 * turn)
                    found += await waiting
                assert found == list(range(200))

    asyncio.run(run())


def test_a_broker_that_is_not_there_is_named_within_the_timeout():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]

        async def run():
            consumer = AsyncConsumer("t", bootstrap_servers=f"127.0.0.1:{port}", default_api_timeout_ms=300)
            with pytest.raises(NoBrokersAvailable, match=f"within 300 ms.*127.0.0.1:{port}"):
                await consumer.start()
            with pytest.raises(ClosedError, match="not started"):
                await consumer.poll()
            await consumer.close()
            with pytest.raises(ClosedError, match="was closed"):
                await consumer.poll()

        asyncio.run(run())


def test_calls_end_in_time_when_the_broker_has_died():
    async def run():
        async with AsyncBroker() as broker:
            await broker.create_topic("t")
            async with consumer_of(broker, group_id="g", enable_auto_commit=False) as consumer:
                consumer.assign([PARTITION])
                assert await consumer.position(PARTITION) == 0
                await broker.kill()
                assert await consumer.poll(200) == {}
                for work in (
                    consumer.end_offsets([PARTITION], timeout_ms=200),
                    consumer.commit({PARTITION: 1}, timeout_ms=200),
                    consumer.committed(PARTITION, timeout_ms=200),
                    consumer.topics(timeout_ms=200),
                ):
                    with pytest.raises(KafkaError, match="within 200 ms") as caught:
                        await work
                    assert caught.value.retriable
                await consumer.close(timeout_ms=200)

    asyncio.run(run())


@pytest.mark.parametrize(
    "error",
    [
        "FETCH_SESSION_ID_NOT_FOUND",
        "INVALID_FETCH_SESSION_EPOCH",
        "FETCH_SESSION_TOPIC_ID_ERROR",
        "NOT_LEADER_OR_FOLLOWER",
        "UNKNOWN_TOPIC_ID",
        "INCONSISTENT_TOPIC_ID",
        "FENCED_LEADER_EPOCH",
        "UNKNOWN_LEADER_EPOCH",
        "OFFSET_NOT_AVAILABLE",
        "KAFKA_STORAGE_ERROR",
        "UNKNOWN_SERVER_ERROR",
    ],
)
def test_errors_of_a_fetch_that_pass_are_waited_out(error):
    async def run():
        async with AsyncBroker() as broker:
            await broker.create_topic("t")
            await write(broker, 5)
            async with consumer_of(broker) as consumer:
                consumer.assign([PARTITION])
                assert await read(consumer, 5) == list(range(5))
                broker.fail_next("Fetch", error, times=2)
                await write(broker, 5, first=5)
                assert await read(consumer, 5) == list(range(5, 10))
                assert not broker.faults.pending

    asyncio.run(run())


def test_a_topic_that_may_not_be_read_is_an_error_once_for_each_time_it_is_refused():
    async def run():
        async with AsyncBroker() as broker:
            await broker.create_topic("t")
            await write(broker, 5)
            async with consumer_of(broker) as consumer:
                consumer.assign([PARTITION])
                broker.fail_next("Fetch", "TOPIC_AUTHORIZATION_FAILED")
                with pytest.raises(KafkaError, match="a fetch from broker") as caught:
                    await read(consumer, 5)
                assert caught.value.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
                assert await read(consumer, 5) == list(range(5))

    asyncio.run(run())


@pytest.mark.parametrize("api", ["OffsetFetch", "OffsetCommit", "ListOffsets", "FindCoordinator"])
def test_coordinators_and_leaders_that_move_are_found_again(api):
    errors = {"ListOffsets": "NOT_LEADER_OR_FOLLOWER", "FindCoordinator": "COORDINATOR_NOT_AVAILABLE"}

    async def run():
        async with AsyncBroker() as broker:
            await broker.create_topic("t")
            await write(broker, 5)
            async with consumer_of(broker, group_id="g", enable_auto_commit=False) as consumer:
                consumer.assign([PARTITION])
                broker.fail_next(api, errors.get(api, "NOT_COORDINATOR"), times=2)
                await read(consumer, 5)
                await consumer.commit()
                place = await consumer.committed(PARTITION)
                assert place is not None and place.offset == 5
                assert not broker.faults.pending

    asyncio.run(run())


def test_a_commit_of_one_who_was_thrown_out_fails():
    from ottla.client.errors import CommitFailedError

    async def run():
        async with AsyncBroker() as broker:
            await broker.create_topic("t")
            await write(broker, 5)
            async with consumer_of(broker, "t", group_id="g", enable_auto_commit=False) as consumer:
                await read(consumer, 5)
                broker.fail_next("OffsetCommit", "UNKNOWN_MEMBER_ID")
                with pytest.raises(CommitFailedError, match="gone on without this member"):
                    await consumer.commit()
                seen = []
                broker.fail_next("OffsetCommit", "ILLEGAL_GENERATION")
                future = consumer.commit_async(callback=lambda offsets, error: seen.append(error))
                await asyncio.wait([future])
                assert isinstance(seen[0], CommitFailedError)

    asyncio.run(run())


def test_a_batch_that_fails_its_checksum_is_named_and_can_be_passed():
    async def run():
        async with AsyncBroker() as broker:
            await broker.create_topic("t")
            for first in (0, 5, 10):
                await write(broker, 5, first=first)
            log = broker.node.replicas.partitions[PARTITION].log
            path = Path(log.segments.active.path)
            path.write_bytes(path.read_bytes().replace(b"%10d" % 7, b"X%9d" % 7))
            async with consumer_of(broker) as consumer:
                consumer.assign([PARTITION])
                assert await read(consumer, 5) == [0, 1, 2, 3, 4]
                for _ in range(2):
                    with pytest.raises(KafkaError, match=r"t-0 from offset 5 on.*seek to 10") as caught:
                        await read(consumer, 1)
                    assert caught.value.code == ErrorCode.CORRUPT_MESSAGE
                consumer.seek(PARTITION, 10)
                assert await read(consumer, 5) == [10, 11, 12, 13, 14]
            async with consumer_of(broker, check_crcs=False) as consumer:
                consumer.assign([PARTITION])
                polled = await consumer.poll(5000)
                assert len(polled[PARTITION]) == 15

    asyncio.run(run())


def test_memory_stays_flat_however_much_is_read():
    async def run():
        async with AsyncBroker() as broker:
            await broker.create_topic("t")
            for turn in range(40):
                await write(broker, 100, first=100 * turn, size=1000)
            async with consumer_of(broker, max_partition_fetch_bytes=100_000) as consumer:
                consumer.assign([PARTITION])
                await read(consumer, 1000)
                tracemalloc.start()
                try:
                    for _ in range(3):
                        await consumer.seek_to_beginning()
                        tracemalloc.reset_peak()
                        for _ in range(4):
                            await read(consumer, 500)
                    _, peak = tracemalloc.get_traced_memory()
                finally:
                    tracemalloc.stop()
        assert peak < 3_000_000, "4 MB were read; two fetches and a poll may lie in memory"

    asyncio.run(run())


def test_a_slow_application_does_not_make_the_consumer_fetch_without_end():
    async def run():
        async with AsyncBroker() as broker:
            await broker.create_topic("t")
            for turn in range(20):
                await write(broker, 10, first=10 * turn, size=1000)
            async with consumer_of(broker, max_partition_fetch_bytes=10_000) as consumer:
                consumer.assign([PARTITION])
                await consumer.getone()
                fetched = -1
                while fetched != consumer.metrics()["bytes_consumed_total"]:
                    fetched = consumer.metrics()["bytes_consumed_total"]
                    await consumer.end_offsets([PARTITION])
                assert fetched < 50_000, "of 200 000"

    asyncio.run(run())


def test_a_partition_that_is_not_there_holds_up_no_other():
    async def run():
        async with AsyncBroker(memory=True) as broker:
            await broker.create_topic("t", 2)
            await write(broker, 5)
            async with consumer_of(broker) as consumer:
                consumer.assign([TopicPartition("t", 7), PARTITION])
                assert await read(consumer, 5) == list(range(5))
                consumer.assign([TopicPartition("t", 7), PARTITION, TopicPartition("t", 1)])
                while consumer.highwater(TopicPartition("t", 1)) is None:
                    await consumer.poll(100)
                consumer.seek(PARTITION, 99)
                assert await read(consumer, 5) == list(range(5)), "it is reset meanwhile"

    asyncio.run(run())


def test_a_broker_that_refuses_every_session_is_not_asked_without_a_pause():
    async def run():
        async with AsyncBroker(memory=True) as broker:
            await broker.create_topic("t")
            await write(broker, 5)
            async with consumer_of(broker) as consumer:
                consumer.assign([PARTITION])
                await read(consumer, 5)
                broker.fail_next("Fetch", "FETCH_SESSION_ID_NOT_FOUND", times=10_000)
                await consumer.poll(300)
                assert broker.faults.pending["Fetch"] > 9900
                broker.faults.clear()
                await write(broker, 5, first=5)
                assert await read(consumer, 5) == list(range(5, 10))

    asyncio.run(run())
