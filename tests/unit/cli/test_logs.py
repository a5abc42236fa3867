"""Log lines for people and for machines."""

import io
import json
import logging
import sys

import pytest

from ottla.cli.logs import JsonFormatter, TextFormatter, set_up


@pytest.fixture
def untouched():
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def record(message: str, *args: object, error: BaseException | None = None) -> logging.LogRecord:
    info = (type(error), error, error.__traceback__) if error else None
    made = logging.LogRecord("ottla.x", logging.WARNING, "x.py", 1, message, args, info)
    made.created, made.msecs = 0.5, 500
    return made


def test_a_text_line_has_time_level_logger_and_message():
    line = TextFormatter().format(record("closed %s", "it"))
    assert line.endswith(".500 WARNING ottla.x: closed it")


def test_what_a_message_quotes_cannot_break_out_of_its_line():
    line = TextFormatter().format(record("client %s", "a\nERROR fake\x1b[2J\x85\u2028"))
    assert line.endswith("client a\\x0aERROR fake\\x1b[2J\\x85\\x2028")


def test_a_json_line_is_one_document_in_utc():
    line = JsonFormatter().format(record("closed %s", "a\nb"))
    assert "\n" not in line
    assert json.loads(line) == {
        "time": "1970-01-01T00:00:00.500Z",
        "level": "warning",
        "logger": "ottla.x",
        "message": "closed a\nb",
    }


def test_a_traceback_is_in_both():
    try:
        raise ValueError("deep")
    except ValueError as error:
        failed = record("failed", error=error)
    assert "ValueError: deep" in TextFormatter().format(failed)
    assert json.loads(JsonFormatter().format(failed))["traceback"].endswith("ValueError: deep")


@pytest.mark.parametrize("style, start", [("text", "2"), ("json", "{")])
def test_what_is_worth_logging_goes_to_stderr(untouched, monkeypatch, style, start):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    set_up("warning", style)
    logging.getLogger("ottla.test").info("quiet")
    logging.getLogger("ottla.test").warning("loud")
    (line,) = stream.getvalue().splitlines()
    assert line.startswith(start)
    assert "loud" in line
