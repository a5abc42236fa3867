"""Topics: create, delete, grow, elect, reassign (keys 19, 20, 37, 43, 45, 46)."""

from ottla.protocol.schema import NULL_UUID, Bool, Int8, Int16, Int32, String, Uuid, api, field, struct


@api(key=19, versions="0-7", flexible="5+")
class CreateTopicsRequest:
    """Create topics, or only check that they could be created.

    -1 for `num_partitions` or `replication_factor` asks for the broker's default (v4), or goes with
    explicit `assignments`.

    v1 added validate_only, v5 flexible encoding, v6 THROTTLING_QUOTA_EXCEEDED (KIP-599), v7 topic ids.
    """

    @struct
    class Topic:
        @struct
        class Assignment:
            partition_index: Int32
            broker_ids: list[Int32]

        @struct
        class Setting:
            name: String
            value: String | None

        name: String
        num_partitions: Int32
        replication_factor: Int16
        assignments: list[Assignment]
        configs: list[Setting]

    topics: list[Topic]
    timeout_ms: Int32 = field(default=60_000)
    validate_only: Bool = field("1+", default=False)


@api(key=19, versions="0-7", flexible="5+")
class CreateTopicsResponse:
    """One result per topic; since v5 with the settings it was given (KIP-525)."""

    @struct
    class Topic:
        @struct
        class Setting:
            name: String
            value: String | None
            read_only: Bool
            config_source: Int8 = field(default=-1)
            is_sensitive: Bool

        name: String
        topic_id: Uuid = field("7+", default=NULL_UUID, ignorable=True)
        error_code: Int16
        error_message: String | None = field("1+", default=None, ignorable=True)
        topic_config_error_code: Int16 = field("5+", tag=0, default=0, ignorable=True)
        num_partitions: Int32 = field("5+", default=-1, ignorable=True)
        replication_factor: Int16 = field("5+", default=-1, ignorable=True)
        configs: list[Setting] | None = field("5+", default=[], ignorable=True)

    throttle_time_ms: Int32 = field("2+", default=0, ignorable=True)
    topics: list[Topic]


@api(key=20, versions="0-6", flexible="4+")
class DeleteTopicsRequest:
    """Delete topics by name, since v6 also by id.

    v4 is the first flexible version, v5 added error messages, v6 takes names or ids instead of names.
    """

    @struct
    class Topic:
        name: String | None = field(default=None)
        topic_id: Uuid

    topics: list[Topic] = field("6+", default=[])
    topic_names: list[String] = field("0-5", default=[], ignorable=True)
    timeout_ms: Int32


@api(key=20, versions="0-6", flexible="4+")
class DeleteTopicsResponse:
    """One error code per topic."""

    @struct
    class Topic:
        name: String | None = field(nullable="6+")
        topic_id: Uuid = field("6+", default=NULL_UUID, ignorable=True)
        error_code: Int16
        error_message: String | None = field("5+", default=None, ignorable=True)

    throttle_time_ms: Int32 = field("1+", default=0, ignorable=True)
    responses: list[Topic]


@api(key=37, versions="0-3", flexible="2+")
class CreatePartitionsRequest:
    """Add partitions to topics; `count` is the new total.

    v2 is the first flexible version, v3 may answer THROTTLING_QUOTA_EXCEEDED (KIP-599).
    """

    @struct
    class Topic:
        @struct
        class Assignment:
            broker_ids: list[Int32]

        name: String
        count: Int32
        assignments: list[Assignment] | None

    topics: list[Topic]
    timeout_ms: Int32
    validate_only: Bool


@api(key=37, versions="0-3", flexible="2+")
class CreatePartitionsResponse:
    """One error code per topic."""

    @struct
    class Topic:
        name: String
        error_code: Int16
        error_message: String | None = field(default=None)

    throttle_time_ms: Int32 = field(default=0)
    results: list[Topic]


@api(key=43, versions="0-2", flexible="2+")
class ElectLeadersRequest:
    """Elect leaders now: the preferred replica (0), or any live one (1, unclean).

    v1 added election_type (KIP-460), v2 flexible encoding. Null topic_partitions mean all partitions.
    """

    @struct
    class Topic:
        topic: String
        partitions: list[Int32]

    election_type: Int8 = field("1+", default=0)
    topic_partitions: list[Topic] | None
    timeout_ms: Int32 = field(default=60_000)


@api(key=43, versions="0-2", flexible="2+")
class ElectLeadersResponse:
    """One error code per partition that needed an election."""

    @struct
    class Topic:
        @struct
        class Partition:
            partition_id: Int32
            error_code: Int16
            error_message: String | None = field(default=None)

        topic: String
        partition_result: list[Partition]

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field("1+", default=0)
    replica_election_results: list[Topic]


@api(key=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsRequest:
    """Move partitions to other replicas, or cancel a move with null `replicas` (KIP-455).

    v1 added allow_replication_factor_change (KIP-860).
    """

    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: Int32
            replicas: list[Int32] | None = field(default=None)

        name: String
        partitions: list[Partition]

    timeout_ms: Int32 = field(default=60_000)
    allow_replication_factor_change: Bool = field("1+", default=True)
    topics: list[Topic]


@api(key=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsResponse:
    """One error code per partition."""

    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: Int32
            error_code: Int16
            error_message: String | None = field(default=None)

        name: String
        partitions: list[Partition]

    throttle_time_ms: Int32 = field(default=0)
    allow_replication_factor_change: Bool = field("1+", default=True, ignorable=True)
    error_code: Int16
    error_message: String | None = field(default=None)
    responses: list[Topic]


@api(key=46, versions="0", flexible="0+")
class ListPartitionReassignmentsRequest:
    """Ask which partitions are on the move; null topics mean all (KIP-455)."""

    @struct
    class Topic:
        name: String
        partition_indexes: list[Int32]

    timeout_ms: Int32 = field(default=60_000)
    topics: list[Topic] | None = field(default=None)


@api(key=46, versions="0", flexible="0+")
class ListPartitionReassignmentsResponse:
    """Replicas of each moving partition, with those being added and removed."""

    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: Int32
            replicas: list[Int32]
            adding_replicas: list[Int32]
            removing_replicas: list[Int32]

        name: String
        partitions: list[Partition]

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    error_message: String | None = field(default=None)
    topics: list[Topic]
