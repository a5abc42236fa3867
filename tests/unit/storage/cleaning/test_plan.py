"""What of a log may be cleaned, and when it is worth it."""

from ottla.storage.cleaning.plan import GROUP_MAX, cleanable, groups, is_due, wants_roll
from ottla.storage.log import Log
from ottla.testing.disk import SimDisk
from tests.unit.storage.helpers import NOW, config, open_log, put


def log_of(segments: int = 4, disk: SimDisk | None = None, **settings: object) -> Log:
    """Segments of one batch each, all replicated; the last one is active."""
    log = open_log(disk or SimDisk(), config(cleanup_policy="compact", **settings))
    for number in range(segments):
        put(log, b"v", at_ms=NOW + number)
        log.roll()
    put(log, b"active")
    log.advance_high_watermark(log.end_offset)
    return log


def test_the_active_segment_is_never_touched():
    log = log_of(4)
    found = cleanable(log, None, NOW)
    assert (found.first_dirty_offset, found.end_offset) == (0, 4) == (0, log.segments.active.base_offset)
    assert (
        found.clean_bytes == 0
        and found.cleanable_bytes == sum(s.size for s in log.segments) - log.segments.active.size
    )


def test_nothing_above_the_last_stable_offset_is_touched():
    log = open_log(SimDisk(), config(cleanup_policy="compact"))
    put(log, b"v")
    log.roll()
    put(log, b"open", producer=(7, 0, 0), is_transactional=True)
    log.roll()
    put(log, b"v")
    log.roll()
    put(log, b"active")
    log.advance_high_watermark(log.end_offset)
    assert cleanable(log, None, NOW).end_offset == 1 == log.last_stable_offset


def test_whole_segments_only_below_the_high_watermark():
    log = open_log(SimDisk(), config(cleanup_policy="compact"))
    for _ in range(3):
        put(log, b"v")
        put(log, b"v")
        log.roll()
    log.advance_high_watermark(3)  # in the middle of the second segment
    assert cleanable(log, None, NOW).end_offset == 2


def test_young_records_are_left_alone():
    log = log_of(4, min_compaction_lag_ms=1000)
    assert cleanable(log, None, NOW + 1001).end_offset == 2
    assert cleanable(log, None, NOW + 999).end_offset == 0
    assert cleanable(log, None, NOW + 5000).end_offset == 4


def test_what_was_cleaned_counts_against_what_was_not():
    log = log_of(4)
    assert cleanable(log, 3, NOW).ratio == 0.25
    assert cleanable(log, 4, NOW).ratio == 0.0
    assert cleanable(log, None, NOW).ratio == 1.0


def test_a_checkpoint_that_the_log_does_not_reach_means_nothing():
    log = log_of(4)
    assert cleanable(log, 10_000, NOW).first_dirty_offset <= cleanable(log, 10_000, NOW).end_offset
    log.advance_log_start(2)
    assert cleanable(log, 1, NOW).first_dirty_offset == 2


def test_it_is_due_above_the_ratio_or_when_a_record_has_waited_too_long():
    log = log_of(4, min_cleanable_dirty_ratio=0.5)
    assert is_due(cleanable(log, None, NOW), log.config)
    assert not is_due(cleanable(log, 2, NOW), log.config)  # exactly half is not above it, as in Kafka
    log = log_of(4, min_cleanable_dirty_ratio=0.99, max_compaction_lag_ms=1000)
    assert not is_due(cleanable(log, 3, NOW + 1003), log.config)
    assert is_due(cleanable(log, 3, NOW + 1004), log.config)
    assert not is_due(cleanable(log, 4, NOW + 1004), log.config), "there is nothing to clean"


def test_the_active_segment_is_closed_when_its_records_have_waited_too_long():
    log = log_of(1, max_compaction_lag_ms=1000)
    assert not wants_roll(log, NOW + 1000)
    assert wants_roll(log, NOW + 1001)
    assert not wants_roll(log_of(1), NOW + 10**12)
    log.roll()
    assert not wants_roll(log, NOW + 10**12), "an empty one has nothing to wait for"


def test_neighbours_that_fit_into_one_segment_are_cleaned_together():
    log = log_of(6, segment_bytes=200, segment_index_bytes=10**6)
    size = log.segments[0].size
    closed = list(log.segments)[:-1]
    found = [len(group) for group in groups(closed, 6, log.config)]
    assert found == [200 // size] * (6 // (200 // size))
    assert [s for group in groups(closed, 6, log.config) for s in group] == closed


def test_a_group_is_no_longer_than_can_be_renamed_at_once():
    log = log_of(GROUP_MAX + 3, segment_bytes=1 << 20, segment_index_bytes=1 << 20)
    assert [len(g) for g in groups(list(log.segments)[:-1], GROUP_MAX + 3, log.config)] == [GROUP_MAX, 3]


def test_a_group_spans_no_more_offsets_than_an_index_can_tell():
    log = log_of(3, segment_bytes=1 << 20, segment_index_bytes=1 << 20)
    closed = list(log.segments)[:-1]
    assert [len(g) for g in groups(closed, 2**31 - 1 + 1, log.config)] == [3]
    assert [len(g) for g in groups(closed, 2**31 + 1, log.config)] == [2, 1]
