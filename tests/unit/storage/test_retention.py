"""Which of the oldest segments may go."""

import pytest

from ottla.records.batch import read_header
from ottla.storage.retention import expired
from ottla.storage.segment import Segment
from ottla.storage.segments import Segments
from ottla.testing.disk import SimDisk
from tests.unit.storage.helpers import NOW, batch, config

SIZE = len(batch(b"v"))


def segments_of(*times: int, modified_ms: int = NOW) -> Segments:
    """One segment with one batch per time, at offsets 0, 1, 2..."""
    disk = SimDisk()
    disk.now_ms = modified_ms
    disk.make_directory("d")
    made = []
    for base, at_ms in enumerate(times):
        segment = Segment.create(disk, "d", base, config())
        data = batch(b"v", base_offset=base, at_ms=at_ms)
        segment.append(data, [read_header(data)])
        made.append(segment)
    return Segments(made)


def count(
    segments: Segments, high_watermark: int | None = None, log_start: int = 0, at_most: int = 99, **settings
) -> int:
    end = len(segments)
    mark = end if high_watermark is None else high_watermark
    return expired(segments, config(**{"retention_ms": -1, **settings}), NOW, mark, log_start, end, at_most)


def test_segments_whose_newest_record_is_too_old_go_oldest_first():
    segments = segments_of(NOW - 500, NOW - 300, NOW - 100, NOW)
    assert count(segments, retention_ms=500) == 0
    assert count(segments, retention_ms=499) == 1
    assert count(segments, retention_ms=200) == 2
    assert count(segments, retention_ms=0) == 3, "it may be as old as that"


def test_a_young_segment_protects_those_behind_it():
    assert count(segments_of(NOW, NOW - 500, NOW), retention_ms=100) == 0


def test_a_timestamp_in_the_future_keeps_its_segment_and_what_follows_but_not_from_size_or_log_start():
    segments = segments_of(NOW + 10**12, 0, 0, 0)
    assert count(segments, retention_ms=1) == 0
    assert count(segments, retention_ms=1, retention_bytes=3 * SIZE) == 4, "what held the others back is gone"
    assert count(segments, retention_ms=1, log_start=1) == 4


def test_no_more_are_looked_at_than_the_log_has_time_for():
    segments = segments_of(1, 1, 1, 1)
    assert [count(segments, retention_ms=10, at_most=most) for most in range(6)] == [0, 1, 2, 3, 4, 4]
    assert [count(segments, log_start=3, at_most=most) for most in range(6)] == [0, 1, 2, 3, 3, 3]


def test_records_without_a_time_are_as_old_as_their_file():
    assert count(segments_of(-1, -1, NOW, modified_ms=NOW - 100), retention_ms=100) == 0
    assert count(segments_of(-1, -1, NOW, modified_ms=NOW - 101), retention_ms=100) == 2


def test_by_size_segments_go_while_enough_stays_without_them():
    segments = segments_of(NOW, NOW, NOW, NOW)
    assert count(segments, retention_bytes=3 * SIZE + 1) == 0
    assert count(segments, retention_bytes=3 * SIZE) == 1
    assert count(segments, retention_bytes=2 * SIZE + 1) == 1
    assert count(segments, retention_bytes=1) == 3
    assert count(segments, retention_bytes=0) == 4, "the active one as well"
    assert count(segments, retention_bytes=-1) == 0


def test_nothing_above_the_high_watermark_goes():
    segments = segments_of(1, 1, 1, 1)
    assert [count(segments, high_watermark=hw, retention_ms=10) for hw in range(5)] == [0, 1, 2, 3, 4]


def test_segments_before_the_log_start_go_whatever_the_policy():
    segments = segments_of(NOW, NOW, NOW)
    assert [count(segments, log_start=start) for start in (0, 1, 2, 3)] == [0, 1, 2, 2]
    assert count(segments, log_start=2, cleanup_policy="compact") == 2


def test_a_compacted_topic_keeps_old_segments_unless_it_also_deletes():
    segments = segments_of(1, 1, 1)
    assert count(segments, retention_ms=10, cleanup_policy="compact") == 0
    assert count(segments, retention_bytes=0, cleanup_policy="compact") == 0
    assert count(segments, retention_ms=10, cleanup_policy="compact,delete") == 3
    assert count(segments, retention_bytes=SIZE, cleanup_policy="compact,delete") == 2


@pytest.mark.parametrize(
    ("settings", "answer"),
    [
        ({"retention_ms": 100}, 1),
        ({"retention_ms": 500}, 0),
        ({"retention_ms": -1}, 0),
        ({"retention_ms": 100, "cleanup_policy": "compact"}, 0),
        ({"retention_ms": 100, "high_watermark": 0}, 0),
    ],
)
def test_the_active_segment_goes_when_all_of_it_is_too_old_and_committed(settings, answer):
    assert count(segments_of(NOW - 500), **settings) == answer


def test_the_active_segment_stays_while_an_older_one_does():
    assert count(segments_of(NOW, NOW - 500), retention_ms=100) == 0


def test_an_empty_active_segment_is_never_too_old():
    disk = SimDisk()
    disk.make_directory("d")
    empty = Segments([Segment.create(disk, "d", 0, config())])
    assert expired(empty, config(retention_ms=0, retention_bytes=0), NOW, 0, 0, 0) == 0
