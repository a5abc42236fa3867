"""`ottla bench`: how fast a cluster writes and reads, how long a record takes, and what more partitions bring.

Without the name of a topic one is made for the measurement, and deleted in the end. A megabyte is 1024 * 1024 bytes.
Exit codes: 0 done, 1 failed, 2 usage, 4 no such topic, 5 not allowed, 6 nobody answers, 130 interrupted.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.completing import topics
from ottla.cli.durations import seconds
from ottla.cli.lazy import Lazy, LazyGroup
from ottla.cli.session import Command, json_option, reach_options, session

if TYPE_CHECKING:
    from ottla.cli.benching.clients import Load
    from ottla.cli.benching.curve import Point
    from ottla.cli.benching.measuring import Measured
    from ottla.cli.remote import Admin

COMMANDS = {
    "produce": Lazy("ottla.cli.bench:produce", "Measure how fast records are written."),
    "consume": Lazy("ottla.cli.bench:consume", "Measure how fast records are read."),
    "e2e": Lazy("ottla.cli.bench:e2e", "Measure how long a record takes from producer to consumer."),
    "partitions": Lazy("ottla.cli.bench:partitions", "Measure throughput by number of partitions."),
}
_COUNTS_MAX, _PARTITIONS_MAX = 64, 100_000


@click.group(cls=LazyGroup, table=COMMANDS)
def bench() -> None:
    """Measure a cluster: writing, reading, the way of a record, and what more partitions bring."""


# --- options ----------------------------------------------------------------------------------------------------------


def size_of(text: str) -> int:
    """A number of bytes, as in 1024, 16KiB or 1 MiB."""
    from ottla.core.values import Bytes

    try:
        return int(Bytes.read(text))
    except ValueError:
        raise click.BadParameter(f"{text!r} is no number of bytes: write 1024, 16KiB or 1MiB") from None


def load_options(records: int, size: int) -> Callable[[Command], Command]:
    """How much is written."""

    def add(command: Command) -> Command:
        command = click.option(
            "--size",
            type=size_of,
            default=size,
            show_default=True,
            metavar="BYTES",
            help="How long each value is.",
        )(command)
        return click.option(
            "--records",
            type=click.IntRange(1),
            default=records,
            show_default=True,
            metavar="N",
            help="How many records.",
        )(command)

    return add


def producer_options(command: Command) -> Command:
    """How it is written. Hands over `settings`, as of a producer; what was not said is left to the session."""

    def run(
        batch: int | None, linger: float | None, acks: str | None, compression: str | None, **given: Any
    ) -> Any:
        said = {
            "batch.size": batch,
            "linger.ms": None if linger is None else round(linger * 1000),
            "acks": acks,
            "compression.type": compression,
        }
        return command(settings={key: value for key, value in said.items() if value is not None}, **given)

    run.__doc__, run.__name__ = command.__doc__, command.__name__
    run.__dict__.update(command.__dict__)
    for option in (
        click.option("--compression", metavar="CODEC", help="none, gzip, snappy, lz4 or zstd."),
        click.option("--acks", metavar="0|1|all", help="Who must have a record before it counts as written."),
        click.option(
            "--linger", type=seconds(0, 3600), metavar="TIME", help="How long a batch waits, as in 5ms."
        ),
        click.option("--batch", type=size_of, metavar="BYTES", help="How large a batch may become."),
    ):
        run = option(run)
    return run


def topic_options(command: Command) -> Command:
    """The topic, or how the one is made that takes its place."""
    for option in (
        click.option(
            "--replicas",
            "--replication-factor",
            "replication_factor",
            type=click.IntRange(1),
            default=None,
            metavar="N",
            help="Replicas of a topic that is made.  [default: the broker's]",
        ),
        click.option(
            "--partitions",
            type=click.IntRange(1, _PARTITIONS_MAX),
            default=1,
            show_default=True,
            metavar="N",
            help="Partitions of a topic that is made.",
        ),
        click.argument("topic", required=False, metavar="[TOPIC]", shell_complete=topics),
    ):
        command = option(command)
    return command


# --- commands ---------------------------------------------------------------------------------------------------------


@click.command()
@topic_options
@load_options(100_000, 1024)
@producer_options
@click.option(
    "--rate", type=click.FloatRange(0), default=0.0, metavar="N", help="Records in a second, at most."
)
@json_option
@reach_options
def produce(
    topic: str | None,
    partitions: int,
    replication_factor: int | None,
    records: int,
    size: int,
    rate: float,
    settings: dict[str, object],
    as_json: bool,
) -> None:
    """Write records as fast as it goes, and say how fast that was.

    Latencies are from the call of send to the acknowledgement, in milliseconds: with full batches that is mostly the
    time that records wait in the producer. --rate shows what they are at a given load.

    --json: {"topic", "records", "seconds", "records_per_second", "mb_per_second", "size", "latency_ms": {"mean", "p50",
    "p95", "p99", "p99_9", "max"}}.
    """
    from ottla.cli.benching.clients import Load
    from ottla.cli.benching.clients import produce as write
    from ottla.cli.benching.showing import show_measured

    async def work(name: str, bar: Any) -> "Measured":
        bar.begin("writing", records)
        return await write(name, Load(records, size, rate), settings, bar)

    name, measured = _measured(topic, partitions, replication_factor, work)
    show_measured(name, measured, as_json, size=size)


@click.command()
@topic_options
@load_options(100_000, 1024)
@json_option
@reach_options
def consume(
    topic: str | None,
    partitions: int,
    replication_factor: int | None,
    records: int,
    size: int,
    as_json: bool,
) -> None:
    """Read a topic from its beginning as fast as it goes, and say how fast that was.

    Without a topic, one is filled first; --size is for its records. Latencies are those of polls, in milliseconds. No
    group is joined, and nothing committed.

    --json: {"topic", "records", "seconds", "records_per_second", "mb_per_second", "latency_ms": {"mean", "p50",
    "p95", "p99", "p99_9", "max"}}.
    """
    from ottla.cli.benching.clients import Load
    from ottla.cli.benching.clients import consume as read
    from ottla.cli.benching.clients import produce as write
    from ottla.cli.benching.showing import show_measured

    async def work(name: str, bar: Any) -> "Measured":
        if topic is None:
            bar.begin("writing", records)
            await write(name, Load(records, size), {}, bar)
        bar.begin("reading", records)
        return await read(name, records, {}, bar)

    name, measured = _measured(topic, partitions, replication_factor, work)
    show_measured(name, measured, as_json)


@click.command()
@topic_options
@load_options(1000, 100)
@producer_options
@json_option
@reach_options
def e2e(
    topic: str | None,
    partitions: int,
    replication_factor: int | None,
    records: int,
    size: int,
    settings: dict[str, object],
    as_json: bool,
) -> None:
    """Send one record at a time and wait until a consumer has it: how long does that take?

    In milliseconds, from the call of send until the consumer hands the record out. All go through partition 0.

    --json: {"topic", "records", "seconds", "records_per_second", "mb_per_second", "size", "latency_ms": {"mean", "p50",
    "p95", "p99", "p99_9", "max"}}.
    """
    from ottla.cli.benching.clients import Load, round_trips
    from ottla.cli.benching.showing import show_measured

    async def work(name: str, bar: Any) -> "Measured":
        bar.begin("there and back", records)
        return await round_trips(name, Load(records, size), settings, bar)

    name, measured = _measured(topic, partitions, replication_factor, work)
    show_measured(name, measured, as_json, size=size)


def _read_counts(_: click.Context, __: click.Parameter, text: str) -> list[int]:
    try:
        counts = sorted({int(each) for each in text.split(",") if each.strip()})
    except ValueError:
        raise click.BadParameter(f"{text!r}: write numbers with commas between them, as in 1,2,4") from None
    if not counts or counts[0] < 1 or counts[-1] > _PARTITIONS_MAX or len(counts) > _COUNTS_MAX:
        raise click.BadParameter(f"up to {_COUNTS_MAX} numbers between 1 and {_PARTITIONS_MAX} are needed")
    return counts


@click.command()
@click.option(
    "--counts",
    default="1,2,4,8,16,32,64,128",
    show_default=True,
    metavar="N,N...",
    callback=_read_counts,
    help="How many partitions.",
)
@load_options(100_000, 1024)
@producer_options
@click.option(
    "--replicas",
    "--replication-factor",
    "replication_factor",
    type=click.IntRange(1),
    metavar="N",
    help="Replicas of the topics.  [default: the broker's]",
)
@click.option(
    "--png", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Draw the curve."
)
@json_option
@reach_options
def partitions(
    counts: list[int],
    records: int,
    size: int,
    settings: dict[str, object],
    replication_factor: int | None,
    png: Path | None,
    as_json: bool,
) -> None:
    """Do more partitions bring more throughput? Write and read the same records with 1, 2, 4, ... of them.

    For each number a topic is made, filled, read and deleted. Topics are called ottla-bench-..., and are deleted also
    if the measurement is interrupted.

    --json: {"records", "size", "points": [{"partitions", "produce_mb_per_second", "consume_mb_per_second",
    "produce_records_per_second", "consume_records_per_second"}]}.
    """
    from ottla.cli.benching.clients import Load
    from ottla.cli.benching.showing import check_writable, picture

    if png is not None:
        check_writable(png)
    load = Load(records, size)
    points = _curve(counts, load, settings, replication_factor, is_shown=not as_json)
    if png is not None:
        png.write_bytes(picture(points, load, settings))
        _remark(f"the curve is in {png}")
    if as_json:
        from ottla.cli.tables import document

        document({"records": records, "size": size, "points": [each._asdict() for each in points]})


# --- doing it ---------------------------------------------------------------------------------------------------------


def _measured(
    topic: str | None,
    partitions: int,
    replication_factor: int | None,
    work: Callable[[str, Any], Any],
) -> "tuple[str, Measured]":
    from ottla.cli.benching.progress import Bar
    from ottla.cli.benching.running import benchmark, topic_or_scratch

    bar = Bar(is_quiet=session().is_quiet)

    async def connected(admin: "Admin") -> "tuple[str, Measured]":
        async with topic_or_scratch(admin, topic, partitions, replication_factor or -1) as name:
            try:
                return name, await work(name, bar)
            finally:
                bar.close()

    return benchmark(connected)


def _curve(
    counts: list[int],
    load: "Load",
    settings: dict[str, object],
    replication_factor: int | None,
    *,
    is_shown: bool,
) -> "list[Point]":
    """The points; a table shows them, also those that there were before an interrupt."""
    from ottla.cli.benching.curve import curve
    from ottla.cli.benching.progress import Bar
    from ottla.cli.benching.running import benchmark
    from ottla.cli.benching.showing import POINT, show_curve
    from ottla.cli.tables import is_for_people, lines

    points: list[Point] = []
    bar = Bar(is_quiet=session().is_quiet)

    async def work(admin: "Admin") -> None:
        from contextlib import aclosing

        async with aclosing(curve(admin, counts, load, settings, bar, replication_factor or -1)) as measured:
            async for point in measured:
                points.append(point)
                if is_shown and not is_for_people():
                    lines([point._asdict()], POINT, header=len(points) == 1)

    try:
        benchmark(work)
    finally:
        bar.close()
        if is_shown and is_for_people() and points:
            show_curve(points)
    return points


def _remark(sentence: str) -> None:
    if not session().is_quiet:
        click.echo(sentence, err=True)
