"""Nobody is slowed down, unless somebody else takes this place."""

from ottla.broker.throttle import NoThrottle, Throttle


def test_nobody_is_slowed_down():
    throttle: Throttle = NoThrottle()
    assert throttle.delay_ms(None, 100_000_000, object()) == 0
