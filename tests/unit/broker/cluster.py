"""A few brokers in one process, with real sockets and logs in memory, that are told by hand who leads what."""

import asyncio
import uuid
from contextlib import asynccontextmanager
from functools import wraps

from ottla.broker.broker import Broker
from ottla.broker.config import BrokerConfig
from ottla.core.ids import TopicPartition
from ottla.metadata.embedded import EmbeddedStore
from ottla.replication.partition import ALL_REPLICAS
from ottla.replication.state import BrokerImage, PartitionState, TopicImage
from ottla.testing.disk import SimDisk
from tests.unit.storage.helpers import batch

PATIENCE_S = 20.0
LONG_MS = 15_000
"""Longer than any test should take: who waits for it has missed something."""


def scenario(test):
    """Run a test that waits."""

    @wraps(test)
    def inner(*args, **how):
        asyncio.run(asyncio.wait_for(test(*args, **how), 60))

    return inner


async def within(awaitable):
    return await asyncio.wait_for(awaitable, PATIENCE_S)


class Cluster:
    """Brokers 1, 2, ... Each has a store of its own: they hear of each other by `tell` only."""

    def __init__(self):
        self.nodes: dict[int, Broker] = {}
        self.states: dict[TopicPartition, PartitionState] = {}
        self.ids: dict[str, uuid.UUID] = {}
        self._epoch = 100

    def __getitem__(self, node_id: int) -> Broker:
        return self.nodes[node_id]

    async def start(self, node_id, files=None, directories=1, **settings):
        paths = ",".join(f"d{node_id}-{number}" for number in range(directories))
        config = {
            "node.id": node_id,
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": paths,
            "replica.fetch.wait.max.ms": LONG_MS,
            "replica.lag.time.max.ms": 10 * LONG_MS,
            **{name.replace("_", "."): str(value) for name, value in settings.items()},
        }
        node = Broker(
            BrokerConfig(config),
            files=files or SimDisk(),
            open_store=lambda _: EmbeddedStore.open(":memory:"),
        )
        await node.start()
        self.nodes[node_id] = node
        self._introduce()
        return node

    def _introduce(self):
        """Let all know where the others are, and which topics there are."""
        images = [
            BrokerImage(
                id,
                node.controller.broker_epoch,
                tuple(each.endpoint for each in node.listeners),
                node.config.broker_rack,
            )
            for id, node in self.nodes.items()
        ]
        topics = []
        for name, topic_id in self.ids.items():
            states = [state for state in self.states.values() if state.topic == name]
            topics.append(TopicImage(name, topic_id, tuple(sorted(states, key=lambda each: each.partition))))
        for node in self.nodes.values():
            node.metadata.update(brokers=images, topics=topics, controller_id=1)

    async def lead(self, leader, *others, topic="orders", index=0, isr=None, to=None, new_epoch=True):
        """Broker `leader` leads the partition from now on. Told to all, or only `to` some."""
        name = TopicPartition(topic, index)
        before = self.states.get(name)
        replicas = (leader, *others) if before is None else before.replicas
        state = PartitionState(
            topic,
            self.ids.setdefault(topic, uuid.uuid4()),
            index,
            leader,
            (0 if before is None else before.leader_epoch) + new_epoch,
            0 if before is None else before.partition_epoch + 1,
            replicas,
            replicas if isr is None else isr,
            is_new=True,
        )
        self.states[name] = state
        self._introduce()
        for id in to or replicas:
            if id in self.nodes:
                codes = await self.nodes[id].replicas.leader_and_isr(self._epoch, [state])
                assert set(codes.values()) == {0}, codes
        return state

    def partition(self, node_id, topic="orders", index=0):
        return self.nodes[node_id].replicas.partitions[TopicPartition(topic, index)]

    def put(self, node_id, *values, acks=1, topic="orders", index=0):
        """Write a batch as a producer would."""
        partition = self.partition(node_id, topic, index)
        return partition.append(batch(*values), acks, self.nodes[node_id].clock.now_ms())

    async def has(self, node_id, end_offset, topic="orders", index=0):
        """Wait until a replica has everything below."""
        await within(self.partition(node_id, topic, index).log_end.reach(end_offset))

    def content(self, node_id, topic="orders", index=0):
        """Bytes of the log, from its first batch on."""
        log = self.partition(node_id, topic, index).log
        return b"".join(
            log.read(max(segment.base_offset, log.log_start_offset), 1 << 30).read()
            for segment in log.segments
            if segment.size
        )

    async def stop(self):
        for node in self.nodes.values():
            await node.kill()


@asynccontextmanager
async def cluster(count=2, **settings):
    brokers = Cluster()
    try:
        for node_id in range(1, count + 1):
            await brokers.start(node_id, **settings)
        yield brokers
    finally:
        await brokers.stop()


ALL = ALL_REPLICAS
