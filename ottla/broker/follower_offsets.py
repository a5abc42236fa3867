"""Where a leader's log begins and ends: what a follower asks when its own log ends outside of that."""

from collections.abc import Mapping

from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.network.peer import Peer
from ottla.protocol.messages.offsets import ListOffsetsRequest, ListOffsetsResponse
from ottla.replication.exchange import FetchQuestion

LATEST, EARLIEST = -1, -2

Range = tuple[int, int]


async def leader_ranges(
    peer: Peer, replica_id: int, asked: Mapping[TopicPartition, FetchQuestion], timeout_ms: int
) -> dict[TopicPartition, Range | KafkaError]:
    """The log start and the log end of each, as its leader knows them in the epoch that we follow in."""
    starts = await _list(peer, replica_id, asked, EARLIEST, timeout_ms)
    ends = await _list(peer, replica_id, asked, LATEST, timeout_ms)
    return {name: _range(starts.get(name), ends.get(name)) for name in asked}


def _range(start: int | KafkaError | None, end: int | KafkaError | None) -> Range | KafkaError:
    for found in (start, end):
        if isinstance(found, KafkaError):
            return found
    if start is None or end is None:
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the leader said nothing of it")
    assert isinstance(start, int) and isinstance(end, int), "errors were sorted out"
    return start, end


async def _list(
    peer: Peer,
    replica_id: int,
    asked: Mapping[TopicPartition, FetchQuestion],
    timestamp: int,
    timeout_ms: int,
) -> dict[TopicPartition, int | KafkaError]:
    topics: dict[str, list[ListOffsetsRequest.Topic.Partition]] = {}
    for (topic, index), question in asked.items():
        topics.setdefault(topic, []).append(
            ListOffsetsRequest.Topic.Partition(
                partition_index=index,
                current_leader_epoch=question.current_leader_epoch,
                timestamp=timestamp,
            )
        )
    request = ListOffsetsRequest(
        replica_id=replica_id,
        topics=[ListOffsetsRequest.Topic(name=name, partitions=parts) for name, parts in topics.items()],
    )
    response: ListOffsetsResponse = await peer.send(request, timeout_ms=timeout_ms)
    return {
        TopicPartition(topic.name, answer.partition_index): KafkaError.of(answer.error_code)
        if answer.error_code
        else answer.offset
        for topic in response.topics
        for answer in topic.partitions
    }
