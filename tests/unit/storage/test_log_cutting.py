"""A log gets shorter: truncation at the end, the log start, retention; and what a crash in between leaves."""

import random
from contextlib import suppress

import pytest

from ottla.core.errors import ErrorCode, KafkaError
from ottla.storage.log import Log
from ottla.testing.disk import PowerLoss, SimDisk
from tests.unit.storage.helpers import HERE, NOW, batch, config, crash, end_txn, open_log, put, values_of


@pytest.fixture
def disk() -> SimDisk:
    return SimDisk()


def filled(disk: SimDisk, count: int = 20, **settings) -> Log:
    """Batches of two records, three or four batches per segment, a new epoch every five."""
    log = open_log(disk, config(segment_bytes=320, **settings))
    for n in range(count):
        put(log, b"%d.0" % n, b"%d.1" % n, epoch=n // 5, at_ms=NOW + n)
    return log


def expected(end: int, start: int = 0) -> dict[int, bytes]:
    return {o: b"%d.%d" % divmod(o, 2) for o in range(start, end)}


def bases(log: Log) -> list[int]:
    return [s.base_offset for s in log.segments]


# --- at the end --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [0, 1, 2, 5, 6, 7, 20, 21, 38, 39, 40, 41])
def test_truncation_keeps_whole_batches_before_the_offset_and_the_log_goes_on(disk, offset):
    log = filled(disk)
    log.advance_high_watermark(40)
    log.flush()
    log.truncate_to(offset)
    end = min(40, offset // 2 * 2)
    assert (log.end_offset, values_of(log)) == (end, expected(end))
    assert log.high_watermark == end
    assert log.recovery_point <= end
    assert all(start < max(1, offset) for _, start in log.epochs.entries)
    assert put(log, b"again", epoch=9).first_offset == end
    assert values_of(log) == expected(end) | {end: b"again"}
    log.flush()
    crash(disk, offset)
    assert values_of(open_log(disk, recovery_point=log.recovery_point)) == expected(end) | {end: b"again"}


def test_truncation_lasts_when_it_returns(disk):
    for seed in range(10):
        disk = SimDisk()
        log = filled(disk)
        log.flush()
        log.truncate_to(15)
        crash(disk, seed)
        assert values_of(open_log(disk, recovery_point=14)) == expected(14)


def test_truncation_forgets_an_epoch_that_wrote_nothing(disk):
    log = open_log(disk)
    put(log, b"a", epoch=1)
    log.epochs.assign(2, 1)
    log.truncate_to(1)
    assert log.epochs.entries == [(1, 0)]


def with_a_gap(disk: SimDisk, *, rolls: bool = False) -> Log:
    """As compaction leaves it: offsets 0 to 3, then 20 on, and all of it was on the disk. Kafka's has left gaps between
    segments, too."""
    log = open_log(disk, config(cleanup_policy="compact"))
    put(log, b"a", b"b", b"c", b"d")
    if rolls:
        log.roll(20)
    log.append_fetched(batch(b"e", b"f", base_offset=20, leader_epoch=3), NOW)
    log.append_fetched(batch(b"g", base_offset=22, leader_epoch=3), NOW)
    log.advance_high_watermark(23)
    log.flush()
    return log


@pytest.mark.parametrize(
    "offset, rolls", [(4, False), (5, False), (20, False), (21, False), (4, True), (5, True)]
)
def test_truncation_in_a_gap_or_behind_one_ends_where_the_last_batch_does(disk, offset, rolls):
    """The next start would find the end there: whatever is known of the log must not reach beyond it."""
    log = with_a_gap(disk, rolls=rolls)
    cuts = []
    log.before_cut = cuts.append
    log.truncate_to(offset)
    assert (log.end_offset, log.high_watermark, log.recovery_point) == (4, 4, 4)
    assert cuts == [4]
    assert log.epochs.entries == [(0, 0)]
    assert put(log, b"again", epoch=1).first_offset == 4


def test_truncation_behind_a_gap_in_which_the_log_starts_begins_anew_there(disk):
    log = with_a_gap(disk)
    log.advance_log_start(10)
    log.truncate_to(21)
    assert (log.log_start_offset, log.end_offset, values_of(log)) == (10, 10, {})


def test_truncation_before_the_log_start_begins_anew_there(disk):
    log = filled(disk)
    log.advance_high_watermark(40)
    log.advance_log_start(20)
    log.delete_old(NOW)
    log.truncate_to(3)
    assert (log.log_start_offset, log.end_offset, bases(log), values_of(log)) == (3, 3, [3], {})
    assert log.epochs.entries == []
    assert put(log, b"a").first_offset == 3


@pytest.mark.parametrize("offset", [0, 7, 40, 1000])
def test_a_log_can_begin_anew_anywhere(disk, offset):
    log = filled(disk)
    put(log, b"x", producer=(7, 0, 0), epoch=3)
    log.flush()
    log.restart_at(offset)
    assert (log.log_start_offset, log.end_offset, log.high_watermark, bases(log)) == (offset,) * 3 + (
        [offset],
    )
    assert len(log.producers) == 0
    assert put(log, b"a", epoch=9).first_offset == offset
    log.flush()
    crash(disk)
    reopened = open_log(disk, recovery_point=log.recovery_point)
    assert values_of(reopened) == {offset: b"a"}
    assert len(reopened.producers) == 0


def test_a_crash_while_a_log_begins_anew_is_not_taken_for_damage():
    for operations in range(80):
        disk = SimDisk()
        log = filled(disk)
        log.flush()
        checkpoint = [log.recovery_point]
        log.before_truncation = lambda log=log, checkpoint=checkpoint: checkpoint.append(log.recovery_point)
        disk.crash_after(operations)
        try:
            log.restart_at(50)
            finished = True
        except PowerLoss:
            finished = False
        disk.crash(random.Random(operations))
        reopened = open_log(disk, recovery_point=checkpoint[-1])
        assert reopened.recovery.damage == []
        if finished:
            assert (reopened.log_start_offset, reopened.end_offset) == (50, 50)
            break
    assert finished


def test_the_checkpoint_is_lowered_before_anything_is_cut(disk):
    log = filled(disk)
    log.flush()
    seen = []
    log.before_truncation = lambda: seen.append((log.recovery_point, log.segments.size))
    size = log.segments.size
    log.truncate_to(40)
    log.truncate_to(25)
    assert [(point <= 25, at) for point, at in seen] == [(True, size)]
    log.restart_at(3)
    assert seen[-1][0] == 0


def test_a_crash_anywhere_in_a_truncation_leaves_a_beginning_of_the_log():
    for operations in range(0, 60, 1):
        disk = SimDisk()
        log = filled(disk)
        log.flush()
        checkpoint = [log.recovery_point]
        log.before_truncation = lambda log=log, checkpoint=checkpoint: checkpoint.append(log.recovery_point)
        disk.crash_after(operations)
        try:
            log.truncate_to(11)
            finished = True
        except PowerLoss:
            finished = False
        disk.crash(random.Random(operations))
        reopened = open_log(disk, recovery_point=checkpoint[-1])
        assert values_of(reopened) == expected(reopened.end_offset)
        assert 10 <= reopened.end_offset <= (10 if finished else 40)
        if finished:
            break
    assert finished


# --- at the start ------------------------------------------------------------------------------------------------


def test_the_log_start_moves_up_to_the_high_watermark_and_never_back(disk):
    log = filled(disk)
    log.advance_high_watermark(20)
    with pytest.raises(KafkaError) as caught:
        log.advance_log_start(21)
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    log.advance_log_start(13)
    log.advance_log_start(5)
    assert log.log_start_offset == 13
    assert list(values_of(log)) == list(range(13, 40))
    assert log.epochs.entries[0] == (1, 13)


def test_a_log_start_within_a_segment_is_kept_by_whoever_opens_it_again(disk):
    log = filled(disk)
    log.advance_high_watermark(40)
    log.advance_log_start(13)
    log.close()
    assert list(values_of(open_log(disk, log_start_offset=13, clean=True))) == list(range(13, 40))


def test_a_log_that_lost_its_end_back_to_before_its_start_begins_anew_at_its_start(disk):
    """The start was written down, the batches were not on the disk yet."""
    log = filled(disk)
    log.advance_high_watermark(40)
    log.advance_log_start(35)
    log.truncate_to(40)
    disk.open(log.segments[2].path).truncate(0)
    for segment in list(log.segments)[3:]:
        disk.remove(segment.path)
    reopened = open_log(disk, log_start_offset=35)
    assert (reopened.log_start_offset, reopened.end_offset, reopened.high_watermark) == (35, 35, 35)
    assert put(reopened, b"a", epoch=9).first_offset == 35
    assert values_of(reopened) == {35: b"a"}


# --- retention ---------------------------------------------------------------------------------------------------


def test_old_segments_go_and_their_files_follow_after_the_delay(disk):
    log = filled(disk, retention_ms=1000, file_delete_delay_ms=500)
    log.advance_high_watermark(40)
    first, second = log.segments[0], log.segments[1]
    late = NOW + 1001 + second.newest.timestamp - NOW
    assert log.delete_old(late) == 2
    assert log.log_start_offset == log.segments[0].base_offset
    assert values_of(log) == expected(40, log.log_start_offset)
    doomed = [n for n in disk.names(HERE) if n.endswith(".deleted")]
    assert len([n for n in doomed if ".log" in n]) == 2
    log.remove_doomed(late + 499)
    assert [n for n in disk.names(HERE) if n.endswith(".deleted")] == doomed
    log.remove_doomed(late + 500)
    assert not [n for n in disk.names(HERE) if n.endswith(".deleted")]
    assert first.base_offset == 0


def test_a_slice_of_a_deleted_segment_can_be_read_until_its_files_go(disk):
    log = filled(disk, retention_ms=1000)
    log.advance_high_watermark(40)
    held = log.read(0, 1 << 20)
    before = held.read()
    assert log.delete_old(NOW + 10**6) > 0
    assert held.read() == before


def test_a_log_of_old_records_only_ends_up_empty_but_keeps_its_offsets(disk):
    log = filled(disk, retention_ms=1000)
    log.advance_high_watermark(40)
    log.delete_old(NOW + 10**6)
    assert (bases(log), log.log_start_offset, log.end_offset) == ([40], 40, 40)
    log.close()
    assert open_log(disk, clean=True).end_offset == 40
    assert open_log(disk, recovery_point=40).end_offset == 40


def test_retention_waits_for_the_high_watermark(disk):
    log = filled(disk, retention_ms=1000)
    assert log.delete_old(NOW + 10**6) == 0
    log.advance_high_watermark(bases(log)[1])
    assert log.delete_old(NOW + 10**6) == 1


def test_by_size_the_oldest_go(disk):
    log = filled(disk, retention_ms=-1, retention_bytes=700)
    log.advance_high_watermark(40)
    before = log.segments.size
    assert log.delete_old(NOW) > 0
    assert 700 <= log.segments.size < before
    assert log.segments.size - log.segments[0].size < 700


def test_segments_before_the_log_start_go_with_their_snapshots(disk):
    log = filled(disk, retention_ms=-1)
    log.advance_high_watermark(40)
    second = bases(log)[2]
    log.advance_log_start(second)
    assert log.delete_old(NOW) == 2
    assert bases(log)[0] == second
    snapshots = [n for n in disk.names(HERE) if n.endswith(".snapshot")]
    assert int(snapshots[0][:20]) == second


def test_a_segment_whose_index_is_missing_can_still_be_deleted(disk):
    log = filled(disk, retention_ms=-1, retention_bytes=0)
    log.advance_high_watermark(40)
    log.close()
    for name in disk.names(HERE):
        if name.endswith("index"):
            disk.remove(f"{HERE}/{name}")
    settings = config(segment_bytes=320, retention_ms=-1, retention_bytes=0)
    reopened = open_log(disk, settings, high_watermark=40, clean=True)
    assert reopened.delete_old(NOW) > 0
    assert reopened.failure is None


def test_a_crash_during_retention_leaves_an_end_of_the_log_with_all_its_aborts():
    for operations in range(40):
        disk = SimDisk()
        log = open_log(disk, config(segment_bytes=320, retention_ms=1000))
        for n in range(6):
            put(log, b"x", producer=(7, 0, n), is_transactional=True)
            end_txn(log, 7, commit=False)
        aborted = log.aborted_txns(0, 99)
        log.advance_high_watermark(log.end_offset)
        log.flush()
        disk.crash_after(operations)
        with suppress(PowerLoss):
            log.delete_old(NOW + 10**6)
        disk.crash(random.Random(operations))
        reopened = open_log(disk, recovery_point=12)
        start = reopened.log_start_offset
        assert reopened.end_offset == 12
        assert reopened.aborted_txns(start, 99) == [t for t in aborted if t.last_offset >= start]


def test_a_full_disk_does_not_keep_retention_from_deleting(disk):
    log = filled(disk, retention_ms=1000, file_delete_delay_ms=0)
    log.advance_high_watermark(40)
    log.flush()
    disk.capacity = disk.used
    assert log.delete_old(NOW + 10**6) > 0
    log.remove_doomed(NOW + 10**6)
    assert log.failure is None
    assert disk.used < disk.capacity
    put(log, b"goes on", epoch=9)
    assert batch(b"goes on")[61:] in log.read(40, 1000).read()


def test_a_log_that_begins_anew_at_the_same_offset_has_no_aborts_of_the_old_one(disk):
    log = open_log(disk)
    put(log, b"x", producer=(7, 0, 0), is_transactional=True)
    end_txn(log, 7, commit=False)
    log.restart_at(0)
    put(log, b"a", b"b", b"c")
    assert log.aborted_txns(0, 3) == []
    log.close()
    assert open_log(disk, clean=True).aborted_txns(0, 3) == []


def test_a_segment_that_holds_nothing_but_damage_can_be_closed_and_written_to():
    disk = SimDisk()
    log = open_log(disk, config())
    for _ in range(2):
        put(log, b"before")
    log.roll()
    put(log, b"a")
    put(log, b"b")
    log.close()
    file, size = disk.open(log.segments.active.path), log.segments.active.size
    file.write_at(0, (1).to_bytes(8, "big"))  # an offset that was there before, outside the checksum
    file.write_at(size // 2 + 12, (7).to_bytes(4, "big"))  # an epoch that never was
    log = open_log(disk, config(), recovery_point=4)
    active = log.segments.active
    assert log.end_offset == active.base_offset == 2 and active.size == size // 2, "one is kept, one is cut"
    assert log.roll() is active
    log.advance_high_watermark(2)
    log.delete_old(NOW + 10**12)
    put(log, b"next")
    assert log.end_offset == 3
