"""The sparse indexes: exact bytes, page boundaries, and what is refused at loading."""

import struct

import pytest

from ottla.storage.files import write_whole
from ottla.storage.index import PAGE_BYTES, CorruptIndex, OffsetEntry, OffsetIndex, TimeEntry, TimeIndex
from ottla.testing.disk import SimDisk

PER_PAGE = PAGE_BYTES // 8


@pytest.fixture
def disk() -> SimDisk:
    disk = SimDisk()
    disk.make_directory("d")
    return disk


def offset_index(disk: SimDisk, base: int = 0, bytes_max: int = 1 << 20) -> OffsetIndex:
    index = OffsetIndex(disk, "d/0.index", base, bytes_max)
    if disk.exists("d/0.index"):
        index.entries.load()
    else:
        index.entries.create()
    return index


def time_index(disk: SimDisk, base: int = 0, bytes_max: int = 1 << 20) -> TimeIndex:
    index = TimeIndex(disk, "d/0.timeindex", base, bytes_max)
    if disk.exists("d/0.timeindex"):
        index.entries.load()
    else:
        index.entries.create()
    return index


def test_an_offset_entry_is_two_relative_four_byte_numbers(disk):
    index = offset_index(disk, base=1000)
    index.append(1004, 7)
    index.append(1258, 4096)
    index.entries.close()
    assert disk.read("d/0.index") == bytes.fromhex("00000004 00000007 00000102 00001000")


def test_a_time_entry_is_an_absolute_timestamp_and_a_relative_offset(disk):
    index = time_index(disk, base=1000)
    index.append(1_700_000_000_000, 1004)
    index.entries.close()
    assert disk.read("d/0.timeindex") == bytes.fromhex("0000018bcfe56800 00000004")


def test_a_look_up_finds_the_last_entry_at_or_before(disk):
    index = offset_index(disk, base=100)
    index.append(110, 1)
    index.append(120, 2)
    assert index.look_up(99) is None
    assert index.look_up(109) is None
    assert index.look_up(110) == index.look_up(119) == OffsetEntry(110, 1)
    assert index.look_up(120) == index.look_up(10**9) == OffsetEntry(120, 2)


def test_timestamps_that_are_not_larger_are_left_out(disk):
    index = time_index(disk)
    for timestamp, offset in [(-1, 0), (5, 1), (5, 2), (3, 3), (6, 4)]:
        index.append(timestamp, offset)
    assert index.entries.count == 2
    assert index.last == TimeEntry(6, 4)
    assert index.look_up(4) is None
    assert index.look_up(5) == TimeEntry(5, 1)


def test_an_entry_that_does_not_grow_is_left_out(disk):
    index = offset_index(disk)
    index.append(5, 5)
    index.append(5, 6)
    index.append(4, 7)
    assert (index.entries.count, index.last) == (1, OffsetEntry(5, 5))


def test_an_empty_index_has_no_last_entry(disk):
    assert offset_index(disk).last is None
    assert offset_index(disk).look_up(0) is None
    assert time_index(disk).last is None
    assert time_index(disk).look_up(10) is None


