"""What a controller tells this broker, carried out: replicas, metadata and settings follow.

The effects of a decision arrive here in order, and the next waits for the one before.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from ottla.broker.metadata import Metadata
from ottla.controller.commands import ConfigResource, ResourceType
from ottla.controller.decision import ConfigChange, Effect, LeaderAndIsr, StopReplicas, UpdateMetadata
from ottla.core.errors import ErrorCode
from ottla.core.ids import TopicPartition
from ottla.replication.state import PartitionState

logger = logging.getLogger(__name__)


class Replicas(Protocol):
    """The partitions of a broker. Errors of single ones are returned."""

    async def leader_and_isr(
        self, controller_epoch: int, states: Sequence[PartitionState]
    ) -> Mapping[TopicPartition, ErrorCode]: ...

    async def stop_replicas(
        self, controller_epoch: int, partitions: Mapping[TopicPartition, bool]
    ) -> Mapping[TopicPartition, ErrorCode]: ...


class Configs(Protocol):
    """What is configured."""

    def check(self, resource: ConfigResource, values: Mapping[str, str]) -> None:
        """Raises KafkaError for a setting that cannot be."""

    def apply(self, resource: ConfigResource, values: Mapping[str, str]) -> None: ...

    def forget_topic(self, name: str) -> None: ...


class Orders:
    """The receiving end of one broker. `configs` is what the store holds, as far as we were told."""

    def __init__(self, node_id: int, replicas: Replicas, metadata: Metadata, configs: Configs) -> None:
        self.configs: dict[ConfigResource, Mapping[str, str]] = {}
        self._node_id = node_id
        self._replicas = replicas
        self._metadata = metadata
        self._configs = configs

    async def tell(
        self, effect: Effect, controller_id: int, controller_epoch: int
    ) -> Collection[TopicPartition]:
        """Do what concerns this broker; others are not reached from here. Returns partitions whose disk has failed."""
        match effect:
            case ConfigChange(resource, values):
                self._follow_config(resource, values)
            case LeaderAndIsr(self._node_id, states):
                return _judge("LeaderAndIsr", await self._replicas.leader_and_isr(controller_epoch, states))
            case StopReplicas(self._node_id, partitions):
                _judge("StopReplica", await self._replicas.stop_replicas(controller_epoch, partitions))
            case UpdateMetadata(self._node_id, changed, deleted, live):
                self._metadata.update(
                    topics=changed, deleted=deleted, brokers=live, controller_id=controller_id
                )
        return ()

    def follow_configs(self, stored: Mapping[ConfigResource, Mapping[str, str]]) -> None:
        """These are all settings that are stored."""
        for resource in self.configs.keys() - stored.keys():
            self._follow_config(resource, None)
        for resource, values in stored.items():
            if self.configs.get(resource) != values:
                self._follow_config(resource, values)

    def _follow_config(self, resource: ConfigResource, values: Mapping[str, str] | None) -> None:
        if values is not None:
            self.configs[resource] = values
            self._configs.apply(resource, values)
        else:
            self.configs.pop(resource, None)
            if resource.type is ResourceType.TOPIC:
                self._configs.forget_topic(resource.name)
            else:
                self._configs.apply(resource, {})


def _judge(call: str, answers: Mapping[TopicPartition, ErrorCode]) -> list[TopicPartition]:
    """Say what was refused; which partitions lie on a disk that has failed?"""
    for partition, code in answers.items():
        if code != ErrorCode.NONE:
            logger.warning("%s for %s was answered with %s", call, partition, code.name)
    return [partition for partition, code in answers.items() if code == ErrorCode.KAFKA_STORAGE_ERROR]
