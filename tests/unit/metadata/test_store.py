"""Every store keeps the contract."""

from ottla.metadata.embedded import MEMORY, EmbeddedStore
from tests.unit.metadata.store_contract import StoreContract


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
