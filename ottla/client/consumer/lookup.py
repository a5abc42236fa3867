"""Places in logs: where a time, a beginning, an end lies (ListOffsets), where an epoch ends (OffsetForLeaderEpoch).

Each partition is asked of its leader, all brokers at the same time; partitions that fail in a way that may pass are
asked again until the deadline. What one broker has answered need not wait for the others: `found` is told at once.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from ottla.client.cluster import Cluster
from ottla.client.connections import version_of
from ottla.client.deadline import Deadline
from ottla.client.records import OffsetAndTimestamp
from ottla.core.errors import ErrorCode, KafkaError, RetriableError, StaleMetadataError
from ottla.core.ids import TopicPartition
from ottla.protocol.messages.offsets import ListOffsetsRequest, OffsetForLeaderEpochRequest

LATEST_TIMESTAMP, EARLIEST_TIMESTAMP = -1, -2
_CONSUMER = -1  # as the id of a replica
_ISOLATION_SINCE = 2
EPOCHS_SINCE = 3  # OffsetForLeaderEpoch for consumers: before, it asked for a right that only brokers have

T = TypeVar("T")


class EpochEnd(NamedTuple):
    """The end of the largest epoch that is not above the one asked for. -1: the broker does not know."""

    leader_epoch: int
    end_offset: int


class EpochAsked(NamedTuple):
    """The epoch of the record before the position, and of the leader as we know it."""

    epoch: int
    leader_epoch: int


_AskBroker = Callable[[int, list[TopicPartition]], Awaitable[dict[TopicPartition, T | KafkaError]]]
_Found = Callable[[dict[TopicPartition, T]], None]


class OffsetLookup:
    """Of one consumer."""

    def __init__(self, cluster: Cluster, *, is_read_committed: bool) -> None:
        self._cluster = cluster
        self._isolation_level = int(is_read_committed)

    async def offsets(
        self,
        wanted: Mapping[TopicPartition, int],
        deadline: Deadline,
        found: _Found[OffsetAndTimestamp | None] | None = None,
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record of each partition that is not older than a timestamp; None if all are.

        LATEST_TIMESTAMP is the end (of what may be read), EARLIEST_TIMESTAMP the beginning."""

        async def ask(
            node: int, partitions: list[TopicPartition]
        ) -> dict[TopicPartition, OffsetAndTimestamp | KafkaError | None]:
            return await self._list(node, {each: wanted[each] for each in partitions}, deadline)

        return await self._of_all(wanted, ask, deadline, "offsets were not found", found)

    async def epoch_ends(
        self,
        wanted: Mapping[TopicPartition, EpochAsked],
        deadline: Deadline,
        found: _Found[EpochEnd | None] | None = None,
    ) -> dict[TopicPartition, EpochEnd | None]:
        """Where epochs end; None where the broker is too old to be asked."""

        async def ask(
            node: int, partitions: list[TopicPartition]
        ) -> dict[TopicPartition, EpochEnd | KafkaError | None]:
            return await self._epoch_ends(node, {each: wanted[each] for each in partitions})

        return await self._of_all(wanted, ask, deadline, "the ends of leader epochs were not found", found)

    # --- all brokers ----------------------------------------------------------------------------------------------

    async def _of_all(
        self,
        wanted: Iterable[TopicPartition],
        ask: _AskBroker[T],
        deadline: Deadline,
        failed: str,
        tell: _Found[T] | None,
    ) -> dict[TopicPartition, T]:
        found: dict[TopicPartition, T] = {}
        missing = list(wanted)

        async def ask_one(node: int, partitions: list[TopicPartition], errors: list[BaseException]) -> None:
            try:
                answer = await ask(node, partitions)
            except KafkaError as error:
                errors.append(error)
                return
            asked = {each: answer[each] for each in partitions if each in answer}
            good = {key: each for key, each in asked.items() if not isinstance(each, KafkaError)}
            errors += [each for each in asked.values() if isinstance(each, KafkaError)]
            found.update(good)
            if tell is not None and good:
                tell(good)

        async def attempt() -> None:
            nonlocal missing
            by_leader, errors = await self._by_leader(missing)
            await asyncio.gather(*(ask_one(node, each, errors) for node, each in by_leader.items()))
            missing = [each for each in missing if each not in found]
            if missing:
                left_out = KafkaError.of(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{missing[0]} was left out")
                await self._look_again(missing, errors or [left_out])

        if missing:
            await self._cluster.patiently(attempt, deadline, failed)
        return found

    async def _by_leader(
        self, partitions: Iterable[TopicPartition]
    ) -> tuple[dict[int, list[TopicPartition]], list[BaseException]]:
        """Whom to ask about what, and why some cannot be asked about. Those must not keep the others waiting."""
        metadata = self._cluster.metadata
        if unknown := {each.topic for each in partitions if metadata.leader(each) is None}:
            await self._cluster.refresh(unknown)
        by_leader: dict[int, list[TopicPartition]] = {}
        errors: list[BaseException] = []
        for each in partitions:
            node = metadata.leader(each)
            if node is None:
                errors.append(self._cluster.leaderless(each))
            else:
                by_leader.setdefault(node.node_id, []).append(each)
        return by_leader, errors

    async def _look_again(self, missing: list[TopicPartition], errors: list[BaseException]) -> None:
        """Raise the worst of the errors, with fresh metadata if they are to blame."""
        for error in errors:
            if not isinstance(error, RetriableError):
                raise error
        if any(isinstance(error, StaleMetadataError) for error in errors):
            await self._cluster.refresh({each.topic for each in missing})
        raise errors[0]

    # --- one broker -----------------------------------------------------------------------------------------------

    async def _list(
        self, node: int, wanted: Mapping[TopicPartition, int], deadline: Deadline
    ) -> dict[TopicPartition, OffsetAndTimestamp | KafkaError | None]:
        version = version_of(await self._cluster.peer(node), ListOffsetsRequest)
        rows: dict[str, ListOffsetsRequest.Topic] = {}
        for (topic, number), timestamp in wanted.items():
            row = rows.setdefault(topic, ListOffsetsRequest.Topic(name=topic, partitions=[]))
            row.partitions.append(
                ListOffsetsRequest.Topic.Partition(partition_index=number, timestamp=timestamp)
            )
        request = ListOffsetsRequest(
            replica_id=_CONSUMER,
            isolation_level=self._isolation_level if version >= _ISOLATION_SINCE else 0,
            topics=list(rows.values()),
            timeout_ms=int(deadline.left_ms(self._cluster.config.request_timeout_ms)),
        )
        answer = await self._cluster.ask(node, request, version=version)
        found: dict[TopicPartition, OffsetAndTimestamp | KafkaError | None] = {}
        for topic_row in answer.topics:
            for part in topic_row.partitions:
                partition = TopicPartition(topic_row.name, part.partition_index)
                found[partition] = _place(part, version, f"the offsets of {partition}")
        return found

    async def _epoch_ends(
        self, node: int, wanted: Mapping[TopicPartition, EpochAsked]
    ) -> dict[TopicPartition, EpochEnd | KafkaError | None]:
        version = version_of(await self._cluster.peer(node), OffsetForLeaderEpochRequest)
        if version < EPOCHS_SINCE:
            return dict.fromkeys(wanted)
        rows: dict[str, OffsetForLeaderEpochRequest.Topic] = {}
        for (topic, number), each in wanted.items():
            row = rows.setdefault(topic, OffsetForLeaderEpochRequest.Topic(topic=topic, partitions=[]))
            known = self._cluster.metadata.partition(
                TopicPartition(topic, number)
            )  # perhaps newer than `wanted`
            current = max(each.leader_epoch, -1 if known is None else known.leader_epoch)
            row.partitions.append(
                OffsetForLeaderEpochRequest.Topic.Partition(
                    partition=number, current_leader_epoch=current, leader_epoch=each.epoch
                )
            )
        request = OffsetForLeaderEpochRequest(replica_id=_CONSUMER, topics=list(rows.values()))
        answer = await self._cluster.ask(node, request, version=version)
        found: dict[TopicPartition, EpochEnd | KafkaError | None] = {}
        for topic_row in answer.topics:
            for part in topic_row.partitions:
                partition = TopicPartition(topic_row.topic, part.partition)
                if part.error_code:
                    found[partition] = KafkaError.of(part.error_code, f"the leader epochs of {partition}")
                else:
                    found[partition] = EpochEnd(part.leader_epoch, part.end_offset)
        return found


def _place(part: Any, version: int, what: str) -> OffsetAndTimestamp | KafkaError | None:
    if part.error_code == ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT:
        return None  # records of magic 0 have no time
    if part.error_code:
        return KafkaError.of(part.error_code, what)
    if version == 0:
        return OffsetAndTimestamp(part.old_style_offsets[0], -1) if part.old_style_offsets else None
    return None if part.offset < 0 else OffsetAndTimestamp(part.offset, part.timestamp, part.leader_epoch)
