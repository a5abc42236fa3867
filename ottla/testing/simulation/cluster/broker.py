"""One simulated broker: replicas with the real brains, the real host of the controller, lists for logs.

It lives, dies and comes back. What outlives it is its disk: the logs, and after a clean shutdown a marker with the
epoch of the life that ended so. Everything else is of one life, a `Life`.
"""

import random
from collections.abc import Callable
from typing import Any

from ottla.core.ids import TopicPartition
from ottla.replication.partition import Partition
from ottla.replication.state import NO_EPOCH
from ottla.testing.simulation.cluster.life import Life
from ottla.testing.simulation.cluster.replicas import OnDisk
from ottla.testing.simulation.cluster.settings import Settings
from ottla.testing.simulation.store import SimStore
from ottla.testing.simulation.world import World

Watcher = Callable[["SimBroker", Partition], None]


class SimBroker:
    """A node of the world. `watch` is called with every partition of it that may have changed."""

    def __init__(self, world: World, store: SimStore, id: int, settings: Settings, watch: Watcher) -> None:
        self.world = world
        self.store = store
        self.id = id
        self.name = f"b{id}"
        self.settings = settings
        self.disk: dict[TopicPartition, OnDisk] = {}
        self.clean_epoch = NO_EPOCH
        """The marker of a clean shutdown: the epoch of the life that ended so."""
        self.last_epoch = NO_EPOCH
        """The newest epoch in which this broker has registered."""
        self.damaged_epoch = NO_EPOCH
        """Lives up to this one ended with records lost: what was known of them does not count any more."""
        self.is_leaving = False
        self.life: Life | None = None
        self._watch = watch
        self._chance: random.Random = world.stream(f"disk {self.name}")
        world.add(self)

    def touched(self, partition: Partition) -> None:
        self._watch(self, partition)

    # --- lives ----------------------------------------------------------------------------------------------------

    def restart(self) -> None:
        previous_epoch, self.clean_epoch = self.clean_epoch, NO_EPOCH
        self.disk = {where: found._replace(log=found.log.reopen()) for where, found in self.disk.items()}
        self.is_leaving = False
        self.life = Life(self, previous_epoch)
        self.life.begin()

    def crash(self) -> None:
        self.life = None

    def power_loss(self) -> None:
        """The lights go out: memory is gone, and of the logs what was not flushed."""
        self.world.crash(self.name)
        lost = sum(found.log.lose_power(self._chance) for found in self.disk.values())
        if lost:
            self.world.sometimes("a power loss takes records along")
            self.world.note(f"{self.name} has lost {lost} records")
        self.damaged_epoch = self.last_epoch

    def shut_down(self, then: Callable[[], None]) -> None:
        """Stop cleanly: hand over what is led, flush, leave a marker. `then` when it is down."""
        if self.life is not None and not self.is_leaving:
            self.is_leaving = True
            life = self.life
            life.leave(lambda: life.end_session(lambda: self._end_cleanly(then)))

    def _end_cleanly(self, then: Callable[[], None]) -> None:
        assert self.life is not None
        epoch = self.life.broker_epoch
        for found in self.disk.values():
            found.log.flush()
            found.log.write_checkpoint()
        self.clean_epoch = epoch
        self.world.sometimes("a clean shutdown")
        self.world.crash(self.name)
        then()

    def receive(self, sender: str, message: Any) -> None:
        if self.life is not None:
            self.life.receive(sender, message)

    # --- for those who look on ------------------------------------------------------------------------------------

    def partition(self, where: TopicPartition) -> Partition | None:
        return None if self.life is None else self.life.replicas.partitions.get(where)
