"""The table of a partition's segments."""

from ottla.records import legacy
from ottla.records.compression import Codec
from ottla.records.record import Record
from ottla.storage.inspection.stock import rows
from ottla.storage.segment import file_name
from ottla.testing.disk import SimDisk
from tests.unit.storage.helpers import NOW
from tests.unit.storage.inspection.logs import HERE, flip, made, mended, write


def test_each_segment_is_a_row():
    disk = SimDisk()
    made(disk)
    first, second, last = rows(disk, HERE)
    assert (first.base_offset, first.last_offset, first.batches, first.records) == (0, 17, 12, 18)
    assert (first.state, second.state, last.state) == ("closed", "closed", "active")
    assert (first.codecs, first.magics) == ({"none": 10, "gzip": 2}, [2])
    assert (first.newest_timestamp, first.is_compacted, first.problem) == (NOW + 107, False, None)
    assert first.size == disk.size(f"{HERE}/{first.segment}")
    assert first.txnindex_bytes == 34


def test_gaps_count_as_compacted_and_what_is_on_its_way_is_shown_too():
    disk = SimDisk()
    made(disk)
    flip(disk, f"{HERE}/{file_name(0, '.log')}", 100)
    mended(disk)
    write(disk, f"{HERE}/{file_name(0, '.log.deleted')}", b"half a batch")
    found = list(rows(disk, HERE))
    assert found[0].is_compacted and not found[1].is_compacted
    assert (found[3].state, found[3].problem) == ("deleted", "the file ends within a header at byte 0")


def test_how_many_records_wrappers_hold_is_not_known():
    disk = SimDisk()
    disk.make_directory("d")
    plain = legacy.build([Record(n, 1000, None, b"v") for n in range(3)], 1)
    wrapped = legacy.build([Record(n, 1000, None, b"v") for n in (3, 4)], 1, codec=Codec.GZIP)
    write(disk, f"d/{file_name(0, '.log')}", plain + wrapped)
    (row,) = rows(disk, "d")
    assert (row.batches, row.records, row.magics, row.index_bytes) == (4, None, [1], None)
    assert not row.is_compacted
