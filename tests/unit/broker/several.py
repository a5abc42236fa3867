"""Several real brokers in one process: real connections, one store in memory, simulated disks."""

import contextlib
from collections.abc import AsyncIterator, Mapping

from ottla.broker.broker import Broker
from ottla.broker.config import BrokerConfig
from ottla.metadata.embedded import MEMORY, EmbeddedStore
from ottla.network.peer import Peer, connect
from ottla.testing.disk import SimDisk
from tests.unit.broker.controlled import until


class Cluster:
    """Brokers by id. Those that were stopped start again with their disks."""

    def __init__(self, store: EmbeddedStore, settings: Mapping[str, object]) -> None:
        self.store = store
        self.settings = settings
        self.disks: dict[int, SimDisk] = {}
        self.nodes: dict[int, Broker] = {}

    async def start(self, node_id: int) -> Broker:
        async def session(path: str) -> EmbeddedStore:
            return self.store.another_session()

        values = {
            "node.id": node_id,
            "log.dirs": f"/{node_id}",
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "controlled.shutdown.retry.backoff.ms": 10,
            "replica.fetch.wait.max.ms": 20,
            **self.settings,
        }
        disk = self.disks.setdefault(node_id, SimDisk())
        node = Broker(BrokerConfig(values), files=disk, open_store=session)
        await node.start()
        self.nodes[node_id] = node
        return node

    async def stop(self, node_id: int) -> None:
        await self.nodes.pop(node_id).stop()

    async def kill(self, node_id: int) -> None:
        await self.nodes.pop(node_id).kill()

    @property
    def controller(self) -> Broker:
        (found,) = [node for node in self.nodes.values() if node.controller.is_controller]
        return found

    @property
    def others(self) -> list[Broker]:
        return [node for node in self.nodes.values() if not node.controller.is_controller]

    async def agreed(self) -> None:
        """Everybody knows everybody."""
        await until(
            lambda: all(node.metadata.brokers.keys() == self.nodes.keys() for node in self.nodes.values())
        )

    async def peer(self, node: Broker) -> Peer:
        return await connect("127.0.0.1", node.port)


@contextlib.asynccontextmanager
async def cluster_of(count: int, **settings: object) -> AsyncIterator[Cluster]:
    named = {key.replace("_", "."): value for key, value in settings.items()}
    cluster = Cluster(await EmbeddedStore.open(MEMORY), named)
    try:
        for node_id in range(count):
            await cluster.start(node_id)
        await cluster.agreed()
        yield cluster
    finally:
        for node in list(cluster.nodes.values()):
            await node.kill()
        await cluster.store.close()
