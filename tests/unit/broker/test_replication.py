"""Brokers with one metadata store between them: everything real, but that they share a process and disks in memory."""

import asyncio
from contextlib import asynccontextmanager

from ottla.broker.broker import Broker
from ottla.broker.config import BrokerConfig
from ottla.controller.commands import NewTopic
from ottla.core.errors import ErrorCode
from ottla.core.ids import TopicPartition
from ottla.metadata.embedded import MEMORY, EmbeddedStore
from ottla.metadata.store import SessionState
from ottla.network.peer import connect
from ottla.protocol.messages.fetch import FetchRequest
from ottla.protocol.messages.offsets import DeleteRecordsRequest
from ottla.protocol.messages.produce import ProduceRequest
from ottla.records.batch import iter_batches, records_of
from ottla.testing.disk import SimDisk
from tests.unit.broker.cluster import PATIENCE_S, scenario
from tests.unit.storage.helpers import batch

ORDERS = TopicPartition("orders", 0)
LAG_MS = 1_000


class Together:
    """Brokers 1, 2, 3 of one cluster."""

    def __init__(self, store):
        self._store = store
        self._disks = {}
        self.nodes = {}

    async def start(self, node_id, **settings):
        config = {
            "node.id": node_id,
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": f"d{node_id}",
            "replica.lag.time.max.ms": LAG_MS,
            "replica.fetch.wait.max.ms": 100,
            "controlled.shutdown.retry.backoff.ms": 50,
            **{name.replace("_", "."): str(value) for name, value in settings.items()},
        }

        async def session(_):
            return self._store.another_session()

        disk = self._disks.setdefault(node_id, SimDisk())
        self.nodes[node_id] = node = Broker(BrokerConfig(config), files=disk, open_store=session)
        await node.start()
        await self.until(
            lambda: all(set(each.metadata.brokers) == set(self.nodes) for each in self.nodes.values())
        )

    async def kill(self, node_id):
        await self.nodes.pop(node_id).kill()

    async def create(self, name, replicas, **configs):
        settings = {key.replace("_", "."): str(value) for key, value in configs.items()}
        new = NewTopic(name, -1, -1, assignments={0: tuple(replicas)}, configs=settings)
        host = self.nodes[next(iter(self.nodes.values())).metadata.controller_id].controller
        outcome = (await host.create_topics([new]))[name]
        assert not isinstance(outcome, Exception), outcome
        await self.until(lambda: self.leader() is not None and self.isr() == set(replicas))

    async def until(self, holds):
        """Wait until it holds. Looked at again and again: it depends on several brokers."""
        async with asyncio.timeout(PATIENCE_S):
            while not holds():
                await asyncio.sleep(0.005)

    def partitions(self):
        found = {id: node.replicas.partitions.get(ORDERS) for id, node in self.nodes.items()}
        return {id: partition for id, partition in found.items() if partition is not None}

    def leader(self):
        leaders = [id for id, partition in self.partitions().items() if partition.is_leader]
        return max(leaders, key=lambda id: self.partitions()[id].leader_epoch, default=None)

    def isr(self):
        leader = self.leader()
        return set() if leader is None else set(self.partitions()[leader].isr)

    async def produce(self, *values, acks=-1, node_id=None, timeout_ms=10_000):
        """The error code, and the offset."""
        node = self.nodes[node_id or self.leader()]
        part = ProduceRequest.Topic.Partition(index=0, records=batch(*values))
        topic = ProduceRequest.Topic(name="orders", partition_data=[part])
        async with await connect("127.0.0.1", node.port) as peer:
            request = ProduceRequest(
                transactional_id=None, acks=acks, timeout_ms=timeout_ms, topic_data=[topic]
            )
            response = await peer.send(request, 9)
        answer = response.responses[0].partition_responses[0]
        return ErrorCode(answer.error_code), answer.base_offset

    async def consume(self, node_id, offset=0):
        """What a consumer sees at this broker."""
        node = self.nodes[node_id]
        part = FetchRequest.Topic.Partition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        topic = FetchRequest.Topic(topic="orders", partitions=[part])
        async with await connect("127.0.0.1", node.port) as peer:
            response = await peer.send(FetchRequest(max_wait_ms=0, min_bytes=0, topics=[topic]), 12)
        data = bytes(response.responses[0].partitions[0].records or b"")
        return [record.value for at, _ in iter_batches(data, partial=True) for record in records_of(data, at)]

    async def delete(self, offset, timeout_ms=10_000):
        """The error code, and the low watermark."""
        part = DeleteRecordsRequest.Topic.Partition(partition_index=0, offset=offset)
        topic = DeleteRecordsRequest.Topic(name="orders", partitions=[part])
        async with await connect("127.0.0.1", self.nodes[self.leader()].port) as peer:
            response = await peer.send(DeleteRecordsRequest(topics=[topic], timeout_ms=timeout_ms), 2)
        answer = response.topics[0].partitions[0]
        return ErrorCode(answer.error_code), answer.low_watermark

    async def stop(self):
        for node in self.nodes.values():
            await node.kill()


@asynccontextmanager
async def together(count=3, **settings):
    store = await EmbeddedStore.open(MEMORY)
    brokers = Together(store)
    try:
        for node_id in range(1, count + 1):
            await brokers.start(node_id, **settings)
        yield brokers
    finally:
        await brokers.stop()
        await store.close()


