"""Brokers, their log directories, quorum and features (keys 34, 35, 55, 57, 64)."""

from ottla.protocol.schema import (
    NULL_UUID,
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    String,
    UInt16,
    Uuid,
    api,
    field,
    struct,
)


@api(key=34, versions="0-2", flexible="2+")
class AlterReplicaLogDirsRequest:
    """Move replicas on this broker between its log directories (KIP-113).

    v2 is the first flexible version.
    """

    @struct
    class Dir:
        @struct
        class Topic:
            name: String
            partitions: list[Int32]

        path: String
        topics: list[Topic]

    dirs: list[Dir]


@api(key=34, versions="0-2", flexible="2+")
class AlterReplicaLogDirsResponse:
    """One error code per partition."""

    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: Int32
            error_code: Int16

        topic_name: String
        partitions: list[Partition]

    throttle_time_ms: Int32 = field(default=0)
    results: list[Topic]


@api(key=35, versions="0-5", flexible="2+")
class DescribeLogDirsRequest:
    """Ask what lies in this broker's log directories; null topics mean all (KIP-113).

    v2 is the first flexible version; the reply gained an error code in v3, sizes of the volume in v4,
    cordoned directories in v5.
    """

    @struct
    class Topic:
        topic: String
        partitions: list[Int32]

    topics: list[Topic] | None


@api(key=35, versions="0-5", flexible="2+")
class DescribeLogDirsResponse:
    """Directories with the sizes and lags of their partitions."""

    @struct
    class Dir:
        @struct
        class Topic:
            @struct
            class Partition:
                partition_index: Int32
                partition_size: Int64
                offset_lag: Int64
                is_future_key: Bool

            name: String
            partitions: list[Partition]

        error_code: Int16
        log_dir: String
        topics: list[Topic]
        total_bytes: Int64 = field("4+", default=-1, ignorable=True)
        usable_bytes: Int64 = field("4+", default=-1, ignorable=True)
        is_cordoned: Bool = field("5+", default=False, ignorable=True)

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field("3+", default=0, ignorable=True)
    results: list[Dir]


@api(key=55, versions="0-2", flexible="0+")
class DescribeQuorumRequest:
    """Ask for the state of a Raft quorum (KIP-595).

    The reply gained timestamps in v1 (KIP-836), nodes and directory ids in v2 (KIP-853).
    """

    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: Int32

        topic_name: String
        partitions: list[Partition]

    topics: list[Topic]


@struct
class QuorumReplica:
    """How far a voter or observer has come."""

    replica_id: Int32
    replica_directory_id: Uuid = field("2+", default=NULL_UUID)
    log_end_offset: Int64
    last_fetch_timestamp: Int64 = field("1+", default=-1, ignorable=True)
    last_caught_up_timestamp: Int64 = field("1+", default=-1, ignorable=True)


@api(key=55, versions="0-2", flexible="0+")
class DescribeQuorumResponse:
    """Leader, epoch, high watermark, voters and observers."""

    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: Int32
            error_code: Int16
            error_message: String | None = field("2+", default=None, ignorable=True)
            leader_id: Int32
            leader_epoch: Int32
            high_watermark: Int64
            current_voters: list[QuorumReplica]
            observers: list[QuorumReplica]

        topic_name: String
        partitions: list[Partition]

    @struct
    class Node:
        @struct
        class Listener:
            name: String
            host: String
            port: UInt16

        node_id: Int32
        listeners: list[Listener]

    error_code: Int16
    error_message: String | None = field("2+", default=None, ignorable=True)
    topics: list[Topic]
    nodes: list[Node] = field("2+", default=[])


@api(key=57, versions="0-2", flexible="0+")
class UpdateFeaturesRequest:
    """Raise or lower the finalized level of cluster features (KIP-584).

    v1 replaced allow_downgrade by upgrade_type and added validate_only.
    """

    @struct
    class FeatureUpdate:
        feature: String
        max_version_level: Int16
        allow_downgrade: Bool = field("0", default=False)
        upgrade_type: Int8 = field("1+", default=1)

    timeout_ms: Int32 = field(default=60_000)
    feature_updates: list[FeatureUpdate]
    validate_only: Bool = field("1+", default=False)


@api(key=57, versions="0-2", flexible="0+")
class UpdateFeaturesResponse:
    """One error code; up to v1 also one per feature."""

    @struct
    class Result:
        feature: String
        error_code: Int16
        error_message: String | None = field(default=None)

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    error_message: String | None = field(default=None)
    results: list[Result] = field("0-1", default=[], ignorable=True)


@api(key=64, versions="0", flexible="0+")
class UnregisterBrokerRequest:
    """Forget a broker that will not come back."""

    broker_id: Int32


@api(key=64, versions="0", flexible="0+")
class UnregisterBrokerResponse:
    """One error code."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    error_message: String | None = field(default=None)
