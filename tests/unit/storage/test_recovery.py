"""Opening a log: what is believed, what is checked, cut, reported or refused."""

import logging

import pytest

from ottla.storage.epochs import FILE_NAME
from ottla.storage.files import write_whole
from ottla.storage.log import Log
from ottla.storage.recovery import CorruptLog
from ottla.storage.segment import file_name
from ottla.testing.disk import SimDisk
from tests.unit.storage.helpers import HERE, NOW, batch, config, crash, open_log, put, values_of

ONE_SEGMENT = {"segment_bytes": 1 << 20, "segment_index_bytes": 1 << 16}


@pytest.fixture
def disk() -> SimDisk:
    return SimDisk()


def filled(disk: SimDisk, count: int = 12, **settings) -> Log:
    log = open_log(disk, config(**settings))
    for n in range(count):
        put(log, b"%d" % n, epoch=n // 4, at_ms=NOW + n)
    log.flush()
    return log


def expected(end: int) -> dict[int, bytes]:
    return {n: b"%d" % n for n in range(end)}


def path(base: int, suffix: str) -> str:
    return f"{HERE}/{file_name(base, suffix)}"


def flip(disk: SimDisk, log: Log, offset: int, at: int = 61) -> None:
    for segment in log.segments.from_offset(offset):
        found = segment.find(offset)
        byte = segment.file.read_at(found.position + at, 1)[0]
        segment.file.write_at(found.position + at, bytes([byte ^ 0x40]))
        return


def test_an_empty_directory_becomes_an_empty_log_with_kafkas_files(disk):
    log = open_log(disk)
    assert disk.names(HERE) == [file_name(0, s) for s in (".index", ".log", ".timeindex")]
    assert (log.recovery.checked_bytes, log.recovery.cut_bytes, log.recovery.damage) == (0, 0, [])


def test_after_a_clean_shutdown_nothing_is_checked(disk):
    filled(disk).close()
    log = open_log(disk, clean=True)
    assert (values_of(log), log.recovery.checked_bytes) == (expected(12), 0)


def test_a_clean_shutdown_is_not_believed_when_the_last_batch_is_cut_off(disk):
    log = filled(disk, **ONE_SEGMENT)
    log.close()
    disk.open(log.segments.active.path).truncate(log.segments.size - 3)
    reopened = open_log(disk, clean=True)
    assert values_of(reopened) == expected(11)
    assert reopened.recovery.cut_bytes > 0


def test_only_segments_from_the_recovery_point_on_are_checked(disk):
    log = filled(disk, 40)
    last_base = log.segments.active.base_offset
    crash(disk)
    for point, checked in [
        (0, log.segments.size),
        (last_base + 1, log.segments.active.size),
        (40, log.segments.active.size),
    ]:
        assert open_log(disk, recovery_point=point).recovery.checked_bytes == checked


def test_the_log_is_cut_at_the_first_bad_batch_above_the_recovery_point_and_later_segments_go(disk, caplog):
    log = filled(disk, 40)
    flip(disk, log, 15)
    with caplog.at_level(logging.WARNING):
        reopened = open_log(disk, recovery_point=10)
    assert (reopened.end_offset, values_of(reopened)) == (15, expected(15))
    assert reopened.recovery.damage == []
    assert "cut" in caplog.text
    assert max(int(n[:20]) for n in disk.names(HERE) if n.endswith(".log")) <= 15
    assert reopened.epochs.entries[-1] == (3, 12)
    put(reopened, b"15", epoch=9)
    assert values_of(reopened) == expected(16)


def test_damage_below_the_recovery_point_is_reported_and_nothing_is_cut(disk, caplog):
    log = filled(disk, 12, **ONE_SEGMENT)
    flip(disk, log, 5)
    size = log.segments.size
    reopened = open_log(disk, config(**ONE_SEGMENT), recovery_point=12)
    assert (reopened.end_offset, reopened.segments.size, reopened.recovery.cut_bytes) == (12, size, 0)
    [damage] = reopened.recovery.damage
    assert damage.position == log.segments[0].find(5).position
    assert "fails its checksum" in str(damage)
    assert "below the recovery point" in caplog.text


def test_a_log_whose_batches_cannot_be_told_apart_below_the_recovery_point_refuses_to_open(disk):
    log = filled(disk, 12, **ONE_SEGMENT)
    flip(disk, log, 5, at=10)  # the length
    size = log.segments.size
    with pytest.raises(CorruptLog, match="nothing was cut"):
        open_log(disk, config(**ONE_SEGMENT), recovery_point=12)
    assert disk.size(log.segments[0].path) == size


@pytest.mark.parametrize("keep", [True, False])
def test_indexes_of_checked_segments_are_written_anew(disk, keep):
    log = filled(disk, 12)
    before = [[s.offsets.entries.entry(n) for n in range(s.offsets.entries.count)] for s in log.segments]
    log.close()
    for segment in log.segments:
        for suffix in (".index", ".timeindex"):
            if keep:
                write_whole(disk, path(segment.base_offset, suffix), b"\xff" * 24)
            else:
                disk.remove(path(segment.base_offset, suffix))
    again = open_log(disk)
    after = [[s.offsets.entries.entry(n) for n in range(s.offsets.entries.count)] for s in again.segments]
    assert after == before


def test_what_a_crash_interrupted_is_tidied_away(disk):
    filled(disk, 3).close()
    for name in ("leader-epoch-checkpoint.tmp", file_name(0, ".log.deleted"), file_name(99, ".index"),
                 file_name(99, ".timeindex"), file_name(99, ".txnindex")):  # fmt: skip
        write_whole(disk, f"{HERE}/{name}", b"left over")
    open_log(disk, clean=True)
    assert disk.names(HERE) == [
        file_name(0, ".index"),
        file_name(0, ".log"),
        file_name(0, ".timeindex"),
        file_name(3, ".snapshot"),
        FILE_NAME,
    ]


def test_files_that_are_not_the_logs_are_left_alone(disk):
    filled(disk, 3).close()
    write_whole(disk, f"{HERE}/partition.metadata", b"version: 0")
    write_whole(disk, f"{HERE}/notes.log", b"mine")
    open_log(disk)
    assert disk.read(f"{HERE}/notes.log") == b"mine"
    assert disk.exists(f"{HERE}/partition.metadata")


def test_a_snapshot_from_beyond_the_end_is_removed_for_good(disk):
    log = filled(disk, 12, **ONE_SEGMENT)
    log.close()
    disk.open(log.segments.active.path).truncate(log.segments[0].find(8).position)
    disk.open(log.segments.active.path).sync()
    open_log(disk)
    for seed in range(10):
        crash(disk, seed)
        assert not disk.exists(path(12, ".snapshot"))


@pytest.mark.parametrize("content", [None, b"nonsense", b"0\n2\n0 0\n"])
@pytest.mark.parametrize("clean", [True, False])
def test_the_epochs_are_rebuilt_from_the_batches_where_their_file_is_of_no_use(disk, content, clean):
    filled(disk).close()
    if content is None:
        disk.remove(f"{HERE}/{FILE_NAME}")
    else:
        write_whole(disk, f"{HERE}/{FILE_NAME}", content)
    log = open_log(disk, clean=clean)
    assert log.epochs.entries == [(0, 0), (1, 4), (2, 8)]
    assert disk.read(f"{HERE}/{FILE_NAME}") == b"0\n3\n0 0\n1 4\n2 8\n"


def test_epochs_beyond_the_end_and_before_the_start_are_forgotten(disk):
    filled(disk).close()
    write_whole(disk, f"{HERE}/{FILE_NAME}", b"0\n4\n0 0\n1 4\n2 8\n7 12\n")
    log = open_log(disk, log_start_offset=5, clean=True)
    assert log.epochs.entries == [(1, 5), (2, 8)]


def test_a_tail_of_zeros_is_not_part_of_the_log(disk):
    log = filled(disk, 5, **ONE_SEGMENT)
    disk.open(log.segments.active.path).truncate(log.segments.size + 4096)
    reopened = open_log(disk)
    assert (values_of(reopened), reopened.recovery.cut_bytes) == (expected(5), 4096)


def test_gaps_that_compaction_left_are_believed(disk):
    settings = config(cleanup_policy="compact", segment_bytes=300)
    log = open_log(disk, settings)
    kept = [0, 3, 4, 9, 20, 21, 50]
    for offset in kept:
        log.append_fetched(batch(b"v", base_offset=offset, leader_epoch=0), NOW)
    log.flush()
    crash(disk)
    for point in (0, 10, 51):
        reopened = open_log(disk, settings, recovery_point=point)
        assert (list(values_of(reopened)), reopened.recovery.damage) == (kept, [])


def test_opening_twice_changes_nothing(disk):
    filled(disk, 40).close()
    open_log(disk).close()
    before = {name: disk.read(f"{HERE}/{name}") for name in disk.names(HERE)}
    open_log(disk).close()
    assert {name: disk.read(f"{HERE}/{name}") for name in disk.names(HERE)} == before


def test_half_a_snapshot_of_a_roll_that_a_kill_interrupted_does_not_stay():
    disk = SimDisk()
    log = open_log(disk)
    put(log, b"a", b"b")
    torn = f"{HERE}/{2:020d}.snapshot"
    disk.open(torn, create=True).close()
    open_log(disk, recovery_point=0)
    assert not disk.exists(torn)
