"""What clients ask of committed offsets, as records to write and rows to answer. Nothing here changes anything.

Who may ask is judged elsewhere, by the group; here it is known that they may.
"""

from collections.abc import Callable, Iterator

from ottla.core.errors import ErrorCode
from ottla.groups.offsets import NO_EXPIRY, NO_OFFSET, Committed, Offsets
from ottla.protocol.messages.coordinator_records import OffsetCommitKey, OffsetCommitValue
from ottla.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from ottla.protocol.messages.transactions import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from ottla.replication.machine import Entry

_LONG_MAX = 2**63 - 1
_DEFAULT_RETENTION = -1  # leaves it to the broker
_NO_TIMESTAMP = -1

FetchedTopic = OffsetFetchResponse.Group.Topic
FetchedPartition = OffsetFetchResponse.Group.Topic.Partition


def commit(
    request: OffsetCommitRequest, metadata_max: int, now_ms: int
) -> tuple[OffsetCommitResponse, list[Entry]]:
    """One record for each partition whose metadata is not too long."""
    expire_ms = expire_timestamp(request.retention_time_ms, now_ms)
    entries = []
    response = OffsetCommitResponse(topics=[])
    for topic in request.topics:
        rows = []
        for partition in topic.partitions:
            is_fine = _fits(partition.committed_metadata, metadata_max)
            if is_fine:
                value = OffsetCommitValue(
                    offset=partition.committed_offset,
                    # Records with an expiry have no room for an epoch, nor have the requests that ask for one.
                    leader_epoch=partition.committed_leader_epoch if expire_ms == NO_EXPIRY else -1,
                    metadata=partition.committed_metadata or "",
                    commit_timestamp=now_ms
                    if partition.commit_timestamp == _NO_TIMESTAMP
                    else partition.commit_timestamp,
                    expire_timestamp=expire_ms,
                )
                entries.append(Entry(_key(request.group_id, topic.name, partition.partition_index), value))
            rows.append(
                OffsetCommitResponse.Topic.Partition(
                    partition_index=partition.partition_index, error_code=_code(is_fine)
                )
            )
        response.topics.append(
            OffsetCommitResponse.Topic(name=topic.name, topic_id=topic.topic_id, partitions=rows)
        )
    return response, entries


def commit_in_transaction(
    request: TxnOffsetCommitRequest, metadata_max: int, now_ms: int
) -> tuple[TxnOffsetCommitResponse, list[Entry]]:
    """As `commit`; the records are to be written as part of the producer's transaction."""
    entries = []
    response = TxnOffsetCommitResponse(topics=[])
    for topic in request.topics:
        rows = []
        for partition in topic.partitions:
            is_fine = _fits(partition.committed_metadata, metadata_max)
            if is_fine:
                value = OffsetCommitValue(
                    offset=partition.committed_offset,
                    leader_epoch=partition.committed_leader_epoch,
                    metadata=partition.committed_metadata or "",
                    commit_timestamp=now_ms,
                )
                entries.append(Entry(_key(request.group_id, topic.name, partition.partition_index), value))
            rows.append(
                TxnOffsetCommitResponse.Topic.Partition(
                    partition_index=partition.partition_index, error_code=_code(is_fine)
                )
            )
        response.topics.append(TxnOffsetCommitResponse.Topic(name=topic.name, partitions=rows))
    return response, entries


def expire_timestamp(retention_ms: int, now_ms: int) -> int:
    """When a client that asked for its own retention wants an offset forgotten."""
    if retention_ms == _DEFAULT_RETENTION:
        return NO_EXPIRY
    return min(now_ms + retention_ms, _LONG_MAX)


def fetch(offsets: Offsets, request: OffsetFetchRequest.Group, require_stable: bool) -> list[FetchedTopic]:
    """What is committed for the partitions that are named, -1 where nothing is."""

    def row(topic: str, partition: int) -> FetchedPartition:
        if require_stable and offsets.is_pending(request.group_id, topic, partition):
            return _fetched(partition, None, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        return _fetched(partition, offsets.get(request.group_id, topic, partition))

    if request.topics is None:
        return [
            FetchedTopic(name=name, partitions=[row(name, partition) for partition in partitions])
            for name, partitions in offsets.of_group(request.group_id).items()
        ]
    return [
        FetchedTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[row(topic.name, partition) for partition in topic.partition_indexes],
        )
        for topic in request.topics
    ]


def fetch_nothing(request: OffsetFetchRequest.Group) -> list[FetchedTopic]:
    """The answer for a group that is not there: nothing is committed."""
    return [
        FetchedTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[_fetched(partition, None) for partition in topic.partition_indexes],
        )
        for topic in request.topics or ()
    ]


def delete(
    offsets: Offsets, request: OffsetDeleteRequest, is_subscribed_to: Callable[[str], bool]
) -> tuple[OffsetDeleteResponse, list[Entry]]:
    """Tombstones for what is there, except of topics that the group still reads."""
    entries = {}
    response = OffsetDeleteResponse(error_code=ErrorCode.NONE, topics=[])
    for topic in request.topics:
        is_read = is_subscribed_to(topic.name)
        code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_read else ErrorCode.NONE
        rows = []
        for partition in topic.partitions:
            where = (request.group_id, topic.name, partition.partition_index)
            if not is_read and (offsets.get(*where) is not None or offsets.is_pending(*where)):
                entries[where] = tombstone(*where)
            rows.append(
                OffsetDeleteResponse.Topic.Partition(
                    partition_index=partition.partition_index, error_code=code
                )
            )
        response.topics.append(OffsetDeleteResponse.Topic(name=topic.name, partitions=rows))
    return response, list(entries.values())


def erase_group(offsets: Offsets, group_id: str) -> Iterator[Entry]:
    """Tombstones for all offsets of a group, also for those of open transactions."""
    for topic, partitions in offsets.of_group(group_id).items():
        for partition in partitions:
            yield tombstone(group_id, topic, partition)
    for where in offsets.pending_of_group(group_id):
        if offsets.get(group_id, *where) is None:
            yield tombstone(group_id, *where)


def erase_topic(offsets: Offsets, topic: str) -> Iterator[Entry]:
    """Tombstones for all offsets of a topic, also for those of open transactions."""
    for group_id, partition in offsets.of_topic(topic):
        yield tombstone(group_id, topic, partition)


def tombstone(group_id: str, topic: str, partition: int) -> Entry:
    """The record that takes an offset back."""
    return Entry(_key(group_id, topic, partition))


def _key(group_id: str, topic: str, partition: int) -> OffsetCommitKey:
    return OffsetCommitKey(group=group_id, topic=topic, partition=partition)


def _fits(metadata: str | None, metadata_max: int) -> bool:
    """Whether the note is short enough. Kafka counts as Java does, in units of UTF-16."""
    if not metadata or len(metadata) * 2 <= metadata_max:
        return True
    return len(metadata) + sum(char > "\uffff" for char in metadata) <= metadata_max


def _code(is_fine: bool) -> ErrorCode:
    return ErrorCode.NONE if is_fine else ErrorCode.OFFSET_METADATA_TOO_LARGE


def _fetched(
    partition: int, committed: Committed | None, code: ErrorCode = ErrorCode.NONE
) -> FetchedPartition:
    if committed is None:
        return FetchedPartition(
            partition_index=partition, committed_offset=NO_OFFSET, metadata="", error_code=code
        )
    return FetchedPartition(
        partition_index=partition,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        error_code=code,
    )
