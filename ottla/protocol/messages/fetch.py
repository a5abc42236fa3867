"""Fetch (key 1): read record batches from partition logs."""

from ottla.protocol.schema import (
    NULL_UUID,
    Int8,
    Int16,
    Int32,
    Int64,
    Records,
    String,
    Uuid,
    api,
    field,
    struct,
)


@api(key=1, versions="0-18", flexible="12+")
class FetchRequest:
    """Read batches from partition logs; consumers and followers alike.

    `session_id` and `session_epoch` make incremental fetches (KIP-227): only changed partitions are
    named, and `forgotten_topics_data` drops some from the session.

    v3 brought max_bytes for the whole reply, v4 isolation levels, v5 log_start_offset, v7 sessions, v9
    epoch fencing (KIP-320), v10 zstd, v11 rack_id (KIP-392), v12 flexible encoding and
    last_fetched_epoch, v13 topic ids, v15 replica_state for replica_id, v17 directory ids, v18 the
    follower's high watermark.
    """

    @struct
    class ReplicaState:
        replica_id: Int32 = field(default=-1)
        replica_epoch: Int64 = field(default=-1)

    @struct
    class Topic:
        @struct
        class Partition:
            partition: Int32
            current_leader_epoch: Int32 = field("9+", default=-1, ignorable=True)
            fetch_offset: Int64
            last_fetched_epoch: Int32 = field("12+", default=-1)
            log_start_offset: Int64 = field("5+", default=-1, ignorable=True)
            partition_max_bytes: Int32
            replica_directory_id: Uuid = field("17+", tag=0, default=NULL_UUID, ignorable=True)
            high_watermark: Int64 = field("18+", tag=1, default=(1 << 63) - 1, ignorable=True)

        topic: String = field("0-12", default="", ignorable=True)
        topic_id: Uuid = field("13+", default=NULL_UUID, ignorable=True)
        partitions: list[Partition]

    @struct
    class ForgottenTopic:
        topic: String = field("7-12", default="", ignorable=True)
        topic_id: Uuid = field("13+", default=NULL_UUID, ignorable=True)
        partitions: list[Int32]

    cluster_id: String | None = field("12+", tag=0, default=None, ignorable=True)
    replica_id: Int32 = field("0-14", default=-1)
    replica_state: ReplicaState | None = field("15+", tag=1, default=None)
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32 = field("3+", default=(1 << 31) - 1, ignorable=True)
    isolation_level: Int8 = field("4+", default=0, ignorable=True)
    session_id: Int32 = field("7+", default=0, ignorable=True)
    session_epoch: Int32 = field("7+", default=-1, ignorable=True)
    topics: list[Topic]
    forgotten_topics_data: list[ForgottenTopic] = field("7+", default=[])
    rack_id: String = field("11+", default="", ignorable=True)


@api(key=1, versions="0-18", flexible="12+")
class FetchResponse:
    """Batches as they lie in the log, per partition, with the marks a reader needs to judge them.

    `aborted_transactions` lets a read-committed consumer skip what was rolled back.
    """

    @struct
    class Topic:
        @struct
        class Partition:
            @struct
            class EpochEndOffset:
                epoch: Int32 = field(default=-1)
                end_offset: Int64 = field(default=-1)

            @struct
            class Leader:
                leader_id: Int32 = field(default=-1)
                leader_epoch: Int32 = field(default=-1)

            @struct
            class SnapshotId:
                end_offset: Int64 = field(default=-1)
                epoch: Int32 = field(default=-1)

            @struct
            class AbortedTransaction:
                producer_id: Int64
                first_offset: Int64

            partition_index: Int32
            error_code: Int16
            high_watermark: Int64
            last_stable_offset: Int64 = field("4+", default=-1, ignorable=True)
            log_start_offset: Int64 = field("5+", default=-1, ignorable=True)
            diverging_epoch: EpochEndOffset | None = field("12+", tag=0, default=None)
            current_leader: Leader | None = field("12+", tag=1, default=None)
            snapshot_id: SnapshotId | None = field("12+", tag=2, default=None)
            aborted_transactions: list[AbortedTransaction] | None = field("4+", default=[], ignorable=True)
            preferred_read_replica: Int32 = field("11+", default=-1)
            records: Records | None

        topic: String = field("0-12", default="", ignorable=True)
        topic_id: Uuid = field("13+", default=NULL_UUID, ignorable=True)
        partitions: list[Partition]

    @struct
    class NodeEndpoint:
        node_id: Int32
        host: String
        port: Int32
        rack: String | None = field(default=None)

    throttle_time_ms: Int32 = field("1+", default=0, ignorable=True)
    error_code: Int16 = field("7+", default=0, ignorable=True)
    session_id: Int32 = field("7+", default=0)
    responses: list[Topic]
    node_endpoints: list[NodeEndpoint] = field("16+", tag=0, default=[])
