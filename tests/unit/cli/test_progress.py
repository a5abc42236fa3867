"""How far a recovery has come, shown only when somebody would begin to wonder."""

import io

import pytest

from ottla.cli import progress
from ottla.cli.progress import RecoveryProgress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_a_quick_start_shows_nothing(clock):
    stream = io.StringIO()
    shown = RecoveryProgress(stream)
    for done in range(101):
        shown(done, 100)
    shown.close()
    assert stream.getvalue() == ""


def test_elsewhere_than_on_a_terminal_it_is_a_line_now_and_then(clock):
    stream = io.StringIO()
    shown = RecoveryProgress(stream)
    for done in range(21):
        shown(done, 20)
        clock[0] += 0.5
    shown.close()
    shown(1, 2)
    assert stream.getvalue() == "recovering logs: 2 of 20\nrecovering logs: 12 of 20\n"


def test_on_a_terminal_it_is_a_bar_that_goes_away(clock):
    stream = Terminal()
    shown = RecoveryProgress(stream)
    clock[0] += 2
    shown(3, 10)
    shown(4, 10)
    shown.close()
    shown.close()
    assert "recovering logs" in stream.getvalue()
