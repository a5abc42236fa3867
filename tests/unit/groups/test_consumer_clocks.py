"""Timers of members."""

from ottla.core.timers import Timers
from ottla.groups.consumer_clocks import Clock, Clocks


def ring(timers, now_ms):
    return [timer.value for timer in timers.advance(now_ms)]


def test_a_clock_that_is_set_anew_rings_once():
    timers = Timers(0)
    clocks = Clocks(timers)
    clocks.start(Clock.SESSION, "a", 10, "first")
    clocks.start(Clock.SESSION, "a", 20, "second")
    assert ring(timers, 10) == []
    assert ring(timers, 20) == ["second"]
    clocks.start(Clock.SESSION, "a", 30, "third")
    assert ring(timers, 30) == ["third"]


def test_who_is_told_twice_gets_no_more_time():
    timers = Timers(0)
    clocks = Clocks(timers)
    clocks.start_if_stopped(Clock.JOIN, "a", 10, "first")
    clocks.start_if_stopped(Clock.JOIN, "a", 20, "second")
    assert ring(timers, 10) == ["first"]
    clocks.start_if_stopped(Clock.JOIN, "a", 20, "third")
    assert ring(timers, 20) == ["third"], "one that has rung can be set again"


def test_clocks_stop_one_by_one_by_member_and_all_together():
    timers = Timers(0)
    clocks = Clocks(timers)
    for member in "abc":
        for kind in (Clock.SESSION, Clock.SYNC):
            clocks.start(kind, member, 10, f"{member} {kind.value}")
    clocks.stop(Clock.SYNC, "a")
    clocks.stop(Clock.REVOCATION, "a")
    clocks.stop(Clock.SYNC, "nobody")
    clocks.stop_all("b")
    assert len(clocks) == len(timers) == 3
    assert ring(timers, 10) == ["a session", "c session", "c sync"]
    clocks.stop_everything()
    assert len(clocks) == 0
