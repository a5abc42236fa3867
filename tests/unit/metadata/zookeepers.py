"""A real ZooKeeper for the tests of one module, and sessions with it."""

import asyncio
import itertools

import pytest
from kazoo.client import KazooClient

from ottla.metadata.store import SessionState
from ottla.metadata.zookeeper import ZooKeeperStore
from ottla.testing.zookeeper import Unavailable, ZooKeeper

SESSION_MS = 10_000
CONNECTION_MS = 60_000
PATIENCE_S = 60
_numbers = itertools.count()


def servers(count: int = 1) -> ZooKeeper:
    """Servers, or a skipped test."""
    try:
        return ZooKeeper(count, syncs=False)
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def zookeeper():
    with servers() as server:
        yield server


async def open_store(connect, session_timeout_ms=SESSION_MS, connection_timeout_ms=CONNECTION_MS):
    return await ZooKeeperStore.open(
        connect, session_timeout_ms=session_timeout_ms, connection_timeout_ms=connection_timeout_ms
    )


async def until_state(store, state):
    async with asyncio.timeout(PATIENCE_S):
        while store.session is not state:
            await asyncio.sleep(0.01)


async def expire(store, connect):
    """Have the server end a session: whoever has its id and password may join it, and close it."""

    def close_in_its_name() -> None:
        client = KazooClient(connect, client_id=store._session.credentials)
        try:
            client.start(PATIENCE_S)
        finally:
            client.stop()
            client.close()

    async with asyncio.timeout(PATIENCE_S):
        while store.session is not SessionState.LOST:
            if store.session is SessionState.CONNECTED:
                await asyncio.to_thread(close_in_its_name)
            await asyncio.sleep(0.01)


class ZooKeeperWorld:
    """An empty part of the tree."""

    def __init__(self, connect_string: str) -> None:
        self._connect = f"{connect_string}/tests/{next(_numbers)}"

    async def session(self):
        return await open_store(self._connect)

    async def expire(self, session):
        await expire(session, self._connect.partition("/")[0])
