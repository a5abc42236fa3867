"""What the cluster looks like and what it speaks (keys 3, 18, 60, 75)."""

from ottla.protocol.schema import NULL_UUID, Bool, Int8, Int16, Int32, Int64, String, Uuid, api, field, struct


@api(key=3, versions="0-13", flexible="9+")
class MetadataRequest:
    """Ask which topics exist, who leads their partitions and where the brokers are.

    In v0 an empty list means all topics, since v1 null does. v4 added allow_auto_topic_creation, v8
    authorized operations, v9 flexible encoding, v10 topic ids (honoured since v12), v11 moved the
    cluster's authorized operations to DescribeCluster.
    """

    @struct
    class Topic:
        topic_id: Uuid = field("10+", default=NULL_UUID, ignorable=True)
        name: String | None = field(nullable="10+")

    topics: list[Topic] | None = field(nullable="1+")
    allow_auto_topic_creation: Bool = field("4+", default=True)
    include_cluster_authorized_operations: Bool = field("8-10", default=False)
    include_topic_authorized_operations: Bool = field("8+", default=False)


@api(key=3, versions="0-13", flexible="9+")
class MetadataResponse:
    """The cluster as this broker sees it.

    v13 added the error code of the whole reply.
    """

    @struct
    class Broker:
        node_id: Int32
        host: String
        port: Int32
        rack: String | None = field("1+", default=None, ignorable=True)

    @struct
    class Topic:
        @struct
        class Partition:
            error_code: Int16
            partition_index: Int32
            leader_id: Int32
            leader_epoch: Int32 = field("7+", default=-1, ignorable=True)
            replica_nodes: list[Int32]
            isr_nodes: list[Int32]
            offline_replicas: list[Int32] = field("5+", default=[], ignorable=True)

        error_code: Int16
        name: String | None = field(nullable="12+")
        topic_id: Uuid = field("10+", default=NULL_UUID, ignorable=True)
        is_internal: Bool = field("1+", default=False, ignorable=True)
        partitions: list[Partition]
        topic_authorized_operations: Int32 = field("8+", default=-(1 << 31))

    throttle_time_ms: Int32 = field("3+", default=0, ignorable=True)
    brokers: list[Broker]
    cluster_id: String | None = field("2+", default=None, ignorable=True)
    controller_id: Int32 = field("1+", default=-1, ignorable=True)
    topics: list[Topic]
    cluster_authorized_operations: Int32 = field("8-10", default=-(1 << 31))
    error_code: Int16 = field("13+", default=0, ignorable=True)


@api(key=18, versions="0-4", flexible="3+")
class ApiVersionsRequest:
    """The first request of a connection: what does this broker speak?

    v3 is the first flexible version and names the client's software; with v4 a feature may start at level 0.
    """

    client_software_name: String = field("3+", default="", ignorable=True)
    client_software_version: String = field("3+", default="", ignorable=True)


@api(key=18, versions="0-4", flexible="3+")
class ApiVersionsResponse:
    """The API table, and since v3 the cluster's features.

    Always framed by response header v0, and sent in v0 form when the requested version is unknown
    (KIP-511).
    """

    @struct
    class ApiVersion:
        api_key: Int16
        min_version: Int16
        max_version: Int16

    @struct
    class SupportedFeature:
        name: String
        min_version: Int16
        max_version: Int16

    @struct
    class FinalizedFeature:
        name: String
        max_version_level: Int16
        min_version_level: Int16

    error_code: Int16
    api_keys: list[ApiVersion]
    throttle_time_ms: Int32 = field("1+", default=0, ignorable=True)
    supported_features: list[SupportedFeature] = field("3+", tag=0, default=[], ignorable=True)
    finalized_features_epoch: Int64 = field("3+", tag=1, default=-1, ignorable=True)
    finalized_features: list[FinalizedFeature] = field("3+", tag=2, default=[], ignorable=True)
    zk_migration_ready: Bool = field("3+", tag=3, default=False, ignorable=True)


@api(key=60, versions="0-2", flexible="0+")
class DescribeClusterRequest:
    """Ask for the members of the cluster, brokers or controllers.

    v1 added endpoint_type (KIP-919), v2 include_fenced_brokers (KIP-1073).
    """

    include_cluster_authorized_operations: Bool
    endpoint_type: Int8 = field("1+", default=1)
    include_fenced_brokers: Bool = field("2+", default=False)


@api(key=60, versions="0-2", flexible="0+")
class DescribeClusterResponse:
    """Endpoints, controller and cluster id."""

    @struct
    class Broker:
        broker_id: Int32
        host: String
        port: Int32
        rack: String | None = field(default=None)
        is_fenced: Bool = field("2+", default=False)

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    error_message: String | None = field(default=None)
    endpoint_type: Int8 = field("1+", default=1)
    cluster_id: String
    controller_id: Int32 = field(default=-1)
    brokers: list[Broker]
    cluster_authorized_operations: Int32 = field(default=-(1 << 31))


@struct
class Cursor:
    """The partition at which a page starts."""

    topic_name: String
    partition_index: Int32


@api(key=75, versions="0", flexible="0+")
class DescribeTopicPartitionsRequest:
    """Page through the partitions of many topics (KIP-966)."""

    @struct
    class Topic:
        name: String

    topics: list[Topic]
    response_partition_limit: Int32 = field(default=2000)
    cursor: Cursor | None = field(default=None)


@api(key=75, versions="0", flexible="0+")
class DescribeTopicPartitionsResponse:
    """One page; `next_cursor` is where the next one starts, null on the last."""

    @struct
    class Topic:
        @struct
        class Partition:
            error_code: Int16
            partition_index: Int32
            leader_id: Int32
            leader_epoch: Int32 = field(default=-1)
            replica_nodes: list[Int32]
            isr_nodes: list[Int32]
            eligible_leader_replicas: list[Int32] | None = field(default=None)
            last_known_elr: list[Int32] | None = field(default=None)
            offline_replicas: list[Int32]

        error_code: Int16
        name: String | None
        topic_id: Uuid
        is_internal: Bool = field(default=False)
        partitions: list[Partition]
        topic_authorized_operations: Int32 = field(default=-(1 << 31))

    throttle_time_ms: Int32 = field(default=0)
    topics: list[Topic]
    next_cursor: Cursor | None = field(default=None)
