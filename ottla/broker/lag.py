"""How far groups are behind, for every partition that they have committed an offset of and that this broker leads.

In offsets: up to the high watermark for a reader of everything, up to the last stable offset for one of committed
records only. In seconds: the age of the record at the committed offset, which is the next that the group will read.
To know that record's time it must be read from the log; as long as a group does not move it stays the same, so each is
read once.
"""

import asyncio
import logging
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ottla.broker.metrics import BrokerMetrics
from ottla.broker.replicas import Replicas
from ottla.core.clock import Clock
from ottla.core.errors import KafkaError
from ottla.core.ids import TopicPartition
from ottla.records import frames
from ottla.records.errors import RecordError
from ottla.replication.partition import Partition
from ottla.storage.log import Log

logger = logging.getLogger(__name__)

INTERVAL_MS = 10_000
AT_A_TIME = 100
"""Offsets between two turns of the event loop."""
READ_UNCOMMITTED, READ_COMMITTED = "read_uncommitted", "read_committed"


class Lag(NamedTuple):
    """One group in one partition. `seconds` is 0 where there is nothing to read, None where nobody can tell."""

    group: str
    place: TopicPartition
    committed: int
    offsets: int
    """For a reader of everything."""
    stable_offsets: int
    """For a reader of committed records."""
    seconds: float | None

    @property
    def stable_seconds(self) -> float | None:
        return self.seconds if self.stable_offsets else 0


def measured(group: str, partition: Partition, committed: int, timestamp: int | None, now_ms: int) -> Lag:
    """`timestamp` of the record at `committed`, if it is known."""
    offsets = max(0, partition.high_watermark.value - committed)
    stable = max(0, partition.log.last_stable_offset - committed)
    seconds: float | None = 0
    if offsets:
        seconds = None if timestamp is None else max(0, now_ms - timestamp) / 1000
    return Lag(group, partition.topic_partition, committed, offsets, stable, seconds)


async def timestamp_at(log: Log, offset: int, limit: int) -> int | None:
    """The time of the first record at `offset` or behind it, below `limit`; None if there is none."""
    try:
        start = max(offset, log.log_start_offset)
        if start >= limit:
            return None
        data = await asyncio.to_thread(log.read(start, 1, limit).read)
        for frame in frames.iter_frames(data):
            for record in frames.records_of(data, frame):
                if record.offset >= start:
                    return record.timestamp
    except (KafkaError, RecordError, OSError, ValueError) as error:  # deleted under our hands, or damaged
        logger.debug("%s: the record at %d cannot be read: %s", log.directory, offset, error)
    return None


class LagMeter:
    """Keeps the numbers of lag up to date."""

    def __init__(self, replicas: Replicas, metrics: BrokerMetrics, clock: Clock) -> None:
        self._replicas = replicas
        self._metrics = metrics
        self._clock = clock
        self._times: dict[tuple[TopicPartition, int], int | None] = {}
        self._shown: set[tuple[str, str, str]] = set()

    async def update(self, committed: Iterable[tuple[str, TopicPartition, int]]) -> list[Lag]:
        """Measure anew. Groups and partitions that are gone are not shown any more."""
        times, self._times = self._times, {}
        found = []
        for number, (group, place, offset) in enumerate(list(committed)):
            partition = self._replicas.partitions.get(place)
            if partition is not None and partition.is_leader:
                found.append(await self._measure(group, partition, offset, times))
            if number % AT_A_TIME == AT_A_TIME - 1:
                await asyncio.sleep(0)
        self._show(found)
        return found

    async def _measure(
        self,
        group: str,
        partition: Partition,
        offset: int,
        times: dict[tuple[TopicPartition, int], int | None],
    ) -> Lag:
        key, end = (partition.topic_partition, offset), partition.high_watermark.value
        time = None
        if offset < end:
            time = self._times.get(key) or times.get(key)
            if time is None:
                time = await timestamp_at(partition.log, offset, end)
            self._times[key] = time
        return measured(group, partition, offset, time, self._clock.now_ms())

    def _show(self, found: Iterable[Lag]) -> None:
        metrics, shown = self._metrics, set()
        for lag in found:
            labels = lag.group, lag.place.topic, str(lag.place.partition)
            shown.add(labels)
            for isolation, offsets, seconds in _both(lag):
                metrics.group_lag.labels(*labels, isolation).set(offsets)
                if seconds is not None:
                    metrics.group_lag_seconds.labels(*labels, isolation).set(seconds)
        for labels in self._shown - shown:
            for isolation in READ_UNCOMMITTED, READ_COMMITTED:
                metrics.group_lag.remove(*labels, isolation)
                metrics.group_lag_seconds.remove(*labels, isolation)
        self._shown = shown


def _both(lag: Lag) -> Iterator[tuple[str, int, float | None]]:
    yield READ_UNCOMMITTED, lag.offsets, lag.seconds
    yield READ_COMMITTED, lag.stable_offsets, lag.stable_seconds
