"""Share groups: membership, fetching and acknowledging (keys 76-79; KIP-932)."""

from ottla.protocol.schema import Bool, Int8, Int16, Int32, Int64, Records, String, Uuid, api, field, struct


@api(key=76, versions="1", flexible="0+")
class ShareGroupHeartbeatRequest:
    """The one membership request of a share group (KIP-932). Epoch 0 joins, -1 leaves.

    v0 was an early-access form that nobody speaks any more.
    """

    group_id: String
    member_id: String
    member_epoch: Int32
    rack_id: String | None = field(default=None)
    subscribed_topic_names: list[String] | None = field(default=None)


@api(key=76, versions="1", flexible="0+")
class ShareGroupHeartbeatResponse:
    """The member's epoch, and its assignment when that changed."""

    @struct
    class Assignment:
        @struct
        class Topic:
            topic_id: Uuid
            partitions: list[Int32]

        topic_partitions: list[Topic]

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    error_message: String | None = field(default=None)
    member_id: String | None = field(default=None)
    member_epoch: Int32
    heartbeat_interval_ms: Int32
    assignment: Assignment | None = field(default=None)


@api(key=77, versions="1", flexible="0+")
class ShareGroupDescribeRequest:
    """Ask for the state of share groups (KIP-932).

    v0 was an early-access form that nobody speaks any more.
    """

    group_ids: list[String]
    include_authorized_operations: Bool


@api(key=77, versions="1", flexible="0+")
class ShareGroupDescribeResponse:
    """Groups with their members and assignments."""

    @struct
    class Group:
        @struct
        class Member:
            @struct
            class Assignment:
                @struct
                class Topic:
                    topic_id: Uuid
                    topic_name: String
                    partitions: list[Int32]

                topic_partitions: list[Topic]

            member_id: String
            rack_id: String | None = field(default=None)
            member_epoch: Int32
            client_id: String
            client_host: String
            subscribed_topic_names: list[String]
            assignment: Assignment

        error_code: Int16
        error_message: String | None = field(default=None)
        group_id: String
        group_state: String
        group_epoch: Int32
        assignment_epoch: Int32
        assignor_name: String
        members: list[Member]
        authorized_operations: Int32 = field(default=-(1 << 31))

    throttle_time_ms: Int32 = field(default=0)
    groups: list[Group]


@struct
class AcknowledgementBatch:
    """What became of a run of offsets: one type for all of them, or one for each.

    Types: gap (0), accept (1), release (2), reject (3), renew (4, since v2).
    """

    first_offset: Int64
    last_offset: Int64
    acknowledge_types: list[Int8]


@struct
class Leader:
    """Who leads the partition, for a client whose metadata is stale."""

    leader_id: Int32
    leader_epoch: Int32


@struct
class NodeEndpoint:
    """Where a leader named in the reply can be reached."""

    node_id: Int32
    host: String
    port: Int32
    rack: String | None = field(default=None)


@api(key=78, versions="1-2", flexible="0+")
class ShareFetchRequest:
    """Acquire records for a share group, and acknowledge earlier ones on the way (KIP-932).

    v2 added share_acquire_mode and renewals (KIP-1206, KIP-1222).
    """

    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: Int32
            acknowledgement_batches: list[AcknowledgementBatch]

        topic_id: Uuid
        partitions: list[Partition]

    @struct
    class ForgottenTopic:
        topic_id: Uuid
        partitions: list[Int32]

    group_id: String | None = field(default=None)
    member_id: String | None
    share_session_epoch: Int32
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32 = field(default=(1 << 31) - 1)
    max_records: Int32
    batch_size: Int32
    share_acquire_mode: Int8 = field("2+", default=0, ignorable=True)
    is_renew_ack: Bool = field("2+", default=False)
    topics: list[Topic]
    forgotten_topics_data: list[ForgottenTopic]


@api(key=78, versions="1-2", flexible="0+")
class ShareFetchResponse:
    """Batches, and which of their offsets this member has acquired."""

    @struct
    class Topic:
        @struct
        class Partition:
            @struct
            class AcquiredRecords:
                first_offset: Int64
                last_offset: Int64
                delivery_count: Int16

            partition_index: Int32
            error_code: Int16
            error_message: String | None = field(default=None)
            acknowledge_error_code: Int16
            acknowledge_error_message: String | None = field(default=None)
            current_leader: Leader
            records: Records
            acquired_records: list[AcquiredRecords]

        topic_id: Uuid
        partitions: list[Partition]

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    error_message: String | None = field(default=None)
    acquisition_lock_timeout_ms: Int32
    responses: list[Topic]
    node_endpoints: list[NodeEndpoint]


@api(key=79, versions="1-2", flexible="0+")
class ShareAcknowledgeRequest:
    """Acknowledge records without fetching more (KIP-932).

    v2 added renewals (KIP-1222).
    """

    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: Int32
            acknowledgement_batches: list[AcknowledgementBatch]

        topic_id: Uuid
        partitions: list[Partition]

    group_id: String | None = field(default=None)
    member_id: String | None
    share_session_epoch: Int32
    is_renew_ack: Bool = field("2+", default=False)
    topics: list[Topic]


@api(key=79, versions="1-2", flexible="0+")
class ShareAcknowledgeResponse:
    """One error code per partition."""

    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: Int32
            error_code: Int16
            error_message: String | None = field(default=None)
            current_leader: Leader

        topic_id: Uuid
        partitions: list[Partition]

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    error_message: String | None = field(default=None)
    acquisition_lock_timeout_ms: Int32 = field("2+", default=0, ignorable=True)
    responses: list[Topic]
    node_endpoints: list[NodeEndpoint]
