"""Replication quotas: what they count, whom they hold back, and when they let go."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.replication.throttle import NO_LIMIT, RateLimit, ThrottledReplicas, may_ask, may_serve

ALL, NONE = ThrottledReplicas(["*"]), ThrottledReplicas([])


def test_a_star_stands_for_every_replica():
    assert (0, 1) in ALL and (77, 5) in ALL and ALL


def test_an_empty_list_throttles_nobody():
    assert (0, 1) not in NONE and not NONE


def test_pairs_are_partition_and_broker():
    some = ThrottledReplicas(["0:1", "0:2", "3:1"])
    assert (0, 1) in some and (0, 2) in some and (3, 1) in some
    assert (1, 0) not in some and (3, 2) not in some


def test_below_the_rate_nothing_is_held_back():
    limit = RateLimit(1_000)
    limit.record(1_000, 0)
    assert not limit.is_exceeded(0)


def test_above_the_rate_it_is_until_time_has_passed():
    limit = RateLimit(1_000)
    limit.record(5_000, 0)
    assert limit.is_exceeded(4_999)
    assert not limit.is_exceeded(5_000)


def test_what_lies_too_far_back_is_forgotten():
    limit = RateLimit(1, windows=11, window_s=1)
    limit.record(10**9, 0)
    assert limit.is_exceeded(10_999)
    assert not limit.is_exceeded(11_000) and limit.rate(11_000) == 0


def test_a_rate_may_change_at_any_time():
    limit = RateLimit(1_000)
    limit.record(5_000, 0)
    limit.bytes_per_s = 10_000
    assert not limit.is_exceeded(0)
    limit.bytes_per_s = 0
    assert limit.is_exceeded(0)


def test_without_a_limit_nothing_is_ever_held_back():
    limit = RateLimit()
    limit.record(2**40, 0)
    assert limit.bytes_per_s == NO_LIMIT and not limit.is_exceeded(0)


def test_a_leader_holds_back_what_is_throttled_and_not_in_sync():
    limit = RateLimit(1)
    limit.record(1_000_000, 0)
    assert not may_serve(limit, (0, 2), ALL, {1}, 0)
    assert may_serve(limit, (0, 2), ALL, {1, 2}, 0)
    assert may_serve(limit, (0, 2), ThrottledReplicas(["0:3"]), {1}, 0)
    assert may_serve(limit, (0, 2), NONE, {1}, 0)
    assert may_serve(RateLimit(1), (0, 2), ALL, {1}, 0)


def test_a_follower_holds_back_what_is_throttled():
    limit = RateLimit(1)
    limit.record(1_000_000, 0)
    assert not may_ask(limit, (0, 2), ALL, 0)
    assert may_ask(limit, (0, 2), ThrottledReplicas(["1:2"]), 0)
    assert may_ask(RateLimit(1), (0, 2), ALL, 0)


def test_a_follower_that_has_caught_up_is_not_held_back_or_it_would_leave_the_isr():
    limit = RateLimit(1)
    limit.record(1_000_000, 0)
    assert may_ask(limit, (0, 2), ALL, 0, is_caught_up=True)


@given(st.lists(st.tuples(st.integers(0, 3_000), st.integers(0, 10_000)), max_size=60), st.integers(1, 12))
def test_whoever_waits_while_it_is_exceeded_stays_within_the_rate_in_the_long_run(steps, windows):
    """An answer may be larger than its share; then the next waits for longer."""
    rate, limit = 1_000, RateLimit(1_000, windows)
    now_ms, passed, largest = 0, 0, 0
    for pause_ms, size in steps:
        now_ms += pause_ms
        if not limit.is_exceeded(now_ms):
            limit.record(size, now_ms)
            passed, largest = passed + size, max(largest, size)
    spans = now_ms / 1_000 / windows + 1
    assert passed <= rate * (now_ms / 1_000 + windows + 1) + largest * (spans + 1)
