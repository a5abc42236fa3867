"""`--zookeeper`: which brokers a ZooKeeper knows, for tools that were told where it is instead of where a broker is."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from ottla.core.errors import ConfigError, OttlaError
from ottla.core.hosts import Address
from ottla.metadata.paths import BROKERS, BrokerNode
from ottla.metadata.store import NoNode, StoreError
from ottla.metadata.zookeeper import ZooKeeperStore

T = TypeVar("T")
_SESSION_MS = 10_000
_CONNECTION_MS = 10_000


def with_store(connect: str, work: Callable[[ZooKeeperStore], Coroutine[Any, Any, T]]) -> T:
    """Do the work in a session with that ZooKeeper. Raises OttlaError if there is none to be had."""

    async def connected() -> T:
        store = await ZooKeeperStore.open(
            connect, session_timeout_ms=_SESSION_MS, connection_timeout_ms=_CONNECTION_MS
        )
        try:
            return await work(store)
        finally:
            await store.close()

    try:
        return asyncio.run(connected())
    except ConfigError as error:
        if "kazoo" in str(error):
            raise ConfigError(
                f"{error}; or say --bootstrap-server HOST:9092 instead of --zookeeper"
            ) from None
        raise
    except StoreError as error:
        raise OttlaError(str(error)) from error


def servers_from(connect: str) -> str:
    """The brokers that are registered there, as a bootstrap list. Raises OttlaError if there are none."""

    async def read(store: ZooKeeperStore) -> list[str]:
        try:
            ids = await store.children(BROKERS)
        except NoNode:
            return []
        nodes = await store.get_all(f"{BROKERS}/{each}" for each in sorted(ids, key=int))
        return [
            address for path, node in nodes.items() if (address := _plain(BrokerNode.decode(path, node.data)))
        ]

    found = with_store(connect, read)
    if not found:
        raise OttlaError(f"ZooKeeper at {connect} knows of no broker that lives")
    return ",".join(found)


def _plain(broker: BrokerNode) -> str | None:
    """A listener that tools of that age could have used; the first one if there is none in plain."""
    plain = [each for each in broker.endpoints if each.security_protocol == "PLAINTEXT"]
    for each in [*plain, *broker.endpoints]:
        return str(Address(each.host, each.port))
    return None
