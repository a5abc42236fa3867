"""Ending transactions: a marker for every partition that one has written to.

Once a coordinator has decided how a transaction ends, that is how it ends: whatever stands in the way of a marker, it
is tried again, by this coordinator or by the next. A partition of a topic that was deleted needs none.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

from ottla.broker.replicas import Replicas
from ottla.broker.stepping import begin
from ottla.broker.verification import Guards
from ottla.broker.waiting import reach
from ottla.core.clock import Clock
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.protocol.messages.transactions import WriteTxnMarkersRequest
from ottla.records.control import ControlType, build_marker
from ottla.replication.machine import Producer
from ottla.replication.partition import ALL_REPLICAS, Partition
from ottla.storage.producers import NO_OFFSET
from ottla.transactions.markers import WriteMarkers

logger = logging.getLogger(__name__)

_STRICT_SINCE = 2  # the version of transactions since which every one has an epoch of its own
_RETRY_SECONDS = (0.02, 0.1, 0.5, 1.0)
_NEEDS_NONE = {ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH}
"""Of a partition that has its marker. Where the log knows a higher epoch of the producer, this transaction is not open
any more, if it ever was: somebody newer has ended it there, or writes under the same id."""


class MarkerWriter:
    """Writes markers into the partitions that this broker leads."""

    def __init__(
        self, replicas: Replicas, clock: Clock, guards: Guards, timeout_ms: Callable[[], int]
    ) -> None:
        self._replicas = replicas
        self._clock = clock
        self._guards = guards
        self._timeout_ms = timeout_ms
        self.on_written: Callable[[TopicPartition, Producer, bool], object] = lambda *_: None
        """Called at once for every marker, with the producer and whether it is a commit."""

    async def write(self, marker: WriteTxnMarkersRequest.Marker) -> dict[TopicPartition, ErrorCode]:
        """Return when every marker is committed, or it is known why not."""
        places = [TopicPartition(t.name, index) for t in marker.topics for index in t.partition_indexes]
        codes: dict[TopicPartition, ErrorCode] = {}
        waits: list[tuple[TopicPartition, Partition, int]] = []
        for place in places:
            try:
                partition = self._append(place, marker)
            except KafkaError as error:
                codes[place] = error.code
            else:
                codes[place] = ErrorCode.NONE
                if self._must_wait(partition):
                    waits.append((place, partition, partition.log.end_offset))
        for place, partition, end_offset in waits:
            codes[place] = await self._wait(partition, end_offset)
        return codes

    def _append(self, place: TopicPartition, marker: WriteTxnMarkersRequest.Marker) -> Partition:
        partition = self._replicas.get(*place)
        partition.check_leader()
        self._check_epoch(partition, marker)
        producer = Producer(marker.producer_id, marker.producer_epoch)
        now_ms = self._clock.now_ms()
        data = build_marker(
            ControlType.COMMIT if marker.transaction_result else ControlType.ABORT,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            coordinator_epoch=marker.coordinator_epoch,
            timestamp=now_ms,
        )
        try:
            partition.append(data, ALL_REPLICAS, now_ms, client=False)
        except KafkaError as error:
            if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
                self._replicas.note_failure(partition)
            raise
        is_strict = marker.transaction_version >= _STRICT_SINCE
        self._guards.end(place, producer._replace(epoch=producer.epoch - is_strict))
        self.on_written(place, producer, marker.transaction_result)
        return partition

    @staticmethod
    def _check_epoch(partition: Partition, marker: WriteTxnMarkersRequest.Marker) -> None:
        """Where every transaction has its own epoch, a marker's lies above that of what it ends. One that does not was
        late: it must not end the next transaction."""
        if marker.transaction_version < _STRICT_SINCE:
            return
        known = partition.log.producers.get(marker.producer_id)
        if known is not None and known.txn_first_offset != NO_OFFSET and marker.producer_epoch <= known.epoch:
            detail = f"a marker of epoch {marker.producer_epoch} for a transaction of epoch {known.epoch}"
            raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH, detail)

    def _must_wait(self, partition: Partition) -> bool:
        log = partition.log
        return partition.high_watermark.value < log.end_offset or log.is_flush_due(self._clock.now_ms())

    async def _wait(self, partition: Partition, end_offset: int) -> ErrorCode:
        try:
            await self._replicas.commit_of(partition.log).settle(end_offset, self._clock.now_ms())
            partition.check_leader()
            is_there = await reach(partition.high_watermark, end_offset, self._timeout_ms())
        except KafkaError as error:
            return error.code
        return ErrorCode.NONE if is_there else ErrorCode.REQUEST_TIMED_OUT


Marked = Callable[[WriteMarkers, Collection[TopicPartition]], Any]
"""Tells the coordinator, and is awaited, that these partitions have their marker."""


class TransactionEnder:
    """Carries out what coordinators here have decided."""

    def __init__(
        self, writer: MarkerWriter, is_known: Callable[[TopicPartition], bool], marked: Marked
    ) -> None:
        self._writer = writer
        self._is_known = is_known
        self._marked = marked
        self._endings: dict[str, asyncio.Task[None]] = {}
        """By transactional id: those that take longer."""

    def __len__(self) -> int:
        return len(self._endings)

    def carry_out(self, effect: WriteMarkers) -> None:
        """Usually done at once: where nothing is to be waited for, the transaction is over on return.

        An order replaces the one before for the same id. Older clients keep their epoch over transactions, so what an
        old order has done could be taken for the work of the new one.
        """
        before = self._endings.pop(effect.transactional_id, None)
        if before is not None:
            before.cancel()
        ending = begin(self._end(effect))
        if ending is not None:
            self._endings[effect.transactional_id] = ending
            ending.add_done_callback(partial(self._ended, effect.transactional_id))

    def _ended(self, transactional_id: str, ending: "asyncio.Task[None]") -> None:
        if self._endings.get(transactional_id) is ending:
            del self._endings[transactional_id]
        if not ending.cancelled() and (error := ending.exception()) is not None:
            logger.error("%s: its markers could not be written", transactional_id, exc_info=error)

    async def close(self) -> None:
        """What is left is left to the next coordinator."""
        endings = list(self._endings.values())
        for ending in endings:
            ending.cancel()
        if endings:
            await asyncio.wait(endings)

    async def _end(self, effect: WriteMarkers) -> None:
        left: Collection[TopicPartition] = effect.partitions
        attempt = 0
        while True:
            codes = await self._writer.write(_marker(effect, left))
            if ErrorCode.TRANSACTION_COORDINATOR_FENCED in codes.values():
                logger.warning("%s: a newer coordinator ends it", effect.transactional_id)
                return
            done = [place for place, code in codes.items() if self._is_done(place, code)]
            left = [place for place in left if place not in done]
            if not await self._tell(effect, done) or not left:
                return
            await asyncio.sleep(_RETRY_SECONDS[min(attempt, len(_RETRY_SECONDS) - 1)])
            attempt += 1

    def _is_done(self, place: TopicPartition, code: ErrorCode) -> bool:
        is_gone = code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and not self._is_known(place)
        return code in _NEEDS_NONE or is_gone

    async def _tell(self, effect: WriteMarkers, done: Collection[TopicPartition]) -> bool:
        """False if this broker is not the one to tell any more."""
        if not done and effect.partitions:
            return True
        try:
            await self._marked(effect, done)
        except KafkaError as error:
            logger.warning(
                "%s: its coordinator could not be told of markers: %s", effect.transactional_id, error
            )
            return (
                error.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
            )  # its replicas are slow: it is still here
        return True


def _marker(effect: WriteMarkers, places: Collection[TopicPartition]) -> WriteTxnMarkersRequest.Marker:
    by_topic: dict[str, list[int]] = {}
    for topic, index in places:
        by_topic.setdefault(topic, []).append(index)
    return WriteTxnMarkersRequest.Marker(
        producer_id=effect.producer.id,
        producer_epoch=effect.producer.epoch,
        transaction_result=effect.is_commit,
        topics=[
            WriteTxnMarkersRequest.Marker.Topic(name=name, partition_indexes=indexes)
            for name, indexes in by_topic.items()
        ],
        coordinator_epoch=effect.coordinator_epoch,
        transaction_version=effect.transaction_version,
    )
