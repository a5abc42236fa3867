"""Indexes: their entries, and whether the segment beside them agrees."""

import struct

import pytest

from ottla.records.builder import build
from ottla.storage.index import OffsetIndex, TimeIndex
from ottla.storage.txn_index import ENTRY
from tests.unit.cli.dump.helpers import NOW, SEGMENT, batches, dump, partition, record, write

INDEX, TIME_INDEX, TXN_INDEX = f"{SEGMENT}.index", f"{SEGMENT}.timeindex", f"{SEGMENT}.txnindex"


@pytest.fixture
def segment(tmp_path):
    """Four batches of two records, and where each starts."""
    data = batches(4)
    write(tmp_path, f"{SEGMENT}.log", b"".join(data))
    return [sum(map(len, data[:i])) for i in range(4)]


def offsets(tmp_path, *entries):
    return write(tmp_path, INDEX, b"".join(OffsetIndex.LAYOUT.pack(*entry) for entry in entries))


def times(tmp_path, *entries):
    return write(tmp_path, TIME_INDEX, b"".join(TimeIndex.LAYOUT.pack(*entry) for entry in entries))


def test_what_a_log_writes_is_shown_and_verified(tmp_path):
    directory = partition(tmp_path)
    shown = dump("--json", directory / INDEX)
    assert [(each["type"], each["offset"]) for each in shown.objects] == [
        ("index", 3),
        ("index", 4),
        ("index", 5),
    ]
    assert shown.code == 0
    shown = dump("--json", directory / TIME_INDEX)
    assert [(each["timestamp"], each["offset"]) for each in shown.objects] == [
        (NOW + 1, 1),
        (NOW + 4, 4),
        (NOW + 5, 5),
    ]
    assert shown.code == 0
    shown = dump("--json", directory / TXN_INDEX)
    (entry,) = shown.objects
    assert entry == {
        "type": "txnindex",
        "file": str(directory / TXN_INDEX),
        "version": 0,
        "producer_id": 9,
        "first_offset": 4,
        "last_offset": 5,
        "last_stable_offset": 6,
    }


def test_offset_entries_are_shown_as_lines(tmp_path, segment):
    ran = dump(offsets(tmp_path, (3, segment[1]), (7, segment[3])))
    assert ran.rows() == [
        {"offset": "3", "position": str(segment[1])},
        {"offset": "7", "position": str(segment[3])},
    ]
    assert (ran.code, ran.err) == (0, "")


def test_offsets_count_from_the_base_in_the_name(tmp_path):
    write(tmp_path, f"{100:020d}.log", build([record(100), record(101)]) + build([record(102)]))
    first = len(build([record(100), record(101)]))
    path = write(tmp_path, f"{100:020d}.index", OffsetIndex.LAYOUT.pack(2, first))
    assert dump(path).rows() == [{"offset": "102", "position": str(first)}]


@pytest.mark.parametrize("flag", ["--verify-index-only", "--index-sanity-check"])
def test_a_check_shows_no_entries_only_their_number(tmp_path, segment, flag):
    ran = dump("--json", flag, offsets(tmp_path, (3, segment[1])), times(tmp_path, (NOW + 3, 3)))
    assert [(each["type"], each["entries"], each["problems"]) for each in ran.objects] == [
        ("check", 1, 0)
    ] * 2
    assert ran.code == 0


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        ((3, 5), "leads to byte 5 of the segment, where no batch starts"),
        ((1, "second"), "where a batch ends at offset 3"),
    ],
)
def test_an_entry_that_leads_to_no_batch_of_its_own_is_reported(tmp_path, segment, entry, complaint):
    place = segment[1] if entry[1] == "second" else entry[1]
    path = offsets(tmp_path, (entry[0], place), (7, segment[3]))
    ran = dump(path)
    assert (ran.code, len(ran.rows())) == (1, 2)
    assert ran.err.startswith(f"ottla: {path}: byte 0: the entry for offset {entry[0]} leads to byte {place}")
    assert complaint in ran.err
    assert dump("--verify-index-only", path).rows() == [{"entries": "2", "problems": "1"}]
    assert dump("--index-sanity-check", path).rows() == [
        {"entries": "2", "problems": "0"}
    ]  # the last one is right


def test_an_entry_that_leads_behind_the_segment_is_reported(tmp_path, segment):
    ran = dump(offsets(tmp_path, (3, segment[1]), (9, 10**6)))
    assert f"leads to byte 1000000 of the segment, which ends at {segment[1] * 4}" in ran.err


def test_the_last_entry_is_part_of_a_sanity_check(tmp_path, segment):
    ran = dump("--index-sanity-check", offsets(tmp_path, (3, segment[1]), (7, segment[3] + 1)))
    assert (ran.code, ran.rows()) == (1, [{"entries": "2", "problems": "1"}])


def test_an_entry_of_a_whole_append_is_right_as_kafka_before_4_wrote_it(tmp_path, segment):
    assert dump(offsets(tmp_path, (5, segment[1]))).code == 0


