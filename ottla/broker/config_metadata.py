"""What can be set about where the cluster keeps its metadata. Kafka's names for ZooKeeper, and two keys of Ottla.

A broker of which nothing is said here is a cluster of its own, and keeps its metadata in its data directory.
"""

from ottla.core.config import Config, Duration, Key, between
from ottla.core.errors import ConfigError

_INT_MAX = 2**31 - 1


class MetadataConfig(Config):
    """The settings of a broker's session with the metadata store."""

    zookeeper_connect = Key(
        "zookeeper.connect",
        str,
        "",
        doc="The ZooKeeper in which the brokers of a cluster find each other, as `host:port,host:port/path`; the path "
        "is made if it is not there. Empty: the metadata is in the data directory. Needs `ottla[cluster]`.",
    )
    zookeeper_session_timeout_ms = Key(
        "zookeeper.session.timeout.ms",
        Duration,
        18_000,
        between(1, _INT_MAX),
        doc="How long ZooKeeper waits for a word from a broker before others lead what it led. ZooKeeper has bounds of "
        "its own: 2 to 20 of its ticks.",
    )
    zookeeper_connection_timeout_ms = Key(
        "zookeeper.connection.timeout.ms",
        Duration,
        None,
        between(1, _INT_MAX),
        doc="How long a broker that starts waits for ZooKeeper. If unset, `zookeeper.session.timeout.ms`.",
    )
    metadata_store_listen = Key(
        "metadata.store.listen",
        str,
        "",
        doc="Serve the metadata in this broker's data directory here, as `host:port` of the loopback, to other brokers "
        "of this machine. For development: while this broker is away, nobody is elected. A key of Ottla.",
    )
    metadata_store_connect = Key(
        "metadata.store.connect",
        str,
        "",
        doc="Use the metadata that is served there (see `metadata.store.listen`), as `host:port`. A key of Ottla.",
    )
    broker_session_timeout_ms = Key(
        "broker.session.timeout.ms",
        Duration,
        9_000,
        between(1, _INT_MAX),
        doc="How long a broker may be without a word from the metadata store before others may lead what it led; with "
        "ZooKeeper it is `zookeeper.session.timeout.ms`.",
    )
    initial_broker_registration_timeout_ms = Key(
        "initial.broker.registration.timeout.ms",
        Duration,
        60_000,
        between(1, _INT_MAX),
        doc="How long a broker that starts waits for the controller to reach it. Then it gives up: an address that "
        "other brokers cannot reach is of no use to anybody.",
    )

    @property
    def session_timeout_ms(self) -> int:
        """How long the store believes in a broker of which it hears nothing."""
        timeout: int = (
            self.zookeeper_session_timeout_ms if self.zookeeper_connect else self.broker_session_timeout_ms
        )
        return timeout

    @property
    def has_shared_store(self) -> bool:
        """May there be other brokers in this cluster?"""
        return bool(self.zookeeper_connect or self.metadata_store_connect or self.metadata_store_listen)

    def check(self) -> None:
        super().check()
        said = [
            key.name
            for key in (
                MetadataConfig.zookeeper_connect,
                MetadataConfig.metadata_store_connect,
                MetadataConfig.metadata_store_listen,
            )
            if self[key.name]
        ]
        if len(said) > 1:
            raise ConfigError(f"{' and '.join(said)} are set, but a cluster has one metadata store")