@scenario
async def test_what_is_acknowledged_is_on_every_replica_in_sync():
    async with together() as brokers:
        await brokers.create("orders", (1, 2, 3))
        assert await brokers.produce(b"a", b"b") == (ErrorCode.NONE, 0)
        assert [partition.log.end_offset for partition in brokers.partitions().values()] == [2, 2, 2]


@scenario
async def test_a_leader_that_dies_is_replaced_and_nothing_acknowledged_is_lost():
    async with together() as brokers:
        await brokers.create("orders", (2, 1, 3), min_insync_replicas=2)
        await brokers.produce(b"a")
        await brokers.kill(2)
        await brokers.until(lambda: brokers.leader() in (1, 3))
        assert await brokers.produce(b"b") == (ErrorCode.NONE, 1)
        assert await brokers.consume(brokers.leader()) == [b"a", b"b"]


@scenario
async def test_a_broker_that_returns_catches_up_and_is_in_sync_again():
    async with together() as brokers:
        await brokers.create("orders", (1, 2, 3))
        await brokers.produce(b"a")
        await brokers.kill(3)
        await brokers.until(lambda: 3 not in brokers.isr())
        await brokers.produce(b"b")
        await brokers.start(3)
        await brokers.until(lambda: brokers.isr() == {1, 2, 3})
        assert brokers.partitions()[3].log.end_offset == 2
        assert (await brokers.produce(b"c"))[0] is ErrorCode.NONE
        await brokers.until(lambda: brokers.partitions()[3].high_watermark.value == 3)
        assert await brokers.consume(3) == [b"a", b"b", b"c"]


@scenario
async def test_with_too_few_in_sync_writes_are_refused_rather_than_lost():
    async with together() as brokers:
        await brokers.create("orders", (1, 2, 3), min_insync_replicas=2)
        await brokers.produce(b"a")
        await brokers.kill(2)
        await brokers.kill(3)
        await brokers.until(lambda: brokers.isr() == {1})
        assert (await brokers.produce(b"b"))[0] is ErrorCode.NOT_ENOUGH_REPLICAS
        assert await brokers.consume(1) == [b"a"]


@scenario
async def test_a_leader_that_is_not_the_controller_changes_the_isr_through_it():
    async with together() as brokers:
        await brokers.create("orders", (2, 3))
        await brokers.produce(b"a")
        fetching = brokers.nodes[3].replication.fetching
        await fetching.close()
        assert (await brokers.produce(b"b"))[0] is ErrorCode.NONE
        assert brokers.isr() == {2}


@scenario
async def test_a_consumer_reads_from_the_follower_in_its_rack():
    async with together(2, replica_selector_class="RackAwareReplicaSelector") as brokers:
        await brokers.create("orders", (1, 2))
        await brokers.produce(b"a")
        await brokers.until(lambda: brokers.partitions()[2].high_watermark.value == 1)
        assert await brokers.consume(2) == [b"a"]


@scenario
async def test_what_operators_look_at_first_is_counted():
    async with together() as brokers:
        await brokers.create("orders", (1, 2, 3), min_insync_replicas=2)
        metrics = brokers.nodes[1].metrics
        gauges = (metrics.under_replicated.labels(), metrics.under_min_isr.labels())
        assert [sample[2] for gauge in gauges for sample in gauge.samples()] == [0, 0]
        await brokers.produce(b"a")
        assert metrics.replication_bytes_out.labels().value > 0
        assert brokers.nodes[2].metrics.replication_bytes_in.labels().value > 0
        await brokers.kill(3)
        await brokers.until(lambda: brokers.isr() == {1, 2})
        assert [sample[2] for gauge in gauges for sample in gauge.samples()] == [1, 0]
        await brokers.kill(2)
        await brokers.until(lambda: brokers.isr() == {1})
        assert [sample[2] for gauge in gauges for sample in gauge.samples()] == [1, 1]
        await brokers.start(2)
        await brokers.until(lambda: brokers.isr() == {1, 2})
        assert metrics.isr_expands.labels().value == 1


@scenario
async def test_records_that_were_deleted_stay_away_whoever_leads_next():
    async with together() as brokers:
        await brokers.create("orders", (1, 2, 3), retention_ms=-1)
        for value in (b"a", b"b", b"c"):
            await brokers.produce(value)
        assert await brokers.delete(2) == (ErrorCode.NONE, 2)
        starts = [partition.log.log_start_offset for partition in brokers.partitions().values()]
        assert starts == [2, 2, 2]
        await brokers.kill(1)
        await brokers.until(lambda: brokers.leader() in (2, 3))
        assert await brokers.delete(0) == (ErrorCode.NONE, 2)
        assert await brokers.consume(brokers.leader(), 2) == [b"c"]


@scenario
async def test_a_broker_that_gets_its_first_replica_while_its_session_is_over_does_not_lead():
    async with together(count=1) as brokers:
        node = brokers.nodes[1]
        node.controller.store._state = SessionState.LOST
        assert node.replication.fetching is not None, "it is made when it is asked for"
        assert not node.may_lead()
        node.controller.store._state = SessionState.CONNECTED
