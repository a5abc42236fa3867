"""SimDisk: what a crash may take, what it may not, and the faults that can be planted."""

import errno
import random

import pytest

from ottla.testing.disk import PowerLoss, SimDisk

SEEDS = range(60)


@pytest.fixture
def disk() -> SimDisk:
    disk = SimDisk()
    disk.make_directory("d")
    return disk


def durable_file(disk: SimDisk, path: str, data: bytes):
    file = disk.open(path, create=True)
    file.write_at(0, data)
    file.sync()
    disk.sync_directory("d")
    return file


def states_after_crash(do) -> set[bytes | None]:
    """Every content of d/f that some crash leaves behind after `do`."""
    found = set()
    for seed in SEEDS:
        disk = SimDisk()
        disk.make_directory("d")
        do(disk)
        disk.crash(random.Random(seed))
        found.add(disk.read("d/f") if disk.exists("d/f") else None)
    return found


def test_what_was_synced_survives_every_crash():
    assert states_after_crash(lambda disk: durable_file(disk, "d/f", b"kept")) == {b"kept"}


def test_an_unsynced_write_may_arrive_tear_vanish_or_turn_into_zeros():
    def do(disk):
        durable_file(disk, "d/f", b"kept").write_at(4, b"12345678")

    states = states_after_crash(do)
    assert {b"kept", b"kept12345678", b"kept" + bytes(8)} <= states
    assert any(b"kept" < s < b"kept12345678" for s in states - {b"kept" + bytes(8)})
    assert all(s.startswith(b"kept") for s in states)


def test_an_unsynced_truncation_may_or_may_not_have_happened():
    assert states_after_crash(lambda disk: durable_file(disk, "d/f", b"kept").truncate(2)) == {b"ke", b"kept"}


def test_truncation_can_also_extend_with_zeros(disk):
    file = disk.open("d/f", create=True)
    file.write_at(0, b"ab")
    file.truncate(4)
    assert disk.read("d/f") == b"ab\0\0"


def test_a_name_lasts_only_once_its_directory_is_synced():
    def do(disk):
        disk.open("d/f", create=True).sync()

    assert states_after_crash(do) == {None, b""}


def test_synced_bytes_of_a_file_whose_name_vanished_are_gone_too():
    def do(disk):
        file = disk.open("d/f", create=True)
        file.write_at(0, b"x")
        file.sync()

    assert states_after_crash(do) == {None, b"x"}


def test_a_rename_leaves_the_old_or_the_new_file():
    def do(disk):
        durable_file(disk, "d/f", b"old")
        durable_file(disk, "d/f.tmp", b"new")
        disk.rename("d/f.tmp", "d/f")

    assert states_after_crash(do) == {b"old", b"new"}


def test_directory_changes_last_in_their_order():
    for seed in SEEDS:
        disk = SimDisk()
        disk.make_directory("d")
        for name in "abc":
            disk.open(f"d/{name}", create=True)
        disk.crash(random.Random(seed))
        assert disk.names("d") in ([], ["a"], ["a", "b"], ["a", "b", "c"])


def test_a_removed_file_that_comes_back_is_as_torn_as_any_other():
    def do(disk):
        disk.open("d/f", create=True).write_at(0, b"12345678")
        disk.remove("d/f")

    states = states_after_crash(do)
    assert {None, b"", b"12345678", bytes(8)} <= states


def test_after_a_crash_everything_that_is_there_is_durable(disk):
    disk.open("d/f", create=True).write_at(0, bytes(range(100)))
    disk.crash(random.Random(3))
    before = {name: disk.read(f"d/{name}") for name in disk.names("d")}
    disk.crash(random.Random(4))
    assert {name: disk.read(f"d/{name}") for name in disk.names("d")} == before


