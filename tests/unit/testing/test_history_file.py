"""Histories survive a file, and no file brings more than a HistoryError."""

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.testing import history_file
from ottla.testing.history import HistoryError
from ottla.testing.history_file import read_history, write_history
from tests.unit.testing.histories import CorrectLog

GOOD = ["ok", "send", 0, 0, [["send", "x", 1, 5]], [], [], ""]


def same(value):
    """Tuples and lists of a poll are the same once they have been in a file."""
    return json.loads(json.dumps(value, default=sorted))


@pytest.mark.parametrize("seed", range(5))
def test_what_is_written_is_read_back(seed, tmp_path):
    log = CorrectLog(random.Random(seed))
    log.run()
    log.history.client().poll().ok([], rebalanced=["y", "x"])
    write_history(log.history, tmp_path / "history")
    assert same(list(read_history(tmp_path / "history"))) == same(list(log.history))


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"nonsense", "Expecting value"),
        (b"\xff\xfe", "decode"),
        (b"[" * 100_000, ""),
        (b"1" * 10_000, ""),
        (b"{}", "array of eight"),
        (json.dumps(GOOD[:-1]).encode(), "array of eight"),
        (json.dumps(["perhaps", *GOOD[1:]]).encode(), "perhaps"),
        (json.dumps([[], *GOOD[1:]]).encode(), "Outcome"),
        (json.dumps(["ok", "steal", *GOOD[2:]]).encode(), "steal"),
        (json.dumps([*GOOD[:2], -1, *GOOD[3:]]).encode(), "a process is a whole number"),
        (json.dumps([*GOOD[:2], True, *GOOD[3:]]).encode(), "a process is a whole number"),
        (json.dumps([*GOOD[:3], 1e300, *GOOD[4:]]).encode(), "a time is a whole number"),
        (json.dumps([*GOOD[:4], [["send", "x", 1, 1 << 63]], *GOOD[5:]]).encode(), "an offset"),
        (json.dumps([*GOOD[:4], [["send", 5, 1, 1]], *GOOD[5:]]).encode(), "a key is a text"),
        (json.dumps([*GOOD[:4], [["send", "x", [1], 1]], *GOOD[5:]]).encode(), "a value is"),
        (json.dumps([*GOOD[:4], [["poll", {"x": [[1]]}]], *GOOD[5:]]).encode(), "an offset and a value"),
        (json.dumps([*GOOD[:4], [["poll", {"x": 1}]], *GOOD[5:]]).encode(), "records are an array"),
        (json.dumps([*GOOD[:4], [["poll"]], *GOOD[5:]]).encode(), "a step is"),
        (json.dumps([*GOOD[:4], "send", *GOOD[5:]]).encode(), "steps are an array"),
        (json.dumps([*GOOD[:5], [[]], [], ""]).encode(), "a key is a text"),
        (json.dumps([*GOOD[:7], None]).encode(), "an error is a text"),
    ],
)
def test_what_is_no_history_is_refused_with_its_line(line, complaint, tmp_path):
    path = tmp_path / "history"
    path.write_bytes(json.dumps(GOOD).encode() + b"\n" + line + b"\n")
    with pytest.raises(HistoryError, match="line 2: ") as raised:
        read_history(path)
    assert complaint in str(raised.value)


@given(
    st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=20)
)
def test_no_json_does_more_than_be_refused(tmp_path_factory, value):
    path = tmp_path_factory.mktemp("h") / "history"
    path.write_text(json.dumps(value) + "\n")
    with pytest.raises(HistoryError):
        read_history(path)


def test_a_line_or_a_file_without_end_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "history"
    path.write_text((json.dumps(GOOD) + "\n") * 3)
    assert len(read_history(path)) == 3
    monkeypatch.setattr(history_file, "OPERATIONS_MAX", 2)
    with pytest.raises(HistoryError, match="line 3: too much"):
        read_history(path)
    monkeypatch.setattr(history_file, "LINE_BYTES_MAX", 10)
    with pytest.raises(HistoryError, match="line 1: too much"):
        read_history(path)
