"""What was measured, for people, for lines, for programs, and as a picture.

A terminal of 80 columns has room for the rates or for the latencies: people get two tables, lines get one.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from ottla.cli.benching.chart import Series, Words, chart
from ottla.cli.benching.clients import Load
from ottla.cli.benching.curve import Point
from ottla.cli.benching.measuring import LATENCIES, Measured
from ottla.cli.tables import document, is_for_people, part, show

RATES = ["topic", "records", "seconds", "records_per_second", "mb_per_second"]
POINT = ["partitions", "produce_mb_per_second", "consume_mb_per_second"]
_BAR_WIDTH = 50


def show_measured(topic: str, measured: Measured, as_json: bool, **more: object) -> None:
    """Rates and latencies of one run."""
    rates = {
        "topic": topic,
        "records": measured.records,
        "seconds": measured.seconds,
        "records_per_second": measured.records_per_second,
        "mb_per_second": measured.megabytes_per_second,
    }
    latencies = measured.latencies.row()
    renamed = {f"{mark}_ms": latencies[mark] for mark in LATENCIES}
    if as_json:
        document({**rates, **more, "latency_ms": latencies})
    elif is_for_people():
        show([rates], RATES)
        part()
        show([renamed], list(renamed))
    else:
        show([{**rates, **renamed}], [*RATES, *renamed])


def show_curve(points: Sequence[Point]) -> None:
    """The points as a table and as bars, for people."""
    show([each._asdict() for each in points], POINT)
    part()
    for line in bars(points, "█" if (sys.stdout.encoding or "").lower().startswith("utf") else "#"):
        click.echo(line)


def bars(points: Sequence[Point], mark: str) -> list[str]:
    """Two for each point, as long as their throughput compared to the highest."""
    highest = max((max(each[1], each[2]) for each in points), default=0.0) or 1.0
    width = max((len(str(each.partitions)) for each in points), default=0)
    lines = []
    for point in points:
        for name, rate in (
            ("produce", point.produce_mb_per_second),
            ("consume", point.consume_mb_per_second),
        ):
            number = point.partitions if name == "produce" else ""
            lines.append(f"{number:>{width}}  {name}  {mark * round(rate / highest * _BAR_WIDTH)} {rate:.1f}")
    return lines


def check_writable(path: Path) -> None:
    """Before minutes of measuring: can the picture be written in the end? Raises UsageError."""
    from os import W_OK, access

    if not path.parent.is_dir():
        raise click.UsageError(f"--png {path}: there is no directory {path.parent}")
    if not access(path if path.exists() else path.parent, W_OK):
        raise click.UsageError(f"--png {path} cannot be written")


def picture(points: Sequence[Point], load: Load, settings: dict[str, object]) -> bytes:
    """The curve as a PNG."""
    how = "".join(f", {key}={value}" for key, value in settings.items())
    words = Words(
        "Throughput by number of partitions",
        f"{load.records:,} records of {load.size:,} bytes each{how}",
        "partitions",
        "MB/s",
    )
    return chart(
        [each.partitions for each in points],
        [
            Series("produce", [each.produce_mb_per_second for each in points]),
            Series("consume", [each.consume_mb_per_second for each in points]),
        ],
        words,
    )
