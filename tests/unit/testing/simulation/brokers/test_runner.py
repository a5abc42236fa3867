"""A run of whole brokers: it is reproducible, touches nothing real, and finds what is wrong."""

import socket
import sys
import threading
import time

import pytest

from ottla.replication.partition import Partition
from ottla.testing.simulation.brokers.runner import run
from ottla.testing.simulation.world import Violation


def test_the_same_seed_runs_the_same_way_and_another_does_not():
    first, again, other = run(3, brokers=1), run(3, brokers=1), run(4, brokers=1)
    assert first == again
    assert first.digest != other.digest
    assert first.acknowledged > 20 and first.read > 20


def test_a_broker_that_is_alone_keeps_what_it_acknowledged():
    counts: dict[str, int] = {}
    for seed in range(8):
        for name, count in run(seed, brokers=1).counts.items():
            counts[name] = counts.get(name, 0) + count
    assert counts.keys() >= {"crash", "pause", "shutdown"}


def test_nothing_real_is_touched(monkeypatch):
    run(7, brokers=1)  # what is imported late may look at clocks

    def refuse(*_args, **_kwargs):
        if sys._getframe(1).f_globals["__name__"] == "logging":
            return 0  # every line that is logged has the time
        raise AssertionError("this is the real world")

    for name in ("time", "time_ns", "monotonic", "monotonic_ns", "sleep"):
        monkeypatch.setattr(time, name, refuse)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    monkeypatch.setattr(socket, "socket", refuse)
    assert run(7, brokers=1).acknowledged > 20


def test_an_acknowledgement_that_is_not_kept_is_found(monkeypatch):
    """A broker that forgets what is not synced, as if every kill were a power loss."""
    from ottla.testing.simulation.brokers.node import SimBroker

    def crash(self):
        self._loses_power = True
        honest(self)

    honest = SimBroker.crash
    monkeypatch.setattr(SimBroker, "crash", crash)
    with pytest.raises(Violation, match=r"acknowledged|lost-write|unseen|offsets are unique"):
        for seed in range(20):
            run(seed, brokers=1)


def test_a_high_watermark_that_goes_back_is_found(monkeypatch):
    append = Partition.append

    def forgetful(self, *arguments, **options):
        appended = append(self, *arguments, **options)
        if self.log.end_offset > 40:
            self.high_watermark.value = 3
        return appended

    monkeypatch.setattr(Partition, "append", forgetful)
    with pytest.raises(Violation, match="the high watermark went back from"):
        run(3, brokers=1)


def test_an_exception_that_nobody_foresaw_is_found(monkeypatch):
    append = Partition.append

    def clumsy(self, *arguments, **options):
        if self.log.end_offset > 40:
            raise ZeroDivisionError("by nothing")
        return append(self, *arguments, **options)

    monkeypatch.setattr(Partition, "append", clumsy)
    with pytest.raises(Violation, match=r"unforeseen: (.|\n)*by nothing"):
        run(3, brokers=1)
