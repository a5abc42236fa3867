"""Segments that replace others: every interruption is completed or undone."""

import random

import pytest

from ottla.storage.files import Files, write_whole
from ottla.storage.segment import file_name
from ottla.storage.swap import finish_swaps
from ottla.testing.disk import PowerLoss, SimDisk
from tests.unit.storage.helpers import HERE, batch, end_txn, open_log, put, values_of


@pytest.fixture
def disk() -> SimDisk:
    disk = SimDisk()
    disk.make_directory("d")
    return disk


def write(disk: Files, name: str, data: bytes = b"") -> None:
    write_whole(disk, f"d/{name}", data)


def segment_files(disk: SimDisk, base: int, data: bytes, ending: str = "") -> None:
    for suffix in (".log", ".index", ".timeindex"):
        write(disk, file_name(base, suffix) + ending, data if suffix == ".log" else b"")


def test_a_directory_without_leftovers_is_left_alone(disk):
    segment_files(disk, 0, batch(b"a"))
    before = disk.operations
    finish_swaps(disk, "d")
    assert disk.operations == before


def test_half_written_replacements_are_thrown_away(disk):
    segment_files(disk, 0, batch(b"a"))
    segment_files(disk, 0, batch(b"b"), ".cleaned")
    finish_swaps(disk, "d")
    assert disk.names("d") == [file_name(0, s) for s in (".index", ".log", ".timeindex")]
    assert disk.read(f"d/{file_name(0, '.log')}") == batch(b"a")


def test_a_whole_replacement_takes_the_place_of_all_it_covers(disk):
    for base in (0, 1, 2, 3):
        segment_files(disk, base, batch(b"old", base_offset=base))
    compacted = batch(b"new", base_offset=0) + batch(b"new", base_offset=2)
    segment_files(disk, 0, compacted, ".swap")
    finish_swaps(disk, "d")
    logs = [n for n in disk.names("d") if ".log" in n]
    assert logs == [file_name(0, ".log"), file_name(3, ".log")]
    assert disk.read(f"d/{logs[0]}") == compacted


def test_swaps_of_a_set_that_was_not_complete_are_undone(disk):
    for base in (0, 1, 2):
        segment_files(disk, base, batch(b"old", base_offset=base))
    segment_files(disk, 0, batch(b"new"), ".swap")
    segment_files(disk, 1, batch(b"new", base_offset=1), ".swap")
    segment_files(disk, 1, batch(b"new", base_offset=1), ".cleaned")
    finish_swaps(disk, "d")
    assert disk.read(f"d/{file_name(0, '.log')}") == batch(b"new")
    assert disk.read(f"d/{file_name(1, '.log')}") == batch(b"old", base_offset=1)
    assert not [n for n in disk.names("d") if n.endswith((".swap", ".cleaned"))]


def test_an_empty_replacement_covers_the_segment_of_its_own_name(disk):
    segment_files(disk, 5, batch(b"old", base_offset=5))
    segment_files(disk, 5, b"", ".swap")
    finish_swaps(disk, "d")
    assert disk.read(f"d/{file_name(5, '.log')}") == b""


@pytest.mark.parametrize("operations", range(0, 24, 1))
def test_an_interrupted_replacement_is_completed_by_the_next_start_with_its_aborted_transactions(operations):
    """A compacted segment with an abort in it: wherever the power goes, records and aborts are those of the swap."""
    for seed in range(4):
        disk = SimDisk()
        log = open_log(disk)
        put(log, b"aborted", producer=(7, 0, 0), is_transactional=True)
        end_txn(log, 7, commit=False)
        put(log, b"kept")
        log.roll()
        put(log, b"active")
        log.close()
        for suffix in (".log", ".index", ".timeindex", ".txnindex"):
            path = f"{HERE}/{file_name(0, suffix)}"
            write_whole(disk, path + ".swap", disk.read(path))
        disk.crash_after(operations)
        try:
            log = open_log(disk, recovery_point=4, clean=True)
            disk.crash_after(10**9)  # it came through before the power went
        except PowerLoss:
            disk.crash(random.Random(seed))
            log = open_log(disk, recovery_point=4)
        assert values_of(log) == {0: b"aborted", 2: b"kept", 3: b"active"}
        assert [(t.producer_id, t.first_offset, t.last_offset) for t in log.aborted_txns(0, 4)] == [(7, 0, 1)]
        assert not [n for n in disk.names(HERE) if n.endswith(".swap")]


@pytest.mark.parametrize("operations", range(16))
def test_a_replacement_in_which_nothing_was_aborted_does_not_inherit_aborted_transactions(operations):
    disk = SimDisk()
    log = open_log(disk)
    put(log, b"aborted", producer=(7, 0, 0), is_transactional=True)
    end_txn(log, 7, commit=False)
    put(log, b"kept")
    log.roll()
    put(log, b"active")
    log.close()
    write_whole(disk, f"{HERE}/{file_name(0, '.log')}.swap", batch(b"kept", base_offset=2))
    disk.crash_after(operations)
    try:
        log = open_log(disk, recovery_point=4, clean=True)
        disk.crash_after(10**9)  # it came through before the power went
    except PowerLoss:
        disk.crash(random.Random(operations))
        log = open_log(disk, recovery_point=4)
    assert values_of(log) == {2: b"kept", 3: b"active"}
    assert log.aborted_txns(0, 4) == []
