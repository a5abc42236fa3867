"""Ending transactions: a marker for every partition that one has written to.

Once a coordinator has decided how a transaction ends, that is how it ends: whatever stands in the way of a marker, it
is tried again, by this coordinator or by the next. A partition of a topic that was deleted needs none. Markers for
partitions that other brokers lead go there by `remote_markers`.
"""

import asyncio
import dataclasses
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

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
_NEEDS_NONE = {
    ErrorCode.NONE,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    ErrorCode.UNSUPPORTED_VERSION,
}
"""Of a partition that has its marker. Where the log knows a higher epoch of the producer, this transaction is not open
any more, if it ever was: somebody newer has ended it there, or writes under the same id. And one that can hold no
markers cannot hold batches of transactions either."""

Marker = WriteTxnMarkersRequest.Marker


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

    @staticmethod
    def spread(places: Collection[TopicPartition]) -> list[Collection[TopicPartition]]:
        """All of it is written here."""
        return [places]

    async def write(self, marker: Marker) -> dict[TopicPartition, ErrorCode]:
        """Return when every marker is committed, or it is known why not."""
        places = places_of(marker)
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

    def _append(self, place: TopicPartition, marker: Marker) -> Partition:
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
    def _check_epoch(partition: Partition, marker: Marker) -> None:
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


class Writer(Protocol):
    """Who gets markers into partitions, wherever those are led."""

    def spread(self, places: Collection[TopicPartition]) -> Sequence[Collection[TopicPartition]]:
        """The places in parts that are seen to independently: one that takes long holds up no other."""

    async def write(self, marker: Marker) -> dict[TopicPartition, ErrorCode]: ...


class _Ending:
    """What an order has come to."""

    __slots__ = ("effect", "is_over", "task")

    def __init__(self, effect: WriteMarkers) -> None:
        self.effect = effect
        self.is_over = False
        """Is it somebody else's now?"""
        self.task: asyncio.Task[None] | None = None


class TransactionEnder:
    """Carries out what coordinators here have decided."""

    def __init__(
        self,
        writer: Writer,
        is_gone: Callable[[TopicPartition], bool],
        marked: Marked,
        is_in_charge: Callable[[WriteMarkers], bool] = lambda effect: True,
    ) -> None:
        """`is_in_charge`: does the coordinator that gave the order still decide about it?"""
        self._writer = writer
        self._is_gone = is_gone
        self._marked = marked
        self._is_in_charge = is_in_charge
        self._endings: dict[str, _Ending] = {}
        """By transactional id: those that take longer."""

    def __len__(self) -> int:
        return len(self._endings)

    def carry_out(self, effect: WriteMarkers) -> None:
        """Usually done at once: where nothing is to be waited for, the transaction is over on return.

        An order replaces the one before for the same id. Older clients keep their epoch over transactions, so what an
        old order has done could be taken for the work of the new one.
        """
        before = self._endings.pop(effect.transactional_id, None)
        if before is not None and before.task is not None:
            before.task.cancel()
        ending = _Ending(effect)
        ending.task = begin(self._end(ending))
        if ending.task is not None:
            self._endings[effect.transactional_id] = ending
            ending.task.add_done_callback(partial(self._ended, ending))

    def _ended(self, ending: _Ending, task: "asyncio.Task[None]") -> None:
        transactional_id = ending.effect.transactional_id
        if self._endings.get(transactional_id) is ending:
            del self._endings[transactional_id]
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("%s: its markers could not be written", transactional_id, exc_info=error)

    async def close(self) -> None:
        """What is left is left to the next coordinator."""
        tasks = [ending.task for ending in self._endings.values() if ending.task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _end(self, ending: _Ending) -> None:
        parts = self._writer.spread(ending.effect.partitions)
        if len(parts) > 1:
            await asyncio.gather(*(self._end_part(ending, part) for part in parts))
        else:
            await self._end_part(ending, ending.effect.partitions)

    async def _end_part(self, ending: _Ending, left: Collection[TopicPartition]) -> None:
        effect, attempt = ending.effect, 0
        while not ending.is_over:
            codes = await self._writer.write(_marker(effect, left))
            if ErrorCode.TRANSACTION_COORDINATOR_FENCED in codes.values():
                logger.warning("%s: a newer coordinator ends it", effect.transactional_id)
                ending.is_over = True
                return
            done = [place for place, code in codes.items() if self._is_done(place, code)]
            left = [place for place in left if place not in done]
            if not await self._tell(effect, done) or not self._is_in_charge(effect):
                ending.is_over = True  # whoever is in charge now writes all of them again
            if ending.is_over or not left:
                return
            await self._pause(effect, attempt, {place: codes[place] for place in left})
            attempt += 1

    async def _pause(
        self, effect: WriteMarkers, attempt: int, codes: Mapping[TopicPartition, ErrorCode]
    ) -> None:
        if attempt + 1 == len(_RETRY_SECONDS):
            lacking = ", ".join(f"{place} ({code.name})" for place, code in codes.items())
            logger.warning("%s still lacks markers in %s", effect.transactional_id, lacking)
        await asyncio.sleep(_RETRY_SECONDS[min(attempt, len(_RETRY_SECONDS) - 1)])

    def _is_done(self, place: TopicPartition, code: ErrorCode) -> bool:
        is_gone = code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and self._is_gone(place)
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


def places_of(marker: Marker) -> list[TopicPartition]:
    return [TopicPartition(topic.name, index) for topic in marker.topics for index in topic.partition_indexes]


def marker_for(marker: Marker, places: Collection[TopicPartition]) -> Marker:
    """The same marker, for some of its partitions."""
    return dataclasses.replace(marker, topics=_topics(places))


def _marker(effect: WriteMarkers, places: Collection[TopicPartition]) -> Marker:
    return Marker(
        producer_id=effect.producer.id,
        producer_epoch=effect.producer.epoch,
        transaction_result=effect.is_commit,
        topics=_topics(places),
        coordinator_epoch=effect.coordinator_epoch,
        transaction_version=effect.transaction_version,
    )


def _topics(places: Collection[TopicPartition]) -> list[Marker.Topic]:
    by_topic: dict[str, list[int]] = {}
    for topic, index in places:
        by_topic.setdefault(topic, []).append(index)
    return [Marker.Topic(name=name, partition_indexes=indexes) for name, indexes in by_topic.items()]
