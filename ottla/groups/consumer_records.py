"""The records of a KIP-848 group, as entries for the log."""

from collections.abc import Iterable

from ottla.groups.consumer_member import Member, Partitions, current_value, listed, metadata_value
from ottla.protocol.messages.coordinator_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from ottla.replication.machine import Entry

_Topic = ConsumerGroupTargetAssignmentMemberValue.Topic


def member_entry(group_id: str, member: Member) -> Entry:
    """What a member said of itself."""
    key = ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.id)
    return Entry(key, metadata_value(member))


def current_entry(group_id: str, member: Member) -> Entry:
    """What a member has."""
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.id)
    return Entry(key, current_value(member))


def target_entry(group_id: str, member_id: str, target: Partitions) -> Entry:
    """What a member shall have."""
    key = ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    topics = [_Topic(topic_id=topic_id, partitions=indexes) for topic_id, indexes in listed(target)]
    return Entry(key, ConsumerGroupTargetAssignmentMemberValue(topic_partitions=topics))


def target_epoch_entry(group_id: str, epoch: int, timestamp_ms: int) -> Entry:
    """Which epoch of the group the targets are for."""
    return Entry(
        ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id),
        ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms),
    )


def epoch_entry(group_id: str, epoch: int, metadata_hash: int) -> Entry:
    """The epoch of the group, and the topics it was in."""
    return Entry(
        ConsumerGroupMetadataKey(group_id=group_id),
        ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash),
    )


def regex_entry(group_id: str, regex: str, topics: Iterable[str], version: int, timestamp_ms: int) -> Entry:
    """Which topics a pattern stands for."""
    return Entry(
        ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex),
        ConsumerGroupRegularExpressionValue(topics=sorted(topics), version=version, timestamp=timestamp_ms),
    )


def no_regex_entry(group_id: str, regex: str) -> Entry:
    """Nobody subscribes by this pattern any more."""
    return Entry(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex))


def no_partition_metadata_entry(group_id: str) -> Entry:
    """What older coordinators kept instead of the hash goes away."""
    return Entry(ConsumerGroupPartitionMetadataKey(group_id=group_id))


def no_member_entries(group_id: str, member_id: str) -> list[Entry]:
    """What erases a member: first what it has, then what it should have, then itself."""
    return [
        Entry(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)),
        Entry(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)),
        Entry(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id)),
    ]


def no_group_entries(group_id: str, member_ids: Iterable[str], regexes: Iterable[str]) -> list[Entry]:
    """What erases a group. Kafka's loader insists on this order."""
    ids = list(member_ids)
    return [
        *(Entry(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=one)) for one in ids),
        *(Entry(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=one)) for one in ids),
        Entry(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id)),
        *(Entry(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=one)) for one in ids),
        *(no_regex_entry(group_id, regex) for regex in regexes),
        Entry(ConsumerGroupMetadataKey(group_id=group_id)),
    ]
