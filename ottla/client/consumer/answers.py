"""What the answer to a fetch means, partition by partition: records, watermarks, or an error and what to do about it.

An answer counts for a partition only while it has the life it was asked in. Errors that pass are waited out with a
pause, after a look at fresh metadata if they say that it is old; a position that is not in the log is reset, or handed
to whoever does (`truncated`); the rest is kept in `errors` until a poll raises it.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ottla.client.cluster import Cluster
from ottla.client.consumer.config import ConsumerConfig
from ottla.client.consumer.fetched import Decoding, Fetched
from ottla.client.consumer.lookup import EpochEnd
from ottla.client.consumer.session import IDS_SINCE, Wanted
from ottla.client.consumer.subscription import NONE, PartitionState, Subscription
from ottla.client.errors import OffsetOutOfRangeError
from ottla.client.metadata import Node
from ottla.core.errors import ErrorCode, KafkaError, RetriableError, StaleMetadataError
from ottla.core.ids import TopicPartition

logger = logging.getLogger(__name__)

_MS = 1000
_WHOLE_BATCH_SINCE = 3
"""From this version on a broker sends the first batch whole, however large it is; a piece of one means: no room."""


class Answers:
    """Of one consumer. `truncated(state, end)` is called when a leader says that our log and its own part ways."""

    def __init__(
        self,
        cluster: Cluster,
        config: ConsumerConfig,
        subscription: Subscription,
        decoding: Decoding,
        *,
        refresh: Callable[[], None],
        truncated: Callable[[PartitionState, EpochEnd], None],
    ) -> None:
        self._cluster, self._config, self._subscription = cluster, config, subscription
        self._decoding, self._refresh, self._truncated = decoding, refresh, truncated
        self.errors: dict[TopicPartition, tuple[int, KafkaError]] = {}
        """For the next poll to raise, with the life that the partition had."""
        self.fetch_count = self.bytes_count = 0

    def read(
        self, answer: Any, node_id: int, wanted: Mapping[TopicPartition, Wanted], version: int
    ) -> Iterator[Fetched]:
        """The records of an answer to a question about `wanted`. They are copied out of it."""
        self.fetch_count += 1
        nodes = [Node(each.node_id, each.host, each.port, each.rack) for each in answer.node_endpoints]
        names = {each.topic_id: key.topic for key, each in wanted.items()} if version >= IDS_SINCE else {}
        seen: set[TopicPartition] = set()
        for topic in answer.responses:
            name = names.get(topic.topic_id, "") if version >= IDS_SINCE else topic.topic
            for row in topic.partitions:
                partition = TopicPartition(name, row.partition_index)
                asked, state = wanted.get(partition), self._subscription.partitions.get(partition)
                if asked is None or state is None or state.life != asked.life:
                    continue  # the consumer is somewhere else by now
                if partition in seen:
                    continue  # the same records twice
                seen.add(partition)
                if row.error_code:
                    self._fail(row, state, asked, node_id, nodes)
                elif (fetched := self._take(row, state, asked, version)) is not None:
                    yield fetched

    def _take(self, row: Any, state: PartitionState, asked: Wanted, version: int) -> Fetched | None:
        if state.is_in_another(asked.topic_id):
            self._out_of_range(state, asked.offset, "belongs to a topic of this name that was deleted")
            return None
        state.topic_id = asked.topic_id if asked.topic_id.int else None
        state.retry_at = 0.0
        state.high_watermark, state.last_stable_offset = row.high_watermark, row.last_stable_offset
        if row.log_start_offset >= 0:
            state.log_start_offset = row.log_start_offset
        if row.diverging_epoch is not None:
            self._truncated(state, EpochEnd(row.diverging_epoch.epoch, row.diverging_epoch.end_offset))
            return None
        if row.preferred_read_replica >= 0:
            state.preferred_replica = row.preferred_read_replica
            state.preferred_until = _now() + self._config.metadata_max_age_ms / _MS
        if not row.records:
            return None
        aborted = [(each.producer_id, each.first_offset) for each in row.aborted_transactions or ()]
        fetched = Fetched(
            state.partition, state.life, asked.offset, bytes(row.records), self._decoding, aborted
        )
        self.bytes_count += fetched.size
        if fetched.is_piece and version >= _WHOLE_BATCH_SINCE:
            return None
        return fetched

    def _fail(self, row: Any, state: PartitionState, asked: Wanted, node_id: int, nodes: list[Node]) -> None:
        partition, code = state.partition, row.error_code
        was_follower = node_id == state.preferred_replica
        state.preferred_replica = -1
        error = KafkaError.of(code, f"fetching {partition} at offset {asked.offset}")
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            if not was_follower:  # a follower may only be behind
                self._out_of_range(state, asked.offset, "is not in its log")
            return
        leader = row.current_leader
        if leader is not None and leader.leader_id >= 0:
            known = [node for node in nodes if node.node_id == leader.leader_id]
            self._cluster.metadata.learn_brokers(known)
            if self._cluster.metadata.learn_leader(partition, leader.leader_id, leader.leader_epoch):
                return  # no pause: we know where to go (KIP-951)
        if isinstance(error, RetriableError) and code != ErrorCode.CORRUPT_MESSAGE:
            state.retry_at = _now() + self._config.retry_backoff_ms / _MS
            if isinstance(error, StaleMetadataError) or code == ErrorCode.OFFSET_NOT_AVAILABLE:
                self._refresh()
            logger.info("%s", error)
        elif code == ErrorCode.UNKNOWN_SERVER_ERROR:
            state.retry_at = _now() + self._config.retry_backoff_max_ms / _MS
            logger.warning("%s", error)
        else:
            self.errors[partition] = state.life, error

    def _out_of_range(self, state: PartitionState, offset: int, why: str) -> None:
        if state.position is None or state.position.offset != offset:
            # What was asked lies behind records that are still to be handed out.
            state.retry_at = _now() + self._config.retry_backoff_ms / _MS
            return
        if self._config.auto_offset_reset == NONE:
            sentence = f"offset {offset} of {state.partition} {why}, and auto.offset.reset is none"
            error = OffsetOutOfRangeError(sentence, {state.partition: offset})
            self.errors[state.partition] = state.life, error
            return
        logger.warning(
            "offset %d of %s %s: reset to %s",
            offset,
            state.partition,
            why,
            self._config.auto_offset_reset,
        )
        state.reset(self._config.auto_offset_reset)

    def raise_error(self) -> None:
        """The first error that a poll should see, once."""
        for partition in list(self.errors):
            life, error = self.errors.pop(partition)
            state = self._subscription.partitions.get(partition)
            if state is not None and state.life == life:
                raise error


def _now() -> float:
    return asyncio.get_running_loop().time()
