"""Offsets: look them up, commit them, find where epochs end, delete (keys 2, 8, 9, 21, 23, 47)."""

from ottla.protocol.schema import NULL_UUID, Bool, Int8, Int16, Int32, Int64, String, Uuid, api, field, struct


@api(key=2, versions="0-11", flexible="6+")
class ListOffsetsRequest:
    """Find offsets by timestamp; negative timestamps name special places.

    -1 is the end, -2 the start, -3 the record with the largest timestamp (v7), -4 the local start (v8),
    -5 the last tiered offset (v9), -6 the first offset still to be tiered (v11).

    v0 answered with a list of segment offsets, v1 with one offset and its timestamp; v2 added isolation
    levels, v4 leader epochs, v6 flexible encoding, v10 a timeout for remote look-ups.
    """

    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: Int32
            current_leader_epoch: Int32 = field("4+", default=-1, ignorable=True)
            timestamp: Int64
            max_num_offsets: Int32 = field("0", default=1)

        name: String
        partitions: list[Partition]

    replica_id: Int32
    isolation_level: Int8 = field("2+", default=0)
    topics: list[Topic]
    timeout_ms: Int32 = field("10+", default=0, ignorable=True)


@api(key=2, versions="0-11", flexible="6+")
class ListOffsetsResponse:
    """One offset per partition, or -1 when no record is that young."""

    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: Int32
            error_code: Int16
            old_style_offsets: list[Int64] = field("0", default=[])
            timestamp: Int64 = field("1+", default=-1)
            offset: Int64 = field("1+", default=-1)
            leader_epoch: Int32 = field("4+", default=-1)

        name: String
        partitions: list[Partition]

    throttle_time_ms: Int32 = field("2+", default=0, ignorable=True)
    topics: list[Topic]


@api(key=8, versions="0-10", flexible="8+")
class OffsetCommitRequest:
    """Remember how far a group has read.

    A `generation_id_or_member_epoch` of -1 with an empty member id is a commit from outside the group.

    v1 added membership and a commit timestamp that v2 replaced by retention_time_ms, gone again in v5; v6
    added leader epochs, v7 static members, v8 flexible encoding, v9 KIP-848 groups, v10 topic ids.
    """

    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: Int32
            committed_offset: Int64
            committed_leader_epoch: Int32 = field("6+", default=-1, ignorable=True)
            commit_timestamp: Int64 = field("1", default=-1)
            committed_metadata: String | None

        name: String = field("0-9", default="", ignorable=True)
        topic_id: Uuid = field("10+", default=NULL_UUID, ignorable=True)
        partitions: list[Partition]

    group_id: String
    generation_id_or_member_epoch: Int32 = field("1+", default=-1, ignorable=True)
    member_id: String = field("1+", default="", ignorable=True)
    group_instance_id: String | None = field("7+", default=None)
    retention_time_ms: Int64 = field("2-4", default=-1, ignorable=True)
    topics: list[Topic]


@api(key=8, versions="0-10", flexible="8+")
class OffsetCommitResponse:
    """One error code per partition."""

    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: Int32
            error_code: Int16

        name: String = field("0-9", default="", ignorable=True)
        topic_id: Uuid = field("10+", default=NULL_UUID, ignorable=True)
        partitions: list[Partition]

    throttle_time_ms: Int32 = field("3+", default=0, ignorable=True)
    topics: list[Topic]


@api(key=9, versions="0-10", flexible="6+")
class OffsetFetchRequest:
    """Ask for the committed offsets of groups; null topics mean all of them.

    v0 read ZooKeeper; v1 reads the coordinator. v2 allowed null topics, v6 flexible encoding, v7
    require_stable (pending transactional commits are an error), v8 many groups at once, v9 KIP-848
    members, v10 topic ids.
    """

    @struct
    class Topic:
        name: String
        partition_indexes: list[Int32]

    @struct
    class Group:
        @struct
        class Topic:
            name: String = field("8-9", default="", ignorable=True)
            topic_id: Uuid = field("10+", default=NULL_UUID, ignorable=True)
            partition_indexes: list[Int32]

        group_id: String
        member_id: String | None = field("9+", default=None, ignorable=True)
        member_epoch: Int32 = field("9+", default=-1, ignorable=True)
        topics: list[Topic] | None

    group_id: String = field("0-7", default="")
    topics: list[Topic] | None = field("0-7", nullable="2+", default=[])
    groups: list[Group] = field("8+", default=[])
    require_stable: Bool = field("7+", default=False)