def test_bytes_that_a_failed_sync_left_behind_are_never_made_durable_by_a_later_one():
    def do(disk):
        file = durable_file(disk, "d/f", b"kept")
        file.write_at(4, b"lost")
        disk.fail_next("sync")
        with pytest.raises(OSError):
            file.sync()
        file.sync()
        assert disk.read("d/f") == b"kept", "nobody sees them any more, so that nobody relies on them"

    assert states_after_crash(do) == {b"kept"}


def test_a_planted_fault_strikes_once_and_only_its_operation(disk):
    file = disk.open("d/f", create=True)
    disk.fail_next("sync", errno.EIO, after=1)
    file.write_at(0, b"x")
    file.sync()
    with pytest.raises(OSError) as caught:
        file.sync()
    assert caught.value.errno == errno.EIO
    file.sync()


def test_a_failed_write_may_leave_half_of_its_bytes(disk):
    file = disk.open("d/f", create=True)
    disk.fail_next("write")
    with pytest.raises(OSError):
        file.write_at(0, b"1234")
    assert disk.read("d/f") == b"12"


def test_a_full_disk_takes_what_fits_and_says_so(disk):
    disk.capacity = 6
    file = disk.open("d/f", create=True)
    file.write_at(0, b"1234")
    with pytest.raises(OSError) as caught:
        file.write_at(4, b"5678")
    assert caught.value.errno == errno.ENOSPC
    assert disk.read("d/f") == b"123456"
    file.write_at(0, b"abcdef")  # no growth
    file.truncate(0)
    file.write_at(0, b"again")
    assert disk.used == 5


def test_the_power_goes_at_the_operation_named_and_stays_off_until_the_crash(disk):
    file = disk.open("d/f", create=True)
    disk.crash_after(2)
    file.write_at(0, b"a")
    file.write_at(1, b"b")
    with pytest.raises(PowerLoss):
        file.write_at(2, b"c")
    with pytest.raises(PowerLoss):
        file.sync()
    disk.crash(random.Random(0))
    disk.open("d/g", create=True).sync()


def test_missing_files_and_directories_are_reported_as_by_the_operating_system(disk):
    for ask in (disk.read, disk.size, disk.modified_ms, disk.remove, disk.open):
        with pytest.raises(FileNotFoundError):
            ask("d/nothing")
    with pytest.raises(FileNotFoundError):
        disk.names("nowhere")
    assert not disk.exists("d/nothing")
    assert not disk.exists("nowhere/nothing")
    assert disk.exists("d")


def test_a_directory_with_files_cannot_be_removed(disk):
    disk.open("d/f", create=True)
    with pytest.raises(OSError) as caught:
        disk.remove_directory("d")
    assert caught.value.errno == errno.ENOTEMPTY
    disk.remove("d/f")
    disk.remove_directory("d")
    assert not disk.exists("d")


def test_names_are_sorted_and_include_directories(disk):
    disk.open("d/z", create=True)
    disk.make_directory("d/sub")
    disk.open("d/sub/inside", create=True)
    assert disk.names("d") == ["sub", "z"]


def test_an_open_file_follows_its_own_rename(disk):
    file = disk.open("d/a", create=True)
    file.write_at(0, b"x")
    file.rename("d/b")
    file.write_at(1, b"y")
    assert (file.path, disk.names("d"), disk.read("d/b")) == ("d/b", ["b"], b"xy")


def test_reads_stop_where_the_file_ends(disk):
    file = disk.open("d/f", create=True)
    file.write_at(0, b"abc")
    buffer = bytearray(5)
    assert file.read_at(1, 10) == b"bc"
    assert (file.read_into(1, buffer), buffer) == (2, b"bc\0\0\0")
    assert file.size() == 3


def test_faults_can_be_taken_back(disk):
    file = disk.open("d/f", create=True)
    disk.fail_next("write")
    disk.repair()
    file.write_at(0, b"x")
    assert disk.read("d/f") == b"x"


def test_a_directory_comes_with_those_above_it(disk):
    disk.make_directory("d/a/b")
    assert (disk.names("d"), disk.names("d/a")) == (["a"], ["b"])
