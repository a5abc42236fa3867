"""`.txnindex`: exact bytes, overlaps, truncation, and what is refused."""

import struct

import pytest

from ottla.core.errors import ProtocolError
from ottla.storage.files import write_whole
from ottla.storage.txn_index import AbortedTxn, TxnIndex, parse
from ottla.testing.disk import SimDisk

A, B, C = AbortedTxn(7, 10, 20, 21), AbortedTxn(8, 5, 25, 26), AbortedTxn(7, 30, 40, 32)


@pytest.fixture
def disk() -> SimDisk:
    disk = SimDisk()
    disk.make_directory("d")
    return disk


def index(disk: SimDisk, *entries: AbortedTxn) -> TxnIndex:
    made = TxnIndex(disk, "d/0.txnindex")
    for entry in entries:
        made.append(entry)
    return made


def test_an_entry_is_a_version_and_four_longs(disk):
    index(disk, AbortedTxn(7, 10, 258, 259))
    assert disk.read("d/0.txnindex") == bytes.fromhex(
        "0000 0000000000000007 000000000000000a 0000000000000102 0000000000000103"
    )


def test_there_is_no_file_where_nothing_was_aborted(disk):
    assert index(disk).entries == []
    index(disk).sync()
    assert disk.names("d") == []


def test_a_transaction_overlaps_from_its_first_record_to_its_marker(disk):
    made = index(disk, A, B, C)
    assert made.overlapping(0, 5) == []
    assert made.overlapping(0, 6) == [B]
    assert made.overlapping(20, 21) == [A, B]
    assert made.overlapping(21, 30) == [B]
    assert made.overlapping(26, 30) == []
    assert made.overlapping(40, 100) == [C]


def test_entries_are_read_back(disk):
    index(disk, A, B, C).close()
    assert index(disk).entries == [A, B, C]


def test_truncation_forgets_markers_at_and_behind_the_offset(disk):
    made = index(disk, A, B, C)
    made.truncate_to_offset(26)
    assert made.entries == index(disk).entries == [A, B]
    reopened = index(disk)
    reopened.truncate_to_offset(25)
    reopened.append(C)
    assert index(disk).entries == [A, C]


def test_markers_come_in_order(disk):
    with pytest.raises(AssertionError):
        index(disk, B, A)


def test_clearing_starts_anew_whatever_the_file_says(disk):
    write_whole(disk, "d/0.txnindex", b"nonsense")
    made = index(disk)
    made.clear()
    made.append(A)
    assert index(disk).entries == [A]


def test_a_file_open_or_not_follows_a_rename(disk):
    made = index(disk, A)
    made.rename("d/0.txnindex.deleted")
    assert disk.names("d") == ["0.txnindex.deleted"]
    made.close()
    made.rename("d/1.txnindex")
    assert (disk.names("d"), made.path) == (["1.txnindex"], "d/1.txnindex")
    TxnIndex(disk, "d/none").rename("d/none.deleted")


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (bytes(33), "ends within an entry"),
        (struct.pack(">hqqqq", 1, *A), "impossible"),
        (struct.pack(">hqqqq", 0, 7, 21, 20, 21), "impossible"),
        (struct.pack(">hqqqq", 0, *B) + struct.pack(">hqqqq", 0, *A), "not sorted"),
        (struct.pack(">hqqqq", 0, *A) * 2, "not sorted at byte 34"),
    ],
)
def test_entries_that_cannot_be_are_refused_with_their_place(data, complaint):
    with pytest.raises(ProtocolError, match=complaint):
        parse(data, "0.txnindex")
