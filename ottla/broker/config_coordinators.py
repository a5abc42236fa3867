"""What can be set about groups, their offsets, and transactions. Kafka's names, defaults and bounds."""

from ottla.core.config import (
    Bytes,
    Config,
    Duration,
    Key,
    Scope,
    Words,
    at_least,
    between,
    not_empty,
    one_of,
)
from ottla.core.errors import ConfigError

_INT_MAX = 2**31 - 1


class CoordinatorConfig(Config):
    """The settings that coordinators obey."""

    # --- the topic of offsets --------------------------------------------------------------------------------

    offsets_topic_num_partitions = Key(
        "offsets.topic.num.partitions",
        int,
        50,
        at_least(1),
        doc="Partitions of __consumer_offsets. Must not change once it exists: groups would not be found.",
    )
    offsets_topic_replication_factor = Key(
        "offsets.topic.replication.factor",
        int,
        3,
        between(1, 32_767),
        doc="Replicas of __consumer_offsets, which is created when so many brokers live; 1 "
        "for a broker whose metadata is its own.",
    )
    offsets_topic_segment_bytes = Key(
        "offsets.topic.segment.bytes",
        Bytes,
        100 << 20,
        between(1, _INT_MAX),
        doc="Segment size of __consumer_offsets.",
    )
    offsets_retention_minutes = Key(
        "offsets.retention.minutes",
        int,
        7 * 24 * 60,
        at_least(1),
        doc="Forget the offsets of a group that has been empty for this long.",
    )
    offsets_retention_check_interval_ms = Key(
        "offsets.retention.check.interval.ms",
        Duration,
        600_000,
        at_least(1),
        doc="How often to look for offsets that can be forgotten.",
    )
    offsets_commit_timeout_ms = Key(
        "offsets.commit.timeout.ms",
        Duration,
        5_000,
        between(1, _INT_MAX),
        doc="How long a commit may wait until it is replicated.",
    )
    offset_metadata_max_bytes = Key(
        "offset.metadata.max.bytes",
        Bytes,
        4096,
        between(0, _INT_MAX),
        doc="Refuse commits whose metadata is larger than this.",
    )

    # --- groups ----------------------------------------------------------------------------------------------

    group_initial_rebalance_delay_ms = Key(
        "group.initial.rebalance.delay.ms",
        Duration,
        3_000,
        between(0, _INT_MAX),
        doc="How long the first rebalance of a new group waits for more members.",
    )
    group_min_session_timeout_ms = Key(
        "group.min.session.timeout.ms",
        Duration,
        6_000,
        between(1, _INT_MAX),
        doc="The least session timeout that a member may ask for.",
    )
    group_max_session_timeout_ms = Key(
        "group.max.session.timeout.ms",
        Duration,
        1_800_000,
        between(1, _INT_MAX),
        doc="The greatest session timeout that a member may ask for.",
    )
    group_max_size = Key(
        "group.max.size", int, _INT_MAX, at_least(1), doc="How many members a classic group may have."
    )
    group_max_count = Key(
        "group.max.count",
        int,
        500_000,
        at_least(1),
        doc="How many groups a broker coordinates before it refuses new ones. Kafka has no such bound: whoever makes "
        "up group ids can fill its memory.",
    )
    group_consumer_session_timeout_ms = Key(
        "group.consumer.session.timeout.ms",
        Duration,
        45_000,
        between(1, _INT_MAX),
        doc="Drop a member of a group of the new protocol that was silent for this long.",
    )
    group_consumer_min_session_timeout_ms = Key(
        "group.consumer.min.session.timeout.ms",
        Duration,
        45_000,
        between(1, _INT_MAX),
        doc="The least session timeout that can be set for a group.",
    )
    group_consumer_max_session_timeout_ms = Key(
        "group.consumer.max.session.timeout.ms",
        Duration,
        60_000,
        between(1, _INT_MAX),
        doc="The greatest session timeout that can be set for a group.",
    )
    group_consumer_heartbeat_interval_ms = Key(
        "group.consumer.heartbeat.interval.ms",
        Duration,
        5_000,
        between(1, _INT_MAX),
        doc="How often members of a group of the new protocol are told to report.",
    )
    group_consumer_min_heartbeat_interval_ms = Key(
        "group.consumer.min.heartbeat.interval.ms",
        Duration,
        5_000,
        between(1, _INT_MAX),
        doc="The least heartbeat interval that can be set for a group.",
    )
    group_consumer_max_heartbeat_interval_ms = Key(
        "group.consumer.max.heartbeat.interval.ms",
        Duration,
        15_000,
        between(1, _INT_MAX),
        doc="The greatest heartbeat interval that can be set for a group.",
    )
    group_consumer_max_size = Key(
        "group.consumer.max.size",
        int,
        _INT_MAX,
        at_least(1),
        doc="How many members a group of the new protocol may have.",
    )
    group_consumer_assignors = Key(
        "group.consumer.assignors",
        Words,
        ("uniform", "range"),
        not_empty(),
        doc="The assignors of the new protocol; the first is the default.",
    )

    group_consumer_migration_policy = Key(
        "group.consumer.migration.policy",
        one_of("bidirectional", "upgrade", "downgrade", "disabled"),
        "bidirectional",
        doc="Whether a group may change between the classic and the consumer protocol while it has members.",
    )

    # --- transactions ----------------------------------------------------------------------------------------

    transaction_state_log_num_partitions = Key(
        "transaction.state.log.num.partitions",
        int,
        50,
        at_least(1),
        doc="Partitions of __transaction_state. Must not change once it exists.",
    )
    transaction_state_log_replication_factor = Key(
        "transaction.state.log.replication.factor",
        int,
        3,
        between(1, 32_767),
        doc="Replicas of __transaction_state, which is created when so many brokers live; 1 "
        "for a broker whose metadata is its own.",
    )
    transaction_state_log_min_isr = Key(
        "transaction.state.log.min.isr",
        int,
        2,
        at_least(1),
        doc="`min.insync.replicas` of __transaction_state; never more than it has replicas.",
    )
    transaction_state_log_segment_bytes = Key(
        "transaction.state.log.segment.bytes",
        Bytes,
        100 << 20,
        between(1, _INT_MAX),
        doc="Segment size of __transaction_state.",
    )
    transaction_max_timeout_ms = Key(
        "transaction.max.timeout.ms",
        Duration,
        900_000,
        between(1, _INT_MAX),
        doc="Refuse producers that ask for a longer transaction timeout than this.",
    )
    transactional_id_expiration_ms = Key(
        "transactional.id.expiration.ms",
        Duration,
        7 * 86_400_000,
        between(1, _INT_MAX),
        doc="Forget a transactional id that was not used for this long.",
    )
    transaction_remove_expired_transaction_cleanup_interval_ms = Key(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        Duration,
        3_600_000,
        between(1, _INT_MAX),
        doc="How often to look for transactional ids that can be forgotten.",
    )
    transaction_partition_verification_enable = Key(
        "transaction.partition.verification.enable",
        bool,
        True,
        scope=Scope.CLUSTER_WIDE,
        doc="Ask the coordinator whether a partition is part of the transaction before writing to it.",
    )
    producer_id_expiration_check_interval_ms = Key(
        "producer.id.expiration.check.interval.ms",
        Duration,
        600_000,
        between(1, _INT_MAX),
        doc="How often to look for producers that can be forgotten.",
    )

    def check(self) -> None:
        super().check()
        if self.group_min_session_timeout_ms > self.group_max_session_timeout_ms:
            raise ConfigError("group.min.session.timeout.ms is above group.max.session.timeout.ms")
        for what in "session.timeout.ms", "heartbeat.interval.ms":
            low, high = (self[f"group.consumer.{bound}.{what}"] for bound in ("min", "max"))
            if low > high:
                raise ConfigError(f"group.consumer.min.{what} is above group.consumer.max.{what}")
            self.check_bounds(f"group.consumer.{what}", what, self[f"group.consumer.{what}"])
        if self.group_consumer_heartbeat_interval_ms >= self.group_consumer_session_timeout_ms:
            raise ConfigError(
                "group.consumer.heartbeat.interval.ms is not below group.consumer.session.timeout.ms"
            )

    def check_bounds(self, name: str, what: str, value: int) -> None:
        """Raise unless a timeout of the new protocol lies within what the broker allows."""
        low, high = (self[f"group.consumer.{bound}.{what}"] for bound in ("min", "max"))
        if not low <= value <= high:
            raise ConfigError(f"{name} is {value}, and must lie between {low} and {high}")
