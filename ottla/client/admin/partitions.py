"""Partitions: cut their records, elect their leaders, move them, ask for their offsets."""

import enum
from collections.abc import Iterable, Mapping, Sequence

from ottla.client.admin.routes import Answers, Client, all_of, by_topic, check, outcome
from ottla.client.admin.topic_values import ElectionType, PartitionReassignment
from ottla.client.errors import UnsupportedVersionError
from ottla.client.records import OffsetAndTimestamp
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.protocol.messages.offsets import (
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
)
from ottla.protocol.messages.topics import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

_A_CLIENT = -1  # where replicas say who they are
_ISOLATION = {"read_uncommitted": 0, "read_committed": 1}
_ISOLATION_SINCE = 2  # ListOffsets


class OffsetSpec(enum.IntEnum):
    """Places in a log that can be asked for. Anything from 0 on is a time, in milliseconds since 1970."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


_SINCE = {
    OffsetSpec.MAX_TIMESTAMP: 7,
    OffsetSpec.EARLIEST_LOCAL: 8,
    OffsetSpec.LATEST_TIERED: 9,
    OffsetSpec.EARLIEST_PENDING_UPLOAD: 11,
}


async def list_offsets(
    admin: Client,
    offset_specs: Mapping[TopicPartition, OffsetSpec | int],
    *,
    isolation_level: str = "read_uncommitted",
    timeout_ms: float | None = None,
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """The offsets at these places: an `OffsetSpec`, or a time, which means the first record that is not older.

    The offset is -1 where there is no such record. With `read_committed` the end is that of what consumers of committed
    records may read.
    """
    routes = admin._routes
    if isolation_level not in _ISOLATION:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"there is no isolation level {isolation_level!r}")
    isolation = _ISOLATION[isolation_level]
    if strange := {each for each in offset_specs.values() if each < OffsetSpec.EARLIEST_PENDING_UPLOAD}:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{min(strange)} is neither a time nor an OffsetSpec")
    specs = {OffsetSpec(each) for each in offset_specs.values() if each < 0}
    needed = max((_SINCE.get(each, 0) for each in specs), default=0)
    needed = max(needed, _ISOLATION_SINCE if isolation else 0)

    async def ask_one(
        node_id: int, some: list[TopicPartition]
    ) -> Answers[TopicPartition, OffsetAndTimestamp]:
        version = await routes.cluster.version_of(node_id, ListOffsetsRequest)
        if version < needed:
            wanted = ", ".join(each.name for each in specs) or isolation_level
            raise UnsupportedVersionError(
                f"broker {node_id} cannot look up {wanted}: that takes ListOffsets v{needed}, it has v{version}"
            )
        request = _look_up(some, offset_specs, isolation)
        answer: ListOffsetsResponse = await routes.cluster.ask(node_id, request, version=version)
        return {
            TopicPartition(topic.name, row.partition_index): outcome(
                row.error_code, f"{topic.name}-{row.partition_index}", None, _found(row)
            )
            for topic in answer.topics
            for row in topic.partitions
        }

    async def ask(some: list[TopicPartition]) -> Answers[TopicPartition, OffsetAndTimestamp]:
        return await routes.by_leader(some, ask_one)

    deadline = routes.deadline(timeout_ms)
    answers = await routes.settle(offset_specs, ask, deadline, "the offsets were not found")
    return all_of(answers, "the search for offsets")


def _look_up(
    some: list[TopicPartition], specs: Mapping[TopicPartition, OffsetSpec | int], isolation: int
) -> ListOffsetsRequest:
    kind = ListOffsetsRequest.Topic
    topics = [
        kind(
            name=topic,
            partitions=[
                kind.Partition(partition_index=number, timestamp=int(specs[TopicPartition(topic, number)]))
                for number in numbers
            ],
        )
        for topic, numbers in by_topic(some).items()
    ]
    return ListOffsetsRequest(replica_id=_A_CLIENT, isolation_level=isolation, topics=topics)


def _found(row: ListOffsetsResponse.Topic.Partition) -> OffsetAndTimestamp:
    offset = row.old_style_offsets[0] if row.old_style_offsets else row.offset
    return OffsetAndTimestamp(offset, row.timestamp, row.leader_epoch)


async def delete_records(
    admin: Client, records_to_delete: Mapping[TopicPartition, int], *, timeout_ms: float | None = None
) -> dict[TopicPartition, int]:
    """Delete all records before these offsets; -1 is the high watermark. Returns the offsets where logs start now."""
    routes = admin._routes
    deadline = routes.deadline(timeout_ms)

    async def ask_one(node_id: int, some: list[TopicPartition]) -> Answers[TopicPartition, int]:
        kind = DeleteRecordsRequest.Topic
        topics = [
            kind(
                name=topic,
                partitions=[
                    kind.Partition(
                        partition_index=number, offset=records_to_delete[TopicPartition(topic, number)]
                    )
                    for number in numbers
                ],
            )
            for topic, numbers in by_topic(some).items()
        ]
        request = DeleteRecordsRequest(topics=topics, timeout_ms=routes.broker_ms(deadline))
        answer: DeleteRecordsResponse = await routes.cluster.ask(node_id, request)
        return {
            TopicPartition(topic.name, row.partition_index): outcome(
                row.error_code, f"{topic.name}-{row.partition_index}", None, row.low_watermark
            )
            for topic in answer.topics
            for row in topic.partitions
        }

    async def ask(some: list[TopicPartition]) -> Answers[TopicPartition, int]:
        return await routes.by_leader(some, ask_one)

    answers = await routes.settle(records_to_delete, ask, deadline, "the records were not deleted")
    return all_of(answers, "the deletion of records")


async def elect_leaders(
    admin: Client,
    election_type: ElectionType = ElectionType.PREFERRED,
    partitions: Iterable[TopicPartition] | None = None,
    *,
    timeout_ms: float | None = None,
) -> dict[TopicPartition, bool]:
    """Elect leaders now, for some partitions or for all. Was the leader changed? False: it was the right one.

    If all partitions were asked for, those that needed no election may be missing.
    """
    routes = admin._routes
    deadline = routes.deadline(timeout_ms)
    kind = ElectLeadersRequest.Topic

    async def ask(some: list[TopicPartition] | None) -> Answers[TopicPartition, bool]:
        topics = None if some is None else by_topic(some).items()
        request = ElectLeadersRequest(
            election_type=int(election_type),
            topic_partitions=None if topics is None else [kind(topic=t, partitions=p) for t, p in topics],
            timeout_ms=routes.broker_ms(deadline),
        )
        answer: ElectLeadersResponse = await routes.cluster.ask_controller(request)
        check(answer.error_code, "the election of leaders")
        return {
            TopicPartition(topic.topic, row.partition_id): _elected(topic.topic, row)
            for topic in answer.replica_election_results
            for row in topic.partition_result
        }

    failed = "leaders were not elected"
    if partitions is None:
        answers = await routes.patient(lambda: ask(None), deadline, failed)
    else:
        answers = await routes.settle(partitions, ask, deadline, failed)
    return all_of(answers, "the election of leaders")


def _elected(topic: str, row: ElectLeadersResponse.Topic.Partition) -> bool | KafkaError:
    if row.error_code == ErrorCode.ELECTION_NOT_NEEDED:
        return False
    return outcome(row.error_code, f"{topic}-{row.partition_id}", row.error_message, True)


async def alter_partition_reassignments(
    admin: Client,
    reassignments: Mapping[TopicPartition, Sequence[int] | None],
    *,
    allow_replication_factor_change: bool = True,
    timeout_ms: float | None = None,
) -> None:
    """Move partitions to these brokers, of which the first is to lead; None calls a move off.

    Returns when the moves have begun: `list_partition_reassignments` tells how they go on.
    """
    routes = admin._routes
    deadline = routes.deadline(timeout_ms)
    kind = AlterPartitionReassignmentsRequest.Topic

    def part(topic: str, number: int) -> AlterPartitionReassignmentsRequest.Topic.Partition:
        replicas = reassignments[TopicPartition(topic, number)]
        return kind.Partition(partition_index=number, replicas=None if replicas is None else list(replicas))

    async def ask(some: list[TopicPartition]) -> Answers[TopicPartition, None]:
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=routes.broker_ms(deadline),
            allow_replication_factor_change=allow_replication_factor_change,
            topics=[
                kind(name=topic, partitions=[part(topic, number) for number in numbers])
                for topic, numbers in by_topic(some).items()
            ],
        )
        answer: AlterPartitionReassignmentsResponse = await routes.cluster.ask_controller(request)
        check(answer.error_code, "the reassignment of partitions", answer.error_message)
        return {
            TopicPartition(topic.name, row.partition_index): outcome(
                row.error_code, f"{topic.name}-{row.partition_index}", row.error_message, None
            )
            for topic in answer.responses
            for row in topic.partitions
        }

    answers = await routes.settle(reassignments, ask, deadline, "the partitions were not reassigned")
    all_of(answers, "the reassignment of partitions")


async def list_partition_reassignments(
    admin: Client,
    partitions: Iterable[TopicPartition] | None = None,
    *,
    timeout_ms: float | None = None,
) -> dict[TopicPartition, PartitionReassignment]:
    """Those of the partitions, or of all, that are on the move."""
    routes = admin._routes
    deadline = routes.deadline(timeout_ms)
    wanted = None if partitions is None else by_topic(partitions).items()
    kind = ListPartitionReassignmentsRequest.Topic

    async def ask() -> dict[TopicPartition, PartitionReassignment]:
        request = ListPartitionReassignmentsRequest(
            timeout_ms=routes.broker_ms(deadline),
            topics=None if wanted is None else [kind(name=t, partition_indexes=p) for t, p in wanted],
        )
        answer: ListPartitionReassignmentsResponse = await routes.cluster.ask_controller(request)
        check(answer.error_code, "the reassignments", answer.error_message)
        return {
            TopicPartition(topic.name, row.partition_index): PartitionReassignment(
                tuple(row.replicas), tuple(row.adding_replicas), tuple(row.removing_replicas)
            )
            for topic in answer.topics
            for row in topic.partitions
        }

    return await routes.patient(ask, deadline, "the reassignments were not listed")
