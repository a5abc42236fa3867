"""A log: appending, rolling, reading by offset and by time."""

import random

import pytest

from ottla.core.errors import ErrorCode, KafkaError
from ottla.records.batch import LOG_APPEND_TIME, read_header
from ottla.storage.log import Log
from ottla.storage.segment import RELATIVE_OFFSET_MAX
from ottla.testing.disk import SimDisk
from tests.unit.storage.helpers import HERE, NOW, batch, config, crash, marker, open_log, put, values_of


@pytest.fixture
def disk() -> SimDisk:
    return SimDisk()


@pytest.fixture
def log(disk) -> Log:
    return open_log(disk)


def bases(log: Log) -> list[int]:
    return [s.base_offset for s in log.segments]


def refusal(do) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        do()
    return caught.value.code


# --- appending ---------------------------------------------------------------------------------------------------


def test_a_new_log_is_empty_and_starts_where_it_is_told(disk):
    log = open_log(disk, log_start_offset=42)
    assert (log.log_start_offset, log.end_offset, log.high_watermark) == (42, 42, 42)
    assert put(log, b"a").first_offset == 42


def test_appends_get_consecutive_offsets_and_the_leaders_epoch(log):
    assert put(log, b"a", b"b")[:2] == (0, 1)
    assert put(log, b"c", epoch=3)[:2] == (2, 2)
    assert values_of(log) == {0: b"a", 1: b"b", 2: b"c"}
    assert read_header(log.read(2, 1000).read()).leader_epoch == 3
    assert log.epochs.entries == [(0, 0), (3, 2)]


def test_several_batches_can_be_appended_at_once(log):
    appended = log.append(batch(b"a", b"b") + batch(b"c"), 0, NOW)
    assert (appended.first_offset, appended.last_offset) == (0, 2)
    assert values_of(log) == {0: b"a", 1: b"b", 2: b"c"}


def test_writable_bytes_are_stamped_in_place_and_read_only_ones_are_left_alone(log):
    put(log, b"first")
    writable, read_only = bytearray(batch(b"a")), batch(b"b")
    log.append(writable, 5, NOW)
    log.append(read_only, 5, NOW)
    assert (read_header(writable).base_offset, read_header(writable).leader_epoch) == (1, 5)
    assert read_header(read_only).base_offset == 0


def test_an_append_of_nothing_is_refused(log):
    assert refusal(lambda: log.append(b"", 0, NOW)) is ErrorCode.INVALID_RECORD


def test_a_refused_batch_leaves_no_trace(disk, log):
    put(log, b"a")
    before = {name: disk.read(f"{HERE}/{name}") for name in disk.names(HERE)}
    damaged = bytearray(batch(b"b"))
    damaged[-1] ^= 1
    too_large = batch(b"x" * 2000)
    for data in (damaged, too_large, batch(b"ok") + damaged, marker(1, commit=True)):
        with pytest.raises(KafkaError):
            log.append(data, 1, NOW)
    assert {name: disk.read(f"{HERE}/{name}") for name in disk.names(HERE)} == before
    assert (log.end_offset, values_of(log)) == (1, {0: b"a"})


def test_the_codes_of_refusals(disk):
    log = open_log(disk, config(max_message_bytes=500, segment_bytes=400))
    assert refusal(lambda: put(log, b"x" * 600)) is ErrorCode.MESSAGE_TOO_LARGE
    assert refusal(lambda: put(log, b"x" * 400)) is ErrorCode.RECORD_LIST_TOO_LARGE
    assert refusal(lambda: log.append(marker(1, commit=True), 0, NOW)) is ErrorCode.INVALID_RECORD
    assert refusal(lambda: put(log, b"a", at_ms=NOW + 10**9)) is ErrorCode.INVALID_TIMESTAMP


def test_log_append_time_is_stamped_and_reported(disk):
    log = open_log(disk, config(message_timestamp_type="LogAppendTime"))
    appended = put(log, b"a", at_ms=5)
    header = read_header(log.read(0, 1000).read())
    assert appended.log_append_time_ms == header.max_timestamp == NOW
    assert header.timestamp_type == LOG_APPEND_TIME
    assert put(open_log(SimDisk()), b"a").log_append_time_ms == -1


def test_a_leader_of_an_older_epoch_may_not_write(log):
    put(log, b"a", epoch=5)
    assert refusal(lambda: put(log, b"b", epoch=4)) is ErrorCode.FENCED_LEADER_EPOCH
    assert log.end_offset == 1


# --- what a follower writes --------------------------------------------------------------------------------------


