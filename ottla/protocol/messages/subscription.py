"""The blobs that consumers of a classic group exchange through the broker, which does not read them.

Both travel with their version, an int16, in front.
"""

from ottla.protocol.schema import Bytes, Int32, String, field, message, struct


@struct
class TopicPartitions:
    """A topic with some of its partitions."""

    topic: String
    partitions: list[Int32]


@message(versions="0-3")
class ConsumerProtocolSubscription:
    """What a consumer says when it joins.

    v1 added the partitions it owns, v2 the generation in which it owned them, v3 its rack.
    """

    topics: list[String]
    user_data: Bytes | None = field(default=None)
    owned_partitions: list[TopicPartitions] = field("1+", default=[], ignorable=True)
    generation_id: Int32 = field("2+", default=-1, ignorable=True)
    rack_id: String | None = field("3+", default=None, ignorable=True)


@message(versions="0-3")
class ConsumerProtocolAssignment:
    """The partitions that the leader gave to a member. All versions look the same."""

    assigned_partitions: list[TopicPartitions]
    user_data: Bytes | None = field(default=None)
