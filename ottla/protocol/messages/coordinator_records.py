"""Records of the internal topics: `__consumer_offsets` and `__transaction_state`.

Keys and values travel with an int16 in front: a key's record type (`record_types.py`), a value's version.
A null value is a tombstone.
"""

from ottla.protocol.schema import (
    NULL_UUID,
    Bytes,
    Int8,
    Int16,
    Int32,
    Int64,
    String,
    Uuid,
    field,
    message,
    struct,
)


@message(versions="0")
class LegacyOffsetCommitKey:
    """Key of a committed offset as the first brokers wrote it (type 0). Its values are those of
    `OffsetCommitKey`.
    """

    group: String
    topic: String
    partition: Int32


@message(versions="0")
class OffsetCommitKey:
    """Key of a committed offset (type 1)."""

    group: String
    topic: String
    partition: Int32


@message(versions="0-4", flexible="4+")
class OffsetCommitValue:
    """A committed offset.

    v1 carried an expiry, v2 left it to the broker, v3 added the leader epoch, v4 is flexible and may name
    the topic id.
    """

    offset: Int64
    leader_epoch: Int32 = field("3+", default=-1, ignorable=True)
    metadata: String
    commit_timestamp: Int64
    expire_timestamp: Int64 = field("1", default=-1, ignorable=True)
    topic_id: Uuid = field("4+", tag=0, default=NULL_UUID, ignorable=True)


@message(versions="0")
class GroupMetadataKey:
    """Key of a classic group (type 2)."""

    group: String


@message(versions="0-4", flexible="4+")
class GroupMetadataValue:
    """A classic group: generation, protocol, leader and members.

    v1 added rebalance timeouts, v2 the time of the last state change, v3 static members, v4 is flexible.
    """

    @struct
    class Member:
        member_id: String
        group_instance_id: String | None = field("3+", default=None, ignorable=True)
        client_id: String
        client_host: String
        rebalance_timeout: Int32 = field("1+", default=-1, ignorable=True)
        session_timeout: Int32
        subscription: Bytes
        assignment: Bytes

    protocol_type: String
    generation: Int32
    protocol: String | None
    leader: String | None
    current_state_timestamp: Int64 = field("2+", default=-1, ignorable=True)
    members: list[Member]


@message(versions="0")
class ConsumerGroupMetadataKey:
    """Key of a KIP-848 group (type 3)."""

    group_id: String


@message(versions="0", flexible="0+")
class ConsumerGroupMetadataValue:
    """The epoch of a KIP-848 group and the hash of the topics it subscribes to."""

    epoch: Int32
    metadata_hash: Int64 = field(tag=0, default=0)


@message(versions="0")
class ConsumerGroupPartitionMetadataKey:
    """Key of the partitions a KIP-848 group knew (type 4); Kafka 4.1 and later write tombstones only."""

    group_id: String


@message(versions="0", flexible="0+")
class ConsumerGroupPartitionMetadataValue:
    """Topics with their partitions and racks, as the group last saw them."""

    @struct
    class Topic:
        @struct
        class Partition:
            partition: Int32
            racks: list[String]

        topic_id: Uuid
        topic_name: String
        num_partitions: Int32
        partition_metadata: list[Partition]

    topics: list[Topic]


@message(versions="0")
class ConsumerGroupMemberMetadataKey:
    """Key of a KIP-848 member (type 5)."""

    group_id: String
    member_id: String


@message(versions="0", flexible="0+")
class ConsumerGroupMemberMetadataValue:
    """What a KIP-848 member said about itself.

    `classic_member_metadata` is set for members that still speak the classic protocol, null for the others.
    Whatever the specification says, its default is not null: in Kafka's bytes a null is always written out.
    """

    @struct
    class ClassicMember:
        @struct
        class Protocol:
            name: String
            metadata: Bytes

        session_timeout_ms: Int32
        supported_protocols: list[Protocol]

    instance_id: String | None
    rack_id: String | None
    client_id: String
    client_host: String
    subscribed_topic_names: list[String]
    subscribed_topic_regex: String | None
    rebalance_timeout_ms: Int32 = field(default=-1)
    server_assignor: String | None
    classic_member_metadata: ClassicMember | None = field(
        tag=0, nullable="0+", default=ClassicMember(session_timeout_ms=0, supported_protocols=[])
    )


@message(versions="0")
class ConsumerGroupTargetAssignmentMetadataKey:
    """Key of the target assignment of a KIP-848 group (type 6)."""

    group_id: String


@message(versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMetadataValue:
    """The group epoch for which the target assignment was computed."""

    assignment_epoch: Int32
    assignment_timestamp: Int64 = field(tag=0, default=0)


@message(versions="0")
class ConsumerGroupTargetAssignmentMemberKey:
    """Key of a member of the target assignment (type 7)."""

    group_id: String
    member_id: String


@message(versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMemberValue:
    """The partitions a member should end up with."""

    @struct
    class Topic:
        topic_id: Uuid
        partitions: list[Int32]

    topic_partitions: list[Topic]


@message(versions="0")
class ConsumerGroupCurrentMemberAssignmentKey:
    """Key of the current assignment of a member (type 8)."""

    group_id: String
    member_id: String


@struct
class AssignedTopic:
    """A topic by id, with some of its partitions and the epochs in which they were assigned.

    Whatever the specification says, absent epochs are empty ones and not null.
    """

    topic_id: Uuid
    partitions: list[Int32]
    assignment_epochs: list[Int32] | None = field(tag=0, default=[])


@message(versions="0", flexible="0+")
class ConsumerGroupCurrentMemberAssignmentValue:
    """The partitions a member has now and those it must give back first."""

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    assigned_partitions: list[AssignedTopic]
    partitions_pending_revocation: list[AssignedTopic]


@message(versions="0")
class ConsumerGroupRegularExpressionKey:
    """Key of a resolved subscription pattern (type 16)."""

    group_id: String
    regular_expression: String


@message(versions="0", flexible="0+")
class ConsumerGroupRegularExpressionValue:
    """The topics that a pattern matched, and when it was looked up."""

    topics: list[String]
    version: Int64
    timestamp: Int64


@message(versions="0")
class TransactionLogKey:
    """Key of a transaction (type 0 in its own topic)."""

    transactional_id: String


@message(versions="0-1", flexible="1+")
class TransactionLogValue:
    """State of a transactional id.

    `transaction_status`: Empty (0), Ongoing (1), PrepareCommit (2), PrepareAbort (3), CompleteCommit (4),
    CompleteAbort (5), Dead (6), PrepareEpochFence (7). v1 is flexible and tags what KIP-890 needs.
    """

    @struct
    class Topic:
        topic: String
        partition_ids: list[Int32]

    producer_id: Int64
    previous_producer_id: Int64 = field("1+", tag=0, default=-1)
    next_producer_id: Int64 = field("1+", tag=1, default=-1)
    producer_epoch: Int16
    next_producer_epoch: Int16 = field("1+", tag=3, default=-1)
    transaction_timeout_ms: Int32
    transaction_status: Int8
    transaction_partitions: list[Topic] | None
    transaction_last_update_timestamp_ms: Int64
    transaction_start_timestamp_ms: Int64
    client_transaction_version: Int16 = field("1+", tag=2, default=0)
