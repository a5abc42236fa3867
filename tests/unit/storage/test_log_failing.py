"""A log on a disk that fails: nothing torn, nothing believed that was not written, and a way back."""

import errno
import random

import pytest

from ottla.core.errors import ErrorCode, KafkaError
from ottla.storage.log import Log
from ottla.storage.segment import RECENT_MAX
from ottla.testing.disk import SimDisk
from tests.unit.storage.helpers import HERE, NOW, config, crash, end_txn, open_log, put, values_of


@pytest.fixture
def disk() -> SimDisk:
    return SimDisk()


@pytest.fixture
def log(disk) -> Log:
    log = open_log(disk)
    put(log, b"a")
    put(log, b"b")
    log.flush()
    return log


def storage_error(do) -> None:
    with pytest.raises(KafkaError) as caught:
        do()
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR


def check_survival(disk: SimDisk, log: Log, expected: dict[int, bytes]) -> None:
    """After a flush, what the log says is what every crash leaves."""
    assert values_of(log) == expected
    log.flush()
    crash(disk)
    assert values_of(open_log(disk, recovery_point=log.recovery_point)) == expected


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_a_write_that_fails_is_cut_back_and_the_log_goes_on(disk, log, code):
    disk.fail_next("write", code)
    storage_error(lambda: put(log, b"refused"))
    assert (log.end_offset, log.failure) == (2, None)
    assert put(log, b"c").first_offset == 2
    check_survival(disk, log, {0: b"a", 1: b"b", 2: b"c"})


@pytest.mark.parametrize("seed", range(8))
def test_half_a_batch_that_was_cut_back_stays_away_even_if_the_log_rolled_before_the_next_flush(seed):
    disk = SimDisk()
    log = open_log(disk)
    put(log, b"a")
    log.flush()
    disk.fail_next("write")
    storage_error(lambda: put(log, b"refused"))
    log.roll()
    put(log, b"b")
    log.flush()
    disk.crash(random.Random(seed))
    assert values_of(open_log(disk, recovery_point=log.recovery_point)) == {0: b"a", 1: b"b"}


def test_a_full_disk_refuses_until_there_is_room_again(disk, log):
    disk.capacity = disk.used + 30
    for _ in range(3):
        storage_error(lambda: put(log, b"no room for this"))
    assert values_of(log) == {0: b"a", 1: b"b"}
    disk.capacity = None
    put(log, b"c")
    check_survival(disk, log, {0: b"a", 1: b"b", 2: b"c"})


def test_half_a_batch_that_cannot_be_cut_off_fails_the_log(disk, log):
    disk.fail_next("write")
    disk.fail_next("truncate")
    storage_error(lambda: put(log, b"torn"))
    assert log.failure is not None
    for do in (lambda: put(log, b"c"), log.flush, lambda: log.truncate_to(0), lambda: log.delete_old(NOW)):
        storage_error(do)
    log.close()
    assert values_of(open_log(disk, recovery_point=2)) == {0: b"a", 1: b"b"}


@pytest.mark.parametrize("operation", ["create", "truncate", "write", "sync", "rename"])
@pytest.mark.parametrize("after", range(4))
def test_an_error_anywhere_in_a_roll_or_an_epoch_change_passes(disk, operation, after):
    """Half a roll is done again by the next append, and leaves nothing that shortens the log at the next start."""
    log = open_log(disk, config(segment_bytes=200))
    put(log, b"x" * 50)
    log.flush()
    disk.fail_next(operation, errno.ENOSPC, after=after)
    try:
        put(log, b"y" * 80, epoch=1)
        expected = {0: b"x" * 50, 1: b"y" * 80}
    except KafkaError as error:
        assert error.code is ErrorCode.KAFKA_STORAGE_ERROR
        expected = {0: b"x" * 50}
    disk.repair()
    assert log.failure is None
    put(log, b"z", epoch=1)
    put(log, b"w" * 80, epoch=2)
    expected |= {len(expected): b"z", len(expected) + 1: b"w" * 80}
    for clean in (True, False):
        log.close()
        crash(disk, after)
        log = open_log(disk, config(segment_bytes=200), recovery_point=log.recovery_point, clean=clean)
        assert values_of(log) == expected


