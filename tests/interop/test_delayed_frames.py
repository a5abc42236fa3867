"""Requests of one transaction that arrive during the next one, or after it, are fenced: nothing is torn into it.

A client gave up on a connection and went on over another; what it had sent on the first is still on its way. The proxy
is that network. Transactions are those of KIP-890: Produce from v12 on adds its partition by itself, EndTxn from v5 on
answers with a new epoch.
"""

import asyncio
from contextlib import asynccontextmanager
from typing import NamedTuple

import pytest

from ottla.core.errors import ErrorCode
from ottla.core.loop_thread import LoopThread
from ottla.network.peer import connect
from ottla.protocol.messages.groups import FindCoordinatorRequest
from ottla.protocol.messages.produce import ProduceRequest
from ottla.protocol.messages.transactions import (
    AddedTopic,
    AddPartitionsToTxnRequest,
    DescribeTransactionsRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
)
from ottla.records.builder import build
from ottla.records.record import Record as Stored
from ottla.testing.proxy import Proxy
from tests.interop.brokers import eventually
from tests.interop.clients.client import Record
from tests.interop.clients.table import connect as connect_client

pytestmark = pytest.mark.usefixtures("coordinators")

_TRANSACTION = 1  # the type of key that FindCoordinator is asked for
_BUSY = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
}
TWO_PHASES = pytest.mark.parametrize("first_is_committed", [True, False], ids=["committed", "aborted"])
MOMENTS = pytest.mark.parametrize("moment", ["between", "during", "after"])


class Owner(NamedTuple):
    """Who writes: what batches are stamped with."""

    producer_id: int
    epoch: int


class RawProducer:
    """A transactional producer, one request at a time."""

    def __init__(self, peer, transactional_id, topic):
        self.peer, self.transactional_id, self.topic = peer, transactional_id, topic

    async def patiently(self, request, version):
        """As a client does: again while the coordinator has to do something else first."""
        while True:
            answer = await self.peer.send(request, version)
            code = getattr(answer, "error_code", 0) or _code_in(answer)
            if code not in _BUSY:
                return answer
            await asyncio.sleep(0.01)

    async def init(self):
        while True:
            asked = FindCoordinatorRequest(key_type=_TRANSACTION, coordinator_keys=[self.transactional_id])
            if not (await self.peer.send(asked, 4)).coordinators[0].error_code:
                break
            await asyncio.sleep(0.01)
        asked = InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=60_000)
        answer = await self.patiently(asked, 4)
        assert answer.error_code == 0
        return Owner(answer.producer_id, answer.producer_epoch)

    def batch(self, owner, sequence, value):
        records = build(
            [Stored(0, 0, None, value.encode(), ())],
            producer_id=owner.producer_id,
            producer_epoch=owner.epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        data = ProduceRequest.Topic.Partition(index=0, records=records)
        return ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=10_000,
            topic_data=[ProduceRequest.Topic(name=self.topic, partition_data=[data])],
        )

    async def write(self, owner, sequence, value, version=12):
        assert _code_in(await self.patiently(self.batch(owner, sequence, value), version)) == 0

    def ending(self, owner, is_committed):
        return EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=owner.producer_id,
            producer_epoch=owner.epoch,
            committed=is_committed,
        )

    async def end(self, owner, is_committed):
        answer = await self.patiently(self.ending(owner, is_committed), 5)
        assert answer.error_code == 0
        assert answer.producer_epoch > owner.epoch or answer.producer_id != owner.producer_id
        return Owner(answer.producer_id, answer.producer_epoch)

    async def is_over(self):
        """Markers may be written after the end was acknowledged; return when they are."""
        asked = DescribeTransactionsRequest(transactional_ids=[self.transactional_id])
        while (
            not (await self.peer.send(asked)).transaction_states[0].transaction_state.startswith("Complete")
        ):
            await asyncio.sleep(0.01)


def _code_in(answer):
    """The error of the only partition."""
    for topic in getattr(answer, "responses", None) or getattr(answer, "topics", None) or ():
        (partition,) = getattr(topic, "partition_responses", None) or topic.partitions
        return partition.error_code
    return 0


