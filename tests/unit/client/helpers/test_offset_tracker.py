"""The watermark of what is done, held against the plainest way to compute it."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.client.helpers.offset_tracker import OffsetTracker


def plain(started: list[int], finished: set[int]) -> int:
    """The first offset that is not done, or the one behind the last."""
    unfinished = [offset for offset in started if offset not in finished]
    return unfinished[0] if unfinished else started[-1] + 1


@given(st.data())
def test_everything_below_the_watermark_is_done_and_the_record_at_it_is_not(data):
    gaps = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=40))
    offsets = [sum(gaps[: index + 1]) for index in range(len(gaps))]
    tracker, started, finished = OffsetTracker(), [], set()
    while len(finished) < len(offsets):
        open_offsets = [offset for offset in started if offset not in finished]
        may_start = len(started) < len(offsets)
        if may_start and (not open_offsets or data.draw(st.booleans())):
            tracker.start(offsets[len(started)])
            started.append(offsets[len(started)])
        else:
            done = data.draw(st.sampled_from(open_offsets))
            tracker.finish(done)
            finished.add(done)
        assert tracker.watermark == plain(started, finished)
        assert tracker.unfinished_count == len(started) - len(finished)
        assert tracker.kept_count == len([offset for offset in started if offset >= tracker.watermark])


def test_nothing_is_known_before_the_first_record():
    tracker = OffsetTracker()
    assert tracker.watermark is None and tracker.kept_count == 0


def test_records_that_are_done_early_wait_for_the_first():
    tracker = OffsetTracker()
    for offset in (10, 11, 15):
        tracker.start(offset)
    tracker.finish(15)
    tracker.finish(11)
    assert (tracker.watermark, tracker.unfinished_count, tracker.kept_count) == (10, 1, 3)
    tracker.finish(10)
    assert (tracker.watermark, tracker.unfinished_count, tracker.kept_count) == (16, 0, 0)
