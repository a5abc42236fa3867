"""Compaction on demand: an API of Ottla's own, which other brokers do not know.

It is not among the APIs that a broker lists, so that other clients need not meet a number which they do not know. A
broker that lacks it hangs up when it is asked; it is asked once more on a connection of its own to tell that from a
broker that died.
"""

from collections.abc import Iterable
from typing import NamedTuple

from ottla.client.admin.routes import Answers, Client, all_of, by_topic, outcome
from ottla.client.connections import GENERAL
from ottla.client.errors import NetworkError, ProtocolMismatch, UnsupportedVersionError
from ottla.core.errors import KafkaError
from ottla.core.ids import TopicPartition
from ottla.protocol.messages.compaction import CompactTopicsRequest, CompactTopicsResponse

_VERSION = 0
_AGAIN = "compaction"  # the purpose of the connection on which it is asked once more


class CompactionStatus(NamedTuple):
    """How far the compaction of a partition is, and what the last one did. Numbers are -1 before the first."""

    state: str
    done_bytes: int
    total_bytes: int
    dirty_ratio: float
    first_dirty_offset: int
    end_offset: int
    runs: int
    last_error: str | None
    bytes_before: int
    bytes_after: int
    records_before: int
    records_after: int


async def compact_partitions(
    admin: Client,
    partitions: Iterable[TopicPartition],
    *,
    start: bool = True,
    timeout_ms: float | None = None,
) -> dict[TopicPartition, CompactionStatus]:
    """Have partitions of compacted topics compacted now, and return how far they are; without `start` only that.

    It goes on when this returns. Raises UnsupportedVersionError if the broker is not Ottla.
    """
    routes = admin._routes

    async def ask_one(node_id: int, some: list[TopicPartition]) -> Answers[TopicPartition, CompactionStatus]:
        answer = await _ask(admin, node_id, some, start)
        return {
            TopicPartition(topic.name, row.partition_index): outcome(
                row.error_code, f"{topic.name}-{row.partition_index}", row.error_message, _status(row)
            )
            for topic in answer.topics
            for row in topic.partitions
        }

    async def ask(some: list[TopicPartition]) -> Answers[TopicPartition, CompactionStatus]:
        return await routes.by_leader(some, ask_one)

    deadline = routes.deadline(timeout_ms)
    answers = await routes.settle(partitions, ask, deadline, "the partitions were not compacted")
    return all_of(answers, "the compaction")


async def _ask(admin: Client, node_id: int, some: list[TopicPartition], start: bool) -> CompactTopicsResponse:
    cluster = admin._routes.cluster
    topics = [
        CompactTopicsRequest.Topic(name=name, partitions=numbers) for name, numbers in by_topic(some).items()
    ]
    request = CompactTopicsRequest(topics=topics, start=start)
    answer: CompactTopicsResponse
    for purpose in (GENERAL, _AGAIN):
        await cluster.peer(node_id, purpose)  # raises if the broker is not there at all
        try:
            answer = await cluster.ask(node_id, request, version=_VERSION, purpose=purpose)
            return answer
        except (NetworkError, ProtocolMismatch, UnsupportedVersionError) as error:
            last: KafkaError = error
    raise UnsupportedVersionError(
        f"broker {node_id} cannot be asked to compact: it is not Ottla, or too old; it compacts by itself when "
        "min.cleanable.dirty.ratio is passed"
    ) from last


def _status(row: CompactTopicsResponse.Topic.Partition) -> CompactionStatus:
    return CompactionStatus(
        row.state,
        row.done_bytes,
        row.total_bytes,
        row.dirty_ratio,
        row.first_dirty_offset,
        row.end_offset,
        row.runs,
        row.last_error,
        row.bytes_before,
        row.bytes_after,
        row.records_before,
        row.records_after,
    )