@pytest.fixture
def scene(bootstrap_server, new_topic):
    """A proxy, a producer whose connection goes through it and is given up, and the connection it goes on with."""
    topic = new_topic()
    host, _, port = bootstrap_server.rpartition(":")

    @asynccontextmanager
    async def make():
        async with Proxy(host, int(port)) as proxy:
            old = await connect("127.0.0.1", proxy.port)
            async with await connect(host, int(port)) as new:
                name = f"id-of-{topic}"
                yield proxy, RawProducer(old, name, topic), RawProducer(new, name, topic)
            old.abort()

    return make, topic


def committed_values(control, topic, count):
    found = control.consume(topic, {0: 0}, count, isolation="read_committed")
    return [each.value.decode() for each in found]


def all_values(control, topic, count):
    return [each.value.decode() for each in control.consume(topic, {0: 0}, count)]


async def at_moment(moment, held, producer, owner):
    """Release between two transactions, during the second, or after it; the answer to what was held."""
    await producer.is_over()
    if moment == "between":
        held.release()
        answer = await held.answer()
    await producer.write(owner, 0, "second")
    if moment == "during":
        held.release()
        answer = await held.answer()
    await producer.write(owner, 1, "second too")
    following = await producer.end(owner, True)
    if moment == "after":
        await producer.is_over()
        held.release()
        answer = await held.answer()
    await producer.write(following, 0, "third")
    await producer.end(following, True)
    return answer


@TWO_PHASES
@MOMENTS
def test_a_late_produce_is_fenced(scene, control, moment, first_is_committed):
    make, topic = scene

    async def run():
        async with make() as (proxy, old, new):
            owner = await old.init()
            await old.write(owner, 0, "first")
            held = proxy.hold("Produce")
            await old.peer.post(old.batch(owner, 1, "late"), 12)
            await held.arrived()
            old.peer.abort()
            following = await new.end(owner, first_is_committed)
            return await at_moment(moment, held, new, following)

    assert _code_in(asyncio.run(run())) == ErrorCode.INVALID_PRODUCER_EPOCH
    control.produce(topic, [Record(0, None, b"end")])
    rest = ["second", "second too", "third", "end"]
    kept = ["first", *rest] if first_is_committed else rest
    assert committed_values(control, topic, len(kept)) == kept
    assert all_values(control, topic, 5) == ["first", *rest]


@TWO_PHASES
def test_a_produce_that_comes_with_the_end_is_of_its_own_transaction_or_of_none(
    scene, control, first_is_committed
):
    """Markers may still be on their way: then it is let in before them, and shares what becomes of the first."""
    make, topic = scene

    async def run():
        async with make() as (proxy, old, new):
            owner = await old.init()
            await old.write(owner, 0, "first")
            held = proxy.hold("Produce")
            await old.peer.post(old.batch(owner, 1, "late"), 12)
            await held.arrived()
            old.peer.abort()
            following = await new.end(owner, first_is_committed)
            held.release()
            answer = await held.answer()
            await new.write(following, 0, "second")
            await new.end(following, not first_is_committed)
            return answer

    is_in = _code_in(asyncio.run(run())) == 0
    control.produce(topic, [Record(0, None, b"end")])
    first, second = ["first", "late"] if is_in else ["first"], ["second"]
    kept = [*(first if first_is_committed else second), "end"]
    assert committed_values(control, topic, len(kept)) == kept
    assert all_values(control, topic, len(first) + 2) == [*first, *second, "end"]


@MOMENTS
@pytest.mark.parametrize("late_commits", [True, False], ids=["commit", "abort"])
@TWO_PHASES
def test_a_late_end_ends_no_other_transaction(scene, control, moment, late_commits, first_is_committed):
    """The one that was held may even contradict the one that came through."""
    make, topic = scene

    async def run():
        async with make() as (proxy, old, new):
            owner = await old.init()
            await old.write(owner, 0, "first")
            held = proxy.hold("EndTxn")
            await old.peer.post(old.ending(owner, late_commits), 5)
            await held.arrived()
            old.peer.abort()
            following = await new.end(owner, first_is_committed)
            return await at_moment(moment, held, new, following)

    answer = asyncio.run(run())
    if moment == "between" and late_commits == first_is_committed:
        assert answer.error_code == 0, "this might have been the client asking again"
    elif moment == "between":
        assert answer.error_code == ErrorCode.INVALID_TXN_STATE
    else:
        assert answer.error_code == ErrorCode.PRODUCER_FENCED
    control.produce(topic, [Record(0, None, b"end")])
    rest = ["second", "second too", "third", "end"]
    kept = ["first", *rest] if first_is_committed else rest
    assert committed_values(control, topic, len(kept)) == kept


