"""The logs of one directory: opening, closing, checkpoints, damage set aside, deletion."""

import errno
import random
import uuid

import pytest

from ottla.core.errors import KafkaError
from ottla.core.ids import TopicPartition
from ottla.storage import checkpoints
from ottla.storage.files import OsFiles, write_whole
from ottla.storage.log import Log
from ottla.storage.log_directory import LogDirectory
from ottla.testing.disk import PowerLoss, SimDisk
from tests.unit.storage.helpers import config, crash, put, values_of

ORDERS, VISITS = TopicPartition("orders", 0), TopicPartition("visits", 3)


@pytest.fixture
def disk() -> SimDisk:
    return SimDisk()


def opened(disk: SimDisk, **settings) -> LogDirectory:
    return LogDirectory.open(disk, "d", lambda topic: config(**settings))


def offsets(disk: SimDisk, name: str) -> dict[TopicPartition, int]:
    return checkpoints.read_offsets(disk, f"d/{name}")


def fill(log: Log, count: int) -> dict[int, bytes]:
    for n in range(count):
        put(log, b"%d" % n)
    log.advance_high_watermark(log.end_offset)
    return {n: b"%d" % n for n in range(count)}


def test_an_empty_directory_has_no_logs_and_was_not_closed_cleanly(disk):
    directory = opened(disk)
    assert (directory.logs, directory.was_clean, directory.clean_broker_epoch) == ({}, False, None)


def test_a_created_log_is_there_at_the_next_start_with_its_topic_id(disk):
    topic_id = uuid.uuid4()
    directory = opened(disk)
    directory.create(ORDERS, topic_id)
    directory.create(VISITS)
    crash(disk)
    directory = opened(disk)
    assert sorted(directory.logs) == [ORDERS, VISITS]
    assert directory.topic_id(ORDERS) == topic_id
    assert directory.topic_id(VISITS) is None
    with pytest.raises(AssertionError):
        directory.create(ORDERS)


def test_a_clean_shutdown_is_believed_once(disk):
    directory = opened(disk)
    expected = fill(directory.create(ORDERS), 20)
    directory.close(broker_epoch=77)
    crash(disk)
    directory = opened(disk)
    assert (directory.was_clean, directory.clean_broker_epoch) == (True, 77)
    log = directory.logs[ORDERS]
    assert (values_of(log), log.recovery.checked_bytes, log.high_watermark) == (expected, 0, 20)
    assert not opened(disk).was_clean, "that start did not end cleanly"


def test_after_any_other_end_logs_are_checked_from_their_recovery_point(disk):
    directory = opened(disk)
    log = directory.create(ORDERS)
    expected = fill(log, 20)
    log.flush()
    directory.checkpoint()
    put(log, b"unsynced")
    crash(disk, 3)
    reopened = opened(disk).logs[ORDERS]
    assert reopened.recovery.checked_bytes > 0
    assert {o: v for o, v in values_of(reopened).items() if o < 20} == expected


def test_checkpoints_are_kafkas_files(disk):
    directory = opened(disk)
    first, second = directory.create(ORDERS), directory.create(VISITS)
    fill(first, 9)
    fill(second, 3)
    first.flush()
    first.advance_log_start(2)
    directory.checkpoint()
    assert offsets(disk, "recovery-point-offset-checkpoint") == {ORDERS: 9, VISITS: 0}
    assert offsets(disk, "replication-offset-checkpoint") == {ORDERS: 9, VISITS: 3}
    assert offsets(disk, "log-start-offset-checkpoint") == {ORDERS: 2}
    directory.close()
    assert opened(disk).logs[ORDERS].log_start_offset == 2


def test_a_checkpoint_that_cannot_be_read_means_that_everything_is_checked(disk):
    directory = opened(disk)
    expected = fill(directory.create(ORDERS), 20)
    directory.close()
    write_whole(disk, f"d/{checkpoints.RECOVERY_POINT}", b"nonsense")
    disk.remove(f"d/{checkpoints.CLEAN_SHUTDOWN}")
    log = opened(disk).logs[ORDERS]
    assert values_of(log) == expected
    assert log.recovery.checked_bytes == log.segments.size


def test_files_and_directories_of_others_are_left_alone(disk):
    for name in ("lost+found", "no-partition", "orders-0.0123456789abcdef0123456789abcdef-stray"):
        disk.make_directory(f"d/{name}")
    write_whole(disk, "d/meta.properties", b"version=1\n")
    assert opened(disk).logs == {}


