"""Which metadata store a broker uses, as its settings say: its own file, one that is served, or ZooKeeper."""

from typing import TYPE_CHECKING

from ottla.core.hosts import parse_address
from ottla.metadata.embedded import EmbeddedStore
from ottla.metadata.store import MetadataStore

if TYPE_CHECKING:
    from ottla.broker.config import BrokerConfig
    from ottla.metadata.served import StoreServer


async def open_store(config: "BrokerConfig", path: str) -> MetadataStore:
    """A session with the store; `path` is that of the file, if it is ours. Raises StoreUnavailable, ConfigError."""
    if config.zookeeper_connect:
        from ottla.metadata.zookeeper import ZooKeeperStore

        return await ZooKeeperStore.open(
            config.zookeeper_connect,
            session_timeout_ms=config.session_timeout_ms,
            connection_timeout_ms=config.zookeeper_connection_timeout_ms or config.session_timeout_ms,
        )
    if config.metadata_store_connect:
        from ottla.metadata.remote import RemoteStore

        host, port = parse_address(config.metadata_store_connect, "metadata.store.connect")
        return await RemoteStore.open(host, port, session_timeout_ms=config.session_timeout_ms)
    return await EmbeddedStore.open(path)


async def serve_store(config: "BrokerConfig", store: MetadataStore) -> "StoreServer | None":
    """Let other brokers share our store, if the settings say so. Raises ConfigError, OSError."""
    if not config.metadata_store_listen or not isinstance(store, EmbeddedStore):
        return None
    from ottla.metadata.served import StoreServer

    host, port = parse_address(config.metadata_store_listen, "metadata.store.listen")
    server = StoreServer(store)
    await server.start(host, port)
    return server


def session_timeout_ms(config: "BrokerConfig", store: MetadataStore) -> int:
    """How long the store believes in a broker of which it hears nothing. ZooKeeper does not grant every wish."""
    if config.zookeeper_connect:
        from ottla.metadata.zookeeper import ZooKeeperStore

        if isinstance(store, ZooKeeperStore):
            return store.session_timeout_ms
    return config.session_timeout_ms


def described(config: "BrokerConfig", path: str) -> str:
    """The store, for a sentence."""
    if config.zookeeper_connect:
        return f"the ZooKeeper at {config.zookeeper_connect}"
    if config.metadata_store_connect:
        return f"the metadata store at {config.metadata_store_connect}"
    return path
