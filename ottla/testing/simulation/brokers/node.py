"""A broker as a node of the world. A kill leaves what was written, a power loss what was synced."""

import asyncio
import random
from collections.abc import Callable, Mapping
from typing import Any

from ottla.broker.broker import Broker
from ottla.broker.config import BrokerConfig
from ottla.core.errors import OttlaError
from ottla.core.ids import PartitionDirectory
from ottla.records.batch import iter_batches
from ottla.replication.partition import Partition
from ottla.testing.disk import SimDisk
from ottla.testing.simulation.loop import NodeLoop, WorldClock
from ottla.testing.simulation.store import SimStore
from ottla.testing.simulation.wire import Wires
from ottla.testing.simulation.world import World

PORT = 9092
DATA = "/data"
THREAD_MS = (0, 2)
_AGAIN_SECONDS = 0.2
"""After this a broker is started again that could not be started."""


class SimBroker:
    """One broker, in all of its lives."""

    def __init__(
        self, world: World, wires: Wires, store: SimStore, id: int, settings: Mapping[str, object]
    ) -> None:
        self.world = world
        self.id = id
        self.name = name_of(id)
        self.disk = SimDisk()
        self.broker: Broker | None = None
        self.is_ready = False
        """Does it serve, for all it knows?"""
        self.is_stopping = False
        self.starts = 0
        self.lost_power = False
        """Did its last life end so?"""
        self._wires = wires
        self._store = store
        self._settings = settings
        self._loses_power = False
        self._chance: random.Random = world.stream(f"disk/{self.name}")
        self.loop: NodeLoop
        world.add(self)
        self.restart()

    def __repr__(self) -> str:
        return self.name

    @property
    def partitions(self) -> list[Partition]:
        """Those that it has opened, as far as the process is there."""
        return list(self.broker.replicas.partitions.values()) if self.broker is not None else []

    # --- Node ---------------------------------------------------------------------------------------------------

    def receive(self, sender: str, message: Any) -> None:
        raise AssertionError("brokers are spoken to over wires")

    def crash(self) -> None:
        """The process is gone; with the power, all that was not synced may be."""
        self.broker = None
        self.is_ready = self.is_stopping = False
        if self._loses_power:
            self._wires.power_off(self.name)
            self.disk.crash(self._chance)
            if any(map(self._is_torn, self.directories())):
                self.world.sometimes("a power loss tears a log")
        else:
            self.disk.kill()
        self.lost_power, self._loses_power = self._loses_power, False

    def directories(self) -> list[str]:
        """Those of partitions, on the disk as it is, also what is to be deleted."""
        try:
            return [name for name in self.disk.names(DATA) if PartitionDirectory.parse(name)]
        except OSError:
            return []

    def _is_torn(self, name: str) -> bool:
        """Does one of its segments not end with a batch?"""
        for file in self.disk.names(path := f"{DATA}/{name}"):
            if file.endswith(".log"):
                data = self.disk.read(f"{path}/{file}")
                end = 0
                try:
                    for position, header in iter_batches(data, partial=True):
                        end = position + header.size
                except OttlaError:
                    return True
                if end < len(data):
                    return True
        return False

    def restart(self) -> None:
        if any(seat.node == self.name for seat in self._store.seats.values()):
            self.world.sometimes("a fast bounce")  # the session of its former life is not over yet
        self.disk.now_ms = WorldClock(self.world).now_ms()
        self.loop = NodeLoop(self.world, self.name, wires=self._wires, thread_ms=THREAD_MS)
        self.loop.run(self._live())

    # --- life ---------------------------------------------------------------------------------------------------

    def lose_power(self) -> None:
        if self.world.is_up(self.name):
            self._loses_power = True
            self.world.note(f"{self.name} loses power")
            self.world.crash(self.name)

    def shut_down(self, then: Callable[[], None]) -> None:
        """Stop in good order; `then` when the process has ended."""
        if self.world.is_up(self.name) and self.is_ready and not self.is_stopping:
            self.is_stopping = True
            self.world.note(f"{self.name} is told to stop")
            self.loop.run(self._stop(then))

    async def _live(self) -> None:
        self.starts += 1
        while True:
            broker = self.broker = self._made()
            try:
                await broker.start()
            except (OttlaError, OSError) as error:
                self.world.note(f"{self.name} cannot start: {type(error).__name__}")
                await asyncio.sleep(_AGAIN_SECONDS)
            else:
                self.world.note(f"{self.name} serves")
                self.is_ready = True
                return

    def _made(self) -> Broker:
        settings = {
            "node.id": self.id,
            "listeners": f"PLAINTEXT://{self.name}:{PORT}",
            "log.dirs": DATA,
            **self._settings,
        }
        return Broker(
            BrokerConfig(settings),
            files=self.disk,
            clock=WorldClock(self.world),
            open_store=lambda path: self._store.open(self.name),
            chance=self.world.stream(f"broker/{self.name}/{self.starts}"),
        )

    async def _stop(self, then: Callable[[], None]) -> None:
        broker = self.broker
        assert broker is not None
        await broker.stop()
        self.world.sometimes("a clean shutdown")
        self.world.note(f"{self.name} has stopped")
        self.world.crash(self.name)
        then()


def name_of(id: int) -> str:
    return f"b{id}"