def test_a_segment_that_could_not_be_created_nor_removed_fails_the_log(disk):
    log = open_log(disk, config(segment_bytes=200))
    put(log, b"x" * 50)
    log.flush()
    disk.fail_next("create", after=2)
    disk.fail_next("remove")
    storage_error(lambda: put(log, b"y" * 80))
    storage_error(lambda: put(log, b"z"))
    crash(disk)
    assert values_of(open_log(disk, recovery_point=1)) == {0: b"x" * 50}


def test_a_failed_sync_fails_the_log_for_good(disk, log):
    put(log, b"c")
    disk.fail_next("sync")
    storage_error(log.flush)
    assert log.recovery_point == 2
    storage_error(log.flush)
    storage_error(lambda: put(log, b"d"))
    log.close()
    crash(disk)
    assert values_of(open_log(disk, recovery_point=2)) == {0: b"a", 1: b"b"}


def test_a_failed_log_refuses_everything_and_the_next_start_finds_what_the_disk_has(disk, log):
    log.flush()
    put(log, b"c")
    disk.fail_next("sync")
    storage_error(log.flush)
    storage_error(lambda: log.read(0, 1000))
    storage_error(lambda: log.offset_by_time(0))
    storage_error(lambda: put(log, b"d"))
    assert values_of(open_log(disk)) == {0: b"a", 1: b"b"}, "not what the kernel only thought to have written"


def forget_where_batches_are(log):
    """A reader finds batches that were just written without reading; write others until these are forgotten."""
    for _ in range(RECENT_MAX):
        put(log, b"more")


def test_a_disk_that_cannot_be_read_has_failed(disk, log):
    forget_where_batches_are(log)
    disk.fail_next("read")
    storage_error(lambda: log.read(0, 1000))
    assert log.failure is not None


def test_batches_that_cannot_be_told_apart_are_damage_and_nothing_worse(disk, log):
    forget_where_batches_are(log)
    disk.open(log.segments[0].path).write_at(8, b"\xff\xff\xff\xff")
    with pytest.raises(KafkaError) as refused:
        log.read(0, 1000)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
    assert log.failure is None


def test_a_segment_that_was_closed_waits_for_a_sync(disk, log):
    put(log, b"c")
    assert not log.has_closed_unsynced
    log.roll()
    assert log.has_closed_unsynced
    log.flush()
    assert not log.has_closed_unsynced


@pytest.mark.parametrize("operation", ["write", "sync"])
def test_an_error_while_closing_is_told_and_the_files_are_let_go(disk, log, operation):
    put(log, b"c")
    disk.fail_next(operation)
    storage_error(log.close)
    assert all(s._file is None for s in log.segments)


def test_an_index_entry_that_the_disk_has_no_room_for_does_not_refuse_the_batch(disk):
    log = open_log(disk, config(segment_bytes=1 << 20, segment_index_bytes=1 << 16))
    for n in range(600):
        disk.capacity = disk.used + 100  # enough for a batch, not for a page of the index
        put(log, b"%d" % n)
    assert log.segments.active.offsets.entries.count == 599
    assert values_of(log) == {n: b"%d" % n for n in range(600)}
    storage_error(log.flush)
    disk.capacity = None
    log.flush()
    assert log.recovery_point == 600


