"""What can be asked about transactions and producers, and who is told."""

import pytest

from ottla.broker.authorizer import Operation
from ottla.core.errors import ErrorCode
from ottla.protocol.messages.transactions import AddedTopic, DescribeProducersRequest
from ottla.records.builder import build
from ottla.records.record import Record
from tests.unit.broker.handlers.coordinating import coordinating, scenario
from tests.unit.broker.handlers.fakes import ask
from tests.unit.broker.handlers.logs import broker_of, led_partition

NOW = 1_700_000_000_000


# --- transactions -------------------------------------------------------------------------------------------------


async def begin(client, transactional_id, **topics):
    """An open transaction with these partitions; its producer id."""
    given = await client.ask(
        "InitProducerId", 4, transactional_id=transactional_id, transaction_timeout_ms=60_000
    )
    if topics:
        added = await client.ask(
            "AddPartitionsToTxn",
            3,
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=given.producer_id,
            v3_and_below_producer_epoch=given.producer_epoch,
            v3_and_below_topics=[AddedTopic(name=name, partitions=at) for name, at in topics.items()],
        )
        assert {
            each.partition_error_code
            for topic in added.results_by_topic_v3_and_below
            for each in topic.results_by_partition
        } == {0}
    return given.producer_id


async def listed(client, version=2, **filters):
    filters = {"state_filters": [], "producer_id_filters": [], **filters}
    return await client.ask("ListTransactions", version, **filters)


async def ids(client, version=2, **filters):
    found = await listed(client, version, **filters)
    assert found.error_code == ErrorCode.NONE
    return sorted(each.transactional_id for each in found.transaction_states)


@scenario
async def test_a_transaction_is_described_with_the_topics_that_may_be_seen():
    async with coordinating("tea", "gin") as client:
        producer_id = await begin(client, "mine", tea=[1, 0], gin=[0])
        client.node.authorizer.deny(Operation.DESCRIBE, "gin")
        (found,) = (
            await client.ask("DescribeTransactions", 0, transactional_ids=["mine"])
        ).transaction_states
        assert (found.error_code, found.transaction_state, found.producer_id) == (0, "Ongoing", producer_id)
        assert (found.transaction_timeout_ms, found.producer_epoch) == (60_000, 0)
        assert found.transaction_start_time_ms > 0
        assert [(each.topic, sorted(each.partitions)) for each in found.topics] == [("tea", [0, 1])]


@scenario
async def test_each_transactional_id_is_answered_for_by_itself():
    async with coordinating() as client:
        await begin(client, "mine")
        client.node.authorizer.deny(Operation.DESCRIBE, "theirs")
        names = ["theirs", "", "nobody", "mine"]
        found = (await client.ask("DescribeTransactions", 0, transactional_ids=names)).transaction_states
        assert [(each.transactional_id, ErrorCode(each.error_code)) for each in found] == [
            ("theirs", ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
            ("", ErrorCode.INVALID_REQUEST),
            ("nobody", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND),
            ("mine", ErrorCode.NONE),
        ]
        assert found[-1].transaction_state == "Empty"


@scenario
async def test_a_list_holds_what_matches_and_may_be_seen():
    async with coordinating("tea") as client:
        idle = await begin(client, "idle")
        await begin(client, "open", tea=[0])
        await begin(client, "hidden", tea=[1])
        client.node.authorizer.deny(Operation.DESCRIBE, "hidden")
        for version in range(3):
            assert await ids(client, version) == ["idle", "open"]
        assert await ids(client, state_filters=["Ongoing"]) == ["open"]
        assert await ids(client, producer_id_filters=[idle]) == ["idle"]
        assert await ids(client, duration_filter=3_600_000) == ["idle"]  # it has no beginning, as in Kafka
        found = await listed(client, state_filters=["Ongoing", "Jolly", "ongoing"])
        assert found.unknown_state_filters == ["Jolly", "ongoing"]


@scenario
async def test_a_list_can_be_narrowed_by_a_pattern_that_is_one():
    pytest.importorskip("re2")
    async with coordinating() as client:
        await begin(client, "order-1")
        await begin(client, "orders")
        assert await ids(client, transactional_id_pattern="order-.*") == ["order-1"]
        assert (await listed(client, transactional_id_pattern="(")).error_code == 128


@scenario
async def test_half_a_list_is_none():
    async with coordinating() as client:
        client.node.transactions._loads[0] = None
        found = await listed(client)
        del client.node.transactions._loads[0]
        assert (found.error_code, found.transaction_states) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [])


# --- producers ----------------------------------------------------------------------------------------------------


@pytest.fixture
def broker():
    return broker_of(led_partition())


def described(broker, name="orders", index=0):
    topic = DescribeProducersRequest.Topic(name=name, partition_indexes=[index])
    (answer,) = ask(broker, "DescribeProducers", 0, topics=[topic]).topics[0].partitions
    return answer


def test_a_partition_tells_who_writes_to_it(broker):
    partition = broker.replicas.get("orders", 0)
    for producer_id, is_transactional in [(5, False), (6, True)]:
        records = [Record(i, NOW, b"k", b"v") for i in range(3)]
        batch = build(
            records,
            producer_id=producer_id,
            producer_epoch=2,
            base_sequence=0,
            is_transactional=is_transactional,
        )
        partition.append(batch, 1, NOW)
    answer = described(broker)
    assert answer.error_code == 0
    assert [
        (each.producer_id, each.producer_epoch, each.last_sequence, each.current_txn_start_offset)
        for each in answer.active_producers
    ] == [(5, 2, 2, -1), (6, 2, 2, 3)]
    assert {each.last_timestamp for each in answer.active_producers} == {NOW}


def test_what_cannot_be_described_says_why(broker):
    assert described(broker, "nothing").error_code == 3
    assert described(broker, "no/name").error_code == 17
    assert described(broker, "orders", 4).error_code == 3
    assert described(broker_of(led_partition(leader=2))).error_code == 6
    broker.authorizer.deny(Operation.READ)
    answer = described(broker)
    assert (answer.error_code, answer.active_producers) == (29, [])
    assert answer.error_message
