"""A controller's host with a broker around it that only writes down what it is told."""

import asyncio
import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ottla.broker.election import ControllerHost
from ottla.broker.metadata import Metadata
from ottla.broker.orders import Answers, Order
from ottla.controller.commands import ConfigResource
from ottla.controller.topics import Defaults
from ottla.core.clock import ManualClock
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.metadata.store import MetadataStore
from ottla.replication.state import BrokerImage, Endpoint, PartitionState

_seeds = itertools.count()  # two lives must not make up the same topic ids


async def until(is_so: Callable[[], object]) -> None:
    """Return when it is. The test's own time limit is the only one."""
    while not is_so():
        await asyncio.sleep(0.001)


class FakeReplicas:
    """Partitions without logs."""

    def __init__(self, calls: list[str]) -> None:
        self.calls = calls
        self.states: dict[TopicPartition, PartitionState] = {}
        self.deleted: set[TopicPartition] = set()
        self.failing: set[TopicPartition] = set()
        self.controller_epoch = -1

    async def leader_and_isr(self, controller_epoch: int, states: Sequence[PartitionState]):
        self.calls.append("leader_and_isr")
        self.controller_epoch = controller_epoch
        for state in states:
            self.states[state.topic_partition] = state
        failed = {state.topic_partition for state in states} & self.failing
        return {p: ErrorCode.KAFKA_STORAGE_ERROR if p in failed else ErrorCode.NONE for p in self.states}

    async def stop_replicas(self, controller_epoch: int, partitions: Mapping[TopicPartition, bool]):
        self.calls.append("stop_replicas")
        for partition, delete in partitions.items():
            self.states.pop(partition, None)
            if delete:
                self.deleted.add(partition)
        return dict.fromkeys(partitions, ErrorCode.NONE)


class FakeConfigs:
    """Settings of which only `bad` is impossible."""

    def __init__(self, calls: list[str]) -> None:
        self.calls = calls
        self.applied: dict[ConfigResource, dict[str, str]] = {}

    def check(self, resource: ConfigResource, values: Mapping[str, str]) -> None:
        if "bad" in values:
            raise KafkaError(ErrorCode.INVALID_CONFIG, "bad")

    def apply(self, resource: ConfigResource, values: Mapping[str, str]) -> None:
        self.calls.append("apply")
        self.applied[resource] = dict(values)

    def forget_topic(self, name: str) -> None:
        self.calls.append("forget_topic")
        self.applied = {
            resource: values for resource, values in self.applied.items() if resource.name != name
        }


class WatchedMetadata(Metadata):
    """Metadata that writes down when it is told something."""

    def __init__(self, calls: list[str]) -> None:
        super().__init__()
        self._calls = calls

    def update(self, **news) -> None:
        self._calls.append("update")
        super().update(**news)


class Wires:
    """How the lives of a cluster reach each other: by a call, unless it is cut."""

    def __init__(self) -> None:
        self.lives: dict[int, Life] = {}
        self.cut: set[int] = set()
        self.asked: list[tuple[int, Order]] = []

    async def ask(self, broker: BrokerImage, order: Order) -> Answers:
        self.asked.append((broker.node_id, order))
        await asyncio.sleep(0)
        if broker.node_id in self.cut or broker.node_id not in self.lives:
            raise ConnectionError(f"broker {broker.node_id} cannot be reached")
        return await self.lives[broker.node_id].host.orders.follow(order)

    async def close(self) -> None:
        pass


class Life:
    """One life of a broker, from `begin` on."""

    def __init__(
        self,
        store: MetadataStore,
        node_id: int = 0,
        partitions: int = 1,
        *,
        wires: Wires | None = None,
        previous_epoch: int = -1,
        **more: Any,
    ) -> None:
        if wires is not None:
            wires.lives[node_id] = self
        self.previous_epoch = previous_epoch
        self.calls: list[str] = []
        self.store = store
        self.replicas = FakeReplicas(self.calls)
        self.metadata = WatchedMetadata(self.calls)
        self.configs = FakeConfigs(self.calls)
        self.host = ControllerHost(
            store,
            node_id=node_id,
            replicas=self.replicas,
            metadata=self.metadata,
            configs=self.configs,
            clock=ManualClock(),
            defaults=lambda: Defaults(partitions, 1),
            chance=random.Random(next(_seeds)),
            line=wires,
            **more,
        )

    async def begin(self) -> "Life":
        self.stored = await self.host.open()
        await self.host.elect(
            [Endpoint("PLAINTEXT", "PLAINTEXT", "localhost", 9092)], "r1", self.previous_epoch
        )
        return self

    async def die(self) -> None:
        """At once: its session is over, and it does nothing more."""
        self.host.abandon()
        await self.host.store.expire()  # type: ignore[attr-defined]  # an EmbeddedStore

    async def leave(self) -> None:
        """In order."""
        await self.host.resign()
        await self.host.store.close()

    def state(self, topic: str, partition: int = 0) -> PartitionState:
        return self.replicas.states[TopicPartition(topic, partition)]
