"""What was measured, as bars and tables."""

from pathlib import Path

import click
import pytest

from ottla.cli.benching.clients import Load
from ottla.cli.benching.curve import Point
from ottla.cli.benching.measuring import Latencies, Measured
from ottla.cli.benching.showing import bars, check_writable, picture, show_measured

POINTS = [Point(1, 10.0, 50.0, 1.0, 1.0), Point(16, 25.0, 0.0, 1.0, 1.0)]


def test_bars_are_as_long_as_what_they_stand_for():
    assert bars(POINTS, "#") == [
        f" 1  produce  {'#' * 10} 10.0",
        f"    consume  {'#' * 50} 50.0",
        f"16  produce  {'#' * 25} 25.0",
        "    consume   0.0",
    ]
    assert bars([Point(1, 0.0, 0.0, 0.0, 0.0)], "#") == ["1  produce   0.0", "   consume   0.0"]
    assert bars([], "#") == []


def test_bars_fit_into_80_columns():
    wide = [Point(100_000, 99_999.9, 1.0, 1.0, 1.0)]
    assert max(map(len, bars(wide, "#"))) <= 80


def test_lines_have_everything_in_one_row(capsys):
    show_measured("orders", Measured(2, 100, 0.5, Latencies.of([1.0, 3.0])), as_json=False)
    names, row = (line.split("\t") for line in capsys.readouterr().out.splitlines())
    found = dict(zip(names, row, strict=True))
    assert (found["records_per_second"], found["mean_ms"], found["max_ms"]) == ("4.000", "2.000", "3.000")


def test_people_get_rates_and_latencies_below_each_other(capsys, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    show_measured(
        "ottla-bench-1-01234567", Measured(200_000, 10**9, 12.5, Latencies.of([1e4])), as_json=False
    )
    captured = capsys.readouterr()
    assert captured.err == "", "there is room for everything"
    assert "p99 9 ms" in captured.out


def test_a_picture_that_could_not_be_written_is_refused_before_anything_is_measured(tmp_path, monkeypatch):
    check_writable(tmp_path / "new.png")
    check_writable(Path("new.png"))
    with pytest.raises(click.UsageError, match="there is no directory"):
        check_writable(tmp_path / "gone" / "new.png")
    monkeypatch.setattr("os.access", lambda path, mode: False)
    with pytest.raises(click.UsageError, match="cannot be written"):
        check_writable(tmp_path / "new.png")


def test_the_picture_is_a_png():
    assert picture(POINTS, Load(10, 10), {"acks": "1"}).startswith(b"\x89PNG\r\n")
