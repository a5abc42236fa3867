"""Places in logs and what lies between them, as people write them."""

import click
import pytest

from ottla.cli.inspection.times import time_of
from ottla.cli.targets import END, START, Partitions, Span, Target, partitions_of, span_of, target_of

SEVEN, EIGHT = (time_of(f"2026-11-15T0{hour}:00") for hour in (7, 8))
BEGINNING, LAST = Target(end=START), Target(end=END)


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("start", BEGINNING),
        ("beginning", BEGINNING),
        ("Earliest", BEGINNING),
        ("end", LAST),
        ("latest", LAST),
        ("0", Target(offset=0)),
        ("4711", Target(offset=4711)),
        ("-10", Target(before_end=10)),
        ("-0", Target(before_end=0)),
        ("@1795003958541", Target(time_ms=1795003958541)),
        ("@2026-11-15T07:00", Target(time_ms=SEVEN)),
    ],
)
def test_a_place_is_an_end_an_offset_or_a_time(text, target):
    assert target_of(text) == target


def test_a_time_ago_is_counted_from_now(monkeypatch):
    monkeypatch.setattr("time.time", lambda: 7200.0)
    assert target_of("@-1h") == Target(time_ms=3_600_000)
    assert target_of("@-90d") == Target(time_ms=0)


@pytest.mark.parametrize(
    "text",
    ["", "somewhere", "--10", "- 10", "+3", "1.5", "@", "@noon", "@-", "@-1x", "9" * 40, "9" * 5000, "٣"],
)
def test_what_is_no_place_is_refused(text):
    with pytest.raises(click.UsageError):
        target_of(text)


@pytest.mark.parametrize(
    ("text", "start", "stop"),
    [
        ("start", BEGINNING, None),
        ("-10", Target(before_end=10), None),
        ("start:end", BEGINNING, LAST),
        (":end", BEGINNING, LAST),
        ("5:", Target(offset=5), None),
        ("5:10", Target(offset=5), Target(offset=10)),
        ("-10:-5", Target(before_end=10), Target(before_end=5)),
        ("@2026-11-15T07:00", Target(time_ms=SEVEN), None),
        ("@2026-11-15T07:00:00", Target(time_ms=SEVEN), None),
        ("@2026-11-15T07:00:end", Target(time_ms=SEVEN), LAST),
        ("@2026-11-15T07:00:@2026-11-15T08:00", Target(time_ms=SEVEN), Target(time_ms=EIGHT)),
        ("@2026-11-15T07:00+00:00:@2026-11-15T08:00:00.000", Target(time_ms=SEVEN), Target(time_ms=EIGHT)),
        ("5:@2026-11-15T08:00", Target(offset=5), Target(time_ms=EIGHT)),
    ],
)
def test_a_span_may_have_colons_in_its_times(text, start, stop):
    assert span_of(text) == Span(start, stop)


def test_a_span_that_makes_no_sense_is_refused():
    with pytest.raises(click.UsageError, match="'here:there' is no place"):
        span_of("here:there")


def test_partitions_are_numbers_behind_a_colon():
    assert partitions_of("orders") == Partitions("orders", None)
    assert partitions_of("orders:3,1,3") == Partitions("orders", (1, 3))
    for text in ("orders:", "orders:x", "orders:-1", "orders:1,", f"orders:{2**31}", f"orders:{'9' * 5000}"):
        with pytest.raises(click.UsageError, match="names no partitions"):
            partitions_of(text)
