"""The process in which logs are cleaned, spoken to as the broker does."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from ottla.records.builder import build
from ottla.records.record import Record
from ottla.storage.cleaning.job import Done, Event, Failed, Group, Job, Mapped, event_from_json
from ottla.storage.cleaning.plan import cleanable
from ottla.storage.cleaning.worker import Throttle
from ottla.storage.files import OsFiles
from ottla.storage.log import Log
from tests.unit.storage.helpers import NOW, config


class Worker:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def say(self, **order: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()

    def hear(self) -> Event:
        assert self.process.stdout is not None
        return event_from_json(self.process.stdout.readline())

    def hear_until(self, *kinds: type) -> Event:
        while not isinstance(event := self.hear(), kinds):
            pass
        return event


@contextmanager
def worker() -> Iterator[Worker]:
    command = [sys.executable, "-m", "ottla.storage.cleaning.worker"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Worker(process)
        if process.stdin is not None and not process.stdin.closed:
            process.stdin.close()
        assert process.wait(30) == 0


def job_of(directory: Path, batches: int = 20, size: int = 100) -> dict[str, object]:
    log = Log.open(
        OsFiles(),
        str(directory),
        config(cleanup_policy="compact", segment_bytes=1 << 20, segment_index_bytes=1 << 20),
    )
    for number in range(batches):
        log.append(build([Record(0, NOW, b"key %d" % (number % 3), b"v" * size)]), 0, NOW)
    log.roll()
    log.advance_high_watermark(log.end_offset)
    found = cleanable(log, None, NOW)
    job = Job.of(log, found, map_bytes=1 << 16, load_factor=0.9, io_buffer_bytes=4096, now_ms=NOW)
    log.close()
    fields: dict[str, object] = json.loads(job.to_json())
    return fields


def test_it_cleans_one_log_after_the_other_and_waits_after_each_group(tmp_path):
    with worker() as process:
        for name in ("a-0", "b-0"):
            process.say(clean=job_of(tmp_path / name))
            assert isinstance(process.hear_until(Mapped), Mapped)
            group = process.hear_until(Group)
            assert group.stats.records_kept == 3
            assert (tmp_path / name / "00000000000000000000.log.cleaned").exists()
            process.say(go=True)
            assert isinstance(process.hear(), Done)


def test_it_pauses_and_goes_on_at_another_rate(tmp_path):
    with worker() as process:
        process.say(rate=0)
        process.say(clean=job_of(tmp_path / "a-0", batches=50, size=5000))
        process.hear()  # it has begun; nothing more comes while it is paused, which cannot be waited for
        process.say(rate=100_000_000)
        process.hear_until(Group)
        process.say(go=True)
        process.say(rate=None)
        assert isinstance(process.hear_until(Done), Done)


def test_it_ends_at_once_when_the_broker_is_gone(tmp_path):
    with worker() as process:
        process.say(rate=0)
        process.say(clean=job_of(tmp_path / "a-0"))
        process.hear()
        assert process.process.stdin is not None
        process.process.stdin.close()
        assert process.process.wait(30) == 0


def test_what_is_meant_for_the_broker_does_not_end_it(tmp_path):
    """Ctrl-C goes to all processes of a terminal, and a service manager stops all of a service."""
    with worker() as process:
        process.say(rate=0)
        process.say(clean=job_of(tmp_path / "a-0"))
        process.hear()
        for number in (signal.SIGINT, signal.SIGTERM):
            process.process.send_signal(number)
        process.say(rate=None)
        process.hear_until(Group)
        process.say(go=True)
        assert isinstance(process.hear_until(Done), Done)


def test_what_fails_is_told_and_the_next_job_is_done(tmp_path):
    with worker() as process:
        missing = job_of(tmp_path / "a-0")
        (tmp_path / "a-0" / "00000000000000000000.log").unlink()
        process.say(clean=missing)
        assert "No such file" in process.hear_until(Failed).reason
        process.say(clean={**missing, "settings": {"no.such.key": "1"}})
        assert isinstance(process.hear_until(Failed), Failed)
        process.say(clean=job_of(tmp_path / "b-0"))
        process.hear_until(Group)
        process.say(go=True)
        assert isinstance(process.hear_until(Done), Done)


def test_a_throttle_waits_for_what_bytes_cost_at_its_rate_and_for_nothing_without_one(monkeypatch):
    now, waits = 100.0, []

    def wait(seconds: float) -> None:
        nonlocal now
        waits.append(seconds)
        now += seconds

    monkeypatch.setattr("ottla.storage.cleaning.worker.time", SimpleNamespace(monotonic=lambda: now))
    throttle = Throttle()
    monkeypatch.setattr(throttle._changed, "wait", wait)
    throttle(10**12)
    assert waits == []
    throttle.set_rate(1000.0)
    for _ in range(5):
        throttle(100)
    assert now == pytest.approx(100.5)