@MOMENTS
def test_late_offsets_are_fenced(scene, control, moment):
    make, topic = scene
    group = f"reads-{topic}"

    def offsets(producer, owner, offset):
        partition = TxnOffsetCommitRequest.Topic.Partition(
            partition_index=0, committed_offset=offset, committed_metadata=""
        )
        return TxnOffsetCommitRequest(
            transactional_id=producer.transactional_id,
            group_id=group,
            producer_id=owner.producer_id,
            producer_epoch=owner.epoch,
            topics=[TxnOffsetCommitRequest.Topic(name=topic, partitions=[partition])],
        )

    async def run():
        async with make() as (proxy, old, new):
            while (
                (await new.peer.send(FindCoordinatorRequest(coordinator_keys=[group]), 4))
                .coordinators[0]
                .error_code
            ):
                await asyncio.sleep(0.01)
            owner = await old.init()
            assert _code_in(await old.patiently(offsets(old, owner, 5), 5)) == 0
            held = proxy.hold("TxnOffsetCommit")
            await old.peer.post(offsets(old, owner, 7), 5)
            await held.arrived()
            old.peer.abort()
            following = await new.end(owner, True)
            return await at_moment(moment, held, new, following)

    assert _code_in(asyncio.run(run())) in (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED)
    assert eventually(lambda: control.committed(group, topic, 0) == 5)


def test_a_late_produce_of_an_old_client_finds_its_transaction_over(scene, control):
    """Before KIP-890 a transaction kept its epoch; then the broker asks the coordinator whether there is one."""
    make, topic = scene

    async def run():
        async with make() as (proxy, old, new):
            owner = await old.init()
            added = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=old.transactional_id,
                v3_and_below_producer_id=owner.producer_id,
                v3_and_below_producer_epoch=owner.epoch,
                v3_and_below_topics=[AddedTopic(name=topic, partitions=[0])],
            )
            await old.peer.send(added, 3)
            await old.write(owner, 0, "first", version=11)
            held = proxy.hold("Produce")
            await old.peer.post(old.batch(owner, 1, "late"), 11)
            await held.arrived()
            old.peer.abort()
            assert (await new.patiently(new.ending(owner, True), 4)).error_code == 0
            await new.is_over()
            held.release()
            return await held.answer()

    assert _code_in(asyncio.run(run())) == ErrorCode.TRANSACTION_ABORTABLE
    control.produce(topic, [Record(0, None, b"end")])
    assert all_values(control, topic, 2) == ["first", "end"]


def test_an_end_that_comes_twice_ends_one_transaction(scene, control):
    make, topic = scene

    async def run():
        async with make() as (proxy, old, _):
            owner = await old.init()
            for value in ("first", "second", "third"):
                await old.write(owner, 0, value)
                proxy.repeat("EndTxn")
                owner = await old.end(owner, value != "second")

    asyncio.run(run())
    assert committed_values(control, topic, 2) == ["first", "third"]


@pytest.mark.parametrize("name", ["confluent-kafka", "java", "java-3.9", "kafka-python", "aiokafka"])
def test_a_client_that_never_heard_of_its_commit_goes_on(
    name, bootstrap_server, control, connected, new_topic
):
    """The answer to EndTxn is lost with its connection: the client asks again, and the next transaction is its own."""
    connected(name)  # which fetches and compiles what is missing, or skips
    topic, thread = new_topic(), LoopThread("proxy")
    host, _, port = bootstrap_server.rpartition(":")
    proxy = Proxy(host, int(port))
    thread.run(proxy.start())
    client = connect_client(name, proxy.bootstrap_server)
    try:
        producer = client.transactional(f"unheard-{name}")
        for value in ("first", "second", "third", "fourth"):
            producer.begin()
            producer.send(topic, [Record(0, None, value.encode())])
            if value in ("first", "third"):
                proxy.lose("EndTxn", "response")
            (producer.abort if value == "third" else producer.commit)()
            assert proxy.pending == []
        producer.close()
    finally:
        client.close()
        thread.run(proxy.close())
        thread.end()
    assert committed_values(control, topic, 3) == ["first", "second", "fourth"]
