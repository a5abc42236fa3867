"""The producer as its users see it, against both brokers; what it wrote is read by somebody else's client."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, Message
from confluent_kafka import TopicPartition as Place

from ottla.client import AsyncProducer, Producer
from ottla.client.errors import (
    ClosedError,
    IllegalStateError,
    KafkaTimeoutError,
    RecordTooLargeError,
    SerializationError,
    UnknownTopicError,
)
from ottla.core.errors import ErrorCode, KafkaError
from ottla.network.peer import connect
from ottla.protocol.messages.fetch import FetchRequest
from ottla.records.batch import iter_batches
from ottla.records.compression import Codec


@pytest.fixture
def topic(new_topic: Callable[..., str]) -> str:
    return new_topic()


def read(server: str, topic: str, count: int, partitions: int = 1) -> list[Message]:
    """So many records, by partition and offset."""
    consumer = Consumer({"bootstrap.servers": server, "group.id": "reader", "auto.offset.reset": "earliest"})
    found: list[Message] = []
    try:
        consumer.assign([Place(topic, number, 0) for number in range(partitions)])
        while len(found) < count:
            batch = consumer.consume(count - len(found), timeout=20)
            assert batch, f"{len(found)} of {count} records"
            assert not any(each.error() for each in batch)
            found += batch
        assert not consumer.consume(1, timeout=0.1)
    finally:
        consumer.close()
    return sorted(found, key=lambda each: (each.partition(), each.offset()))


async def headers_of_batches(server: str, topic: str) -> list[Any]:
    """The batches of partition 0 as they lie in the log."""
    host, _, port = server.rpartition(":")
    where = FetchRequest.Topic.Partition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    async with await connect(host, int(port)) as peer:
        topics = [FetchRequest.Topic(topic=topic, partitions=[where])]
        request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=topics)
        answer = await peer.send(request, 12)
        data = answer.responses[0].partitions[0].records
        return [header for _, header in iter_batches(bytes(data))]


@pytest.mark.parametrize("acks", [0, 1, "all", -1])
def test_records_arrive_whoever_must_have_them(server, topic, acks):
    with Producer(bootstrap_servers=server, acks=acks) as producer:
        deliveries = [producer.send(topic, b"%d" % number) for number in range(100)]
        metadata = [each.get(timeout=30) for each in deliveries]
    assert [each.offset for each in metadata] == ([-1] * 100 if acks == 0 else list(range(100)))
    assert {(each.topic, each.partition) for each in metadata} == {(topic, 0)}
    assert [each.value() for each in read(server, topic, 100)] == [b"%d" % number for number in range(100)]


@pytest.mark.parametrize("codec", [codec.name.lower() for codec in Codec])
def test_every_codec_is_read_by_others(server, topic, codec):
    rows = [(b"key %d" % (number % 3), b"value %d " % number * 20) for number in range(500)]
    with Producer(bootstrap_servers=server, compression_type=codec, linger_ms=20) as producer:
        for key, value in rows:
            producer.send(topic, value, key=key)
    assert [(each.key(), each.value()) for each in read(server, topic, 500)] == rows
    assert {header.codec for header in asyncio.run(headers_of_batches(server, topic))} == {
        Codec[codec.upper()]
    }


def test_keys_values_headers_and_timestamps_are_kept(server, topic):
    headers = [("a", b"1"), ("a", b"2"), ("empty", b""), ("null", None), ("ä", "text")]
    with Producer(bootstrap_servers=server) as producer:
        sent = producer.send(topic, b"value", key=b"key", headers=headers, partition=0, timestamp_ms=1234567)
        metadata = sent.get(30)
        producer.send(topic, None, key=b"gone").get(30)
        producer.send(topic, b"", key=b"").get(30)
        producer.send(topic, bytearray(b"array"), headers={"mapping": b"too"}).get(30)
    assert (metadata.offset, metadata.timestamp) == (0, 1234567)
    assert (metadata.serialized_key_size, metadata.serialized_value_size) == (3, 5)
    first, second, third, fourth = read(server, topic, 4)
    assert (first.key(), first.value(), first.timestamp()[1]) == (b"key", b"value", 1234567)
    assert first.headers() == [("a", b"1"), ("a", b"2"), ("empty", b""), ("null", None), ("ä", b"text")]
    assert (second.key(), second.value()) == (b"gone", None)
    assert (third.key(), third.value()) == (b"", b"")
    assert (fourth.value(), fourth.headers()) == (b"array", [("mapping", b"too")])


def test_the_brokers_time_is_told_where_the_topic_has_it(server, new_topic):
    topic = new_topic(1, message_timestamp_type="LogAppendTime")
    with Producer(bootstrap_servers=server) as producer:
        metadata = producer.send(topic, b"", timestamp_ms=1).get(30)
    (found,) = read(server, topic, 1)
    assert found.timestamp()[1] == metadata.timestamp > 1_000_000


def test_callbacks_futures_and_a_flush(server, topic):
    with Producer(bootstrap_servers=server, linger_ms=60_000) as producer:
        heard: list[Any] = []
        delivery = producer.send(topic, b"1")
        delivery.add_callback(heard.append).add_errback(lambda error: heard.append("error"))
        delivery.add_callback(lambda tag, metadata, more: heard.append((tag, more)), "tag", more=1)
        assert not delivery.done()
        with pytest.raises(KafkaTimeoutError, match=r"no answer after 0\.01 s"):
            delivery.get(0.01)
        producer.flush()
        assert delivery.done() and delivery.succeeded() and not delivery.failed()
        assert delivery.exception() is None
        assert heard == [delivery.get(), ("tag", 1)]
        delivery.add_callback(heard.append)
        assert heard[-1] == delivery.get()


def test_on_a_loop(server, topic):
    async def run() -> None:
        async with AsyncProducer(bootstrap_servers=server) as producer:
            assert (await producer.send_and_wait(topic, b"0")).offset == 0
            deliveries = [await producer.send(topic, b"%d" % number) for number in range(1, 300)]
            assert [(await each).offset for each in deliveries] == list(range(1, 300))
            assert [(await each).offset for each in deliveries[:2]] == [1, 2]
            with pytest.raises(IllegalStateError, match="use `await`"):
                (await producer.send(topic, b"300")).get()
            assert await producer.partitions_for(topic) == {0}

    asyncio.run(run())
    assert len(read(server, topic, 301)) == 301


def test_one_that_waits_for_each_record(server, topic):
    with Producer(bootstrap_servers=server, send_waits=True) as producer:
        assert producer.send(topic, b"").done()
        with pytest.raises(KafkaError, match="takes 2000021 bytes"):
            producer.send(topic, b"-" * 2_000_000)


def test_limits_of_batches(server, topic):
    async def run() -> None:
        async with AsyncProducer(
            bootstrap_servers=server, linger_ms=60_000, batch_max_records=10
        ) as producer:
            deliveries = [await producer.send(topic, b"%d" % number) for number in range(25)]
            # Full batches do not linger.
            assert [(await each).offset for each in deliveries[:20]] == list(range(20))
            assert not deliveries[-1].done()
        sizes = [header.count for header in await headers_of_batches(server, topic)]
        assert sizes == [10, 10, 5]

    asyncio.run(run())


def test_batches_carry_an_id_and_numbers_unless_they_are_nobodys(server, topic):
    with Producer(bootstrap_servers=server, batch_max_records=3) as producer:
        for _ in range(9):
            producer.send(topic, b"")
    with Producer(bootstrap_servers=server, enable_idempotence=False) as producer:
        producer.send(topic, b"")
    *numbered, nobodys = asyncio.run(headers_of_batches(server, topic))
    assert [header.base_sequence for header in numbered] == [0, 3, 6]
    assert len({(header.producer_id, header.producer_epoch) for header in numbered}) == 1
    assert numbered[0].producer_id >= 0
    assert (nobodys.producer_id, nobodys.producer_epoch, nobodys.base_sequence) == (-1, -1, -1)


def test_serializers_interceptors_and_the_error_of_a_serializer(server, topic):
    class Counts:
        def __init__(self) -> None:
            self.sent: list[Any] = []
            self.acknowledged: list[Any] = []

        def on_send(self, record):
            self.sent.append(record.value)
            return record._replace(headers=[("seen", b"yes")])

        def on_acknowledgement(self, metadata, exception):
            self.acknowledged.append((metadata.offset, exception))

    counts = Counts()
    settings = {"key_serializer": "string", "value_serializer": "json", "interceptors": [counts]}
    with Producer(bootstrap_servers=server, **settings) as producer:
        producer.send(topic, {"a": 1}, key="ä")
        with pytest.raises(SerializationError, match=f"the value of a record for topic {topic}"):
            producer.send(topic, object())
    (found,) = read(server, topic, 1)
    assert (found.key().decode(), found.value()) == ("ä", b'{"a":1}')
    assert found.headers() == [("seen", b"yes")]
    assert counts.acknowledged == [(0, None)]
    assert len(counts.sent) == 2


def test_what_cannot_be_is_said_at_once(server, topic):
    with Producer(bootstrap_servers=server, max_block_ms=500) as producer:
        with pytest.raises(SerializationError, match="is of type str, not bytes: set value_serializer"):
            producer.send(topic, "text")
        with pytest.raises(SerializationError, match="not whole milliseconds since 1970"):
            producer.send(topic, b"", timestamp_ms=1.5)
        with pytest.raises(RecordTooLargeError, match=r"more than max\.request\.size"):
            producer.send(topic, b"-" * 2_000_000)
        with pytest.raises(KafkaError, match="INVALID_TOPIC_EXCEPTION"):
            producer.send("not a topic", b"")
        with pytest.raises(UnknownTopicError, match="has 1 partitions, and no number 7"):
            producer.send(topic, b"", partition=7)
        with pytest.raises(KafkaError, match="there is no partition -1"):
            producer.send(topic, b"", partition=-1)
    for call in (producer.flush, producer.begin_transaction, lambda: producer.send(topic, b"")):
        with pytest.raises(ClosedError, match="the producer was closed"):
            call()
    producer.close()


def test_a_topic_that_is_not_there_is_made_if_the_broker_allows_it(server, name):
    with Producer(bootstrap_servers=server) as producer:
        assert producer.send(name, b"first").get(30).offset == 0


def test_a_large_record_fails_alone_and_a_large_batch_is_split(server, new_topic):
    topic = new_topic(1, max_message_bytes=5000)
    with Producer(bootstrap_servers=server, batch_size=16_000, linger_ms=60_000) as producer:
        deliveries = [producer.send(topic, b"%d" % number + b" " * 200) for number in range(200)]
        large = producer.send(topic, b"-" * 6000)
        producer.flush()
        assert large.exception().code == ErrorCode.MESSAGE_TOO_LARGE
        assert [each.get().offset for each in deliveries] == list(range(200))
    assert [int(each.value()) for each in read(server, topic, 200)] == list(range(200))


def test_many_threads_and_one_producer(server, new_topic):
    topic = new_topic(3)
    with Producer(bootstrap_servers=server, batch_size=2000) as producer:

        def work(key: bytes) -> None:
            for number in range(500):
                producer.send(topic, b"%d" % number, key=key)
                if number % 200 == 0:
                    producer.flush()

        threads = [threading.Thread(target=work, args=(b"%d" % number,)) for number in range(6)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    rows = read(server, topic, 3000, 3)
    for key in {row.key() for row in rows}:
        assert [int(row.value()) for row in rows if row.key() == key] == list(range(500))


def test_what_a_callback_may_do_and_what_it_may_not(server, topic, caplog):
    heard: list[Any] = []
    with Producer(bootstrap_servers=server) as producer:

        def call(metadata: Any) -> None:
            heard.append(producer.send(topic, b"from a callback"))
            for wait in (producer.flush, heard[0].get, lambda: producer.partitions_for("u")):
                with pytest.raises(IllegalStateError):
                    wait()
            raise ZeroDivisionError("mine")

        producer.send(topic, b"").add_callback(call).get(30)
        producer.flush()
        while not heard:
            pass
        assert heard[0].get(30).offset == 1
    assert "a callback of the application failed" in caplog.text and "mine" in caplog.text


def test_whoever_stops_waiting_stops_nobody_else(server, topic):
    async def run() -> None:
        async with AsyncProducer(bootstrap_servers=server, linger_ms=60_000) as producer:
            delivery = await producer.send(topic, b"")
            for _ in range(3):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(_wait(delivery), 0.001)
            assert not delivery._batch._waiting
            other = asyncio.ensure_future(_wait(delivery))
            await producer.flush()
            assert (await other).offset == 0

    asyncio.run(run())


async def _wait(delivery: Any) -> Any:
    return await delivery
