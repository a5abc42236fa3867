"""What can be set about a broker: Kafka's keys that this broker obeys, and a few of its own.

The keys of coordinators are in `config_coordinators`, those of the cleaner in `config_cleaner`, those of replication in
`config_replication`, those of the metadata store in `config_metadata`, those that are read and not obeyed in
`config_ignored`; the broker-wide twins of topic keys (`log.retention.ms`) are derived from `TopicConfig`.
"""

import re

from ottla.broker.config_cleaner import CleanerConfig
from ottla.broker.config_controller import ControllerConfig
from ottla.broker.config_coordinators import CoordinatorConfig
from ottla.broker.config_ignored import IgnoredConfig
from ottla.broker.config_metadata import MetadataConfig
from ottla.broker.config_replication import ReplicationConfig
from ottla.broker.listeners import listeners_of
from ottla.core.config import (
    Bytes,
    Check,
    Duration,
    Key,
    Scope,
    Words,
    at_least,
    between,
    not_empty,
)
from ottla.core.errors import ConfigError
from ottla.core.hosts import parse_address
from ottla.storage.config import TopicConfig

_INT_MAX = 2**31 - 1
_LONG_MAX = 2**63 - 1

_OVERRIDE = re.compile(r"[^\s:]+(:[^\s:]*)*:[0-9]{1,10}")
_EACH_NAMED = Check("without an empty entry", lambda words: all(words))


