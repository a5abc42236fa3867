"""What hangs is decided by three looks, at partitions, at coordinators and at partitions again, in that order."""

import asyncio
import functools

import pytest

from ottla.cli.main import main
from ottla.cli.remote import Failed, cluster
from ottla.cli.txn_state import Producer, Transaction, hanging, is_under_way, partitions_of
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.hosts import Address
from ottla.core.ids import TopicPartition
from ottla.core.loop_thread import LoopThread
from ottla.protocol.messages.groups import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.protocol.messages.transactions import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    InitProducerIdRequest,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from tests.unit.cli.fake_cluster import SILENT, fake_cluster

PLACE = TopicPartition("orders", 0)
OTHER = TopicPartition("orders", 1)
NOW = 1_000_000


def scenario(test):
    @functools.wraps(test)
    def run(*args, **kwargs):
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), 60))

    return run


class Told:
    """Two brokers: the first leads orders-0, the second coordinates `pay`, whose producer is 7."""

    def __init__(self, *, starts=(5, 5), state="Ongoing", partitions=(), listed=True, silent=()):
        self.starts, self.state, self.partitions = list(starts), state, partitions
        self.listed, self.silent = listed, silent
        self.fenced = False

    def __call__(self, node_id, request):
        if node_id in self.silent:
            return SILENT
        if isinstance(request, FindCoordinatorRequest):
            return self._coordinators(request)
        if isinstance(request, DescribeProducersRequest):
            return self._producers(self.starts.pop(0))
        if isinstance(request, ListTransactionsRequest):
            return self._list(node_id)
        if isinstance(request, DescribeTransactionsRequest):
            return self._describe()
        assert isinstance(request, InitProducerIdRequest)
        self.fenced = True
        return SILENT

    def _coordinators(self, request):
        row = FindCoordinatorResponse.Coordinator
        rows = [
            row(key=key, node_id=2, host="127.0.0.1", port=self.ports[2], error_code=0)
            for key in request.coordinator_keys
        ]
        return FindCoordinatorResponse(coordinators=rows)

    def _producers(self, start):
        row = DescribeProducersResponse.Topic
        producer = row.Partition.Producer(
            producer_id=7,
            producer_epoch=0,
            last_timestamp=NOW - 1000,
            coordinator_epoch=-1,
            current_txn_start_offset=start,
        )
        part = row.Partition(partition_index=0, error_code=0, active_producers=[producer])
        return DescribeProducersResponse(topics=[row(name="orders", partitions=[part])])

    def _list(self, node_id):
        row = ListTransactionsResponse.Transaction
        rows = [row(transactional_id="pay", producer_id=7, transaction_state=self.state)]
        return ListTransactionsResponse(
            error_code=0,
            unknown_state_filters=[],
            transaction_states=rows if node_id == 2 and self.listed else [],
        )

    def _describe(self):
        row = DescribeTransactionsResponse.Transaction
        found = row(
            error_code=0,
            transactional_id="pay",
            transaction_state=self.state,
            transaction_timeout_ms=1000,
            transaction_start_time_ms=NOW,
            producer_id=7,
            producer_epoch=0,
            topics=[row.Topic(topic=topic, partitions=[index]) for topic, index in self.partitions],
        )
        return DescribeTransactionsResponse(transaction_states=[found])


async def looked(told, *, age_ms=0):
    async with (
        fake_cluster(told, topics={"orders": {0: 1}}) as fake,
        cluster([Address("127.0.0.1", fake.ports[1])], 500) as asked,
    ):
        told.ports = fake.ports
        return await hanging(asked, [PLACE], age_ms, NOW)


@pytest.mark.parametrize(
    ("told", "found"),
    [
        (Told(listed=False), [None]),
        (Told(partitions=[OTHER]), ["pay"]),
        (Told(state="Empty"), ["pay"]),
        (Told(state="CompleteCommit", partitions=[PLACE]), ["pay"]),
        (Told(starts=(5,), partitions=[PLACE]), []),
        (Told(starts=(5,), state="PrepareAbort", partitions=[PLACE]), []),
        (Told(starts=(-1,)), []),
        (Told(listed=False, starts=(5, -1)), []),
        (Told(listed=False, starts=(5, 8)), []),
    ],
    ids=[
        "nobody knows the producer",
        "known in another partition only",
        "its id has nothing open",
        "its id has ended it",
        "under way",
        "being aborted",
        "nothing is open",
        "ended while we asked",
        "another one begun while we asked",
    ],
)
@scenario
async def test_what_hangs_is_open_before_and_after_nobody_knew_of_it(told, found):
    rows, failures = await looked(told)
    assert [each.transactional_id for each in rows] == found
    assert failures == {}
    assert told.starts == [], "looked at twice if anything was suspected"


@scenario
async def test_what_was_written_to_lately_is_not_suspected():
    told = Told(listed=False)
    assert await looked(told, age_ms=2000) == ([], {})
    assert told.starts == [5]


@scenario
async def test_a_silent_broker_may_be_the_one_that_knows():
    with pytest.raises(Failed, match="did not answer ListTransactions") as caught:
        await looked(Told(silent=(2,)))
    assert caught.value.exit_code == 6


@scenario
async def test_all_partitions_are_those_of_all_topics():
    async with (
        fake_cluster(Told(), topics={"b": {0: 1}, "a": {1: 1, 0: 2}}) as fake,
        cluster([Address("127.0.0.1", fake.ports[1])], 500) as asked,
    ):
        assert await partitions_of(asked, None) == [("a", 0), ("a", 1), ("b", 0)]
        assert await partitions_of(asked, "a", 1) == [("a", 1)]
        for topic, partition in (("c", None), ("a", 2)):
            with pytest.raises(KafkaError) as caught:
                await partitions_of(asked, topic, partition)
            assert caught.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_only_an_open_transaction_in_this_partition_is_under_way():
    producer = Producer(PLACE, 7, 0, 0, 0, -1, 5)

    def known(state, *places):
        return [Transaction("pay", 1, 7, 0, state, 1000, None, frozenset(places))]

    assert is_under_way(producer, known("Ongoing", PLACE))
    assert is_under_way(producer, known("PrepareCommit", PLACE, OTHER))
    assert not is_under_way(producer, known("Ongoing", OTHER))
    assert not is_under_way(producer, known("Dead", PLACE))
    assert not is_under_way(producer, [])


def test_a_commit_that_is_decided_is_not_fenced(capsys):
    told, loop = Told(state="PrepareCommit", partitions=[PLACE]), LoopThread()
    serving = fake_cluster(told)
    fake = loop.run(serving.__aenter__())
    told.ports = fake.ports
    try:
        args = ["txn", "abort", "--transactional-id", "pay", "--yes", "-b", f"127.0.0.1:{fake.ports[1]}"]
        assert main(args) == 1
    finally:
        loop.run(serving.__aexit__(None, None, None))
        loop.end()
    assert "'pay' is being committed: its outcome is decided" in capsys.readouterr().err
    assert not told.fenced
