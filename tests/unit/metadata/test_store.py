"""Every store keeps the contract."""

import asyncio

import pytest

from ottla.metadata.embedded import MEMORY, EmbeddedStore
from ottla.metadata.store import SessionState
from ottla.testing.simulation.loop import NodeLoop
from ottla.testing.simulation.network import ROUGH
from ottla.testing.simulation.store import SimSession, SimStore
from ottla.testing.simulation.world import World
from tests.unit.metadata.store_contract import StoreContract
from tests.unit.metadata.zookeepers import ZooKeeperWorld, zookeeper  # noqa: F401  # a fixture
from tests.unit.testing.simulation.nodes import Host, finish


class EmbeddedWorld:
    """Sessions of one process with one embedded store."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._first: EmbeddedStore | None = None

    async def session(self) -> EmbeddedStore:
        if self._first is None:
            self._first = await EmbeddedStore.open(self._path)
            return self._first
        return self._first.another_session()

    async def expire(self, session: EmbeddedStore) -> None:
        await session.expire()


class TestEmbeddedStoreInMemory(StoreContract):
    def world(self, tmp_path):
        return EmbeddedWorld(MEMORY)


class TestEmbeddedStoreOnDisk(StoreContract):
    def world(self, tmp_path):
        return EmbeddedWorld(f"{tmp_path}/metadata.db")


class SimulatedWorld:
    """Sessions of one simulated node. The loop that the test runs on is the node's."""

    def __init__(self, loop: NodeLoop) -> None:
        self._loop = loop
        self._store = SimStore(loop.world)

    async def session(self) -> SimSession:
        return self._store.session("a", self._loop)

    async def expire(self, session: SimSession) -> None:
        self._store.expire(session)
        while session.session is not SessionState.LOST:
            await asyncio.sleep(0.01)


class _Simulated(StoreContract):
    weather = ROUGH

    @pytest.fixture(autouse=True, params=range(3))
    def in_a_world(self, request):
        with World(request.param, self.weather) as world:
            self.loop = Host(world, "a").loop
            yield

    def world(self, tmp_path):
        return SimulatedWorld(self.loop)

    def run(self, scenario):
        finish(self.loop.world, self.loop, scenario, until_ms=100_000)


class TestSimulatedStore(_Simulated):
    """In any weather: what is lost is sent again."""


class TestZooKeeperStore(StoreContract):
    """A real server, and a path in it for each test."""

    @pytest.fixture(autouse=True)
    def with_a_server(self, zookeeper):  # noqa: F811  # the fixture
        self.connect_string = zookeeper.connect_string

    def world(self, tmp_path):
        return ZooKeeperWorld(self.connect_string)
