"""Transactions of our producer, against both brokers, and read by somebody else's client."""

import asyncio
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Place

from ottla.client import AsyncProducer, OffsetAndMetadata, Producer, TopicPartition
from ottla.client.errors import (
    CommitFailedError,
    IllegalStateError,
    KafkaTimeoutError,
    ProducerFencedError,
    TransactionAbortableError,
)
from ottla.client.records import GroupMetadata
from ottla.core.errors import ErrorCode, KafkaError
from ottla.testing.broker import AsyncBroker
from ottla.testing.proxy import Proxy

QUICK = {"retry_backoff_ms": 5, "retry_backoff_max_ms": 50}


@pytest.fixture
def topic(new_topic: Callable[..., str]) -> str:
    return new_topic(2)


def read(server: str, topic: str, isolation: str = "read_committed") -> list[bytes]:
    """Values by partition and offset, up to the end that this isolation level has."""
    settings = {"bootstrap.servers": server, "group.id": "reader", "isolation.level": isolation}
    consumer = Consumer({**settings, "enable.partition.eof": True, "auto.offset.reset": "earliest"})
    found: list[tuple[int, int, bytes]] = []
    try:
        consumer.assign([Place(topic, number, 0) for number in range(2)])
        ends: set[int] = set()
        while len(ends) < 2:
            message = consumer.poll(10)
            assert message is not None
            if message.error() is None:
                found.append((message.partition(), message.offset(), message.value()))
            else:
                ends.add(message.partition())
    finally:
        consumer.close()
    return [value for _, _, value in sorted(found)]


def producer_of(server: str, name: str, **settings: object) -> Producer:
    return Producer(bootstrap_servers=server, transactional_id=name, **QUICK, **settings)


def test_what_is_committed_is_seen_and_what_is_aborted_is_not(server, topic, name):
    with producer_of(server, name) as producer:
        producer.init_transactions()
        for round in range(3):
            producer.begin_transaction()
            producer.send(topic, b"no %d" % round, partition=0)
            producer.flush()
            producer.abort_transaction()
            producer.begin_transaction()
            producer.send(topic, b"yes %d" % round, partition=0)
            producer.send(topic, b"and %d" % round, partition=1)
            producer.commit_transaction()
        assert read(server, topic) == [*(b"yes %d" % n for n in range(3)), *(b"and %d" % n for n in range(3))]
        assert b"no 2" in read(server, topic, "read_uncommitted")
        assert producer.transactional_id == name


def test_blocks_commit_or_abort(server, topic, name):
    async def run() -> None:
        async with AsyncProducer(bootstrap_servers=server, transactional_id=name, **QUICK) as producer:
            await producer.init_transactions()
            async with producer.transaction() as same:
                assert same is producer
                await producer.send(topic, b"1", partition=0)
            with pytest.raises(ZeroDivisionError):
                async with producer.transaction():
                    await producer.send_and_wait(topic, b"2", partition=0)
                    raise ZeroDivisionError
            async with producer.transaction():
                pass  # nothing in it
            async with producer.transaction():
                await producer.send(topic, b"3", partition=0)

    asyncio.run(run())
    assert read(server, topic) == [b"1", b"3"]


def test_an_abort_right_away_and_closing_in_the_middle_leave_nothing_behind(server, topic, name):
    with producer_of(server, name) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        deliveries = [producer.send(topic, b"no", partition=0) for _ in range(100)]
        producer.abort_transaction()
        assert all(each.done() for each in deliveries)
        producer.begin_transaction()
        producer.send(topic, b"neither", partition=0)
    with producer_of(server, name) as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send(topic, b"yes", partition=0)
    assert read(server, topic) == [b"yes"]


def test_the_older_of_two_producers_with_one_id_is_shut_out(server, topic, name):
    with producer_of(server, name) as old, producer_of(server, name) as new:
        old.init_transactions()
        old.begin_transaction()
        old.send(topic, b"old", partition=0).get(30)
        new.init_transactions()
        with pytest.raises(ProducerFencedError, match="another producer uses the transactional id"):
            old.commit_transaction()
        for call in (old.begin_transaction, old.abort_transaction):
            with pytest.raises(ProducerFencedError):
                call()
        with pytest.raises(ProducerFencedError):
            old.send(topic, b"old")
        with new.transaction():
            new.send(topic, b"new", partition=0)
    assert read(server, topic) == [b"new"]


