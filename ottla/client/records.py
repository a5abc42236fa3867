"""What producers and consumers hand out: records, and where they came to lie."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from ottla.core.ids import TopicPartition
from ottla.records.record import Header


class ProducerRecord(NamedTuple):
    """A record as the application hands it in, and as interceptors see it: before the serializers."""

    topic: str
    value: Any = None
    key: Any = None
    headers: Any = None
    partition: int | None = None
    timestamp_ms: int | None = None


class RecordMetadata(NamedTuple):
    """Where a record came to lie. The offset is -1 if the broker was not asked (`acks=0`), or wrote it long ago."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    """Milliseconds since 1970: the record's own, or the broker's if the topic has `LogAppendTime`."""
    log_start_offset: int = -1
    serialized_key_size: int = -1
    serialized_value_size: int = -1

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class ConsumerRecord(NamedTuple):
    """A record that was read. `timestamp_type` is 0 for the producer's time, 1 for the broker's."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: Any
    value: Any
    headers: tuple[Header, ...] = ()
    timestamp_type: int = 0
    leader_epoch: int = -1
    serialized_key_size: int = -1
    serialized_value_size: int = -1

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class OffsetAndMetadata(NamedTuple):
    """What is committed for a partition: the offset of the next record to read, and a note."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class OffsetAndTimestamp(NamedTuple):
    """The first record that is not older than was asked."""

    offset: int
    timestamp: int
    leader_epoch: int = -1


class GroupMetadata(NamedTuple):
    """Who a consumer is in its group: for `send_offsets_to_transaction`, which fences members that were replaced."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


Offsets = Mapping[TopicPartition, OffsetAndMetadata | int]
"""Offsets to commit: with a note, or bare."""


def with_notes(offsets: Offsets) -> dict[TopicPartition, OffsetAndMetadata]:
    """Bare offsets as those with an empty note."""
    return {
        partition: OffsetAndMetadata(each) if isinstance(each, int) else each
        for partition, each in offsets.items()
    }
