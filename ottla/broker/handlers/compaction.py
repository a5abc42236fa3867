"""Compaction on demand: CompactTopics, an API of Ottla's own.

It starts nothing that the cleaner would not do by itself one day: it only does not wait for the dirty ratio, nor for
the active segment to fill up. How far it is can be asked for by anybody who may see the topic.
"""

from typing import TYPE_CHECKING

from ottla.broker.authorizer import Operation, ResourceType
from ottla.broker.call import Call
from ottla.broker.handlers.asking import check_partition_count, one_by_one
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition, topic_name_fault
from ottla.protocol.messages.compaction import CompactTopicsRequest, CompactTopicsResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.replication.partition import Partition

Topic = CompactTopicsResponse.Topic


async def compact_topics(
    broker: "Broker", call: Call, request: CompactTopicsRequest
) -> CompactTopicsResponse:
    """Each partition by itself. To start needs ALTER on the topic, to look DESCRIBE."""
    check_partition_count(sum(len(topic.partitions) for topic in request.topics))
    asked = [TopicPartition(topic.name, index) for topic in request.topics for index in topic.partitions]

    async def answer(place: TopicPartition) -> Topic.Partition:
        try:
            partition = _found(broker, call, place, Operation.ALTER if request.start else Operation.DESCRIBE)
            if request.start:
                _check_compacted(partition)
                _check_cleaner(broker)
                broker.cleaning.request(place)
            return _status(broker, place)
        except KafkaError as error:
            return Topic.Partition(
                partition_index=place.partition, error_code=error.code, error_message=error.detail
            )

    answers = iter(await one_by_one(asked, answer))
    return CompactTopicsResponse(
        topics=[
            Topic(name=topic.name, partitions=[next(answers) for _ in topic.partitions])
            for topic in request.topics
        ]
    )


def _found(broker: "Broker", call: Call, place: TopicPartition, operation: Operation) -> "Partition":
    """Who may not see a topic does not learn whether it exists."""
    if not broker.authorizer.allows(call, operation, ResourceType.TOPIC, place.topic):
        raise KafkaError(
            ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"{operation.name} of topic {place.topic!r} is not allowed"
        )
    if fault := topic_name_fault(place.topic):
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"the name {place.topic!r} {fault}")
    partition = broker.replicas.get(*place)
    partition.check_leader()
    return partition


def _check_compacted(partition: "Partition") -> None:
    policy = partition.config.cleanup_policy
    if "compact" not in policy:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"topic {partition.topic_partition.topic} is not compacted: its cleanup.policy is "
            f"{','.join(policy) or 'empty'}; set it to compact, or to compact,delete, and ask again",
        )


def _check_cleaner(broker: "Broker") -> None:
    if not broker.config.log_cleaner_enable:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"broker {broker.node_id} compacts nothing: its log.cleaner.enable is false",
        )


def _status(broker: "Broker", place: TopicPartition) -> Topic.Partition:
    found = broker.cleaning.status(place)
    return Topic.Partition(
        partition_index=place.partition,
        error_code=ErrorCode.NONE,
        state=found.state,
        done_bytes=found.done_bytes,
        total_bytes=found.total_bytes,
        first_dirty_offset=found.first_dirty_offset,
        end_offset=found.end_offset,
        dirty_ratio=found.dirty_ratio,
        runs=found.runs,
        last_error=found.last_error,
        last_run_ms=found.last_run_ms,
        bytes_before=found.bytes_before,
        bytes_after=found.bytes_after,
        records_before=found.records_before,
        records_after=found.records_after,
    )
