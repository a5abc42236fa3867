"""A producer whose broker refuses, forgets, dies, or is not there: nothing lost, nothing doubled, nothing overtaken."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from ottla.client import AsyncProducer
from ottla.client.errors import BufferFullError, KafkaTimeoutError, NetworkError, UnknownTopicError
from ottla.client.producer import sender
from ottla.core.errors import ErrorCode, KafkaError
from ottla.testing.broker import AsyncBroker
from ottla.testing.proxy import Proxy

RETRIABLE = sorted(code.name for code in ErrorCode if code.retriable)
QUICK = {
    "retry_backoff_ms": 1,
    "retry_backoff_max_ms": 20,
    "reconnect_backoff_ms": 1,
    "reconnect_backoff_max_ms": 20,
}
COUNT = 120
"""Records of a test, a few in each batch: more batches than may be under way."""


@pytest.fixture(autouse=True)
def no_second_look(monkeypatch):
    """The sender looks once a second whether it has missed something. Here it must not miss anything."""
    monkeypatch.setattr(sender, "_LOOK_SECONDS_MAX", 1000.0)


@contextlib.asynccontextmanager
async def broker_and_producer(**settings: object) -> "AsyncIterator[tuple[AsyncBroker, AsyncProducer]]":
    async with AsyncBroker(memory=True) as broker:
        await broker.create_topic("t")
        settings = {"bootstrap_servers": broker.bootstrap_server, "batch_max_records": 7, **QUICK, **settings}
        async with AsyncProducer(**settings) as producer:
            yield broker, producer


async def send(producer: AsyncProducer, count: int, start: int = 0, **where: object) -> list[int]:
    """Numbered records, all of them acknowledged; their offsets."""
    deliveries = [await producer.send("t", b"%d" % (start + number), **where) for number in range(count)]
    return [metadata.offset for metadata in await asyncio.gather(*map(wait, deliveries))]


async def wait(delivery):
    return await delivery


async def values(broker: AsyncBroker) -> list[int]:
    return [int(record.value) for record in await broker.records("t")]


@pytest.mark.parametrize("warm", [False, True], ids=["at the beginning", "in the middle"])
@pytest.mark.parametrize("code", [*RETRIABLE, "OUT_OF_ORDER_SEQUENCE_NUMBER", "UNKNOWN_PRODUCER_ID"])
def test_what_is_refused_for_a_while_is_written_once_and_in_order(code, warm):
    async def run() -> None:
        async with broker_and_producer() as (broker, producer):
            before = len(await send(producer, COUNT)) if warm else 0
            broker.fail_next("Produce", code, times=3)
            offsets = await send(producer, COUNT, before)
            assert offsets == list(range(before, before + COUNT))
            assert await values(broker) == list(range(before + COUNT))
            assert not broker.faults.pending
            await send(producer, COUNT, before + COUNT)
            assert await values(broker) == list(range(before + 2 * COUNT))

    asyncio.run(run())


@pytest.mark.parametrize("code", ["INVALID_RECORD", "UNKNOWN_SERVER_ERROR", "TOPIC_AUTHORIZATION_FAILED"])
@pytest.mark.parametrize("strikes", ["alone", "with others behind it"])
def test_a_batch_that_fails_for_good_takes_nobody_with_it(code, strikes):
    async def run() -> None:
        async with broker_and_producer() as (broker, producer):
            await send(producer, COUNT)
            broker.fail_next("Produce", code)
            count = 7 if strikes == "alone" else COUNT
            deliveries = [await producer.send("t", b"%d" % (COUNT + each)) for each in range(count)]
            await producer.flush()
            failed = [index for index, each in enumerate(deliveries) if each.failed()]
            assert failed == list(range(7))
            assert deliveries[0].exception().code == ErrorCode[code]
            await send(producer, COUNT, COUNT + count)
            expected = [*range(COUNT), *range(COUNT + 7, 2 * COUNT + count)]
            assert await values(broker) == expected

    asyncio.run(run())


@pytest.mark.parametrize("side", ["request", "response"])
@pytest.mark.parametrize("losses", [1, 4])
def test_lost_requests_and_lost_answers_are_made_good(side, losses):
    async def run() -> None:
        async with AsyncBroker(memory=True) as broker, Proxy("127.0.0.1", broker.port) as proxy:
            await broker.create_topic("t")
            where = proxy.bootstrap_server
            async with AsyncProducer(bootstrap_servers=where, batch_max_records=7, **QUICK) as producer:
                sent = 0
                for _ in range(3):
                    for _ in range(losses):
                        proxy.lose("Produce", side)
                    await send(producer, COUNT, sent)
                    sent += COUNT
                    assert not proxy.pending
                assert await values(broker) == list(range(sent))

    asyncio.run(run())


def test_connections_that_are_cut_again_and_again_change_nothing():
    async def run() -> None:
        async with AsyncBroker(memory=True) as broker, Proxy("127.0.0.1", broker.port) as proxy:
            await broker.create_topic("t")
            where = proxy.bootstrap_server
            async with AsyncProducer(bootstrap_servers=where, batch_max_records=7, **QUICK) as producer:
                deliveries = []
                for number in range(2000):
                    deliveries.append(await producer.send("t", b"%d" % number))
                    if number % 100 == 50:
                        await deliveries[-40]
                        proxy.cut()
                await producer.flush()
                assert all(each.succeeded() for each in deliveries)
                assert await values(broker) == list(range(2000))

    asyncio.run(run())


def test_a_request_that_comes_late_over_its_old_connection_is_not_written_again():
    """It was given up, and what stood behind it was sent under another epoch: the log refuses the old one."""

    async def run() -> None:
        async with AsyncBroker(memory=True) as broker, Proxy("127.0.0.1", broker.port) as proxy:
            await broker.create_topic("t")
            limits = {"request_timeout_ms": 300, "delivery_timeout_ms": 300}
            where = proxy.bootstrap_server
            async with AsyncProducer(bootstrap_servers=where, **limits, **QUICK) as producer:
                await send(producer, 1)
                held = proxy.hold("Produce")
                lost = await producer.send("t", b"lost")
                await held.arrived()
                with pytest.raises(KafkaTimeoutError, match="sent 1 times"):
                    await lost
                assert await send(producer, 3, 1) == [1, 2, 3]
                held.release()
                answer = await held.answer()
                code = answer.responses[0].partition_responses[0].error_code
                assert code == ErrorCode.INVALID_PRODUCER_EPOCH
                assert await values(broker) == [0, 1, 2, 3]

    asyncio.run(run())


def test_the_broker_is_away_for_longer_than_deliveries_may_take():
    async def run() -> None:
        limits = {"request_timeout_ms": 500, "delivery_timeout_ms": 1000}
        async with broker_and_producer(**limits) as (broker, producer):
            await send(producer, COUNT)
            await broker.kill()
            lost = [await producer.send("t", b"-1") for _ in range(30)]
            for each in lost:
                with pytest.raises(
                    KafkaTimeoutError, match=r"for t-0 were not acknowledged within 1000 ms \("
                ):
                    await each
            assert producer.metrics()["records_failed"] == 30
            assert producer.metrics()["buffered_bytes"] == 0
            await broker.start()
            await send(producer, COUNT, COUNT)
            assert await values(broker) == list(range(2 * COUNT))

    asyncio.run(run())


def test_a_broker_that_takes_everything_and_says_nothing():
    async def run() -> None:
        limits = {"request_timeout_ms": 300, "delivery_timeout_ms": 1000}
        async with broker_and_producer(**limits) as (broker, producer):
            await send(producer, COUNT)
            broker.pause()
            lost = [await producer.send("t", b"%d" % (COUNT + each)) for each in range(30)]
            for each in lost:
                with pytest.raises(KafkaTimeoutError):
                    await each
            broker.resume()
            await send(producer, COUNT, COUNT + 30)
            found = await values(broker)
            # What had no answer may be written or not: but nothing twice, and nothing out of its order.
            assert found == sorted(set(found))
            assert {*range(COUNT), *range(COUNT + 30, 2 * COUNT + 30)} <= set(found)

    asyncio.run(run())


@pytest.mark.parametrize("paused", [False, True])
def test_a_broker_that_is_paused_for_longer_than_a_request_may_take(paused):
    async def run() -> None:
        limits = {"request_timeout_ms": 150, "socket_connection_setup_timeout_ms": 100}
        async with broker_and_producer(**limits) as (broker, producer):
            await send(producer, COUNT)
            if paused:
                broker.pause()
            else:
                broker.delay("Produce", 0.4)
            deliveries = [await producer.send("t", b"%d" % (COUNT + each)) for each in range(COUNT)]
            while producer.metrics()["batches_retried"] < 6:
                await asyncio.sleep(0.005)
            broker.faults.clear()
            await producer.flush()
            assert all(each.succeeded() for each in deliveries)
            assert await values(broker) == list(range(2 * COUNT))

    asyncio.run(run())


def test_the_broker_is_killed_in_the_middle_of_twenty_thousand_records():
    async def run() -> None:
        async with AsyncBroker() as broker:
            await broker.create_topic("t", 3)
            where = broker.bootstrap_server
            async with AsyncProducer(bootstrap_servers=where, batch_size=4096, **QUICK) as producer:
                deliveries = []
                for number in range(20_000):
                    deliveries.append(await producer.send("t", b"%d" % number, key=b"%d" % (number % 10)))
                    if number in (5_000, 12_000):
                        await broker.kill()
                        await broker.start()
                await producer.flush()
                assert all(each.succeeded() for each in deliveries)
            for partition in range(3):
                rows = [(r.key, int(r.value)) for r in await broker.records("t", partition)]
                for key in {key for key, _ in rows}:
                    mine = [value for each, value in rows if each == key]
                    assert mine == list(range(int(key), 20_000, 10))

    asyncio.run(run())


def test_without_idempotence_one_request_at_a_time_keeps_the_order():
    async def run() -> None:
        settings = {"enable_idempotence": False, "max_in_flight_requests_per_connection": 1}
        async with broker_and_producer(**settings) as (broker, producer):
            broker.fail_next("Produce", "NOT_ENOUGH_REPLICAS", times=5)
            await send(producer, COUNT)
            assert await values(broker) == list(range(COUNT))

    asyncio.run(run())


def test_retries_are_counted():
    async def run() -> None:
        async with broker_and_producer(retries=2) as (broker, producer):
            await send(producer, 1)
            broker.fail_next("Produce", "NOT_ENOUGH_REPLICAS", times=3)
            with pytest.raises(KafkaError) as caught:
                await producer.send_and_wait("t", b"-1")
            assert caught.value.code == ErrorCode.NOT_ENOUGH_REPLICAS
            await send(producer, 2, 1)
            assert await values(broker) == [0, 1, 2]

    asyncio.run(run())


def test_an_answer_lost_and_then_a_refusal_do_not_free_the_number():
    """The batch is written. If the next one had its number, the broker would take that for a repetition."""

    async def run() -> None:
        async with AsyncBroker(memory=True) as broker, Proxy("127.0.0.1", broker.port) as proxy:
            await broker.create_topic("t")
            where = proxy.bootstrap_server
            async with AsyncProducer(bootstrap_servers=where, retry_backoff_ms=200) as producer:
                await send(producer, 1)
                proxy.lose("Produce", "response")
                delivery = await producer.send("t", b"1")
                assert len(await broker.records("t", at_least=2)) == 2
                broker.fail_next("Produce", "INVALID_RECORD")
                with pytest.raises(KafkaError, match="INVALID_RECORD"):
                    await delivery
                assert await send(producer, 1, 2) + await send(producer, 1, 3) == [2, 3]
                assert await values(broker) == [0, 1, 2, 3]

    asyncio.run(run())


def test_splitting_keeps_the_order_also_with_others_under_way():
    async def run() -> None:
        async with AsyncBroker(memory=True) as broker:
            await broker.create_topic("t", max_message_bytes=2000)
            where = broker.bootstrap_server
            async with AsyncProducer(bootstrap_servers=where, batch_size=16_000, linger_ms=20) as producer:
                rows = [b"%d" % number + b" " * (number % 97) for number in range(3000)]
                deliveries = [await producer.send("t", row) for row in rows]
                offsets = [(await each).offset for each in deliveries]
                assert offsets == list(range(3000))
            assert await values(broker) == list(range(3000))

    asyncio.run(run())


def test_a_record_that_is_too_large_for_the_broker_fails_alone():
    async def run() -> None:
        async with AsyncBroker(memory=True) as broker:
            await broker.create_topic("t", max_message_bytes=2000)
            async with AsyncProducer(bootstrap_servers=broker.bootstrap_server, linger_ms=50) as producer:
                deliveries = [await producer.send("t", b"%d" % number) for number in range(10)]
                large = await producer.send("t", b"-" * 3000)
                deliveries += [await producer.send("t", b"%d" % number) for number in range(10, 20)]
                await producer.flush()
                assert large.exception().code == ErrorCode.MESSAGE_TOO_LARGE
                assert all(each.succeeded() for each in deliveries)
                assert [each.get().offset for each in deliveries] == list(range(20))
            assert await values(broker) == list(range(20))

    asyncio.run(run())


async def turns(count: int = 500) -> None:
    """Let the loop go round so often: whoever spins has his turn each time, whoever waits has none."""
    for _ in range(count):
        await asyncio.sleep(0)


def test_a_broker_that_never_agrees_is_not_asked_without_a_pause():
    async def run() -> None:
        async with broker_and_producer(retry_backoff_ms=60_000) as (broker, producer):
            await send(producer, 1)
            broker.fail_next("Produce", "OUT_OF_ORDER_SEQUENCE_NUMBER", times=1_000_000)
            await producer.send("t", b"1")
            while producer.metrics()["batches_retried"] < 2:
                await asyncio.sleep(0)
            await turns()
            assert producer.metrics()["requests_sent"] == 3
            await producer.close(timeout_ms=0)

    asyncio.run(run())


def test_while_the_broker_is_away_and_while_there_is_nothing_to_do_the_sender_hardly_looks(monkeypatch):
    looks = 0
    look = sender.Sender._send_what_is_due

    def counted(self: sender.Sender) -> float:
        nonlocal looks
        looks += 1
        return look(self)

    monkeypatch.setattr(sender.Sender, "_send_what_is_due", counted)

    async def run() -> None:
        nonlocal looks
        async with AsyncBroker(memory=True) as broker:
            await broker.create_topic("t")
            async with AsyncProducer(bootstrap_servers=broker.bootstrap_server) as producer:
                await send(producer, 10)
                looks = 0
                await turns()
                assert looks <= 2
                await broker.kill()
                producer._core.cluster.metadata.brokers.clear()  # as an answer without a leader would
                delivery = await producer.send("t", b"10")
                await turns()
                assert looks < 20
                await broker.start()
                await delivery
            assert await values(broker) == list(range(11))

    asyncio.run(run())


def test_a_full_buffer_makes_the_next_one_wait_and_then_fail_and_keeps_what_it_has():
    async def run() -> None:
        limits = {"buffer_memory": 1000, "max_block_ms": 100}
        async with broker_and_producer(**limits) as (broker, producer):
            await send(producer, 1)
            broker.pause()
            deliveries = []
            with pytest.raises(BufferFullError, match=r"no room for a record of \d+ bytes within 100 ms"):
                while True:
                    deliveries.append(await producer.send("t", b"%d" % (len(deliveries) + 1)))
            assert len(deliveries) > 20
            waits = asyncio.ensure_future(producer.send("t", b"%d" % (len(deliveries) + 1)))
            await asyncio.sleep(0)
            broker.resume()
            deliveries.append(await waits)
            await producer.flush()
            assert await values(broker) == list(range(len(deliveries) + 1))
            assert producer.metrics()["buffered_bytes"] == producer.metrics()["buffered_records"] == 0

    asyncio.run(run())


def test_where_records_are_dropped_they_are_counted_and_their_deliveries_fail():
    async def run() -> None:
        with pytest.warns(DeprecationWarning):
            producer = AsyncProducer(bootstrap_servers="x", queue_enqueue_timeout_ms=0)
            await producer.close()
        async with broker_and_producer(buffer_max_records=10, buffer_full="drop") as (broker, producer):
            await send(producer, 1)
            broker.pause()
            deliveries = [await producer.send("t", b"%d" % (each + 1)) for each in range(25)]
            assert [each.failed() for each in deliveries] == [False] * 10 + [True] * 15
            with pytest.raises(BufferFullError, match="was dropped"):
                await deliveries[-1]
            broker.resume()
            await producer.flush()
            assert producer.metrics()["records_dropped"] == 15
            assert await values(broker) == list(range(11))

    asyncio.run(run())


def test_a_topic_that_nobody_may_create_is_unknown():
    async def run() -> None:
        config = {"auto.create.topics.enable": "false"}
        async with (
            AsyncBroker(memory=True, config=config) as broker,
            AsyncProducer(bootstrap_servers=broker.bootstrap_server, max_block_ms=200) as producer,
        ):
            with pytest.raises(UnknownTopicError, match="topic nowhere was not found within 200 ms"):
                await producer.send("nowhere", b"")

    asyncio.run(run())


def test_records_for_a_topic_that_is_deleted_fail_in_time_and_closing_does_not_hang():
    async def run() -> None:
        limits = {"request_timeout_ms": 200, "delivery_timeout_ms": 300}
        async with broker_and_producer(**limits) as (broker, producer):
            await send(producer, 1)
            await broker.node.controller.delete_topics(["t"])
            broker.fail_next("Produce", "UNKNOWN_TOPIC_OR_PARTITION", times=1000)
            with pytest.raises(KafkaTimeoutError):
                await producer.send_and_wait("t", b"1")

    asyncio.run(run())


def test_closing_while_the_broker_is_away_ends_in_time_and_says_so_to_everybody(caplog):
    async def run() -> None:
        async with broker_and_producer() as (broker, producer):
            await send(producer, 1)
            await broker.kill()
            delivery = await producer.send("t", b"1")
            await producer.close(timeout_ms=50)
            with pytest.raises(KafkaError, match="closed before the record was acknowledged"):
                await delivery
            assert "not acknowledged within 50 ms" in caplog.text

    asyncio.run(run())


def test_a_flush_has_a_limit_and_nothing_is_lost_by_it():
    async def run() -> None:
        async with broker_and_producer(linger_ms=20_000) as (broker, producer):
            await send_one_and_flush(producer)
            broker.pause()
            await producer.send("t", b"1")
            with pytest.raises(KafkaTimeoutError, match="1 records were not acknowledged within 50 ms"):
                await producer.flush(timeout_ms=50)
            broker.resume()
            await producer.flush()
            assert await values(broker) == [0, 1]

    asyncio.run(run())


async def send_one_and_flush(producer: AsyncProducer) -> None:
    await producer.send("t", b"0")
    await producer.flush()


def test_network_errors_are_errors_of_connections_for_those_who_do_not_know_kafka():
    assert issubclass(NetworkError, ConnectionError)
    assert issubclass(KafkaTimeoutError, TimeoutError)
