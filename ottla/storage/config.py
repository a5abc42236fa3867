"""What can be set about a topic: every topic key of Kafka 4. Each is declared once, its broker-wide twin beside it.

What a key is for stands in its `doc`; that of a key which is accepted but has no effect yet says so.
"""

from ottla.core.config import (
    Bytes,
    Check,
    Config,
    Duration,
    Key,
    Long,
    Scope,
    Words,
    at_least,
    between,
    one_of,
)
from ottla.core.errors import ConfigError

_DAY_MS = 86_400_000
_INT_MAX = 2**31 - 1
_LONG_MAX = 2**63 - 1
_NO_TIERS = "Accepted, without effect: there is no remote storage."

_LEVEL_OF_GZIP = Check("-1 or between 1 and 9", lambda level: level == -1 or 1 <= level <= 9)
_ALL_OR_PAIRS = Check(
    "* or pairs of partition:broker",
    lambda words: words == ("*",) or all(_is_pair(word) for word in words),
)


def _is_pair(word: str) -> bool:
    partition, colon, broker = word.partition(":")
    return bool(colon) and partition.isdecimal() and broker.isdecimal()


class TopicConfig(Config):
    """Settings of one topic. An unset key falls back to the broker key named beside it, then to the default."""

    segment_bytes = Key(
        "segment.bytes",
        Bytes,
        1 << 30,
        between(14, _INT_MAX),
        broker_key="log.segment.bytes",
        scope=Scope.CLUSTER_WIDE,
        doc="Start a new segment before the active one grows past this size.",
    )
    segment_ms = Key(
        "segment.ms",
        Duration,
        7 * _DAY_MS,
        at_least(1),
        broker_key="log.roll.ms",
        broker_fallbacks={"log.roll.hours": 3_600_000},
        scope=Scope.CLUSTER_WIDE,
        doc="Start a new segment when the first record of the active one is older than this.",
    )
    segment_jitter_ms = Key(
        "segment.jitter.ms",
        Duration,
        0,
        at_least(0),
        broker_key="log.roll.jitter.ms",
        broker_fallbacks={"log.roll.jitter.hours": 3_600_000},
        scope=Scope.CLUSTER_WIDE,
        doc="Accepted, without effect: segments are rolled when they are written to, not all at once.",
    )
    segment_index_bytes = Key(
        "segment.index.bytes",
        Bytes,
        10 << 20,
        between(24, _INT_MAX),
        broker_key="log.index.size.max.bytes",
        scope=Scope.CLUSTER_WIDE,
        doc="Start a new segment when an index of the active one has grown to this size.",
    )
    index_interval_bytes = Key(
        "index.interval.bytes",
        Bytes,
        4096,
        between(0, _INT_MAX),
        broker_key="log.index.interval.bytes",
        scope=Scope.CLUSTER_WIDE,
        doc="Add an entry to the indexes whenever this much was written since the last one.",
    )
    retention_ms = Key(
        "retention.ms",
        Duration,
        7 * _DAY_MS,
        at_least(-1),
        broker_key="log.retention.ms",
        broker_fallbacks={"log.retention.minutes": 60_000, "log.retention.hours": 3_600_000},
        scope=Scope.CLUSTER_WIDE,
        doc="Delete segments whose newest record is older than this. -1 keeps them forever.",
    )
    retention_bytes = Key(
        "retention.bytes",
        Bytes,
        -1,
        at_least(-1),
        broker_key="log.retention.bytes",
        scope=Scope.CLUSTER_WIDE,
        doc="Delete the oldest segments while a partition holds at least this much without them. -1 keeps all.",
    )
    file_delete_delay_ms = Key(
        "file.delete.delay.ms",
        Duration,
        60_000,
        at_least(0),
        broker_key="log.segment.delete.delay.ms",
        scope=Scope.CLUSTER_WIDE,
        doc="Keep the files of a deleted segment this long, for readers that are still at it.",
    )
    cleanup_policy = Key(
        "cleanup.policy",
        one_of("delete", "compact", many=True),
        ("delete",),
        broker_key="log.cleanup.policy",
        scope=Scope.CLUSTER_WIDE,
        doc="`delete` drops old segments; `compact` keeps the last value of each key; both can be named. "
        "A compacted topic takes only records with keys.",
    )
    max_message_bytes = Key(
        "max.message.bytes",
        Bytes,
        1_048_588,
        between(0, _INT_MAX),
        broker_key="message.max.bytes",
        scope=Scope.CLUSTER_WIDE,
        doc="Refuse batches larger than this, as they arrive (compressed, if they are).",
    )
    message_timestamp_type = Key(
        "message.timestamp.type",
        one_of("CreateTime", "LogAppendTime"),
        "CreateTime",
        broker_key="log.message.timestamp.type",
        scope=Scope.CLUSTER_WIDE,
        doc="Whether records carry the producer's time or the time at which the broker wrote them.",
    )
    message_timestamp_before_max_ms = Key(
        "message.timestamp.before.max.ms",
        Duration,
        _LONG_MAX,
        at_least(0),
        broker_key="log.message.timestamp.before.max.ms",
        scope=Scope.CLUSTER_WIDE,
        doc="Refuse records whose timestamp lies further in the past than this.",
    )
    message_timestamp_after_max_ms = Key(
        "message.timestamp.after.max.ms",
        Duration,
        3_600_000,
        at_least(0),
        broker_key="log.message.timestamp.after.max.ms",
        scope=Scope.CLUSTER_WIDE,
        doc="Refuse records whose timestamp lies further in the future than this.",
    )
    flush_messages = Key(
        "flush.messages",
        Long,
        _LONG_MAX,
        at_least(1),
        broker_key="log.flush.interval.messages",
        scope=Scope.CLUSTER_WIDE,
        doc="Sync the log to the disk after this many records. 1 syncs before every acknowledgement; "
        "requests that arrive together share one sync.",
    )
    flush_ms = Key(
        "flush.ms",
        Duration,
        _LONG_MAX,
        at_least(0),
        broker_key="log.flush.interval.ms",
        broker_fallbacks={"log.flush.scheduler.interval.ms": 1},
        scope=Scope.CLUSTER_WIDE,
        doc="Sync the log to the disk when its oldest unsynced record has waited this long.",
    )
    producer_id_expiration_ms = Key(
        "producer.id.expiration.ms",
        Duration,
        _DAY_MS,
        between(1, _INT_MAX),
        broker_key="producer.id.expiration.ms",
        scope=Scope.CLUSTER_WIDE,
        doc="Forget the sequence numbers of a producer that has written nothing for this long.",
    )
    compression_type = Key(
        "compression.type",
        one_of("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
        "producer",
        broker_key="compression.type",
        scope=Scope.CLUSTER_WIDE,
        doc="Write batches with this codec, whatever they came with. `producer` keeps what the producer chose.",
    )
    compression_gzip_level = Key(
        "compression.gzip.level",
        int,
        -1,
        _LEVEL_OF_GZIP,
        broker_key="compression.gzip.level",
        scope=Scope.CLUSTER_WIDE,
        doc="The level, if `compression.type` is gzip. -1 is the codec's own default.",
    )
    compression_lz4_level = Key(
        "compression.lz4.level",
        int,
        9,
        between(1, 17),
        broker_key="compression.lz4.level",
        scope=Scope.CLUSTER_WIDE,
        doc="The level, if `compression.type` is lz4.",
    )
    compression_zstd_level = Key(
        "compression.zstd.level",
        int,
        3,
        between(-131_072, 22),
        broker_key="compression.zstd.level",
        scope=Scope.CLUSTER_WIDE,
        doc="The level, if `compression.type` is zstd.",
    )
    min_insync_replicas = Key(
        "min.insync.replicas",
        int,
        1,
        at_least(1),
        broker_key="min.insync.replicas",
        scope=Scope.CLUSTER_WIDE,
        doc="Refuse writes with acks=all while fewer replicas than this, the leader included, are in sync.",
    )
    unclean_leader_election_enable = Key(
        "unclean.leader.election.enable",
        bool,
        False,
        broker_key="unclean.leader.election.enable",
        scope=Scope.CLUSTER_WIDE,
        doc="Let a replica lead that was not in sync, if no other is left. What it lacks is lost.",
    )
    delete_retention_ms = Key(
        "delete.retention.ms",
        Duration,
        _DAY_MS,
        at_least(0),
        broker_key="log.cleaner.delete.retention.ms",
        scope=Scope.CLUSTER_WIDE,
        doc="Keep tombstones of a compacted topic this long after they were cleaned.",
    )
    min_cleanable_dirty_ratio = Key(
        "min.cleanable.dirty.ratio",
        float,
        0.5,
        between(0, 1),
        broker_key="log.cleaner.min.cleanable.ratio",
        scope=Scope.CLUSTER_WIDE,
        doc="Compact a log when more than this part of it was written since the last time.",
    )
    min_compaction_lag_ms = Key(
        "min.compaction.lag.ms",
        Duration,
        0,
        at_least(0),
        broker_key="log.cleaner.min.compaction.lag.ms",
        scope=Scope.CLUSTER_WIDE,
        doc="Do not compact records younger than this.",
    )
    max_compaction_lag_ms = Key(
        "max.compaction.lag.ms",
        Duration,
        _LONG_MAX,
        at_least(1),
        broker_key="log.cleaner.max.compaction.lag.ms",
        scope=Scope.CLUSTER_WIDE,
        doc="Compact records that have waited this long, however little there is to gain.",
    )
    preallocate = Key(
        "preallocate",
        bool,
        False,
        broker_key="log.preallocate",
        scope=Scope.CLUSTER_WIDE,
        doc="Accepted, without effect: segments grow as they are written.",
    )
    leader_replication_throttled_replicas = Key(
        "leader.replication.throttled.replicas",
        Words,
        (),
        _ALL_OR_PAIRS,
        scope=Scope.CLUSTER_WIDE,
        doc="Replicas whose leaders hold back what followers fetch: `partition:broker` pairs, or `*`.",
    )
    follower_replication_throttled_replicas = Key(
        "follower.replication.throttled.replicas",
        Words,
        (),
        _ALL_OR_PAIRS,
        scope=Scope.CLUSTER_WIDE,
        doc="Replicas that hold back their fetching: `partition:broker` pairs, or `*`.",
    )
    remote_storage_enable = Key(
        "remote.storage.enable", bool, False, doc="Must be false: there is no remote storage."
    )
    remote_log_copy_disable = Key("remote.log.copy.disable", bool, False, doc=_NO_TIERS)
    remote_log_delete_on_disable = Key("remote.log.delete.on.disable", bool, False, doc=_NO_TIERS)
    remote_copy_lag_ms = Key("remote.copy.lag.ms", Duration, 0, at_least(-1), doc=_NO_TIERS)
    remote_copy_lag_bytes = Key("remote.copy.lag.bytes", Bytes, 0, at_least(-1), doc=_NO_TIERS)
    local_retention_ms = Key(
        "local.retention.ms",
        Duration,
        -2,
        at_least(-2),
        broker_key="log.local.retention.ms",
        scope=Scope.CLUSTER_WIDE,
        doc=_NO_TIERS,
    )
    local_retention_bytes = Key(
        "local.retention.bytes",
        Bytes,
        -2,
        at_least(-2),
        broker_key="log.local.retention.bytes",
        scope=Scope.CLUSTER_WIDE,
        doc=_NO_TIERS,
    )

    def check(self) -> None:
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms:
            raise ConfigError("min.compaction.lag.ms is above max.compaction.lag.ms")
        if self.remote_storage_enable:
            raise ConfigError("remote.storage.enable is true, but there is no remote storage here")

    @property
    def has_flush_policy(self) -> bool:
        """Does the topic ask for syncs at all? By default that is left to the operating system, and to replicas."""
        return self.flush_messages < _LONG_MAX or self.flush_ms < _LONG_MAX


TINY = {
    "segment.bytes": "1024",
    "index.interval.bytes": "0",
    "segment.index.bytes": "240",
}
"""Sizes at which tests reach what otherwise takes a gigabyte: every batch is indexed, few fit a segment."""
