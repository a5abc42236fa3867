"""The records of `__share_group_state` and of `__remote_log_metadata`, as far as they must be shown; Kafka 4.3's."""

from collections.abc import Mapping
from typing import Any

from ottla.protocol.messages.record_types import RecordType
from ottla.protocol.schema import Bool, Bytes, Int8, Int16, Int32, Int64, String, Uuid, field, message, struct


@struct
class StateBatch:
    """Records that a share group was given, and what became of them."""

    first_offset: Int64
    last_offset: Int64
    delivery_state: Int8
    delivery_count: Int16


@message(versions="0")
class ShareSnapshotKey:
    """Key of the state of a partition (type 0)."""

    group_id: String
    topic_id: Uuid
    partition: Int32


@message(versions="0", flexible="0+")
class ShareSnapshotValue:
    """All of that state."""

    snapshot_epoch: Int32
    state_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Int32 = field(tag=0, default=-1)
    create_timestamp: Int64
    write_timestamp: Int64
    state_batches: list[StateBatch]


@message(versions="0")
class ShareUpdateKey:
    """Key of a change of that state (type 1)."""

    group_id: String
    topic_id: Uuid
    partition: Int32


@message(versions="0", flexible="0+")
class ShareUpdateValue:
    """What changed."""

    snapshot_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Int32 = field(tag=0, default=-1)
    state_batches: list[StateBatch]


SHARE_GROUP_STATE: Mapping[int, RecordType] = {
    0: RecordType(0, ShareSnapshotKey, ShareSnapshotValue),
    1: RecordType(1, ShareUpdateKey, ShareUpdateValue),
}


# --- segments that were moved elsewhere -------------------------------------------------------------------------------


@struct
class TopicIdPartition:
    """A partition of a topic."""

    name: String
    id: Uuid
    partition: Int32


@struct
class SegmentId:
    """A segment."""

    topic_id_partition: TopicIdPartition
    id: Uuid


@struct
class SegmentEpoch:
    """The first offset of a leader epoch."""

    leader_epoch: Int32
    offset: Int64


@message(versions="0", flexible="0+")
class RemoteLogSegmentMetadataRecord:
    """A segment that is being moved."""

    remote_log_segment_id: SegmentId
    start_offset: Int64
    end_offset: Int64
    broker_id: Int32
    max_timestamp_ms: Int64
    event_timestamp_ms: Int64
    segment_leader_epochs: list[SegmentEpoch]
    segment_size_in_bytes: Int32
    custom_metadata: Bytes | None
    remote_log_segment_state: Int8
    txn_index_empty: Bool = field(tag=0, default=False)


@message(versions="0", flexible="0+")
class RemoteLogSegmentMetadataUpdateRecord:
    """What changed about it."""

    remote_log_segment_id: SegmentId
    broker_id: Int32
    event_timestamp_ms: Int64
    custom_metadata: Bytes | None
    remote_log_segment_state: Int8


@message(versions="0", flexible="0+")
class RemotePartitionDeleteMetadataRecord:
    """A partition whose segments are being deleted."""

    topic_id_partition: TopicIdPartition
    broker_id: Int32
    event_timestamp_ms: Int64
    remote_partition_delete_state: Int8


REMOTE_LOG_METADATA: dict[int, type[Any]] = {
    0: RemoteLogSegmentMetadataRecord,
    1: RemoteLogSegmentMetadataUpdateRecord,
    2: RemotePartitionDeleteMetadataRecord,
}
