"""A controller's host with a broker around it that only writes down what it is told."""

import itertools
import random
from collections.abc import Mapping, Sequence

from ottla.broker.election import ControllerHost
from ottla.broker.metadata import Metadata
from ottla.controller.commands import ConfigResource
from ottla.controller.topics import Defaults
from ottla.core.clock import ManualClock
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.metadata.store import MetadataStore
from ottla.replication.state import Endpoint, PartitionState

_seeds = itertools.count()  # two lives must not make up the same topic ids


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


class Life:
    """One life of a broker, from `begin` on."""

    def __init__(self, store: MetadataStore, node_id: int = 0, partitions: int = 1) -> None:
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
        )

    async def begin(self) -> "Life":
        self.stored = await self.host.open()
        await self.host.elect([Endpoint("PLAINTEXT", "PLAINTEXT", "localhost", 9092)], "r1")
        return self

    def state(self, topic: str, partition: int = 0) -> PartitionState:
        return self.replicas.states[TopicPartition(topic, partition)]
