"""A segment taken apart: what is whole is found again behind any damage, and nothing else is taken for it."""

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.records import legacy
from ottla.records.batch import HEADER, iter_batches
from ottla.records.builder import build
from ottla.records.compression import Codec
from ottla.records.record import Record
from ottla.storage.inspection import pieces
from ottla.storage.inspection.pieces import Pieces
from ottla.testing.disk import SimDisk

LIMIT = 1 << 31


def segment(count: int = 6, size: int = 10, start: int = 0) -> bytes:
    """Batches of two records each."""
    return b"".join(
        build([Record(start + 2 * n + i, 1000 + n, b"k", b"%d" % n * size) for i in range(2)], leader_epoch=0)
        for n in range(count)
    )


def apart(data: bytes, base: int = 0, limit: int = LIMIT) -> list[tuple[int, int, bool]]:
    """Where each piece starts and ends, and whether it is whole."""
    disk = SimDisk()
    disk.make_directory("d")
    file = disk.open("d/x.log", create=True)
    file.write_at(0, data)
    return [(p.start, p.end, p.fault is None) for p in Pieces(file, len(data), base, base, limit)]


def starts(data: bytes) -> list[int]:
    return [at for at, _ in iter_batches(data)]


def test_a_whole_segment_is_its_batches():
    data = segment()
    assert [start for start, _, is_whole in apart(data) if is_whole] == starts(data)


def test_pieces_lie_side_by_side_and_cover_the_file():
    data = bytearray(segment())
    data[100:150] = b"\xff" * 50
    found = apart(bytes(data))
    assert [p[0] for p in found] == [0, *[p[1] for p in found[:-1]]] and found[-1][1] == len(data)


def test_a_batch_inside_a_record_of_a_damaged_batch_is_not_taken_for_one():
    inner = build([Record(3, 1, None, b"from another log")], leader_epoch=0)
    data = segment(1) + build([Record(2, 1, None, inner), Record(3, 1, None, b"x")], leader_epoch=0)
    follows = build([Record(4, 1, None, b"y")], leader_epoch=0)
    for rest in (b"", follows):
        spoilt = bytearray(data + rest)
        spoilt[len(data) - 1] ^= 1
        found = apart(bytes(spoilt))
        assert [p[2] for p in found] == [True, False, *([True] if rest else [])]
        assert found[1][1] == len(data)


def test_a_length_that_reaches_exactly_over_the_next_batch_does_not_hide_it():
    data = bytearray(segment(4))
    at = starts(bytes(data))
    data[at[1] + 8 : at[1] + 12] = (at[3] - at[1] - 12).to_bytes(4, "big")
    assert apart(bytes(data)) == [
        (at[0], at[1], True),
        (at[1], at[2], False),
        (at[2], at[3], True),
        (at[3], len(data), True),
    ]


def test_a_length_that_reaches_exactly_to_the_end_does_not_hide_the_last_batches():
    data = bytearray(segment(4))
    at = starts(bytes(data))
    data[at[1] + 8 : at[1] + 12] = (len(data) - at[1] - 12).to_bytes(4, "big")
    assert [p[2] for p in apart(bytes(data))] == [True, False, True, True]


def test_old_messages_are_found_behind_damage_in_a_segment_that_has_them():
    messages = [legacy.build([Record(n, 1000, b"k", b"value %d" % n)], 1) for n in range(5)]
    wrapped = legacy.build([Record(n, 1000, b"k", b"wrapped") for n in (5, 6, 7)], 1, codec=Codec.GZIP)
    data = bytearray(b"".join(messages) + wrapped)
    data[len(messages[0]) + 8] ^= 0x40  # the length of the second
    found = apart(bytes(data))
    assert [p[2] for p in found] == [True, False, True, True, True, True]
    assert (found[1][0], found[1][1]) == (len(messages[0]), len(messages[0]) * 2)


def test_offsets_beyond_four_bytes_are_found_behind_damage():
    base = (7 << 32) - 3  # their upper half changes on the way
    data = bytearray(segment(6, start=base))
    data[16] ^= 0x40
    assert [p[2] for p in apart(bytes(data), base, base + LIMIT)] == [False, True, True, True, True, True]


def test_a_crafted_file_does_not_make_the_search_endless():
    false = [HEADER.pack(9, 61 * (3000 - i) - 12, 0, 2, 0, 0, 0, 0, 0, -1, -1, -1, 1) for i in range(3000)]
    found = apart(segment(2) + bytes(20) + b"\xff" + b"".join(false))
    assert [p[2] for p in found] == [True, True, False]


@pytest.mark.parametrize("filling", [b"\x00", b"\x02", b"\xff", b"\x00\x00\x00\x02"])
def test_megabytes_of_one_byte_are_passed_in_no_time(filling):
    data = segment(2) + filling * (3_000_000 // len(filling)) + b"end"
    found = apart(data)
    assert found[-1] == (len(segment(2)), len(data), False)


def test_only_the_bytes_of_one_batch_are_held_at_a_time():
    disk = SimDisk()
    disk.make_directory("d")
    file = disk.open("d/x.log", create=True)
    file.write_at(0, segment(3000, 2000))
    tracemalloc.start()
    try:
        assert all(piece.fault is None for piece in Pieces(file, file.size(), 0, 0, LIMIT))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4_000_000  # of 12 MB, and a window of 1 MiB


def test_a_batch_that_is_too_large_to_be_held_is_still_checked(monkeypatch):
    monkeypatch.setattr(pieces, "BATCH_BYTES_MAX", 1000)
    monkeypatch.setattr(pieces, "SCAN_BYTES", 700)
    data = bytearray(segment(1) + build([Record(2, 1, None, b"x" * 5000)], leader_epoch=0))
    assert [p[2] for p in apart(bytes(data))] == [True, True]
    data[-5] ^= 1
    assert [p[2] for p in apart(bytes(data))] == [True, False]


@given(data=st.binary(max_size=400), at=st.integers(0, 500))
@settings(max_examples=150, deadline=None)
def test_no_bytes_upset_it_and_what_is_whole_before_them_is_found(data, at):
    good = segment()
    found = apart(good[:at] + data)
    assert sum(end - start for start, end, _ in found) == len(good[:at] + data)
    ends = [*starts(good)[1:], len(good)]
    whole = [start for start, end in zip(starts(good), ends, strict=True) if end <= at]
    assert [start for start, _, is_whole in found if is_whole][: len(whole)] == whole
