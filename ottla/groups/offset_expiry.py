"""Which offsets nobody will ask for again (KIP-211). A policy: it says what is past, its caller writes the tombstones.

Offsets of a topic that a live group reads are never past, nor is one that a transaction has yet to decide about.
"""

from collections.abc import Iterator

from ottla.core.ids import TopicPartition
from ottla.groups.group import Group
from ottla.groups.offsets import NO_EXPIRY, Committed, Offsets


def expired(offsets: Offsets, group: Group, retention_ms: int, now_ms: int) -> Iterator[TopicPartition]:
    """The partitions whose committed offsets are past."""
    if not _knows_what_it_reads(group):
        return
    empty_since_ms = group.empty_since_ms()
    for topic, partitions in offsets.of_group(group.group_id).items():
        if group.is_subscribed_to(topic):
            continue
        for partition, committed in partitions.items():
            is_past = _is_past(committed, empty_since_ms, retention_ms, now_ms)
            if is_past and not offsets.is_pending(group.group_id, topic, partition):
                yield TopicPartition(topic, partition)


def _knows_what_it_reads(group: Group) -> bool:
    """Members of other protocols than the consumers' keep their subscriptions to themselves, and a rebalance may bring
    new ones: then everything might be read."""
    if group.is_empty or group.type_name != "Classic":
        return True
    return group.protocol_type == "consumer" and group.state_name == "Stable"


def _is_past(committed: Committed, empty_since_ms: int | None, retention_ms: int, now_ms: int) -> bool:
    if committed.expire_timestamp != NO_EXPIRY:
        return now_ms >= committed.expire_timestamp
    since_ms = committed.commit_timestamp if empty_since_ms is None else empty_since_ms
    return now_ms - since_ms >= retention_ms
