"""Start offsets of share groups (keys 90-92; KIP-932)."""

from ottla.protocol.schema import Int16, Int32, Int64, String, Uuid, api, field, struct


@api(key=90, versions="0-1", flexible="0+")
class DescribeShareGroupOffsetsRequest:
    """Ask where share groups start to read (KIP-932).

    v1 added the lag to the reply (KIP-1226).
    """

    @struct
    class Group:
        @struct
        class Topic:
            topic_name: String
            partitions: list[Int32]

        group_id: String
        topics: list[Topic] | None

    groups: list[Group]


@api(key=90, versions="0-1", flexible="0+")
class DescribeShareGroupOffsetsResponse:
    """Start offset, leader epoch and lag of each partition."""

    @struct
    class Group:
        @struct
        class Topic:
            @struct
            class Partition:
                partition_index: Int32
                start_offset: Int64
                leader_epoch: Int32
                lag: Int64 = field("1+", default=-1, ignorable=True)
                error_code: Int16
                error_message: String | None = field(default=None)

            topic_name: String
            topic_id: Uuid
            partitions: list[Partition]

        group_id: String
        topics: list[Topic]
        error_code: Int16
        error_message: String | None = field(default=None)

    throttle_time_ms: Int32 = field(default=0)
    groups: list[Group]


@api(key=91, versions="0", flexible="0+")
class AlterShareGroupOffsetsRequest:
    """Move the start offsets of an empty share group (KIP-932)."""

    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: Int32
            start_offset: Int64

        topic_name: String
        partitions: list[Partition]

    group_id: String
    topics: list[Topic]


@api(key=91, versions="0", flexible="0+")
class AlterShareGroupOffsetsResponse:
    """One error code per partition."""

    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: Int32
            error_code: Int16
            error_message: String | None = field(default=None)

        topic_name: String
        topic_id: Uuid
        partitions: list[Partition]

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    error_message: String | None = field(default=None)
    responses: list[Topic]


@api(key=92, versions="0", flexible="0+")
class DeleteShareGroupOffsetsRequest:
    """Forget topics of an empty share group (KIP-932)."""

    @struct
    class Topic:
        topic_name: String

    group_id: String
    topics: list[Topic]


@api(key=92, versions="0", flexible="0+")
class DeleteShareGroupOffsetsResponse:
    """One error code per topic."""

    @struct
    class Topic:
        topic_name: String
        topic_id: Uuid
        error_code: Int16
        error_message: String | None = field(default=None)

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    error_message: String | None = field(default=None)
    responses: list[Topic]
