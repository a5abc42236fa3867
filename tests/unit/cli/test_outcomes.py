"""What came of a command about several things, and the question before something is lost."""

import asyncio
import io
import os
import pty
import select
import subprocess
import sys
import time

import click
import pytest

from ottla.cli.outcomes import Settled, ask_first, counted, finish, settled, unknown
from ottla.cli.remote import NOT_FOUND, Failed
from ottla.client.errors import PartialFailure
from ottla.core.errors import ErrorCode, KafkaError

GONE = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "gone")


async def returning(value):
    return value


async def raising(error):
    raise error


def test_what_was_done_and_what_not_are_kept_apart():
    assert asyncio.run(settled(returning({"a": 1}))) == Settled({"a": 1}, {})
    assert asyncio.run(settled(returning(None), ["a", "b"])) == Settled({"a": None, "b": None}, {})
    found = asyncio.run(settled(raising(PartialFailure("deleting", {"a": 1, "b": GONE}))))
    assert found.done == {"a": 1}
    assert found.failures["b"].exit_code == NOT_FOUND


def test_the_exit_code_is_3_if_some_failed_and_that_of_the_first_if_all_did(capsys):
    shown = []

    def show():
        shown.append(1)

    assert finish([], is_some_done=True, show=show) == 0
    assert finish([Failed("one"), Failed("two")], is_some_done=True, show=show) == 3
    assert capsys.readouterr().err == "ottla: one\nottla: two\n"
    with pytest.raises(Failed, match="one") as caught:
        finish([Failed("one", 5), Failed("two")], is_some_done=False, show=show)
    assert caught.value.exit_code == 5
    assert capsys.readouterr().err == "ottla: two\n"
    assert len(shown) == 2


def test_what_may_have_been_meant_is_named():
    assert unknown("topic", "ordrs", ["orders", "orders2", "x"]).message == (
        "there is no topic 'ordrs'; did you mean 'orders' or 'orders2'?"
    )
    assert unknown("group", "zzz", ["orders"]).message == "there is no group 'zzz'"
    assert unknown("group", "zzz", []).exit_code == NOT_FOUND


def test_one_and_many():
    assert [counted(count, "record") for count in (0, 1, 2)] == ["0 records", "1 record", "2 records"]


# --- asking -----------------------------------------------------------------------------------------------------------

ASKING = """
import asyncio, sys
from ottla.cli import main
from ottla.cli.main import Lazy, cli
import click
from ottla.cli.outcomes import ask_first

async def work():
    ask_first("Really?", False)
    print("done")

@click.command()
def ask():
    asyncio.run(work())

main.ask = ask
cli.table["ask"] = Lazy("ottla.cli.main:ask", "Asks.")
sys.exit(main.main(["ask"]))
"""


def answered(typed):
    """The exit code of a command that asks, on a terminal where this is typed until it ends; and what it wrote."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", ASKING],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=lambda: os.close(os.open(os.ttyname(0), os.O_RDWR)),  # makes it the controlling terminal
    )
    os.close(theirs)
    seen, deadline = b"", time.monotonic() + 60
    try:
        while process.poll() is None:
            assert time.monotonic() < deadline, seen
            if select.select([ours], [], [], 0.1)[0]:
                try:
                    seen += os.read(ours, 4096)
                except OSError:
                    break
            elif b"[y/N]" in seen:
                os.write(ours, typed)
        return process.wait(60), seen.decode()
    finally:
        process.kill()
        process.wait()
        os.close(ours)


@pytest.mark.parametrize(
    ("typed", "code", "sentence"),
    [
        (b"y\n", 0, "done"),
        (b"n\n", 1, "ottla: nothing was done"),
        (b"\n", 1, "ottla: nothing was done"),
        (b"\x04", 2, "nobody answered; say --yes"),
        (b"\x03", 130, ""),
    ],
    ids=["yes", "no", "return", "end of file", "Ctrl-C"],
)
def test_somebody_answers_or_interrupts_at_once(typed, code, sentence):
    found, seen = answered(typed)
    assert found == code
    assert sentence in seen
    assert "Traceback" not in seen


def test_with_yes_nobody_is_asked():
    ask_first("Really?", True)


def test_without_a_terminal_nobody_can_be_asked(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    with pytest.raises(click.UsageError, match="say --yes"):
        ask_first("Really?", False)