@api(key=9, versions="0-10", flexible="6+")
class OffsetFetchResponse:
    """Committed offsets with their metadata; -1 where nothing was committed."""

    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: Int32
            committed_offset: Int64
            committed_leader_epoch: Int32 = field("5-7", default=-1, ignorable=True)
            metadata: String | None
            error_code: Int16

        name: String
        partitions: list[Partition]

    @struct
    class Group:
        @struct
        class Topic:
            @struct
            class Partition:
                partition_index: Int32
                committed_offset: Int64
                committed_leader_epoch: Int32 = field(default=-1)
                metadata: String | None
                error_code: Int16

            name: String = field("8-9", default="", ignorable=True)
            topic_id: Uuid = field("10+", default=NULL_UUID, ignorable=True)
            partitions: list[Partition]

        group_id: String
        topics: list[Topic]
        error_code: Int16 = field(default=0)

    throttle_time_ms: Int32 = field("3+", default=0, ignorable=True)
    topics: list[Topic] = field("0-7", default=[])
    error_code: Int16 = field("2-7", default=0, ignorable=True)
    groups: list[Group] = field("8+", default=[])


@api(key=21, versions="0-2", flexible="2+")
class DeleteRecordsRequest:
    """Move the log start of partitions forward; -1 means up to the high watermark.

    v2 is the first flexible version.
    """

    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: Int32
            offset: Int64

        name: String
        partitions: list[Partition]

    topics: list[Topic]
    timeout_ms: Int32


@api(key=21, versions="0-2", flexible="2+")
class DeleteRecordsResponse:
    """The new low watermark of each partition: the smallest log start among its live replicas."""

    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: Int32
            low_watermark: Int64
            error_code: Int16

        name: String
        partitions: list[Partition]

    throttle_time_ms: Int32 = field(default=0)
    topics: list[Topic]


@api(key=23, versions="0-4", flexible="4+")
class OffsetForLeaderEpochRequest:
    """Ask where a leader epoch ended, to find the point where two logs part (KIP-101, KIP-320).

    v1 added the epoch to the reply, v2 fencing by current_leader_epoch, v3 replica_id; v4 is flexible.
    """

    @struct
    class Topic:
        @struct
        class Partition:
            partition: Int32
            current_leader_epoch: Int32 = field("2+", default=-1, ignorable=True)
            leader_epoch: Int32

        topic: String
        partitions: list[Partition]

    replica_id: Int32 = field("3+", default=-2, ignorable=True)
    topics: list[Topic]


@api(key=23, versions="0-4", flexible="4+")
class OffsetForLeaderEpochResponse:
    """The largest epoch not above the asked one, and the offset after its last record."""

    @struct
    class Topic:
        @struct
        class Partition:
            error_code: Int16
            partition: Int32
            leader_epoch: Int32 = field("1+", default=-1, ignorable=True)
            end_offset: Int64 = field(default=-1)

        topic: String
        partitions: list[Partition]

    throttle_time_ms: Int32 = field("2+", default=0, ignorable=True)
    topics: list[Topic]


@api(key=47, versions="0")
class OffsetDeleteRequest:
    """Forget committed offsets of topics that the group no longer subscribes to (KIP-496)."""

    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: Int32

        name: String
        partitions: list[Partition]

    group_id: String
    topics: list[Topic]


@api(key=47, versions="0")
class OffsetDeleteResponse:
    """One error code for the group, one per partition."""

    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: Int32
            error_code: Int16

        name: String
        partitions: list[Partition]

    error_code: Int16
    throttle_time_ms: Int32 = field(default=0)
    topics: list[Topic]
