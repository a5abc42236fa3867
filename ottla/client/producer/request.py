"""Batches as a Produce request, and its answer as what became of each."""

from collections.abc import Iterable

from ottla.client.metadata import Metadata, Node
from ottla.client.producer.batch import Batch, Landed
from ottla.client.producer.config import ProducerConfig
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.protocol.messages.produce import ProduceRequest, ProduceResponse
from ottla.records.compression import Codec

_ZSTD_SINCE = 7  # Kafka 2.1: earlier brokers fail over it, with an error that says nothing


def produce_request(
    batches: Iterable[Batch],
    config: ProducerConfig,
    transactional_id: str | None,
    metadata: Metadata,
    version: int,
) -> ProduceRequest:
    """At most one batch of each partition. Raises KafkaError if brokers of that version cannot read the codec."""
    if config.codec is Codec.ZSTD and version < _ZSTD_SINCE:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"zstd takes Kafka 2.1, whose brokers have Produce v{_ZSTD_SINCE}: this one has v{version}",
        )
    topics: dict[str, ProduceRequest.Topic] = {}
    is_transactional = transactional_id is not None
    for batch in batches:
        name, number = batch.partition
        topic = topics.get(name)
        if topic is None:
            topic_id = metadata.topic_id(name)
            topic = topics[name] = ProduceRequest.Topic(name=name, topic_id=topic_id, partition_data=[])
        data = batch.bytes_of(config.codec, config.level, is_transactional)
        topic.partition_data.append(ProduceRequest.Topic.Partition(index=number, records=data))
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=config.acks,
        timeout_ms=config.request_timeout_ms,
        topic_data=list(topics.values()),
    )


def landed_of(answer: ProduceResponse, metadata: Metadata) -> "dict[TopicPartition, Landed | KafkaError]":
    """What the broker says of each partition. Leaders that it names are learnt."""
    found: dict[TopicPartition, Landed | KafkaError] = {}
    if answer.node_endpoints:
        metadata.learn_brokers(
            Node(row.node_id, row.host, row.port, row.rack) for row in answer.node_endpoints
        )
    for topic in answer.responses:
        name = topic.name or metadata.names.get(topic.topic_id, "")
        for row in topic.partition_responses:
            partition = TopicPartition(name, row.index)
            if not row.error_code:
                found[partition] = Landed(row.base_offset, row.log_append_time_ms, row.log_start_offset)
                continue
            found[partition] = KafkaError.of(row.error_code, _detail(partition, row))
            if row.current_leader is not None:
                leader = row.current_leader
                metadata.learn_leader(partition, leader.leader_id, leader.leader_epoch)
    return found


def _detail(partition: TopicPartition, row: ProduceResponse.Topic.Partition) -> str:
    """The broker's own words, and which records of the batch they are about."""
    details = [f"{each.batch_index}: {each.batch_index_error_message}" for each in row.record_errors[:3]]
    return "; ".join(filter(None, [str(partition), row.error_message, *details]))
