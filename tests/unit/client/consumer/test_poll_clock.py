"""Whether the application still polls."""

from ottla.client.consumer.poll_clock import PollClock


def test_an_application_that_does_not_poll_in_time_is_overdue():
    clock = PollClock(1000, now_ms=5000)
    assert not clock.is_overdue(5999)
    assert clock.is_overdue(6000)
    clock.polled(6000)
    assert not clock.is_overdue(6999)


def test_at_half_time_who_waits_is_asked_to_look_once():
    clock = PollClock(1000, now_ms=0)
    assert not clock.nudges(499)
    assert clock.nudges(500)
    assert not clock.nudges(501)
    clock.polled(600)
    assert not clock.nudges(1000)
    assert clock.nudges(1100)


def test_it_says_when_to_look_again():
    clock = PollClock(1000, now_ms=0)
    assert clock.next_ms(100) == 400
    clock.nudges(500)
    assert clock.next_ms(500) == 500
    assert clock.next_ms(2000) == 0
