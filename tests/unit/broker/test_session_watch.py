"""Whether a broker may believe that it still leads what it led."""

from ottla.broker.session_watch import SessionWatch
from ottla.core.clock import ManualClock
from ottla.metadata.store import SessionState


def watched():
    clock = ManualClock()
    return clock, SessionWatch(clock, lambda: 9_000)


def test_with_a_session_it_may():
    _, watch = watched()
    assert watch.may_lead()


def test_an_interruption_is_borne_for_as_long_as_a_session_lasts():
    clock, watch = watched()
    watch.follow(SessionState.SUSPENDED)
    clock.advance(8_999)
    assert watch.may_lead()
    clock.advance(1)
    assert not watch.may_lead()


def test_wall_clocks_have_no_say():
    clock, watch = watched()
    watch.follow(SessionState.SUSPENDED)
    clock.step_wall(10**9)
    assert watch.may_lead()


def test_an_interruption_that_is_told_of_again_began_when_it_began():
    clock, watch = watched()
    watch.follow(SessionState.SUSPENDED)
    clock.advance(5_000)
    watch.follow(SessionState.SUSPENDED)
    clock.advance(4_000)
    assert not watch.may_lead()


def test_when_it_is_over_that_is_that():
    clock, watch = watched()
    watch.follow(SessionState.CONNECTED)
    watch.follow(SessionState.SUSPENDED)
    assert watch.may_lead()
    watch.follow(SessionState.LOST)
    assert not watch.may_lead()
    clock.advance(10**6)
    assert not watch.may_lead()


def test_a_session_that_goes_on_and_a_new_one_both_count():
    clock, watch = watched()
    for back in (lambda: watch.follow(SessionState.CONNECTED), lambda: watch.registered(7)):
        watch.follow(SessionState.SUSPENDED)
        watch.follow(SessionState.LOST)
        clock.advance(60_000)
        assert not watch.may_lead()
        back()
        assert watch.may_lead()