@pytest.mark.parametrize("operation", ["truncate", "sync", "remove", "write", "rename"])
def test_an_error_in_the_middle_of_a_truncation_fails_the_log_and_opening_it_again_helps(disk, operation):
    log = open_log(disk, config(segment_bytes=200))
    for n in range(9):
        put(log, b"%d" % n, epoch=n // 3)
    log.flush()
    disk.fail_next(operation)
    storage_error(lambda: log.truncate_to(4))
    storage_error(lambda: put(log, b"x", epoch=9))
    log.close()
    crash(disk)
    reopened = open_log(disk, recovery_point=4)
    assert values_of(reopened) == {n: b"%d" % n for n in range(reopened.end_offset)}
    assert reopened.end_offset >= 4


def test_a_marker_whose_index_entry_cannot_be_written_fails_the_log_and_is_found_again(disk, log):
    put(log, b"t", producer=(7, 0, 0), is_transactional=True)
    disk.fail_next("write", after=1)
    storage_error(lambda: end_txn(log, 7, commit=False))
    assert log.failure is not None
    log.close()
    reopened = open_log(disk, recovery_point=2)
    assert [(t.first_offset, t.last_offset) for t in reopened.aborted_txns(0, 9)] == [(2, 3)]


def test_an_abort_on_a_full_disk_is_remembered_and_written_when_there_is_room(disk, log):
    put(log, b"t", producer=(7, 0, 0), is_transactional=True)
    disk.fail_next("write", errno.ENOSPC, after=1)
    end_txn(log, 7, commit=False)
    assert log.failure is None
    assert [(t.first_offset, t.last_offset) for t in log.aborted_txns(0, 9)] == [(2, 3)]
    log.flush()
    assert disk.read(log.segments.active.txns.path), "it reached the file with the next flush"


def test_a_crash_before_there_is_room_for_an_abort_forgets_nothing(disk, log):
    put(log, b"t", producer=(7, 0, 0), is_transactional=True)
    disk.fail_next("write", errno.ENOSPC, after=1)
    end_txn(log, 7, commit=False)
    log.abandon()
    reopened = open_log(disk, recovery_point=2)
    assert [(t.first_offset, t.last_offset) for t in reopened.aborted_txns(0, 9)] == [(2, 3)]


def test_everything_flushed_survives_whatever_fails_before_a_crash():
    """A random mixture: faults of every kind, then a crash. What a flush returned for is there."""
    operations = ["write", "sync", "create", "truncate", "rename", "remove"]
    for seed in range(60):
        source = random.Random(seed)
        disk = SimDisk()
        log = open_log(disk, config(segment_bytes=300))
        safe: dict[int, bytes] = {}
        for step in range(40):
            if source.random() < 0.3:
                disk.fail_next(
                    source.choice(operations), source.choice([errno.EIO, errno.ENOSPC]), after=step % 4
                )
            try:
                put(log, b"%d" % step, epoch=step // 10)
                if source.random() < 0.3:
                    log.flush()
                    safe = values_of(log)
            except KafkaError:
                continue
        point = log.recovery_point
        crash(disk, seed)
        found = values_of(open_log(disk, config(segment_bytes=300), recovery_point=point))
        assert {o: v for o, v in found.items() if o in safe} == safe


def test_nothing_is_left_open_behind_a_directory_without_a_log(disk):
    log = open_log(disk)
    put(log, b"a")
    log.abandon()
    for name in disk.names(HERE):
        disk.remove(f"{HERE}/{name}")
    disk.remove_directory(HERE)
    assert not disk.exists(HERE)


def test_a_restart_that_fails_half_way_leaves_no_transaction_open_for_ever(disk):
    """The snapshot of segments that are gone knows a transaction as open whose end went with them."""
    log = open_log(disk, config(segment_bytes=300))
    put(log, b"x" * 100, producer=(7, 0, 0), is_transactional=True)
    log.roll()
    end_txn(log, 7, commit=True)
    put(log, b"y" * 100)
    log.advance_high_watermark(log.end_offset)
    log.advance_log_start(2)
    assert log.delete_old(NOW) == 1
    disk.fail_next("rename")
    storage_error(lambda: log.restart_at(3))
    log = open_log(disk, config(segment_bytes=300))
    put(log, b"z")
    log.advance_high_watermark(log.end_offset)
    assert log.last_stable_offset == log.end_offset