def test_a_creation_that_did_not_get_to_its_end_leaves_nothing_behind(disk):
    directory, id = opened(disk), uuid.UUID(int=7)
    for step in directory.begin_create(ORDERS, id):
        step()  # and whoever began it is gone
    directory.create(ORDERS, id)
    assert [name for name in disk.names("d") if "orders" in name] == [str(ORDERS)]
    assert directory.topic_id(ORDERS) == id


def test_the_log_of_a_topic_that_had_the_name_before_is_set_aside(disk):
    first = opened(disk)
    put(first.create(ORDERS, uuid.UUID(int=1)), b"a")
    del first.logs[ORDERS]
    first.create(ORDERS, uuid.UUID(int=2))
    assert len([name for name in disk.names("d") if name.endswith("-stray")]) == 1


def test_a_file_that_bears_the_name_of_a_partition_keeps_nothing_from_opening(tmp_path):
    (tmp_path / "core-4711").write_bytes(b"dumped")
    LogDirectory.open(OsFiles(), str(tmp_path), lambda topic: config()).create(ORDERS)
    again = LogDirectory.open(OsFiles(), str(tmp_path), lambda topic: config())
    assert list(again.logs) == [ORDERS]
    assert (tmp_path / "core-4711").read_bytes() == b"dumped"


def test_progress_is_told(disk):
    directory = opened(disk)
    directory.create(ORDERS)
    directory.create(VISITS)
    seen = []
    LogDirectory.open(disk, "d", lambda topic: config(), lambda done, total: seen.append((done, total)))
    assert seen == [(0, 2), (1, 2), (2, 2)]


# --- damage ------------------------------------------------------------------------------------------------------


def damage(disk: SimDisk) -> dict[int, bytes]:
    """Break the chain of orders-0 in the middle, where it was safely on the disk."""
    directory = opened(disk, segment_bytes=1 << 20)
    log = directory.create(ORDERS)
    fill(log, 20)
    expected = fill(directory.create(VISITS), 5)
    for each in directory.logs.values():
        each.flush()
    directory.checkpoint()
    at = log.segments[0].find(10).position
    log.segments[0].file.write_at(at, bytes(30))
    log.segments[0].file.sync()
    return expected


def test_a_damaged_log_is_set_aside_and_the_others_open(disk):
    expected = damage(disk)
    directory = opened(disk)
    assert (list(directory.logs), list(directory.damaged)) == ([VISITS], [ORDERS])
    assert values_of(directory.logs[VISITS]) == expected


def test_a_log_set_aside_is_never_cut_by_a_later_start(disk):
    damage(disk)
    before = disk.read("d/orders-0/00000000000000000000.log")
    for _ in range(3):
        directory = opened(disk)
        assert list(directory.damaged) == [ORDERS]
        directory.logs[VISITS].truncate_to(2)
        directory.checkpoint()
        directory.close()
        assert offsets(disk, checkpoints.RECOVERY_POINT)[ORDERS] == 20
        assert offsets(disk, checkpoints.HIGH_WATERMARK)[ORDERS] == 20
    assert disk.read("d/orders-0/00000000000000000000.log") == before


def test_there_is_no_clean_shutdown_beside_a_damaged_log(disk):
    damage(disk)
    opened(disk).close()
    assert not opened(disk).was_clean


def test_a_damaged_log_can_be_deleted(disk):
    damage(disk)
    directory = opened(disk)
    directory.delete(ORDERS)
    assert directory.damaged == {}
    assert directory.remove_deleted() == 1
    directory.close()
    assert opened(disk).was_clean


def test_damage_in_a_segment_that_is_only_replayed_sets_the_log_aside_too(disk):
    """No snapshot is left, so an old segment must be read; its chain is broken."""
    directory = opened(disk)
    log = directory.create(ORDERS)
    fill(log, 40)
    assert len(log.segments) > 2
    directory.close()
    for name in disk.names("d/orders-0"):
        if name.endswith(".snapshot"):
            disk.remove(f"d/orders-0/{name}")
    disk.open(log.segments[0].path).write_at(0, bytes(100))
    assert list(opened(disk).damaged) == [ORDERS]


# --- closing -----------------------------------------------------------------------------------------------------


def test_one_log_that_fails_to_close_does_not_keep_the_others_open_nor_leave_a_marker(disk):
    directory = opened(disk)
    fill(directory.create(ORDERS), 3)
    fill(directory.create(VISITS), 4)
    disk.fail_next("sync")
    directory.close()
    assert not disk.exists(f"d/{checkpoints.CLEAN_SHUTDOWN}")
    assert offsets(disk, checkpoints.RECOVERY_POINT) == {ORDERS: 0, VISITS: 4}