def test_a_follower_keeps_offsets_and_epochs_and_leaves_out_a_batch_that_is_cut_off(log):
    first = batch(b"a", b"b", base_offset=0, leader_epoch=1)
    second = batch(b"c", base_offset=2, leader_epoch=4)
    third = batch(b"d", base_offset=9, leader_epoch=4)
    appended = log.append_fetched(first + second + third[:-1], NOW)
    assert (appended.first_offset, appended.last_offset) == (0, 2)
    assert log.epochs.entries == [(1, 0), (4, 2)]
    log.append_fetched(third, NOW)
    assert values_of(log) == {0: b"a", 1: b"b", 2: b"c", 9: b"d"}
    assert log.end_offset == 10


def test_a_log_without_records_may_start_inside_the_first_batch_that_is_fetched(disk):
    """As the leader's log does when records were deleted up to there."""
    log = open_log(disk)
    log.restart_at(5)
    log.append_fetched(batch(b"a", b"b", b"c", base_offset=3), NOW)
    assert (log.log_start_offset, log.high_watermark, log.end_offset) == (5, 5, 6)
    assert refusal(lambda: log.read(4, 1000)) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert batch(b"a", b"b", b"c")[61:] in log.read(5, 1000).read()
    log.append_fetched(batch(b"d", base_offset=6), NOW)
    log.close()
    reopened = open_log(disk, log_start_offset=5, clean=True)
    assert (reopened.log_start_offset, reopened.end_offset) == (5, 7)


@pytest.mark.parametrize(("first", "count"), [(3, 2), (2, 3), (0, 1)])
def test_a_batch_that_ends_before_the_log_starts_is_still_a_mistake(disk, first, count):
    log = open_log(disk)
    log.restart_at(5)
    data = batch(*[b"a"] * count, base_offset=first)
    assert refusal(lambda: log.append_fetched(data, NOW)) is ErrorCode.CORRUPT_MESSAGE
    assert log.end_offset == 5


def test_nothing_whole_is_nothing_appended(log):
    assert log.append_fetched(b"", NOW) is None
    assert log.append_fetched(batch(b"a")[:40], NOW) is None


def test_a_follower_refuses_what_does_not_follow(log):
    put(log, b"a", b"b")
    for data in (batch(b"x", base_offset=1), batch(b"y", base_offset=2) + batch(b"z", base_offset=2)):
        assert refusal(lambda data=data: log.append_fetched(data, NOW)) is ErrorCode.CORRUPT_MESSAGE
    assert log.end_offset == 2


def test_a_follower_does_not_write_into_its_leaders_buffer(log):
    data = bytearray(batch(b"a", base_offset=7, leader_epoch=2))
    before = bytes(data)
    log.append_fetched(data, NOW)
    assert data == before


def test_an_offset_that_the_first_segment_cannot_number_starts_a_new_one(disk):
    settings, far = config(cleanup_policy="compact"), RELATIVE_OFFSET_MAX + 1
    log = open_log(disk, settings)
    log.append_fetched(batch(b"far", base_offset=far), NOW)
    assert bases(log) == [0, far]
    log.append_fetched(batch(b"farther", base_offset=3 * far), NOW)
    log.flush()
    expected = {far: b"far", 3 * far: b"farther"}
    assert values_of(log) == expected
    crash(disk)
    assert values_of(open_log(disk, settings)) == expected


# --- rolling -----------------------------------------------------------------------------------------------------


def test_a_segment_is_followed_by_another_before_it_grows_too_large(disk):
    size = len(batch(b"v"))
    log = open_log(disk, config(segment_bytes=3 * size))
    for _ in range(7):
        put(log, b"v")
    assert bases(log) == [0, 3, 6]


def test_a_new_segment_starts_segment_ms_after_the_first_record_without_a_time(disk):
    log = open_log(disk, config(segment_ms=100))
    for late in (0, 100, 101, 150, 201, 202, 303):
        put(log, b"v", at_ms=-1, now_ms=NOW + late)
    assert bases(log) == [0, 2, 6]


def test_records_from_the_past_and_the_future_in_turns_start_no_segment_each(disk):
    log = open_log(disk, config(segment_ms=100, message_timestamp_after_max_ms=10**15))
    for n in range(20):
        put(log, at_ms=0 if n % 2 else NOW + 10**12, now_ms=NOW)
    assert len(log.segments) <= 2


def test_a_segment_is_followed_by_another_when_its_first_batch_is_too_old(disk):
    log = open_log(disk, config(segment_ms=100))
    for at_ms in (0, 100, 50, 101, 150, 202):
        put(log, b"v", at_ms=NOW + at_ms)
    assert bases(log) == [0, 3, 5]


def test_without_a_timestamp_of_its_own_a_batch_is_as_old_as_now(disk):
    log = open_log(disk, config(segment_ms=100))
    put(log, b"v", at_ms=NOW)
    put(log, b"v", at_ms=-1, now_ms=NOW + 101)
    assert bases(log) == [0, 1]


