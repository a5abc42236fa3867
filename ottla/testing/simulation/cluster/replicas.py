"""The replicas of one simulated broker: what the controller tells it about them, carried out on logs that are lists.

It stands where `broker.replicas` stands in a real broker. The logs outlive the broker; partitions are of one life.
"""

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ottla.core.errors import ErrorCode
from ottla.core.ids import TopicPartition
from ottla.replication.partition import Partition
from ottla.replication.state import PartitionState
from ottla.testing.simulation.cluster.object_log import Config, ObjectLog
from ottla.testing.simulation.cluster.settings import Settings
from ottla.testing.simulation.world import World


class OnDisk(NamedTuple):
    """The directory of a partition."""

    topic_id: uuid.UUID
    log: ObjectLog


class SimReplicas:
    """See above. `moved` is called after every change of a partition, with it."""

    def __init__(
        self,
        world: World,
        broker: int,
        settings: Settings,
        disk: dict[TopicPartition, OnDisk],
        moved: Callable[[Partition], None],
        config_of: Callable[[str], Config],
    ) -> None:
        self.partitions: dict[TopicPartition, Partition] = {}
        self.broker_epoch = -1
        self._world = world
        self._broker = broker
        self._settings = settings
        self._disk = disk
        self._moved = moved
        self._config_of = config_of
        self._controller_epoch = -1

    def logs(self) -> list[tuple[Partition, ObjectLog]]:
        return [(partition, self._disk[where].log) for where, partition in self.partitions.items()]

    def register(self, broker_epoch: int) -> None:
        """This broker lives in that epoch now."""
        self.broker_epoch = broker_epoch
        for partition in self.partitions.values():
            partition.broker_epoch = broker_epoch

    # --- what the controller says -------------------------------------------------------------------------------

    async def leader_and_isr(
        self, controller_epoch: int, states: Sequence[PartitionState]
    ) -> dict[TopicPartition, ErrorCode]:
        if self._is_stale(controller_epoch):
            return {state.topic_partition: ErrorCode.STALE_CONTROLLER_EPOCH for state in states}
        return {state.topic_partition: self._follow(state) for state in states}

    def _is_stale(self, controller_epoch: int) -> bool:
        if controller_epoch < self._controller_epoch:
            return True
        self._controller_epoch = controller_epoch
        return False

    def _follow(self, state: PartitionState) -> ErrorCode:
        where = state.topic_partition
        partition = self.partitions.get(where)
        if partition is None:
            partition = self._add(state)
        if partition.topic_id != state.topic_id:
            return ErrorCode.INCONSISTENT_TOPIC_ID
        if not partition.follow_orders(state, self._world.now_ms):
            self._world.sometimes("old news about a partition are ignored")
            return ErrorCode.STALE_CONTROLLER_EPOCH
        self._moved(partition)
        return ErrorCode.NONE

    def _add(self, state: PartitionState) -> Partition:
        where = state.topic_partition
        found = self._disk.get(where)
        if found is None or found.topic_id != state.topic_id:
            if found is not None:
                self._world.sometimes("what is left of a deleted topic is thrown away")
            empty = ObjectLog(
                self._config_of(state.topic), flushes_before_ack=self._settings.flushes_before_ack
            )
            found = self._disk[where] = OnDisk(state.topic_id, empty)
        log: Any = found.log  # it has what a partition asks of a log
        partition = Partition(self._broker, where, state.topic_id, log)
        partition.config = self._config_of(state.topic)  # type: ignore[assignment]  # it has what is looked at
        partition.broker_epoch, partition.lag_ms = self.broker_epoch, self._settings.lag_ms
        self.partitions[where] = partition
        return partition

    async def stop_replicas(
        self, controller_epoch: int, partitions: Mapping[TopicPartition, bool]
    ) -> dict[TopicPartition, ErrorCode]:
        if self._is_stale(controller_epoch):
            return dict.fromkeys(partitions, ErrorCode.STALE_CONTROLLER_EPOCH)
        for where, is_deleted in partitions.items():
            partition = self.partitions.pop(where, None)
            if partition is not None:
                partition.stop()
                self._moved(partition)
            if is_deleted:
                self._disk.pop(where, None)
        return dict.fromkeys(partitions, ErrorCode.NONE)
