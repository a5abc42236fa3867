"""The segments of a log as a sorted list whose last one is active."""

import pytest

from ottla.storage.segment import Segment
from ottla.storage.segments import Segments
from ottla.testing.disk import SimDisk
from tests.unit.storage.helpers import config


@pytest.fixture
def make():
    disk = SimDisk()
    disk.make_directory("d")
    return lambda base: Segment.create(disk, "d", base, config())


@pytest.fixture
def segments(make) -> Segments:
    return Segments([make(base) for base in (0, 10, 20, 30)])


def bases(segments) -> list[int]:
    return [s.base_offset for s in segments]


def test_a_log_has_at_least_one_segment():
    with pytest.raises(AssertionError):
        Segments([])


@pytest.mark.parametrize(
    ("offset", "found"),
    [
        (-1, [0, 10, 20, 30]),
        (0, [0, 10, 20, 30]),
        (9, [0, 10, 20, 30]),
        (10, [10, 20, 30]),
        (29, [20, 30]),
        (99, [30]),
    ],
)
def test_reading_from_an_offset_starts_in_the_segment_that_would_hold_it(segments, offset, found):
    assert bases(segments.from_offset(offset)) == found


def test_a_segment_ends_where_the_next_begins_and_the_last_where_the_log_ends(segments):
    assert [segments.end_of(s, 37) for s in segments] == [10, 20, 30, 37]


def test_an_added_segment_becomes_active_and_must_follow_the_others(segments, make):
    segments.add(make(40))
    assert (segments.active.base_offset, len(segments), segments[4].base_offset) == (40, 5, 40)
    with pytest.raises(AssertionError):
        segments.add(make(40))


def test_the_oldest_can_be_dropped_but_not_the_active_one(segments):
    assert bases(segments.drop_first(3)) == [0, 10, 20]
    assert (bases(segments), segments.active.base_offset) == ([30], 30)
    assert bases(segments.from_offset(5)) == [30]
    with pytest.raises(AssertionError):
        segments.drop_first(1)


@pytest.mark.parametrize(
    ("offset", "dropped"),
    [(0, [10, 20, 30]), (5, [10, 20, 30]), (10, [10, 20, 30]), (11, [20, 30]), (30, [30]), (31, [])],
)
def test_segments_that_start_at_or_behind_an_offset_can_be_dropped_except_the_first(
    segments, offset, dropped
):
    assert bases(segments.drop_from(offset)) == dropped
    assert bases(segments) == [b for b in (0, 10, 20, 30) if b not in dropped]
    assert segments.active.base_offset == bases(segments)[-1]


def test_all_can_be_replaced_by_one(segments, make):
    assert bases(segments.replace_all(make(500))) == [0, 10, 20, 30]
    assert (bases(segments), segments.active.base_offset, segments.size) == ([500], 500, 0)
