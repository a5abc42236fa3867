"""`ottla cat` as a process that is told to stop, or that nobody reads any more."""

import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from ottla.client import Producer
from tests.unit.cli.cat.running import broker

__all__ = ["broker"]

SECONDS_MAX = 60


@contextmanager
def running(broker, *words):
    command = [
        sys.executable,
        "-m",
        "ottla.cli.main",
        "cat",
        "-F",
        "none",
        "-b",
        broker.bootstrap_server,
        *words,
    ]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        try:
            yield process
        finally:
            process.kill()


def until(condition):
    deadline = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_producer_says_what_was_acknowledged(broker, number):
    topic = f"stopped-{number}"
    broker.create_topic(topic)
    with running(broker, "-P", "-t", topic) as process:
        process.stdin.write(b"a\nb\nhalf a li")
        process.stdin.flush()
        until(lambda: len(broker.records(topic)) == 2)
        process.send_signal(number)
        assert process.wait(SECONDS_MAX) == 130
        said = process.stderr.read().decode()
    assert said.startswith("ottla: interrupted")
    assert "2" in said
    assert [each.value for each in broker.records(topic)] == [b"a", b"b"]


def test_a_transaction_that_is_interrupted_is_aborted(broker):
    broker.create_topic("undone")
    with running(broker, "-P", "-t", "undone", "-X", "transactional.id=undone") as process:
        process.stdin.write(b"a\n")
        process.stdin.flush()
        until(lambda: broker.records("undone"))
        process.send_signal(signal.SIGINT)
        assert process.wait(SECONDS_MAX) == 130
        assert "aborted" in process.stderr.read().decode()


def test_a_consumer_ends_when_told_to(broker):
    broker.create_topic("endless")
    with running(broker, "-C", "-t", "endless", "-u") as process:
        with running(broker, "-P", "-t", "endless") as sender:
            sender.communicate(b"a\n", timeout=SECONDS_MAX)
        assert process.stdout.readline() == b"a\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(SECONDS_MAX) == 130


def test_a_time_to_end_that_is_to_come_is_waited_for(broker):
    broker.create_topic("later")
    later_ms = int(time.time() * 1000) + 3_600_000
    with running(broker, "-C", "-t", "later", "-o", f"e@{later_ms}") as process:
        with Producer(bootstrap_servers=broker.bootstrap_server) as producer:
            producer.send("later", b"before", timestamp_ms=later_ms - 1)
            producer.send("later", b"at", timestamp_ms=later_ms)
            producer.send("later", b"behind", timestamp_ms=later_ms + 1)
        assert process.communicate(timeout=SECONDS_MAX)[0] == b"before\n"
    assert process.returncode == 0


def test_it_ends_when_nobody_reads_it_any_more(broker):
    broker.create_topic("unread")
    with running(broker, "-C", "-t", "unread", "-q") as process:
        with running(broker, "-P", "-t", "unread") as sender:
            sender.communicate(b"a\n", timeout=SECONDS_MAX)
        assert process.stdout.readline() == b"a\n"
        process.stdout.close()
        assert process.wait(SECONDS_MAX) == 1
        assert process.stderr.read() == b""


def test_d_shows_what_the_client_does(broker):
    broker.create_topic("debugged")
    with running(broker, "-G", "debugged", "-t", "debugged", "-d", "all", "-q", "-e") as process:
        _, said = process.communicate(timeout=SECONDS_MAX)
    assert process.returncode == 0
    assert b"%7|" in said
    assert b"|ottla.client.consumer." in said
