"""How far compactions are, for people and for logs."""

import io

import pytest

from ottla.cli import topic_progress
from ottla.cli.topic_progress import CompactionProgress, line, size
from ottla.cli.topic_runs import Progress

MIB = 1 << 20


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(topic_progress.time, "monotonic", lambda: now[0])
    return now


def far(done, total=24 * MIB, **phases):
    fraction = done / total if total else 0.0
    return Progress("orders", fraction, done, total, phases or {"mapping": 1, "done": 2})


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (12 * MIB, "12.0 MiB"), (3 << 50, "3072.0 TiB")],
)
def test_bytes_are_said_as_people_say_them(count, text):
    assert size(count) == text


def test_a_line_has_phases_and_bytes_where_they_are_known():
    assert line(far(12 * MIB)) == "orders: 50 %, 1 mapping, 2 done; 12.0 MiB of 24.0 MiB"
    assert line(far(0, 0, waiting=3)) == "orders: 0 %, 3 waiting"


def test_elsewhere_than_on_a_terminal_it_is_a_line_now_and_then(clock):
    stream = io.StringIO()
    shown = CompactionProgress(stream)
    for done in range(15):
        shown.show([far(done * MIB)])
        clock[0] += 0.5
    shown.close()
    assert stream.getvalue() == (
        "orders: 8 %, 1 mapping, 2 done; 2.0 MiB of 24.0 MiB\n"
        "orders: 50 %, 1 mapping, 2 done; 12.0 MiB of 24.0 MiB\n"
    )


def test_what_is_quick_says_nothing(clock):
    stream = io.StringIO()
    shown = CompactionProgress(stream)
    shown.show([far(0)])
    shown.close()
    assert stream.getvalue() == ""


def test_on_a_terminal_each_topic_has_a_bar(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    stream = Terminal()
    shown = CompactionProgress(stream)
    shown.show([far(0, 0, waiting=3), far(0, 0, waiting=1)._replace(topic="[bold]quiet")])
    shown.show([far(6 * MIB)])
    shown.close()
    shown.close()
    text = stream.getvalue()
    assert "3 waiting" in text and "1 mapping, 2 done" in text
    assert "6.0 MiB of 24.0 MiB" in text and "25%" in text
    assert "[bold]quiet" in text


def test_a_terminal_without_colours_gets_lines(clock, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    shown = CompactionProgress(stream)
    clock[0] += 2
    shown.show([far(0)])
    assert stream.getvalue() == "orders: 0 %, 1 mapping, 2 done; 0 B of 24.0 MiB\n"