@pytest.mark.parametrize("count", [1, PER_PAGE - 1, PER_PAGE, PER_PAGE + 1, 2 * PER_PAGE, 2 * PER_PAGE + 1])
def test_look_ups_agree_before_and_after_a_reload_around_page_boundaries(disk, count):
    index = offset_index(disk)
    for n in range(count):
        index.append(10 * n + 9, n)
    index.entries.flush()
    for reader in (index, offset_index(disk)):
        assert reader.entries.count == count
        assert reader.last == OffsetEntry(10 * count - 1, count - 1)
        for n in (0, count // 2, PER_PAGE - 1, PER_PAGE, count - 1):
            if n < count:
                assert reader.look_up(10 * n + 9) == reader.look_up(10 * n + 18) == OffsetEntry(10 * n + 9, n)


@pytest.mark.parametrize("kept", [0, 1, PER_PAGE - 1, PER_PAGE, PER_PAGE + 1])
def test_truncation_at_a_page_boundary_leaves_an_index_that_can_grow_again(disk, kept):
    index = offset_index(disk)
    for n in range(2 * PER_PAGE + 3):
        index.append(n, n)
    index.entries.truncate(kept)
    index.append(10**6, 77)
    index.entries.flush()
    for reader in (index, offset_index(disk)):
        assert reader.entries.count == kept + 1
        assert reader.last == OffsetEntry(10**6, 77)
        assert reader.look_up(10**6 - 1) == (OffsetEntry(kept - 1, kept - 1) if kept else None)


def test_truncating_by_position_and_by_offset_drops_what_lies_there_or_behind(disk):
    offsets, times = offset_index(disk, base=100), time_index(disk, base=100)
    for n in range(10):
        offsets.append(100 + n, 1000 + n)
        times.append(n, 100 + n)
    offsets.truncate_to_position(1004)
    times.truncate_to_offset(104)
    assert offsets.last == OffsetEntry(103, 1003)
    assert times.last == TimeEntry(3, 103)
    offsets.truncate_to_position(0)
    times.truncate_to_offset(0)
    assert (offsets.last, times.last) == (None, None)


def test_the_room_that_kafka_allocates_ahead_is_not_taken_for_entries(disk):
    write_whole(disk, "d/0.index", struct.pack(">IIII", 3, 256, 9, 512) + bytes(10 << 10))
    index = offset_index(disk)
    assert index.entries.count == 2
    index.append(12, 768)
    index.entries.close()
    assert disk.read("d/0.index")[:32] == struct.pack(">IIIIII", 3, 256, 9, 512, 12, 768) + bytes(8)
    assert offset_index(disk).last == OffsetEntry(12, 768)


def test_a_size_that_is_no_multiple_of_an_entry_is_refused(disk):
    write_whole(disk, "d/0.index", bytes(9))
    with pytest.raises(CorruptIndex, match=r"d/0\.index holds 9 bytes"):
        offset_index(disk)


def test_pages_out_of_order_are_refused(disk):
    entries = [(n, n) for n in range(1, 2 * PER_PAGE)]
    entries[PER_PAGE] = (1, 1)
    write_whole(disk, "d/0.index", b"".join(struct.pack(">II", *e) for e in entries))
    with pytest.raises(CorruptIndex, match="not sorted"):
        offset_index(disk)


def test_a_file_that_shrinks_while_it_is_open_is_noticed(disk):
    index = offset_index(disk)
    for n in range(100):
        index.append(n, n)
    index.entries.flush()
    disk.open("d/0.index").truncate(80)
    with pytest.raises(CorruptIndex, match="shorter"):
        index.look_up(50)


def test_an_index_is_full_at_its_size_and_the_time_index_one_entry_earlier(disk):
    offsets, times = offset_index(disk, bytes_max=24), time_index(disk, bytes_max=36)
    for n in range(2):
        offsets.append(n, n)
        times.append(n, n)
    assert (offsets.is_full, times.is_full) == (False, True)
    offsets.append(2, 2)
    assert offsets.is_full


def test_a_missing_file_is_reported_as_such(disk):
    with pytest.raises(FileNotFoundError):
        OffsetIndex(disk, "d/nothing.index", 0, 100).entries.load()


def test_entries_that_gathered_after_a_close_are_written_by_the_next(disk):
    index = offset_index(disk)
    index.append(1, 1)
    index.entries.close()
    index.append(2, 2)
    index.entries.close()
    assert offset_index(disk).entries.count == 2


def test_an_index_whose_file_is_missing_can_be_renamed_with_its_segment(disk):
    index = OffsetIndex(disk, "d/nothing.index", 0, 100)
    index.entries.rename("d/nothing.index.deleted")
    assert index.entries.path == "d/nothing.index.deleted"


def test_a_write_that_failed_is_done_again_by_the_next_flush(disk):
    index = offset_index(disk)
    index.append(1, 1)
    disk.fail_next("write")
    with pytest.raises(OSError):
        index.entries.flush()
    index.append(2, 2)
    index.entries.flush()
    assert disk.read("d/0.index") == struct.pack(">IIII", 1, 1, 2, 2)
