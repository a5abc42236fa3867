"""Where share groups start to read (KIP-932): read it, move it, forget it."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla.client.admin.routes import Answers, Client, all_of, by_topic, check, outcome
from ottla.core.ids import TopicPartition
from ottla.protocol.messages.share_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
)


class SharePartitionOffset(NamedTuple):
    """Where a share group starts to read a partition, and how many records there are from there on."""

    start_offset: int
    leader_epoch: int
    lag: int | None


async def list_share_group_offsets(
    admin: Client,
    group_id: str,
    partitions: Iterable[TopicPartition] | None = None,
    *,
    timeout_ms: float | None = None,
) -> dict[TopicPartition, SharePartitionOffset | None]:
    """Where a share group starts to read, for all of its partitions or for some; None where that is not settled."""
    routes = admin._routes
    topics = None if partitions is None else by_topic(partitions).items()
    kind = DescribeShareGroupOffsetsRequest.Group
    rows = None if topics is None else [kind.Topic(topic_name=t, partitions=p) for t, p in topics]
    request = DescribeShareGroupOffsetsRequest(groups=[kind(group_id=group_id, topics=rows)])

    async def ask(node_id: int) -> Answers[TopicPartition, SharePartitionOffset | None]:
        answer: DescribeShareGroupOffsetsResponse = await routes.ask_coordinator(node_id, request)
        answers: Answers[TopicPartition, SharePartitionOffset | None] = {}
        for group in answer.groups:
            check(group.error_code, f"group {group_id}", group.error_message)
            for topic in group.topics:
                for row in topic.partitions:
                    key = TopicPartition(topic.topic_name, row.partition_index)
                    lag = None if row.lag < 0 else row.lag
                    place = SharePartitionOffset(row.start_offset, row.leader_epoch, lag)
                    value = None if row.start_offset < 0 else place
                    answers[key] = outcome(row.error_code, str(key), row.error_message, value)
        return answers

    deadline = routes.deadline(timeout_ms)
    answers = await routes.group(group_id, ask, deadline, f"the offsets of group {group_id} were not read")
    return all_of(answers, f"the listing of offsets of group {group_id}")


async def alter_share_group_offsets(
    admin: Client,
    group_id: str,
    offsets: Mapping[TopicPartition, int],
    *,
    timeout_ms: float | None = None,
) -> None:
    """Let a share group that has no members start from these offsets."""
    routes = admin._routes
    kind = AlterShareGroupOffsetsRequest.Topic

    def part(topic: str, number: int) -> AlterShareGroupOffsetsRequest.Topic.Partition:
        return kind.Partition(partition_index=number, start_offset=offsets[TopicPartition(topic, number)])

    topics = [
        kind(topic_name=topic, partitions=[part(topic, number) for number in numbers])
        for topic, numbers in by_topic(offsets).items()
    ]

    async def ask(node_id: int) -> Answers[TopicPartition, None]:
        request = AlterShareGroupOffsetsRequest(group_id=group_id, topics=topics)
        answer: AlterShareGroupOffsetsResponse = await routes.ask_coordinator(node_id, request)
        check(answer.error_code, f"group {group_id}", answer.error_message)
        return {
            (key := TopicPartition(topic.topic_name, row.partition_index)): outcome(
                row.error_code, str(key), row.error_message, None
            )
            for topic in answer.responses
            for row in topic.partitions
        }

    deadline = routes.deadline(timeout_ms)
    answers = await routes.group(group_id, ask, deadline, f"the offsets of group {group_id} were not altered")
    all_of(answers, f"the change of offsets of group {group_id}")


async def delete_share_group_offsets(
    admin: Client, group_id: str, topics: Iterable[str], *, timeout_ms: float | None = None
) -> None:
    """Let a share group that has no members forget topics."""
    routes = admin._routes
    rows = [DeleteShareGroupOffsetsRequest.Topic(topic_name=each) for each in topics]

    async def ask(node_id: int) -> Answers[str, None]:
        request = DeleteShareGroupOffsetsRequest(group_id=group_id, topics=rows)
        answer: DeleteShareGroupOffsetsResponse = await routes.ask_coordinator(node_id, request)
        check(answer.error_code, f"group {group_id}", answer.error_message)
        return {
            row.topic_name: outcome(row.error_code, f"topic {row.topic_name}", row.error_message, None)
            for row in answer.responses
        }

    deadline = routes.deadline(timeout_ms)
    answers = await routes.group(group_id, ask, deadline, f"the offsets of group {group_id} were not deleted")
    all_of(answers, f"the deletion of offsets of group {group_id}")
