"""What can be set about a topic's log. Each key is declared once; its broker-wide twin is named beside it."""

from ottla.core.config import Bytes, Config, Duration, Key, Long, Scope, at_least, between, one_of

_DAY_MS = 86_400_000
_INT_MAX = 2**31 - 1
_LONG_MAX = 2**63 - 1


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
        doc="`delete` drops old segments; `compact` keeps the last value of each key; both can be named.",
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
        scope=Scope.CLUSTER_WIDE,
        doc="Sync the log to the disk when its oldest unsynced record has waited this long.",
    )
    producer_id_expiration_ms = Key(
        "producer.id.expiration.ms",
        Duration,
        _DAY_MS,
        at_least(1),
        scope=Scope.CLUSTER_WIDE,
        doc="Forget the sequence numbers of a producer that has written nothing for this long.",
    )


TINY = {
    "segment.bytes": "1024",
    "index.interval.bytes": "0",
    "segment.index.bytes": "240",
}
"""Sizes at which tests reach what otherwise takes a gigabyte: every batch is indexed, few fit a segment."""