def test_an_index_that_finds_no_room_at_closing_leaves_no_marker(disk):
    directory = opened(disk)
    fill(directory.create(ORDERS), 5)
    disk.fail_next("write", 28)
    directory.close()
    assert not disk.exists(f"d/{checkpoints.CLEAN_SHUTDOWN}")
    assert values_of(opened(disk).logs[ORDERS]) == {n: b"%d" % n for n in range(5)}


def test_a_failed_log_leaves_no_marker(disk):
    directory = opened(disk)
    log = directory.create(ORDERS)
    put(log, b"a")
    disk.fail_next("sync")
    with pytest.raises(KafkaError):
        log.flush()
    directory.close()
    assert not disk.exists(f"d/{checkpoints.CLEAN_SHUTDOWN}")


# --- deleting ----------------------------------------------------------------------------------------------------


def test_a_deleted_log_is_out_of_the_way_at_once_and_its_files_go_later(disk):
    directory = opened(disk)
    fill(directory.create(ORDERS), 30)
    directory.create(VISITS)
    path = directory.delete(ORDERS)
    assert path.startswith("d/orders-0.")
    assert path.endswith("-delete")
    assert list(opened(disk).logs) == [VISITS]
    assert opened(disk).remove_deleted() == 1
    assert not disk.exists(path)
    assert opened(disk).remove_deleted() == 0


def test_a_partition_of_the_same_name_starts_from_nothing(disk):
    directory = opened(disk)
    log = directory.create(ORDERS)
    fill(log, 30)
    log.flush()
    log.advance_log_start(9)
    directory.checkpoint()
    directory.delete(ORDERS)
    again = directory.create(ORDERS)
    assert (again.log_start_offset, again.end_offset, again.recovery_point, again.high_watermark) == (
        0,
        0,
        0,
        0,
    )
    assert put(again, b"new").first_offset == 0
    directory.close()
    assert values_of(opened(disk).logs[ORDERS]) == {0: b"new"}


# --- truncation --------------------------------------------------------------------------------------------------


def test_the_recovery_point_on_the_disk_is_lowered_before_a_truncation_cuts(disk):
    for operations in range(80):
        disk = SimDisk()
        directory = opened(disk)
        log = directory.create(ORDERS)
        expected = fill(log, 20)
        log.flush()
        directory.checkpoint()
        disk.crash_after(operations)
        try:
            log.truncate_to(8)
            put(log, b"other", epoch=1)
            finished = True
        except PowerLoss:
            finished = False
        disk.crash(random.Random(operations))
        reopened = opened(disk)
        assert reopened.damaged == {}
        found = values_of(reopened.logs[ORDERS])
        assert reopened.logs[ORDERS].recovery.damage == []
        assert {o: v for o, v in found.items() if o < 8} == {o: v for o, v in expected.items() if o < 8}
        if finished:
            assert offsets(disk, checkpoints.RECOVERY_POINT)[ORDERS] <= 8
            break
    assert finished


def test_it_all_works_on_a_real_disk_with_few_handles(tmp_path):
    files = OsFiles(handles_max=4)
    directory = LogDirectory.open(files, str(tmp_path), lambda topic: config())
    partitions = [TopicPartition("orders", n) for n in range(6)]
    expected = {p: fill(directory.create(p), 30) for p in partitions}
    assert files.open_handles <= 4
    directory.close(broker_epoch=5)
    directory = LogDirectory.open(files, str(tmp_path), lambda topic: config())
    assert directory.clean_broker_epoch == 5
    assert {p: values_of(log) for p, log in directory.logs.items()} == expected
    directory.logs[partitions[0]].truncate_to(7)
    directory.delete(partitions[1])
    assert directory.remove_deleted() == 1
    directory.close()
    directory = LogDirectory.open(files, str(tmp_path), lambda topic: config())
    assert values_of(directory.logs[partitions[0]]) == {n: b"%d" % n for n in range(7)}
    assert partitions[1] not in directory.logs
    directory.close()
    assert files.open_handles == 0


def test_a_checkpoint_in_a_thread_does_not_undo_a_truncation(disk):
    directory = opened(disk)
    log = directory.create(ORDERS)
    fill(log, 10)
    log.flush()
    begun = directory.begin_checkpoint(checkpoints.RECOVERY_POINT)
    log.truncate_to(4)
    for write in begun:
        write()
    assert offsets(disk, checkpoints.RECOVERY_POINT) == {ORDERS: 4}