class BrokerConfig(
    IgnoredConfig,
    CleanerConfig,
    ControllerConfig,
    CoordinatorConfig,
    MetadataConfig,
    ReplicationConfig,
    topics=TopicConfig,
):
    """Settings of one broker. They are read from server.properties, from `--set`, or from `OTTLA_*` variables:
    `OTTLA_LOG_DIRS` is `log.dirs`."""

    # Twins of topic keys that brokers look at themselves.
    min_insync_replicas: int
    unclean_leader_election_enable: bool
    compression_type: str
    message_max_bytes: int
    log_retention_ms: int
    producer_id_expiration_ms: int

    node_id = Key(
        "node.id",
        int,
        1,
        at_least(0),
        aliases=["broker.id"],
        doc="The number of this broker, unique in its cluster.",
    )
    broker_rack = Key("broker.rack", str, None, doc="Where this broker stands; clients nearby prefer it.")
    process_roles = Key(
        "process.roles",
        Words,
        ("broker", "controller"),
        _EACH_NAMED,
        doc="What Kafka's file says about roles. One with `broker` in it is fine: every broker can be controller.",
    )
    controller_listener_names = Key(
        "controller.listener.names",
        Words,
        (),
        doc="Listeners with these names are left out: controllers talk over the listener between brokers.",
    )
    controller_quorum_voters = Key(
        "controller.quorum.voters",
        Words,
        (),
        doc="Kafka's list of controllers. At most one is accepted: brokers find each other in ZooKeeper here.",
    )
    controller_quorum_bootstrap_servers = Key(
        "controller.quorum.bootstrap.servers",
        Words,
        (),
        doc="Kafka's list of controllers. At most one is accepted: brokers find each other in ZooKeeper here.",
    )

    # --- where it is reached ---------------------------------------------------------------------------------

    listeners = Key(
        "listeners",
        Words,
        ("PLAINTEXT://127.0.0.1:9092",),
        not_empty(),
        _EACH_NAMED,
        doc="Where to listen, each as `NAME://host:port`. Port 0 takes a free one. A host of 0.0.0.0, [::] or "
        "none stands for all interfaces, and then `advertised.listeners` must say how clients get here. With a "
        "ZooKeeper on another machine the default is the address of this one as it is seen from there.",
    )
    host_name = Key(
        "host.name",
        str,
        None,
        doc="What Kafka had before `listeners`, which goes before it: the address to listen on.",
    )
    port = Key(
        "port",
        int,
        9092,
        between(0, 65_535),
        doc="What Kafka had before `listeners`, which goes before it: the port to listen on.",
    )
    advertised_listeners = Key(
        "advertised.listeners",
        Words,
        (),
        _EACH_NAMED,
        doc="What clients are told to connect to, as `NAME://host:port`. Listeners that are not named here "
        "advertise the address they listen on. Port 0 is the port that is listened on.",
    )
    listener_security_protocol_map = Key(
        "listener.security.protocol.map",
        Words,
        (
            *("PLAINTEXT:PLAINTEXT", "SSL:SSL"),
            *("SASL_PLAINTEXT:SASL_PLAINTEXT", "SASL_SSL:SASL_SSL"),
        ),
        _EACH_NAMED,
        doc="Which protocol each name of a listener speaks, as `NAME:PROTOCOL`.",
    )
    inter_broker_listener_name = Key(
        "inter.broker.listener.name",
        str,
        None,
        doc="The listener over which brokers talk to each other. If unset, the first one.",
    )
    http_listen = Key(
        "http.listen",
        str,
        "",
        doc="Where /healthz, /readyz and /metrics are served, as `host:port` or a port of this machine's "
        "loopback. Empty: nowhere.",
    )

    # --- limits on connections and requests ------------------------------------------------------------------

    socket_request_max_bytes = Key(
        "socket.request.max.bytes",
        Bytes,
        100 << 20,
        between(1, _INT_MAX),
        doc="Close a connection that announces a larger request than this.",
    )
    socket_listen_backlog_size = Key(
        "socket.listen.backlog.size",
        int,
        1024,
        at_least(1),
        doc="How many connections may wait to be accepted. The kernel may allow fewer.",
    )
    socket_send_buffer_bytes = Key(
        "socket.send.buffer.bytes",
        Bytes,
        -1,
        between(-1, _INT_MAX),
        doc="The kernel's send buffer of a connection. -1 leaves it to the kernel, which adapts it.",
    )
    socket_receive_buffer_bytes = Key(
        "socket.receive.buffer.bytes",
        Bytes,
        -1,
        between(-1, _INT_MAX),
        doc="The kernel's receive buffer of a connection. -1 leaves it to the kernel, which adapts it.",
    )
    max_connections = Key(
        "max.connections",
        int,
        _INT_MAX,
        at_least(0),
        scope=Scope.CLUSTER_WIDE,
        doc="Close new connections while there are this many.",
    )
    max_connections_per_ip = Key(
        "max.connections.per.ip",
        int,
        _INT_MAX,
        at_least(0),
        scope=Scope.CLUSTER_WIDE,
        doc="Close new connections from an address that has this many.",
    )
    max_connections_per_ip_overrides = Key(
        "max.connections.per.ip.overrides",
        Words,
        (),
        Check("of address:count", lambda words: all(_OVERRIDE.fullmatch(word) for word in words)),
        scope=Scope.CLUSTER_WIDE,
        doc="Other limits than `max.connections.per.ip` for some addresses, each as `address:count`.",
    )
    connections_max_idle_ms = Key(
        "connections.max.idle.ms",
        Duration,
        600_000,
        at_least(-1),
        doc="Close connections on which nothing has happened for this long. -1 keeps them.",
    )
    frame_timeout_ms = Key(
        "frame.timeout.ms",
        Duration,
        60_000,
        at_least(1),
        doc="Close a connection whose request is not complete this long after it began to arrive, or that reads "
        "no replies for this long. A key of Ottla.",
    )
    request_in_flight_max = Key(
        "request.in.flight.max",
        int,
        100,
        between(1, 10_000),
        doc="Read no further from a connection while this many of its requests wait for their reply. "
        "A key of Ottla.",
    )
    queued_reply_max_bytes = Key(
        "queued.reply.max.bytes",
        Bytes,
        1 << 20,
        between(1, _INT_MAX),
        doc="Read no further from a connection while more than this waits to be sent on it. A key of Ottla.",
    )
    fetch_max_bytes = Key(
        "fetch.max.bytes",
        Bytes,
        55 << 20,
        between(1024, _INT_MAX),
        doc="Answer a fetch with at most this much, whatever it asks for.",
    )
    max_incremental_fetch_session_cache_slots = Key(
        "max.incremental.fetch.session.cache.slots",
        int,
        1000,
        at_least(0),
        doc="How many fetch sessions are remembered.",
    )
    max_request_partition_size_limit = Key(
        "max.request.partition.size.limit",
        int,
        2000,
        at_least(1),
        doc="How many partitions one DescribeTopicPartitions may ask for.",
    )

    # --- topics ----------------------------------------------------------------------------------------------

    num_partitions = Key(
        "num.partitions",
        int,
        1,
        at_least(1),
        doc="How many partitions a topic gets if nobody says.",
    )
    default_replication_factor = Key(
        "default.replication.factor",
        int,
        1,
        at_least(1),
        doc="How many replicas a partition gets if nobody says.",
    )
    auto_create_topics_enable = Key(
        "auto.create.topics.enable",
        bool,
        True,
        doc="Create a topic when a client asks about one that does not exist.",
    )
    delete_topic_enable = Key(
        "delete.topic.enable", bool, True, doc="Whether topics can be deleted. If not, it is refused with 73."
    )

    # --- the data --------------------------------------------------------------------------------------------

    log_dirs = Key(
        "log.dirs",
        Words,
        ("ottla-data",),
        not_empty(),
        _EACH_NAMED,
        fallbacks={"log.dir": 1},
        doc="The data directories. A new partition goes to the one with the fewest.",
    )
    log_dir = Key("log.dir", Words, None, not_empty(), _EACH_NAMED, doc="Another name for `log.dirs`.")
    metadata_log_dir = Key(
        "metadata.log.dir",
        str,
        None,
        doc="Where a broker of Apache Kafka kept its metadata, if not in the first of `log.dirs`: it is read when its "
        "directories are taken over.",
    )
    adoption_ignore_acls = Key(
        "adoption.ignore.acls",
        bool,
        False,
        doc="Take over a directory of Apache Kafka though its cluster had ACLs, which are not supported yet: "
        "whoever reaches this broker may do everything. A key of Ottla.",
    )
    log_retention_check_interval_ms = Key(
        "log.retention.check.interval.ms",
        Duration,
        300_000,
        at_least(1),
        doc="How often to look for segments that are old enough to be deleted.",
    )
    log_flush_scheduler_interval_ms = Key(
        "log.flush.scheduler.interval.ms",
        Duration,
        _LONG_MAX,
        at_least(1),
        doc="How often to look for logs that must be synced. Also stands in for `log.flush.interval.ms`.",
    )
    log_flush_offset_checkpoint_interval_ms = Key(
        "log.flush.offset.checkpoint.interval.ms",
        Duration,
        60_000,
        between(0, _INT_MAX),
        doc="How often to write down up to where logs are on the disk: a start after a crash checks the rest.",
    )
    log_flush_start_offset_checkpoint_interval_ms = Key(
        "log.flush.start.offset.checkpoint.interval.ms",
        Duration,
        60_000,
        between(0, _INT_MAX),
        doc="How often to write down where logs start.",
    )
    replica_high_watermark_checkpoint_interval_ms = Key(
        "replica.high.watermark.checkpoint.interval.ms",
        Duration,
        5_000,
        at_least(0),
        doc="How often to write down the high watermarks.",
    )

    @property
    def connections_per_ip(self) -> dict[str, int]:
        """`max.connections.per.ip.overrides`, by address."""
        pairs = (word.rpartition(":") for word in self.max_connections_per_ip_overrides)
        return {address.strip("[]"): int(count) for address, _, count in pairs}

    def check(self) -> None:
        super().check()
        if "broker" not in self.process_roles:
            raise ConfigError(
                "process.roles has no broker in it: there are no controllers without a broker here"
            )
        for name in ("controller.quorum.voters", "controller.quorum.bootstrap.servers"):
            if len(self[name]) > 1:
                raise ConfigError(
                    f"{name} names several nodes, but brokers find each other by zookeeper.connect here"
                )
        listeners_of(self)
        if self.http_listen:
            parse_address(self.http_listen, "http.listen")
