"""How an offset or a time is found, step by step."""

import pytest

from ottla.storage import checkpoints
from ottla.storage.files import write_whole
from ottla.storage.inspection.lookup import NoSegmentsError, find_offset, find_time
from ottla.storage.segment import file_name
from ottla.testing.disk import SimDisk
from tests.unit.storage.helpers import NOW
from tests.unit.storage.inspection.logs import DATA, HERE, ORDERS, flip, made, mended, values


@pytest.fixture
def disk() -> SimDisk:
    disk = SimDisk()
    made(disk)
    return disk


def test_every_offset_is_found_with_its_record(disk):
    for offset, value in values(disk).items():
        seen = find_offset(disk, HERE, offset)
        assert seen.batch is not None and seen.batch.base_offset <= offset <= seen.batch.last_offset
        assert (seen.record.offset, seen.record.value) == (offset, value)
        assert seen.explanation.startswith("found")


def test_the_steps_are_shown(disk):
    seen = find_offset(disk, HERE, 26)
    assert (seen.segments, seen.compared, seen.segment) == (3, [18, 36], file_name(18, ".log"))
    assert seen.hit is not None
    assert (seen.hit.page, seen.hit.pages) == (0, 1)
    assert (seen.hit.entry, seen.hit.key + 18, seen.hit.position) == (1, 25, 342)
    assert (seen.start, seen.scanned_bytes, seen.scanned_batches) == (342, 76, 2)
    assert seen.is_intact


def test_an_offset_before_the_log_beyond_it_or_before_its_start_is_explained(disk):
    assert "ends before offset 40" in find_offset(disk, HERE, 40).explanation
    for suffix in (".log", ".index", ".timeindex", ".txnindex"):
        disk.remove(f"{HERE}/{file_name(0, suffix)}")
    assert "begins at offset 18" in find_offset(disk, HERE, 3).explanation
    checkpoints.write_offsets(disk, f"{DATA}/{checkpoints.LOG_START}", {ORDERS: 30})
    assert "before the start of the log, 30" in find_offset(disk, HERE, 20).explanation


def test_an_offset_in_a_gap_leads_to_what_a_reader_gets_instead(disk):
    flip(disk, f"{HERE}/{file_name(0, '.log')}", 100)
    assert "fails its checksum" in find_offset(disk, HERE, 3).explanation
    mended(disk)
    seen = find_offset(disk, HERE, 3)
    assert (seen.batch.base_offset, seen.record) == (5, None)
    assert "a gap: the next batch begins with offset 5" in seen.explanation


def test_an_index_that_lies_is_not_followed(disk):
    path = f"{HERE}/{file_name(18, '.index')}"
    for spoil in (
        lambda: flip(disk, path, 15),
        lambda: write_whole(disk, path, b"odd"),
        lambda: disk.remove(path),
    ):
        spoil()
        seen = find_offset(disk, HERE, 26)
        assert (seen.start, seen.record.offset) == (0, 26)
        assert seen.index_note


def test_a_segment_that_breaks_on_the_way_is_said_to(disk):
    flip(disk, f"{HERE}/{file_name(0, '.log')}", 16, 0x40)
    disk.remove(f"{HERE}/{file_name(0, '.index')}")
    assert "damaged: no batch starts here at byte 0" in find_offset(disk, HERE, 3).explanation


def test_a_control_record_is_called_one(disk):
    assert "control record" in find_offset(disk, HERE, 8).explanation


def test_the_first_record_of_a_time_is_found(disk):
    seen = find_time(disk, HERE, NOW + 202)
    assert seen.record.timestamp == NOW + 202
    assert seen.segment == file_name(18, ".log")
    assert find_time(disk, HERE, 0).record.offset == 0
    assert find_time(disk, HERE, NOW + 10_000).explanation == "no record is as new as that"


def test_a_directory_without_segments_is_none_to_look_in(disk):
    with pytest.raises(NoSegmentsError):
        find_offset(disk, DATA, 0)
