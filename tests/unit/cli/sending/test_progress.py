"""The bar: on a terminal, for what takes long, and for nobody who types."""

import io

import pytest

from ottla.cli.sending import progress
from ottla.cli.sending.progress import SendingProgress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def terminal(monkeypatch):
    """Called in the test itself: pytest puts its own stderr in place when a test begins."""
    made = Terminal()
    monkeypatch.setattr("sys.stderr", made)
    monkeypatch.setattr(progress, "_PATIENCE_SECONDS", 0.0)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    return made


@pytest.mark.parametrize("total", [1000, None])
def test_it_shows_how_far_it_is(monkeypatch, total):
    stderr = terminal(monkeypatch)
    bar = SendingProgress(total, is_typed=False)
    bar.show(500, 7)
    bar.close()
    assert "7 records acknowledged" in stderr.getvalue()


def test_there_is_none_for_who_types_or_without_colors(monkeypatch):
    stderr = terminal(monkeypatch)
    SendingProgress(None, is_typed=True).show(500, 7)
    monkeypatch.setenv("NO_COLOR", "1")
    SendingProgress(None, is_typed=False).show(500, 7)
    assert stderr.getvalue() == ""