def test_records_of_the_older_one_are_refused_and_it_learns_why(server, topic, name):
    with producer_of(server, name) as old, producer_of(server, name) as new:
        old.init_transactions()
        with old.transaction():
            old.send(topic, b"first", partition=0)
        new.init_transactions()
        with pytest.raises((ProducerFencedError, TransactionAbortableError)), old.transaction():
            old.send(topic, b"old", partition=0)
        with pytest.raises(KafkaError):
            old.begin_transaction()
        with new.transaction():
            new.send(topic, b"new", partition=0)
    assert read(server, topic) == [b"first", b"new"]


def test_offsets_are_committed_with_the_transaction_and_not_without(server, topic, name):
    group = f"group-{name}"

    def committed() -> list[int]:
        consumer = Consumer({"bootstrap.servers": server, "group.id": group})
        try:
            rows = consumer.committed([Place(topic, 0), Place(topic, 1)], timeout=30)
            return [row.offset for row in rows]
        finally:
            consumer.close()

    with producer_of(server, name) as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send(topic, b"out", partition=0)
            offsets = {TopicPartition(topic, 0): 5, TopicPartition(topic, 1): OffsetAndMetadata(7, "note")}
            producer.send_offsets_to_transaction(offsets, group)
        assert committed() == [5, 7]
        producer.begin_transaction()
        producer.send_offsets_to_transaction({TopicPartition(topic, 0): 9}, GroupMetadata(group))
        producer.abort_transaction()
        with producer.transaction():
            producer.send_offsets_to_transaction({}, group)
        assert committed() == [5, 7]
        stranger = GroupMetadata(group, 3, "somebody")
        producer.begin_transaction()
        with pytest.raises(CommitFailedError, match="has gone on without this member"):
            producer.send_offsets_to_transaction({TopicPartition(topic, 0): 11}, stranger)
        with pytest.raises(TransactionAbortableError):
            producer.commit_transaction()
        producer.abort_transaction()
        assert committed() == [5, 7]


def test_a_record_that_fails_spoils_its_transaction_and_the_next_is_well(server, new_topic, name):
    topic = new_topic(2, max_message_bytes=5000)
    with producer_of(server, name) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"no", partition=0).get(30)
        large = producer.send(topic, b"-" * 10_000, partition=0)
        assert large.exception(30).code == ErrorCode.MESSAGE_TOO_LARGE
        with pytest.raises(TransactionAbortableError, match="MESSAGE_TOO_LARGE"):
            producer.send(topic, b"no")
        with pytest.raises(TransactionAbortableError, match="can only be aborted"):
            producer.commit_transaction()
        producer.abort_transaction()
        with producer.transaction():
            producer.send(topic, b"yes", partition=0)
        with pytest.raises(TransactionAbortableError), producer.transaction():
            producer.send(topic, b"no", partition=0)
            producer.send(topic, b"-" * 10_000, partition=0)
        with producer.transaction():
            producer.send(topic, b"yes again", partition=0)
    assert read(server, topic) == [b"yes", b"yes again"]


def test_calls_out_of_turn_are_refused_with_a_sentence(server, topic, name):
    alone = pytest.raises(IllegalStateError, match="without a transactional_id")
    with Producer(bootstrap_servers=server) as producer, alone:
        producer.init_transactions()
    with producer_of(server, name) as producer:
        with pytest.raises(IllegalStateError, match=r"init_transactions\(\) was not called"):
            producer.begin_transaction()
        producer.init_transactions()
        for call in (producer.commit_transaction, producer.abort_transaction, producer.init_transactions):
            with pytest.raises(IllegalStateError, match="no transaction has begun"):
                call()
        with pytest.raises(IllegalStateError):
            producer.send(topic, b"")
        producer.begin_transaction()
        with pytest.raises(IllegalStateError, match="a transaction is open"):
            producer.begin_transaction()
        producer.abort_transaction()


def test_a_transaction_that_takes_too_long_is_over(server, topic, name):
    with producer_of(server, name, transaction_timeout_ms=100) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"no", partition=0).get(30)

        def is_over() -> bool:
            try:
                producer.send(topic, b"no", partition=0).get(30)
            except KafkaError:
                return True
            return False

        while not is_over():
            pass
        with pytest.raises(KafkaError):
            producer.commit_transaction()
    with producer_of(server, name) as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send(topic, b"yes", partition=0)
    assert read(server, topic) == [b"yes"]