@pytest.mark.parametrize("second", [(3, 10), (2, 400)])
def test_entries_that_do_not_rise_are_reported(tmp_path, segment, second):
    ran = dump(offsets(tmp_path, (3, segment[1]), second))
    assert "byte 8: the entry does not lie behind the one before it" in ran.err
    assert ran.code == 1


def test_zeros_at_the_end_are_room_allocated_ahead(tmp_path, segment):
    path = offsets(tmp_path, (3, segment[1]), *[(0, 0)] * 2000)
    assert (dump(path).code, len(dump(path).rows())) == (0, 1)
    path = offsets(tmp_path, *[(0, 0)] * 2000)
    assert dump("--json", path).out == ""
    assert dump(times(tmp_path, (NOW + 3, 3), (0, 0))).code == 0


@pytest.mark.parametrize("extra", [b"\0", b"\1\2\3"])
def test_a_file_that_ends_within_an_entry_stops_there(tmp_path, segment, extra):
    path = offsets(tmp_path, (3, segment[1]))
    path.write_bytes(path.read_bytes() + extra)
    ran = dump("--json", path)
    assert [each["type"] for each in ran.objects] == ["index", "problem"]
    assert (ran.objects[1]["position"], ran.objects[1]["stops"]) == (8, True)
    assert ran.code == 1


def test_an_index_without_its_segment_is_shown_unchecked(tmp_path):
    path = offsets(tmp_path, (3, 75))
    ran = dump(path)
    assert (ran.code, len(ran.rows())) == (0, 1)
    assert "not checked, there is no" in ran.err
    assert dump("--verify-index-only", path).code == 1


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        ((NOW + 2, 3), f"names timestamp {NOW + 2}, and the batch of offset 3 has {NOW + 3}"),
        ((NOW + 3, 30), "names offset 30, and the segment ends before it"),
    ],
)
def test_a_time_entry_that_contradicts_its_batch_is_reported(tmp_path, segment, entry, complaint):
    ran = dump(times(tmp_path, (NOW + 1, 1), entry))
    assert (ran.code, len(ran.rows())) == (1, 2)
    assert f"byte 12: the entry {complaint}" in ran.err


def test_a_time_entry_may_not_lead_into_a_gap_or_behind_damage(tmp_path):
    first, second = build([record(0)]), build([record(5)])
    write(tmp_path, f"{SEGMENT}.log", first + second)
    assert "names offset 3, which no batch holds" in dump(times(tmp_path, (NOW + 5, 3))).err
    write(tmp_path, f"{SEGMENT}.log", first + second[:-1])
    assert f"the segment breaks at byte {len(first)}" in dump(times(tmp_path, (NOW + 5, 5))).err


def test_time_entries_that_do_not_rise_are_reported(tmp_path, segment):
    ran = dump(times(tmp_path, (NOW + 3, 3), (NOW + 1, 1)))
    assert "byte 12: the entry does not lie behind the one before it" in ran.err


def txns(tmp_path, *entries):
    return write(tmp_path, TXN_INDEX, b"".join(ENTRY.pack(*entry) for entry in entries))


def test_aborted_transactions_are_shown_as_lines(tmp_path):
    ran = dump(txns(tmp_path, (0, 9, 4, 5, 6), (0, 8, 1, 7, 8)))
    assert [row["producer_id"] for row in ran.rows()] == ["9", "8"]
    assert ran.code == 0
    assert dump("--verify-index-only", txns(tmp_path, (0, 9, 4, 5, 6))).rows() == [
        {"entries": "1", "problems": "0"}
    ]


def test_impossible_transactions_are_reported(tmp_path):
    ran = dump(txns(tmp_path, (0, 9, 6, 5, 6), (0, 9, 2, 3, 6)))
    assert "byte 0: the transaction ends before it starts" in ran.err
    assert "byte 34: the entry does not lie behind the one before it" in ran.err
    assert (ran.code, len(ran.rows())) == (1, 2)


def test_a_transaction_index_of_another_version_stops_there(tmp_path):
    ran = dump("--json", txns(tmp_path, (0, 9, 4, 5, 6), (1, 9, 6, 7, 8), (0, 9, 8, 9, 10)))
    assert [each["type"] for each in ran.objects] == ["txnindex", "problem"]
    assert ran.objects[1]["position"] == 34


def test_a_cut_transaction_index_shows_what_is_whole(tmp_path):
    path = txns(tmp_path, (0, 9, 4, 5, 6), (0, 9, 6, 7, 8))
    path.write_bytes(path.read_bytes()[:-1])
    ran = dump(path)
    assert len(ran.rows()) == 1
    assert "stops at byte 34: the file ends within an entry of 34 bytes" in ran.err


def test_a_large_index_is_read_page_by_page(tmp_path):
    data = b"".join(struct.pack(">II", n, n) for n in range(1, 3000))
    path = write(tmp_path, INDEX, data)
    assert [row["offset"] for row in dump(path).rows()] == [str(n) for n in range(1, 3000)]
