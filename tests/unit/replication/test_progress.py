"""What a leader knows of one follower: the short way of saying that it has everything says the same as the long one."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.replication.progress import Progress

OFFSETS = st.integers(0, 5)
FETCHES = st.lists(st.tuples(OFFSETS, OFFSETS, OFFSETS, st.integers(0, 100)), max_size=6)


def state(progress: Progress) -> dict[str, int]:
    return {name: getattr(progress, name) for name in Progress.__slots__}


@given(FETCHES, OFFSETS, OFFSETS, st.integers(0, 100))
def test_whoever_has_everything_is_noted_the_same_in_both_ways(before, end_offset, log_start_offset, now_ms):
    one, other = Progress(), Progress()
    for progress in (one, other):
        for fetch in before:
            progress.fetched(*fetch)
    one.fetched(end_offset, log_start_offset, end_offset, now_ms)
    other.fetched_all(end_offset, log_start_offset, now_ms)
    assert state(one) == state(other)
    assert other.is_caught_up(end_offset + 1, 0, now_ms)


def test_who_asks_for_what_the_leader_had_then_was_caught_up_then():
    progress = Progress()
    progress.fetched(3, 0, 5, 10)
    assert not progress.is_caught_up(9, 30, 20)
    progress.fetched(5, 0, 9, 20)
    assert progress.is_caught_up(9, 10, 20)
    assert not progress.is_caught_up(9, 9, 20)
