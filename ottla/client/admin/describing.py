"""Descriptions of topics: in pages where the broker offers that (KIP-966), from the metadata otherwise."""

import uuid
from collections.abc import Iterable

from ottla.client.admin.operations import operations_of
from ottla.client.admin.routes import Answers, Routes, check, failure
from ottla.client.admin.topic_values import PartitionDescription, TopicDescription
from ottla.client.cluster import unknown_topic
from ottla.client.deadline import Deadline
from ottla.client.errors import ProtocolMismatch, UnsupportedVersionError
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import NULL_ID, format_id
from ottla.protocol.messages.metadata import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    MetadataRequest,
    MetadataResponse,
)

PAGE_PARTITIONS = 2000
_ALL_SINCE, _CREATION_SINCE, _IDS_SINCE = 1, 4, 12  # Metadata


async def described(
    routes: Routes,
    topics: Iterable[str | uuid.UUID],
    include_authorized_operations: bool,
    deadline: Deadline,
    page_partitions: int = PAGE_PARTITIONS,
) -> Answers[str | uuid.UUID, TopicDescription]:
    """Each topic, or why not."""

    async def ask(keys: list[str | uuid.UUID]) -> Answers[str | uuid.UUID, TopicDescription]:
        names = [key for key in keys if isinstance(key, str)]
        ids = [key for key in keys if isinstance(key, uuid.UUID)]
        found: Answers[str | uuid.UUID, TopicDescription] = {}
        if names:
            by_name = await _by_name(routes, names, include_authorized_operations, page_partitions)
            found.update(by_name.items())
        if ids:
            by_id = await _by_id(routes, ids, include_authorized_operations)
            found.update(by_id.items())
        return found

    return await routes.settle(topics, ask, deadline, "the topics were not described")


async def described_all(
    routes: Routes,
    include_authorized_operations: bool,
    deadline: Deadline,
    page_partitions: int = PAGE_PARTITIONS,
) -> dict[str, TopicDescription]:
    """All that there are: what vanishes meanwhile is left out."""

    async def ask() -> dict[str, TopicDescription]:
        found = await _by_name(routes, None, include_authorized_operations, page_partitions)
        return {name: each for name, each in found.items() if isinstance(each, TopicDescription)}

    return await routes.patient(ask, deadline, "the topics were not described")


async def _by_name(
    routes: Routes, names: list[str] | None, with_operations: bool, page_partitions: int
) -> Answers[str, TopicDescription]:
    """`names` None is all."""
    try:
        await routes.version(DescribeTopicPartitionsRequest)
    except UnsupportedVersionError:
        return await _from_metadata(routes, names, with_operations)
    return await _in_pages(routes, names, with_operations, page_partitions)


# --- in pages -----------------------------------------------------------------------------------------------------


async def _in_pages(
    routes: Routes, names: list[str] | None, with_operations: bool, page_partitions: int
) -> Answers[str, TopicDescription]:
    kind = DescribeTopicPartitionsRequest
    request = kind(
        topics=[kind.Topic(name=name) for name in sorted(names or [])],
        response_partition_limit=page_partitions,
    )
    found: Answers[str, TopicDescription] = {}
    while True:
        answer: DescribeTopicPartitionsResponse = await routes.cluster.ask_any(request)
        for row in answer.topics:
            if row.name is not None:
                found[row.name] = _joined(found.get(row.name), row, with_operations)
        before, request.cursor = request.cursor, answer.next_cursor
        if request.cursor is None:
            return found
        if before is not None and _place(request.cursor) <= _place(before):
            raise ProtocolMismatch(f"the pages of topics do not go on after {before.topic_name}")


def _place(cursor: Cursor) -> tuple[str, int]:
    return cursor.topic_name, cursor.partition_index


def _joined(
    before: TopicDescription | KafkaError | None,
    row: DescribeTopicPartitionsResponse.Topic,
    with_operations: bool,
) -> TopicDescription | KafkaError:
    """What the pages so far say, and this one."""
    if row.error_code:
        return failure(row.error_code, f"topic {row.name}")
    partitions = {each.partition_index: _paged_partition(each) for each in row.partitions}
    if isinstance(before, TopicDescription) and before.topic_id == row.topic_id:
        partitions = {each.partition: each for each in before.partitions} | partitions
    operations = operations_of(row.topic_authorized_operations) if with_operations else None
    ordered = tuple(partitions[number] for number in sorted(partitions))
    return TopicDescription(row.name or "", row.topic_id, row.is_internal, ordered, operations)


def _paged_partition(row: DescribeTopicPartitionsResponse.Topic.Partition) -> PartitionDescription:
    eligible, last_known = row.eligible_leader_replicas, row.last_known_elr
    return PartitionDescription(
        row.partition_index,
        row.leader_id,
        row.leader_epoch,
        tuple(row.replica_nodes),
        tuple(row.isr_nodes),
        tuple(row.offline_replicas),
        None if eligible is None else tuple(eligible),
        None if last_known is None else tuple(last_known),
    )


# --- from the metadata --------------------------------------------------------------------------------------------


async def _from_metadata(
    routes: Routes, names: list[str] | None, with_operations: bool
) -> Answers[str, TopicDescription]:
    # An old broker may create what we name, so it is asked about all that there is.
    names_some = names is not None and await routes.version(MetadataRequest) >= _CREATION_SINCE
    topics = [MetadataRequest.Topic(name=name) for name in names or []] if names_some else None
    answer = await _ask_metadata(routes, topics, with_operations)
    found = {row.name: _from_row(row, f"topic {row.name}") for row in answer.topics if row.name is not None}
    missing = set(names or []) - found.keys()
    return {**found, **{name: unknown_topic(f"topic {name}") for name in missing}}


async def _by_id(
    routes: Routes, ids: list[uuid.UUID], with_operations: bool
) -> Answers[uuid.UUID, TopicDescription]:
    if await routes.version(MetadataRequest) < _IDS_SINCE:
        raise UnsupportedVersionError(
            f"the broker looks topics up by name only: Metadata is below v{_IDS_SINCE}"
        )
    topics = [MetadataRequest.Topic(topic_id=each, name=None) for each in ids]
    answer = await _ask_metadata(routes, topics, with_operations)
    return {row.topic_id: _from_row(row, f"topic id {format_id(row.topic_id)}") for row in answer.topics}


async def _ask_metadata(
    routes: Routes, topics: list[MetadataRequest.Topic] | None, with_operations: bool
) -> MetadataResponse:
    version = await routes.version(MetadataRequest)
    request = MetadataRequest(
        topics=[] if topics is None and version < _ALL_SINCE else topics,
        allow_auto_topic_creation=version < _CREATION_SINCE,
        include_topic_authorized_operations=with_operations,
    )
    answer: MetadataResponse = await routes.cluster.ask_any(request)
    check(answer.error_code, "the metadata")
    return answer


def _from_row(row: MetadataResponse.Topic, about: str) -> TopicDescription | KafkaError:
    if row.error_code and row.error_code != ErrorCode.LEADER_NOT_AVAILABLE:
        return failure(row.error_code, about)
    partitions = tuple(
        PartitionDescription(
            each.partition_index,
            each.leader_id,
            each.leader_epoch,
            tuple(each.replica_nodes),
            tuple(each.isr_nodes),
            tuple(each.offline_replicas),
        )
        for each in sorted(row.partitions, key=lambda each: each.partition_index)
    )
    operations = operations_of(row.topic_authorized_operations)
    return TopicDescription(row.name or "", row.topic_id or NULL_ID, row.is_internal, partitions, operations)
