"""Deadlines and pauses."""

import asyncio
import math

from hypothesis import given
from hypothesis import strategies as st

from ottla.client.deadline import Backoff, Deadline, backoff_ms


def test_a_deadline_is_over_when_it_is_and_never_is_never():
    async def run() -> None:
        now, soon, never = Deadline(0), Deadline(60_000), Deadline(-1)
        assert now.is_over and now.left_ms() == 0 == now.left_seconds()
        assert not soon.is_over and 0 < soon.left_ms() <= 60_000
        assert soon.left_ms(at_most=5) == 5
        assert not never.is_over and never.left_ms() == math.inf and never.left_seconds() is None
        assert never.left_ms(7) == 7
        assert str(soon) == "60000 ms"

    asyncio.run(run())


@given(st.floats(0, 1000), st.floats(0, 10_000), st.integers(0, 10_000))
def test_pauses_double_up_to_a_limit_give_or_take_a_fifth(first_ms, max_ms, failures):
    expected = min(first_ms * 2.0 ** min(failures, 30), max(first_ms, max_ms))
    assert 0.79 * expected <= backoff_ms(first_ms, max_ms, failures) <= 1.21 * expected


def test_a_backoff_grows_and_begins_again():
    backoff = Backoff(10, 100_000)
    pauses = [backoff.next_ms() for _ in range(8)]
    assert pauses == sorted(pauses)
    assert pauses[-1] > 50 * pauses[0]
    backoff.reset()
    assert backoff.next_ms() <= 12


def test_a_pause_does_not_go_beyond_the_deadline():
    async def run() -> None:
        await asyncio.wait_for(Backoff(3_600_000, 3_600_000).pause(Deadline(1)), 30)

    asyncio.run(run())
