"""The records of one topic written to another, partition by partition: keys, values, headers and timestamps stay.

What is committed when it begins is copied; what comes later is not. Offsets are counted anew: where records are missing
in the source, none are in the target.
"""

import os
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ottla.cli.remote import UNREACHABLE, Failed, failed
from ottla.cli.session import DEFAULT_TIMEOUT, session
from ottla.client.consumer.config import ConsumerConfig
from ottla.client.consumer.consumer import AsyncConsumer
from ottla.client.producer.config import ProducerConfig
from ottla.client.producer.producer import AsyncProducer
from ottla.client.records import ConsumerRecord
from ottla.core.errors import KafkaError
from ottla.core.ids import TopicPartition

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_MS = 1000
_POLL_MS = 500
_AT_A_TIME = 5000
_REQUEST_BYTES_MAX = 1 << 30  # the broker says what is too large for the topic, not we


async def copied(
    target: str, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> int:
    """Copy from each start up to each end, of partitions of one topic. Returns the number of records.

    Raises `Failed`, with a sentence that says how many were written before.
    """
    ends = {place: end for place, end in ends.items() if end > starts[place]}
    if not ends:
        return 0
    bar = CopyProgress(sum(end - starts[place] for place, end in ends.items()))
    copy = _Copy(target, starts, ends, bar)
    try:
        async with AsyncConsumer(**_reading()) as consumer, AsyncProducer(**_writing()) as producer:
            await copy.run(consumer, producer)
    except KafkaError as error:
        raise Failed(f"after {copy.count} records: {error}", failed(error).exit_code) from error
    finally:
        bar.close()
    return copy.count


def _reading() -> dict[str, Any]:
    return session().settings(
        ConsumerConfig,
        **{
            "group.id": None,
            "isolation.level": "read_committed",
            "auto.offset.reset": "none",
            "max.poll.records": _AT_A_TIME,
        },
    )


def _writing() -> dict[str, Any]:
    return session().settings(
        ProducerConfig,
        **{
            "transactional.id": None,
            "acks": "all",
            "enable.idempotence": True,
            "max.request.size": _REQUEST_BYTES_MAX,
        },
    )


class _Copy:
    """How far it is."""

    def __init__(
        self,
        target: str,
        starts: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
        bar: "CopyProgress",
    ) -> None:
        self._target, self._starts, self._ends, self._bar = target, starts, ends, bar
        self.count = 0

    async def run(self, consumer: AsyncConsumer, producer: AsyncProducer) -> None:
        left = set(self._ends)
        consumer.assign(left)
        for place in left:
            consumer.seek(place, self._starts[place])
        patience_ms = (session().timeout or DEFAULT_TIMEOUT) * _MS
        idle_ms = 0.0
        while left:
            found = await consumer.poll(_POLL_MS)
            await self._write(producer, found)
            positions = {place: await consumer.position(place) for place in left}
            self._bar.show(self._done(positions))
            ended = {place for place in left if positions[place] >= self._ends[place]}
            if ended:
                left -= ended
                consumer.assign(left)
            idle_ms = 0.0 if found or ended else idle_ms + _POLL_MS
            if idle_ms > patience_ms:
                raise Failed(f"after {self.count} records nothing more of {min(left)} came", UNREACHABLE)

    async def _write(
        self, producer: AsyncProducer, found: Mapping[TopicPartition, Iterable[ConsumerRecord]]
    ) -> None:
        """All of them are acknowledged when it returns."""
        deliveries = []
        for place, records in found.items():
            for record in records:
                if record.offset < self._ends[place]:
                    deliveries.append(
                        await producer.send(
                            self._target,
                            value=record.value,
                            key=record.key,
                            headers=list(record.headers),
                            partition=record.partition,
                            timestamp_ms=record.timestamp,
                        )
                    )
        if deliveries:
            await producer.flush()
        for delivery in deliveries:
            await delivery
            self.count += 1

    def _done(self, positions: Mapping[TopicPartition, int]) -> int:
        return sum(
            min(end, positions.get(place, end)) - self._starts[place] for place, end in self._ends.items()
        )


class CopyProgress:
    """A bar on stderr, if that is a terminal and nobody wants it quiet."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._bar: tuple[Progress, TaskID] | None = None
        self._is_shown = sys.stderr.isatty() and not os.environ.get("NO_COLOR") and not session().is_quiet

    def show(self, done: int) -> None:
        if not self._is_shown:
            return
        if self._bar is None:
            from rich.console import Console
            from rich.progress import Progress

            progress = Progress(console=Console(file=sys.stderr), transient=True)
            self._bar = progress, progress.add_task("copying records", total=self._total)
            progress.start()
        progress, task = self._bar
        progress.update(task, completed=done)

    def close(self) -> None:
        if self._bar is not None:
            self._bar[0].stop()
        self._bar = None
