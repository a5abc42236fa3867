"""The three measurements: how fast a producer writes, how fast a consumer reads, how long a record takes to arrive.

All run in this process, on one loop, with the clients that any program would use. Settings are those of the session.
"""

import asyncio
import itertools
import os
import time
from functools import partial
from typing import NamedTuple

from ottla.cli.benching.measuring import Latencies, Measured
from ottla.cli.benching.progress import Bar
from ottla.cli.remote import NOT_FOUND, UNREACHABLE, Failed
from ottla.cli.session import DEFAULT_TIMEOUT, session
from ottla.client.consumer.config import ConsumerConfig
from ottla.client.consumer.consumer import AsyncConsumer
from ottla.client.producer.batch import Stretch
from ottla.client.producer.config import ProducerConfig
from ottla.client.producer.producer import AsyncProducer
from ottla.core.ids import TopicPartition

SAMPLES_MAX = 50_000
"""Of the times that records are handed in, so many are timed, evenly spread: each one costs a call."""
_WARM_UP = 20
_TOGETHER = 100  # the cluster is measured, and not how fast Python can call a function
_POLL_MS = 500
_MS = 1000


class Load(NamedTuple):
    """How much is written or read."""

    records: int
    size: int
    """Bytes of each value."""
    rate: float = 0.0
    """Records in a second, at most; 0 is as fast as it goes."""


# --- writing ----------------------------------------------------------------------------------------------------------


async def produce(topic: str, load: Load, settings: dict[str, object], bar: Bar) -> Measured:
    """Write the load, and wait until all of it is acknowledged."""
    values = values_of(load.size)
    measured_ms: list[float] = []
    together = 1 if load.rate else _TOGETHER
    step = -(-load.records // (SAMPLES_MAX * together))
    async with AsyncProducer(**session().settings(ProducerConfig, **settings)) as producer:
        await producer.partitions_for(topic)  # to hear of a topic is not what is measured
        started = time.perf_counter()
        for turn, number in enumerate(range(0, load.records, together)):
            some = list(itertools.islice(values, min(together, load.records - number)))
            handed_in = time.perf_counter()
            for stretch in await producer.send_many(topic, some):
                if turn % step == 0:
                    stretch.when_done(partial(_note, measured_ms, handed_in))
            bar.is_at(number)
            await _keep_to(load.rate, number, started)
        await producer.flush()
        seconds = time.perf_counter() - started
        if lost := producer.metrics()["records_failed"]:
            raise Failed(f"{lost} of {load.records} records could not be written to {topic}")
    return Measured(load.records, load.records * load.size, seconds, Latencies.of(measured_ms))


def _note(measured_ms: list[float], handed_in: float, _: Stretch) -> None:
    measured_ms.append((time.perf_counter() - handed_in) * _MS)


async def _keep_to(rate: float, done: int, started: float) -> None:
    """Wait as long as we are ahead of the rate."""
    if rate and (ahead := done / rate - (time.perf_counter() - started)) > 0:
        await asyncio.sleep(ahead)


def values_of(size: int) -> "itertools.cycle[bytes]":
    """Values that differ, of bytes that no codec makes much smaller than it would those of real records."""
    half = os.urandom((size + 1) // 2).hex().encode()
    return itertools.cycle([(half[start:] + half[:start])[:size] for start in range(min(16, size or 1))])


# --- reading ----------------------------------------------------------------------------------------------------------


async def consume(topic: str, records: int, settings: dict[str, object], bar: Bar) -> Measured:
    """Read so many records from the beginning of the topic, or all if it has fewer. Latencies are those of polls."""
    async with AsyncConsumer(**session().settings(ConsumerConfig, **settings)) as consumer:
        ends = await _assign(consumer, topic)
        count = size = 0
        measured_ms: list[float] = []
        started = last = time.perf_counter()
        while count < records:
            before = time.perf_counter()
            found = await consumer.poll(timeout_ms=_POLL_MS)
            now = time.perf_counter()
            if not found:
                if await _is_at_end(consumer, ends):
                    break
                _check_patience(now - last, topic)
                continue
            measured_ms.append((now - before) * _MS)
            for each in found.values():
                count += len(each)
                size += sum(len(record.value or b"") for record in each)
            last = now
            bar.is_at(count)
        seconds = last - started
    return Measured(count, size, seconds, Latencies.of(measured_ms))


async def _assign(consumer: AsyncConsumer, topic: str) -> dict[TopicPartition, int]:
    """All partitions, from the beginning. Returns where they end."""
    numbers = await consumer.partitions_for_topic(topic)
    if not numbers:
        raise Failed(f"there is no topic {topic!r}", NOT_FOUND)
    partitions = [TopicPartition(topic, number) for number in sorted(numbers)]
    consumer.assign(partitions)
    await consumer.seek_to_beginning(*partitions)
    return await consumer.end_offsets(partitions)


async def _is_at_end(consumer: AsyncConsumer, ends: dict[TopicPartition, int]) -> bool:
    return all([await consumer.position(partition) >= end for partition, end in ends.items()])


def _check_patience(seconds: float, topic: str) -> None:
    limit = session().timeout or DEFAULT_TIMEOUT
    if seconds > limit:
        raise Failed(f"nothing came from {topic} for {limit:g} s", UNREACHABLE)


# --- there and back ---------------------------------------------------------------------------------------------------


async def round_trips(topic: str, load: Load, settings: dict[str, object], bar: Bar) -> Measured:
    """One record at a time: written, read, and only then the next. The first few are not counted."""
    async with (
        AsyncProducer(**session().settings(ProducerConfig, **settings)) as producer,
        AsyncConsumer(**session().settings(ConsumerConfig)) as consumer,
    ):
        await producer.partitions_for(topic)  # to hear of a topic is not what is measured
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        await consumer.seek_to_end(partition)
        await consumer.position(partition)
        trip = partial(_trip, producer, consumer, partition, session().timeout or DEFAULT_TIMEOUT)
        marks = (str(number).encode().rjust(load.size, b".") for number in itertools.count())
        for _ in range(_WARM_UP):
            await trip(next(marks))
        started = time.perf_counter()
        measured_ms = []
        for number in range(load.records):
            measured_ms.append(await trip(next(marks)) * _MS)
            bar.is_at(number)
        seconds = time.perf_counter() - started
    return Measured(load.records, load.records * load.size, seconds, Latencies.of(measured_ms))


async def _trip(
    producer: AsyncProducer, consumer: AsyncConsumer, to: TopicPartition, limit: float, value: bytes
) -> float:
    """Seconds from the call of send until the consumer hands the record out. What others write meanwhile is skipped."""

    async def there_and_back() -> float:
        sent = time.perf_counter()
        delivery = await producer.send(to.topic, value, partition=to.partition)
        while (await consumer.getone()).value != value:
            pass
        arrived = time.perf_counter()
        await delivery
        return arrived - sent

    try:
        return await asyncio.wait_for(there_and_back(), limit)
    except TimeoutError:
        raise Failed(f"a record written to {to} did not come back in {limit:g} s", UNREACHABLE) from None
