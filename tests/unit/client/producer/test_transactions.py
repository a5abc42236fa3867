"""The states of a transactional producer: which call is possible in which, and what those hear who call out of turn."""

import asyncio
from typing import Any

import pytest

from ottla.client import AsyncProducer
from ottla.client.cluster import Cluster
from ottla.client.errors import (
    IllegalStateError,
    KafkaTimeoutError,
    ProducerFencedError,
    TransactionAbortableError,
)
from ottla.client.producer.config import producer_config
from ottla.client.producer.transactions import State, Transactions
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.network.peer import connect
from ottla.protocol.messages.transactions import DescribeTransactionsRequest
from ottla.testing.broker import AsyncBroker
from ottla.testing.proxy import Proxy

PLACE = TopicPartition("t", 0)
ALLOWED = {
    "begin": {State.READY},
    "check_open": {State.OPEN},
    "commit": {State.OPEN, State.COMMITTING},
    "abort": {State.OPEN, State.ABORTING, State.SPOILT},
}


def transactions_in(state: State, cause: Exception | None = None) -> Transactions:
    config = producer_config({"transactional_id": "me"})
    found = Transactions(Cluster(config), config, asyncio.Event(), lambda: False)
    found.state, found._cause = state, cause
    return found


def call(transactions: Transactions, name: str) -> None:
    calls: dict[str, Any] = {
        "begin": transactions.begin,
        "check_open": transactions.check_open,
        "commit": lambda: transactions.closing(True),
        "abort": lambda: transactions.closing(False),
    }
    calls[name]()


@pytest.mark.parametrize("name", ALLOWED)
@pytest.mark.parametrize("state", State)
def test_the_table(name, state):
    transactions = transactions_in(state, KafkaError.of(ErrorCode.INVALID_RECORD, "why"))
    if state in ALLOWED[name]:
        call(transactions, name)
        return
    kind = TransactionAbortableError if state is State.SPOILT else IllegalStateError
    with pytest.raises(kind):
        call(transactions, name)


@pytest.mark.parametrize("state", State)
def test_what_waits_fails_where_it_can_never_leave(state):
    error = transactions_in(state, ProducerFencedError("another")).take_error()
    assert (error is not None) == (state in (State.ABORTING, State.SPOILT, State.FENCED))
    if state is State.FENCED:
        assert isinstance(error, ProducerFencedError)


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (KafkaError.of(ErrorCode.MESSAGE_TOO_LARGE), State.SPOILT),
        (KafkaTimeoutError("late"), State.SPOILT),
        (KafkaError.of(ErrorCode.INVALID_PRODUCER_ID_MAPPING), State.FENCED),
        (KafkaError.of(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED), State.FENCED),
        (ProducerFencedError("another"), State.FENCED),
    ],
)
def test_a_record_that_fails_spoils_an_open_transaction_and_only_that(error, state):
    transactions = transactions_in(State.OPEN)
    transactions.failed(None, error)
    assert transactions.state is state
    for other in (State.READY, State.ABORTING):
        transactions = transactions_in(other)
        transactions.failed(None, error)
        assert transactions.state is other


@pytest.fixture
def old_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with brokers before 4.0: partitions are added first, and the epoch stays."""
    never = property(lambda self: False, lambda self, value: None)
    monkeypatch.setattr(Transactions, "_is_new_way", never, raising=False)


def in_the_old_way(work: Any) -> None:
    async def run() -> None:
        async with AsyncBroker(memory=True) as broker, Proxy("127.0.0.1", broker.port) as proxy:
            await broker.create_topic("t", 3)
            settings = {"bootstrap_servers": proxy.bootstrap_server, "transactional_id": "me"}
            quick = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 20, "reconnect_backoff_ms": 1}
            async with AsyncProducer(**settings, **quick) as producer:
                await producer.init_transactions()
                expected = await work(broker, proxy, producer)
            assert [row.value for row in await broker.records("t")] == expected

    asyncio.run(run())


@pytest.mark.parametrize("side", ["request", "response"])
@pytest.mark.parametrize(
    "api", ["AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "Produce", "TxnOffsetCommit"]
)
def test_the_old_way_with_losses(old_way, api, side):
    async def work(broker: AsyncBroker, proxy: Proxy, producer: AsyncProducer) -> list[bytes]:
        for number in range(3):
            proxy.lose(api, side)
            async with producer.transaction():
                await producer.send("t", b"%d" % number, partition=0)
                await producer.send_offsets_to_transaction({PLACE: number}, "g")
        assert not proxy.pending
        return [b"0", b"1", b"2"]

    in_the_old_way(work)


def test_the_old_way_with_errors_and_more_transactions_than_one(old_way):
    async def work(broker: AsyncBroker, proxy: Proxy, producer: AsyncProducer) -> list[bytes]:
        for number in range(3):
            broker.fail_next("Produce", "OUT_OF_ORDER_SEQUENCE_NUMBER")
            with pytest.raises(TransactionAbortableError):
                async with producer.transaction():
                    await producer.send("t", b"no", partition=0)
            broker.fail_next("AddPartitionsToTxn", "CONCURRENT_TRANSACTIONS", times=2)
            async with producer.transaction():
                await producer.send("t", b"%d" % number, partition=0)
        broker.fail_next("AddPartitionsToTxn", "TOPIC_AUTHORIZATION_FAILED")
        with pytest.raises(TransactionAbortableError, match="TOPIC_AUTHORIZATION_FAILED"):
            async with producer.transaction():
                await producer.send("t", b"no", partition=0)
        async with producer.transaction():
            await producer.send("t", b"3", partition=0)
        return [b"0", b"1", b"2", b"3"]

    in_the_old_way(work)


async def state_at_the_coordinator(broker: AsyncBroker) -> str:
    async with await connect("127.0.0.1", broker.port) as peer:
        answer = await peer.send(DescribeTransactionsRequest(transactional_ids=["me"]))
        return answer.transaction_states[0].transaction_state


@pytest.mark.parametrize("side", ["request", "response"])
def test_an_abort_while_partitions_are_being_added_ends_what_the_coordinator_may_have_begun(old_way, side):
    async def work(broker: AsyncBroker, proxy: Proxy, producer: AsyncProducer) -> list[bytes]:
        held = proxy.hold("AddPartitionsToTxn", side)
        await producer.begin_transaction()
        delivery = await producer.send("t", b"no", partition=0)
        await held.arrived()
        aborting = asyncio.ensure_future(producer.abort_transaction())
        while not delivery.done():
            await asyncio.sleep(0)
        held.release()
        await aborting
        assert await state_at_the_coordinator(broker) in ("CompleteAbort", "Empty")
        async with producer.transaction():
            await producer.send("t", b"yes", partition=0)
        return [b"yes"]

    in_the_old_way(work)
