"""What groups have committed: read it, move it, forget it."""

from collections.abc import Iterable, Mapping
from typing import Any

from ottla.client.admin.routes import Answers, Client, all_of, by_topic, check, failure, outcome
from ottla.client.records import OffsetAndMetadata, Offsets, with_notes
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)

_NAMES_UNTIL = 9  # OffsetCommit, OffsetFetch: later versions name topics by id
_GROUPS_SINCE = 8  # OffsetFetch


async def list_group_offsets(
    admin: Client,
    group_id: str,
    partitions: Iterable[TopicPartition] | None = None,
    *,
    require_stable: bool = False,
    timeout_ms: float | None = None,
) -> dict[TopicPartition, OffsetAndMetadata | None]:
    """What the group has committed, for all partitions or for some; None where that is nothing.

    With `require_stable`, what a transaction is about to commit is waited for.
    """
    routes = admin._routes
    topics = None if partitions is None else by_topic(partitions)

    async def ask(node_id: int) -> Answers[TopicPartition, OffsetAndMetadata | None]:
        offered = await routes.cluster.version_of(node_id, OffsetFetchRequest)
        version = min(offered, _NAMES_UNTIL)
        request = _fetching(group_id, topics, require_stable, version >= _GROUPS_SINCE)
        answer: OffsetFetchResponse = await routes.ask_coordinator(node_id, request, version=version)
        found: Any = answer.groups[0] if version >= _GROUPS_SINCE and answer.groups else answer
        check(found.error_code, f"group {group_id}")
        answers: Answers[TopicPartition, OffsetAndMetadata | None] = {
            TopicPartition(topic.name, row.partition_index): outcome(
                row.error_code, f"{topic.name}-{row.partition_index}", None, _committed(row)
            )
            for topic in found.topics
            for row in topic.partitions
        }
        for each in answers.values():
            if isinstance(each, KafkaError) and each.code == ErrorCode.UNSTABLE_OFFSET_COMMIT:
                raise each
        if topics is None:
            answers = {key: each for key, each in answers.items() if each is not None}
        return answers

    deadline = routes.deadline(timeout_ms)
    answers = await routes.group(group_id, ask, deadline, f"the offsets of group {group_id} were not read")
    return all_of(answers, f"the listing of offsets of group {group_id}")


def _fetching(
    group_id: str, topics: Mapping[str, list[int]] | None, require_stable: bool, is_for_groups: bool
) -> OffsetFetchRequest:
    if not is_for_groups:
        single = OffsetFetchRequest.Topic
        rows = None if topics is None else [single(name=t, partition_indexes=p) for t, p in topics.items()]
        return OffsetFetchRequest(group_id=group_id, topics=rows, require_stable=require_stable)
    kind = OffsetFetchRequest.Group
    wanted = None if topics is None else [kind.Topic(name=t, partition_indexes=p) for t, p in topics.items()]
    return OffsetFetchRequest(groups=[kind(group_id=group_id, topics=wanted)], require_stable=require_stable)


def _committed(row: Any) -> OffsetAndMetadata | None:
    """The rows of old and new answers have the same fields, but not the same class."""
    if row.committed_offset < 0:
        return None
    return OffsetAndMetadata(row.committed_offset, row.metadata or "", row.committed_leader_epoch)


async def alter_group_offsets(
    admin: Client, group_id: str, offsets: Offsets, *, timeout_ms: float | None = None
) -> None:
    """Let a group that has no members go on from these offsets. A group that is not there comes into being."""
    routes = admin._routes
    wanted = with_notes(offsets)
    kind = OffsetCommitRequest.Topic
    topics = [
        kind(
            name=topic,
            partitions=[_commit(number, wanted[TopicPartition(topic, number)]) for number in numbers],
        )
        for topic, numbers in by_topic(wanted).items()
    ]

    async def ask(node_id: int) -> Answers[TopicPartition, None]:
        request = OffsetCommitRequest(group_id=group_id, topics=topics)
        answer: OffsetCommitResponse = await routes.ask_coordinator(
            node_id, request, version_max=_NAMES_UNTIL
        )
        rows = [(topic.name, row) for topic in answer.topics for row in topic.partitions]
        for _, row in rows:
            if row.error_code in _ABOUT_THE_GROUP:
                raise _refused(group_id, row.error_code)
        return {
            (key := TopicPartition(name, row.partition_index)): outcome(row.error_code, str(key), None, None)
            for name, row in rows
        }

    if wanted:
        deadline = routes.deadline(timeout_ms)
        failed = f"the offsets of group {group_id} were not altered"
        answers = await routes.group(group_id, ask, deadline, failed)
        all_of(answers, f"the change of offsets of group {group_id}")


def _commit(number: int, wanted: OffsetAndMetadata) -> OffsetCommitRequest.Topic.Partition:
    return OffsetCommitRequest.Topic.Partition(
        partition_index=number,
        committed_offset=wanted.offset,
        committed_leader_epoch=wanted.leader_epoch,
        committed_metadata=wanted.metadata,
    )


_HAS_MEMBERS = (
    ErrorCode.UNKNOWN_MEMBER_ID,  # since we say that we are none of its members
    ErrorCode.NON_EMPTY_GROUP,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.REBALANCE_IN_PROGRESS,
)
_ABOUT_THE_GROUP = (
    *_HAS_MEMBERS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.INVALID_GROUP_ID,
)


def _refused(group_id: str, code: int) -> KafkaError:
    if code in _HAS_MEMBERS:
        return failure(
            code, f"group {group_id} has members: its offsets are theirs to commit, until they leave"
        )
    return failure(code, f"group {group_id}")


async def delete_group_offsets(
    admin: Client, group_id: str, partitions: Iterable[TopicPartition], *, timeout_ms: float | None = None
) -> None:
    """Forget what a group has committed for partitions that none of its members subscribes to."""
    routes = admin._routes
    kind = OffsetDeleteRequest.Topic
    topics = [
        kind(name=topic, partitions=[kind.Partition(partition_index=number) for number in numbers])
        for topic, numbers in by_topic(partitions).items()
    ]

    async def ask(node_id: int) -> Answers[TopicPartition, None]:
        request = OffsetDeleteRequest(group_id=group_id, topics=topics)
        answer: OffsetDeleteResponse = await routes.ask_coordinator(node_id, request)
        check(answer.error_code, f"group {group_id}")
        return {
            (key := TopicPartition(topic.name, row.partition_index)): outcome(
                row.error_code, str(key), None, None
            )
            for topic in answer.topics
            for row in topic.partitions
        }

    if topics:
        deadline = routes.deadline(timeout_ms)
        failed = f"the offsets of group {group_id} were not deleted"
        answers = await routes.group(group_id, ask, deadline, failed)
        all_of(answers, f"the deletion of offsets of group {group_id}")
