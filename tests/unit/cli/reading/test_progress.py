"""How far a reader is, for who looks at a terminal while the records go elsewhere."""

import io

import pytest

from ottla.cli.reading.progress import ReadProgress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.delenv("NO_COLOR", raising=False)
    return now


def shown(monkeypatch, clock, stdout, stderr, *, is_quiet=False):
    monkeypatch.setattr("sys.stdout", stdout)
    monkeypatch.setattr("sys.stderr", stderr)
    progress = ReadProgress(is_quiet=is_quiet)
    progress.show(1, 1, None)
    clock[0] = 2.0
    progress.show(5, 4_000_000, 7)
    progress.show(6, 4_000_000, 6)
    progress.close()
    progress.close()
    return stderr.getvalue()


def test_a_line_is_written_over_and_gone_in_the_end(monkeypatch, clock):
    text = shown(monkeypatch, clock, io.StringIO(), Terminal())
    assert text == "\r\x1b[K5 records, 7 to go, 4.0 MB, 2.0 MB/s\r\x1b[K"


def test_nobody_is_bothered_who_does_not_look(monkeypatch, clock):
    assert shown(monkeypatch, clock, Terminal(), Terminal()) == ""
    assert shown(monkeypatch, clock, io.StringIO(), io.StringIO()) == ""
    assert shown(monkeypatch, clock, io.StringIO(), Terminal(), is_quiet=True) == ""
