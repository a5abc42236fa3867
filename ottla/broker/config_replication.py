"""What can be set about replication: how followers fetch, when they count as too slow, how fast they may be."""

from ottla.core.config import Bytes, Config, Duration, Key, Long, Scope, at_least, between
from ottla.core.errors import ConfigError
from ottla.core.values import Check
from ottla.replication.selector import SELECTORS

_INT_MAX = 2**31 - 1
_NO_LIMIT = 2**63 - 1

_KNOWN_SELECTOR = Check(
    f"one of {', '.join(SELECTORS)}", lambda name: name.rpartition(".")[2] in SELECTORS or name in SELECTORS
)


class ReplicationConfig(Config):
    """The settings that leaders and followers obey. Kafka's names and defaults."""

    replica_lag_time_max_ms = Key(
        "replica.lag.time.max.ms",
        Duration,
        30_000,
        at_least(1),
        doc="A follower that has not been at its leader's end of the log for this long leaves the ISR.",
    )
    replica_fetch_min_bytes = Key(
        "replica.fetch.min.bytes",
        Bytes,
        1,
        between(0, _INT_MAX),
        doc="A leader answers a follower when it has this much, or `replica.fetch.wait.max.ms` is over.",
    )
    replica_fetch_wait_max_ms = Key(
        "replica.fetch.wait.max.ms",
        Duration,
        500,
        between(0, _INT_MAX),
        doc="How long a leader may keep a follower waiting while there is nothing new. At most "
        "`replica.lag.time.max.ms`, or followers of quiet partitions would seem slow.",
    )
    replica_fetch_max_bytes = Key(
        "replica.fetch.max.bytes",
        Bytes,
        1 << 20,
        between(0, _INT_MAX),
        doc="How much a follower asks of one partition at a time. A first batch that is larger comes all the same.",
    )
    replica_fetch_response_max_bytes = Key(
        "replica.fetch.response.max.bytes",
        Bytes,
        10 << 20,
        between(0, _INT_MAX),
        doc="How much a follower asks of all partitions of a leader at a time.",
    )
    replica_fetch_backoff_ms = Key(
        "replica.fetch.backoff.ms",
        Duration,
        1_000,
        between(0, _INT_MAX),
        doc="How long a follower leaves a partition alone that could not be fetched.",
    )
    num_replica_fetchers = Key(
        "num.replica.fetchers",
        int,
        1,
        at_least(1),
        scope=Scope.CLUSTER_WIDE,
        doc="How many connections to each leader this broker fetches over.",
    )
    replica_socket_timeout_ms = Key(
        "replica.socket.timeout.ms",
        Duration,
        30_000,
        between(1, _INT_MAX),
        doc="How long to wait for a leader's answer, or for the controller's, before the connection is given up.",
    )
    replica_selector_class = Key(
        "replica.selector.class",
        str,
        None,
        _KNOWN_SELECTOR,
        doc="Who consumers are told to read from (KIP-392): `LeaderSelector`, or `RackAwareReplicaSelector` for a "
        "replica in the consumer's own rack (`client.rack`). Kafka's full class names are fine too. If unset, leaders.",
    )
    leader_replication_throttled_rate = Key(
        "leader.replication.throttled.rate",
        Long,
        _NO_LIMIT,
        at_least(0),
        scope=Scope.CLUSTER_WIDE,
        doc="Bytes per second that leave here for followers that are not in sync yet, of partitions that "
        "`leader.replication.throttled.replicas` of their topics names.",
    )
    follower_replication_throttled_rate = Key(
        "follower.replication.throttled.rate",
        Long,
        _NO_LIMIT,
        at_least(0),
        scope=Scope.CLUSTER_WIDE,
        doc="Bytes per second that are fetched here of partitions that `follower.replication.throttled.replicas` "
        "of their topics names.",
    )
    replica_alter_log_dirs_io_max_bytes_per_second = Key(
        "replica.alter.log.dirs.io.max.bytes.per.second",
        Long,
        _NO_LIMIT,
        at_least(0),
        scope=Scope.CLUSTER_WIDE,
        doc="Bytes per second that are copied here between log directories, for all replicas together that are being "
        "moved from one to another.",
    )
    replication_quota_window_num = Key(
        "replication.quota.window.num",
        int,
        11,
        at_least(1),
        doc="Over how many windows the two rates are measured.",
    )
    replication_quota_window_size_seconds = Key(
        "replication.quota.window.size.seconds",
        int,
        1,
        at_least(1),
        doc="How long each of these windows is.",
    )
    replication_session_lost_refuse = Key(
        "replication.session.lost.refuse",
        bool,
        True,
        scope=Scope.CLUSTER_WIDE,
        doc="Refuse produces with acks=0 and 1 (with 6) while this broker has been without its metadata session for "
        "longer than a session lasts: another leader may have been elected, and what is written here would "
        "be lost. Kafka goes on accepting them. A key of Ottla.",
    )

    def check(self) -> None:
        super().check()
        if self.replica_fetch_wait_max_ms > self.replica_lag_time_max_ms:
            raise ConfigError("replica.fetch.wait.max.ms must not be more than replica.lag.time.max.ms")