# --- faults ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("api", ["InitProducerId", "Produce", "EndTxn", "TxnOffsetCommit", "FindCoordinator"])
@pytest.mark.parametrize("side", ["request", "response"])
def test_lost_requests_and_answers_change_nothing(api, side):
    async def run() -> None:
        async with AsyncBroker(memory=True) as broker, Proxy("127.0.0.1", broker.port) as proxy:
            await broker.create_topic("t")
            settings = {"bootstrap_servers": proxy.bootstrap_server, "transactional_id": "me", **QUICK}
            proxy.lose(api, side)
            async with AsyncProducer(**settings) as producer:
                await producer.init_transactions()
                for number in range(4):
                    if api not in ("InitProducerId", "FindCoordinator"):
                        proxy.lose(api, side)
                    async with producer.transaction():
                        await producer.send("t", b"%d" % number)
                        await producer.send_offsets_to_transaction({TopicPartition("t", 0): number}, "g")
                assert not proxy.pending
            assert [row.value for row in await broker.records("t")] == [b"%d" % each for each in range(4)]

    asyncio.run(run())


@pytest.mark.parametrize("how", ["refused", "lost", "silent"])
def test_an_abort_does_not_wait_for_records_that_will_not_be_sent_again(how):
    async def run() -> None:
        async with AsyncBroker(memory=True) as broker, Proxy("127.0.0.1", broker.port) as proxy:
            await broker.create_topic("t")
            settings = {"bootstrap_servers": proxy.bootstrap_server, "transactional_id": "me", **QUICK}
            async with AsyncProducer(**settings, request_timeout_ms=300) as producer:
                await producer.init_transactions()
                await producer.begin_transaction()
                if how == "refused":
                    broker.fail_next("Produce", "NOT_ENOUGH_REPLICAS", times=2)
                elif how == "lost":
                    proxy.lose("Produce", "response")
                else:
                    held = proxy.hold("Produce")
                deliveries = [await producer.send("t", b"no") for _ in range(20)]
                while not producer.metrics()["requests_sent"]:
                    await asyncio.sleep(0)
                await asyncio.wait_for(producer.abort_transaction(), 10)
                assert all(each.failed() or each.succeeded() for each in deliveries)
                broker.faults.clear()
                for number in range(3):
                    async with producer.transaction():
                        await producer.send("t", b"yes %d" % number)
                if how == "silent":
                    held.release()
            found = [row.value for row in await broker.records("t") if row.value != b"no"]
            assert found == [b"yes %d" % number for number in range(3)]

    asyncio.run(run())


def test_a_commit_that_timed_out_may_be_called_again():
    async def run() -> None:
        async with AsyncBroker(memory=True) as broker:
            await broker.create_topic("t")
            settings = {"bootstrap_servers": broker.bootstrap_server, "transactional_id": "me", **QUICK}
            async with AsyncProducer(**settings, max_block_ms=200) as producer:
                await producer.init_transactions()
                await producer.begin_transaction()
                await producer.send_and_wait("t", b"yes")
                broker.pause()
                with pytest.raises(KafkaTimeoutError, match="perhaps not committed within 200 ms"):
                    await producer.commit_transaction()
                broker.resume()
                await producer.commit_transaction()
                async with producer.transaction():
                    await producer.send("t", b"and more")
            assert [row.value for row in await broker.records("t")] == [b"yes", b"and more"]

    asyncio.run(run())


@pytest.mark.parametrize(
    "code", ["COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR", "CONCURRENT_TRANSACTIONS"]
)
@pytest.mark.parametrize("api", ["InitProducerId", "EndTxn", "TxnOffsetCommit"])
def test_a_coordinator_that_is_busy_is_asked_again(api, code):
    async def run() -> None:
        async with AsyncBroker(memory=True) as broker:
            await broker.create_topic("t")
            settings = {"bootstrap_servers": broker.bootstrap_server, "transactional_id": "me", **QUICK}
            broker.fail_next(api, code, times=3)
            async with AsyncProducer(**settings) as producer:
                await producer.init_transactions()
                async with producer.transaction():
                    await producer.send("t", b"yes")
                    await producer.send_offsets_to_transaction({TopicPartition("t", 0): 1}, "g")
            assert not broker.faults.pending
            assert [row.value for row in await broker.records("t")] == [b"yes"]

    asyncio.run(run())


def test_numbers_that_are_out_of_order_spoil_one_transaction_and_not_the_next():
    async def run() -> None:
        async with AsyncBroker(memory=True) as broker:
            await broker.create_topic("t")
            settings = {"bootstrap_servers": broker.bootstrap_server, "transactional_id": "me", **QUICK}
            async with AsyncProducer(**settings) as producer:
                await producer.init_transactions()
                for number in range(4):
                    broker.fail_next("Produce", "OUT_OF_ORDER_SEQUENCE_NUMBER")
                    with pytest.raises(TransactionAbortableError):
                        async with producer.transaction():
                            await producer.send("t", b"no")
                    async with producer.transaction():
                        await producer.send("t", b"%d" % number)
            assert [row.value for row in await broker.records("t")] == [b"%d" % each for each in range(4)]

    asyncio.run(run())
