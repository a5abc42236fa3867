"""Throughput by number of partitions: the same records through one topic after the other."""

from collections.abc import AsyncGenerator, Sequence
from typing import NamedTuple

from ottla.cli.benching.clients import Load, consume, produce
from ottla.cli.benching.progress import Bar
from ottla.cli.benching.running import scratch_topic
from ottla.cli.remote import Admin, Failed


class Point(NamedTuple):
    """One number of partitions, and what went through them."""

    partitions: int
    produce_mb_per_second: float
    consume_mb_per_second: float
    produce_records_per_second: float
    consume_records_per_second: float


async def curve(
    admin: Admin,
    counts: Sequence[int],
    load: Load,
    settings: dict[str, object],
    bar: Bar,
    replication_factor: int = -1,
) -> AsyncGenerator[Point, None]:
    """A point for each count. Its topic is gone before the next is made, so that they do not share a disk."""
    for count in counts:
        async with scratch_topic(admin, count, replication_factor) as topic:
            bar.begin(f"{count} partitions, writing", load.records)
            written = await produce(topic, load, settings, bar)
            bar.begin(f"{count} partitions, reading", load.records)
            read = await consume(topic, load.records, {}, bar)
            bar.close()
            if read.records < load.records:
                raise Failed(f"{topic} got {load.records} records, but has {read.records} of them")
        yield Point(
            count,
            written.megabytes_per_second,
            read.megabytes_per_second,
            written.records_per_second,
            read.records_per_second,
        )
