"""KIP-848 consumer groups: heartbeat and describe (keys 68, 69)."""

from ottla.protocol.schema import Bool, Int8, Int16, Int32, String, Uuid, api, field, struct


@struct
class TopicPartitions:
    """A topic by id, with some of its partitions."""

    topic_id: Uuid
    partitions: list[Int32]


@api(key=68, versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatRequest:
    """The one request of a KIP-848 member: join, stay, change the subscription, report and leave.

    Fields other than ids and epoch are sent when they changed, and null otherwise. Epoch 0 joins, -1
    leaves, -2 leaves as a static member that means to come back.

    v1 added subscribed_topic_regex and ids made by the member (KIP-1082).
    """

    group_id: String
    member_id: String
    member_epoch: Int32
    instance_id: String | None = field(default=None)
    rack_id: String | None = field(default=None)
    rebalance_timeout_ms: Int32 = field(default=-1)
    subscribed_topic_names: list[String] | None = field(default=None)
    subscribed_topic_regex: String | None = field("1+", default=None)
    server_assignor: String | None = field(default=None)
    topic_partitions: list[TopicPartitions] | None = field(default=None)


@api(key=68, versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatResponse:
    """The member's epoch, and its assignment when that changed."""

    @struct
    class Assignment:
        topic_partitions: list[TopicPartitions]

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    error_message: String | None = field(default=None)
    member_id: String | None = field(default=None)
    member_epoch: Int32
    heartbeat_interval_ms: Int32
    assignment: Assignment | None = field(default=None)


@api(key=69, versions="0-1", flexible="0+")
class ConsumerGroupDescribeRequest:
    """Ask for the state of KIP-848 groups.

    v1 added the member type to the reply (KIP-1099).
    """

    group_ids: list[String]
    include_authorized_operations: Bool


@struct
class DescribedTopic:
    """A topic, by id and name, with some of its partitions."""

    topic_id: Uuid
    topic_name: String
    partitions: list[Int32]


@struct
class DescribedAssignment:
    """Partitions of one member, current or target."""

    topic_partitions: list[DescribedTopic]


@api(key=69, versions="0-1", flexible="0+")
class ConsumerGroupDescribeResponse:
    """Groups with current and target assignment of each member."""

    @struct
    class Group:
        @struct
        class Member:
            member_id: String
            instance_id: String | None = field(default=None)
            rack_id: String | None = field(default=None)
            member_epoch: Int32
            client_id: String
            client_host: String
            subscribed_topic_names: list[String]
            subscribed_topic_regex: String | None = field(default=None)
            assignment: DescribedAssignment
            target_assignment: DescribedAssignment
            member_type: Int8 = field("1+", default=-1, ignorable=True)

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
