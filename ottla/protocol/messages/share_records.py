"""Records of share groups in `__consumer_offsets` (KIP-932).

Keys and values travel with an int16 in front: a key's record type (`record_types.py`), a value's version.
A null value is a tombstone.
"""

from ottla.protocol.schema import Int8, Int32, Int64, String, Uuid, field, message, struct


@message(versions="0")
class ShareGroupMemberMetadataKey:
    """Key of a share group member (type 10)."""

    group_id: String
    member_id: String


@message(versions="0", flexible="0+")
class ShareGroupMemberMetadataValue:
    """What a share group member said about itself."""

    rack_id: String | None
    client_id: String
    client_host: String
    subscribed_topic_names: list[String]


@message(versions="0")
class ShareGroupMetadataKey:
    """Key of a share group (type 11)."""

    group_id: String


@message(versions="0", flexible="0+")
class ShareGroupMetadataValue:
    """The epoch of a share group and the hash of the topics it subscribes to."""

    epoch: Int32
    metadata_hash: Int64


@message(versions="0")
class ShareGroupTargetAssignmentMetadataKey:
    """Key of the target assignment of a share group (type 12)."""

    group_id: String


@message(versions="0", flexible="0+")
class ShareGroupTargetAssignmentMetadataValue:
    """The group epoch for which the target assignment was computed."""

    assignment_epoch: Int32
    assignment_timestamp: Int64 = field(tag=0, default=0)


@message(versions="0")
class ShareGroupTargetAssignmentMemberKey:
    """Key of a member of the target assignment (type 13)."""

    group_id: String
    member_id: String


@message(versions="0", flexible="0+")
class ShareGroupTargetAssignmentMemberValue:
    """The partitions a member should end up with."""

    @struct
    class Topic:
        topic_id: Uuid
        partitions: list[Int32]

    topic_partitions: list[Topic]


@message(versions="0")
class ShareGroupCurrentMemberAssignmentKey:
    """Key of the current assignment of a member (type 14)."""

    group_id: String
    member_id: String


@message(versions="0", flexible="0+")
class ShareGroupCurrentMemberAssignmentValue:
    """The partitions a member has now."""

    @struct
    class Topic:
        topic_id: Uuid
        partitions: list[Int32]

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    assigned_partitions: list[Topic]


@message(versions="0")
class ShareGroupStatePartitionMetadataKey:
    """Key of the share partitions of a group (type 15)."""

    group_id: String


@struct
class ShareTopicPartitions:
    """A topic, by id and name, with some of its partitions."""

    topic_id: Uuid
    topic_name: String
    partitions: list[Int32]


@message(versions="0", flexible="0+")
class ShareGroupStatePartitionMetadataValue:
    """Share partitions whose state is being set up, is set up, or is being deleted."""

    @struct
    class ShareTopic:
        topic_id: Uuid
        topic_name: String

    initializing_topics: list[ShareTopicPartitions]
    initialized_topics: list[ShareTopicPartitions]
    deleting_topics: list[ShareTopic]