def test_some_of_the_deleted_partitions_can_be_removed(disk):
    directory = opened(disk)
    for partition in (ORDERS, VISITS):
        directory.create(partition)
        directory.delete(partition)
    first, second = directory.deleted()
    assert directory.remove_deleted([first]) == 1
    assert directory.deleted() == [second]


def moved_start(disk: SimDisk) -> LogDirectory:
    """A log that starts at 5, which the disk knows."""
    directory = opened(disk)
    log = directory.create(ORDERS)
    fill(log, 9)
    log.advance_log_start(5)
    directory.checkpoint()
    return directory


def test_a_new_log_does_not_start_where_one_of_its_name_did_that_was_deleted_just_before_a_crash(disk):
    moved_start(disk).begin_delete(ORDERS)()
    crash(disk)
    log = opened(disk).create(ORDERS)
    expected = fill(log, 3)
    log.flush()
    crash(disk)
    assert values_of(opened(disk).logs[ORDERS]) == expected


def test_nor_where_one_did_whose_deletion_the_full_disk_would_not_note(disk):
    directory = moved_start(disk)
    disk.fail_next("write", errno.ENOSPC)
    with pytest.raises(OSError, match="No space"):
        directory.delete(ORDERS)
    log = directory.create(ORDERS)
    expected = fill(log, 3)
    log.flush()
    crash(disk)
    assert values_of(opened(disk).logs[ORDERS]) == expected


# --- how far logs are compacted -----------------------------------------------------------------------------------


def cleaned(disk: SimDisk, offset: int, **settings) -> LogDirectory:
    """A directory whose log has 10 records, and is compacted up to `offset`."""
    directory = opened(disk, **{"cleanup.policy": "compact", **settings})
    fill(directory.create(ORDERS), 10)
    for write in directory.note_cleaned(ORDERS, offset):
        write()
    return directory


def test_how_far_a_log_is_compacted_is_known_after_a_crash(disk):
    cleaned(disk, 7)
    crash(disk)
    directory = opened(disk)
    assert directory.cleaned_to(ORDERS) is not None
    assert offsets(disk, checkpoints.CLEANER) == {ORDERS: 7}


def test_a_directory_in_which_nothing_was_compacted_has_no_file_about_it(disk):
    directory = opened(disk)
    fill(directory.create(ORDERS), 3)
    assert directory.cleaned_to(ORDERS) is None
    directory.close()
    assert not disk.exists(f"d/{checkpoints.CLEANER}")


def test_a_deleted_log_leaves_no_word_of_how_far_it_was_compacted(disk):
    directory = cleaned(disk, 7)
    directory.delete(ORDERS)
    assert offsets(disk, checkpoints.CLEANER) == {}
    directory.create(ORDERS)
    assert directory.cleaned_to(ORDERS) is None


def test_what_is_written_in_place_of_a_cut_end_was_never_compacted(disk):
    directory = cleaned(disk, 7)
    log = directory.logs[ORDERS]
    log.truncate_to(4)
    assert offsets(disk, checkpoints.CLEANER) == {ORDERS: 4}
    fill(log, 9)
    assert directory.cleaned_to(ORDERS) == 4
    log.truncate_to(5)
    assert directory.cleaned_to(ORDERS) == 4


def test_a_checkpoint_beyond_the_end_of_its_log_is_not_believed(disk, caplog):
    directory = cleaned(disk, 11)
    assert directory.cleaned_to(ORDERS) == 0
    assert directory.cleaned_to(ORDERS) == 0
    assert [record.getMessage() for record in caplog.records] == [
        "orders-0: its checkpoint says that it is compacted up to offset 11, but it reaches from 0 to 10; "
        "compaction begins at its start again"
    ]


def test_nor_is_one_that_the_log_has_grown_beyond_since_it_lost_its_end(disk):
    cleaned(disk, 7)
    crash(disk)
    directory = opened(disk)
    log = directory.logs[ORDERS]
    assert log.end_offset < 7
    fill(log, 9)
    assert directory.cleaned_to(ORDERS) == 0


@pytest.mark.parametrize(("policy", "is_odd"), [("compact", True), ("compact,delete", False)])
def test_a_checkpoint_before_the_start_of_its_log_moves_there(disk, caplog, policy, is_odd):
    directory = cleaned(disk, 2, **{"cleanup.policy": policy})
    directory.logs[ORDERS].advance_log_start(6)
    assert directory.cleaned_to(ORDERS) == 6
    assert bool(caplog.records) == is_odd