def test_a_segment_is_followed_by_another_when_an_index_is_full(disk):
    log = open_log(disk, config(segment_bytes=1 << 20, segment_index_bytes=48))
    for n in range(10):
        put(log, b"v", at_ms=NOW + n)
    assert len(log.segments) > 1
    assert all(s.times.entries.count <= 4 and s.offsets.entries.count <= 6 for s in log.segments)
    assert list(values_of(log)) == list(range(10))


def test_rolling_an_empty_segment_changes_nothing(log):
    assert log.roll() is log.segments.active
    put(log, b"a")
    assert log.roll().base_offset == 1
    assert log.roll().base_offset == 1
    assert bases(log) == [0, 1]


# --- reading -----------------------------------------------------------------------------------------------------


@pytest.fixture
def filled(log) -> dict[int, bytes]:
    """Batches of one to three records over several segments."""
    expected: dict[int, bytes] = {}
    for n in range(40):
        values = [b"%d.%d" % (n, i) for i in range(n % 3 + 1)]
        first = put(log, *values, at_ms=NOW + n).first_offset
        expected |= {first + i: value for i, value in enumerate(values)}
    assert len(log.segments) > 3
    return expected


def test_reading_at_every_offset_returns_the_batch_that_holds_it_first(log, filled):
    for offset in filled:
        header = read_header(log.read(offset, 1 << 20).read())
        assert header.base_offset <= offset <= header.last_offset
        assert values_of(log, offset) == {o: v for o, v in filled.items() if o >= offset}


def test_reading_at_the_end_is_empty_and_beyond_or_before_out_of_range(log, filled):
    assert log.read(log.end_offset, 1000).read() == b""
    assert refusal(lambda: log.read(log.end_offset + 1, 1000)) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert refusal(lambda: log.read(-1, 1000)) is ErrorCode.OFFSET_OUT_OF_RANGE
    log.advance_high_watermark(20)
    log.advance_log_start(10)
    assert refusal(lambda: log.read(9, 1000)) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert list(values_of(log)) == [o for o in filled if o >= 10]


def test_a_limit_is_never_passed_and_everything_whole_below_it_can_be_read(log, filled):
    starts = [*sorted({read_header(log.read(o, 1000).read()).base_offset for o in filled}), log.end_offset]
    for limit in range(log.end_offset + 1):
        whole = max(s for s in starts if s <= limit)
        assert list(values_of(log, 0, limit)) == list(range(whole))


def test_offsets_at_or_above_the_limit_read_as_nothing(log, filled):
    assert log.read(10, 1000, limit=10).read() == b""
    assert log.read(12, 1000, limit=10).read() == b""


def test_a_first_batch_larger_than_asked_for_comes_whole(log, filled):
    for asked in (0, 1, 60, 61):
        data = log.read(5, asked).read()
        assert len(data) == read_header(data).size
    assert log.read(5, 10, at_least_one=False).read() == log.read(5, 1000).read()[:10]
    assert log.read(5, 0, at_least_one=False).file is None


def test_no_more_than_asked_for_is_read_beyond_the_first_batch(log, filled):
    first = read_header(log.read(0, 0).read()).size
    for asked in range(first, first + 200, 7):
        assert len(log.read(0, asked).read()) == asked


def test_offsets_that_compaction_removed_read_as_the_next_batch(log):
    for base in (3, 8, 15):
        log.append_fetched(batch(b"v", base_offset=base), NOW)
        log.roll()
    for offset, found in [(0, 3), (3, 3), (4, 8), (9, 15), (15, 15)]:
        assert log.read(offset, 1000).offset == found


# --- by time -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("interval", [0, 300])
def test_the_first_batch_with_a_record_that_new_is_the_one_a_plain_search_finds(disk, interval):
    source = random.Random(7)
    log = open_log(disk, config(index_interval_bytes=interval))
    batches: list[tuple[int, int]] = []  # last offset, time
    for _ in range(60):
        at_ms = NOW + source.randrange(50)
        batches.append((put(log, b"a", b"b", at_ms=at_ms).last_offset, at_ms))
    log.advance_high_watermark(log.end_offset)
    for start in (0, 1, 2, 31, 50, 99):
        log.advance_log_start(start)
        for timestamp in range(NOW - 1, NOW + 52):
            expected = next((o for o, t in batches if t >= timestamp and o >= start), None)
            found = log.find_by_time(timestamp)
            assert (found and found.last_offset) == expected


def test_a_log_that_opens_again_finds_the_same_by_time(disk):
    log = open_log(disk)
    for n in (5, 3, 9, 9, 1, 12):
        put(log, b"x" * 300, at_ms=NOW + n)
    before = [log.find_by_time(NOW + n) for n in range(14)]
    log.close()
    for clean in (True, False):
        assert [open_log(disk, clean=clean).find_by_time(NOW + n) for n in range(14)] == before
