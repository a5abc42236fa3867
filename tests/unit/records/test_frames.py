"""Mixed formats in one buffer, as in a log that has seen old clients."""

import struct

import pytest

from ottla.core.errors import ErrorCode
from ottla.records import builder, legacy
from ottla.records.compression import Codec
from ottla.records.errors import RecordError
from ottla.records.frames import Frame, check_frame, iter_frames, read_frame, records_of
from ottla.records.record import Record

OLDEST = legacy.build([Record(0, -1, b"k", b"0"), Record(1, -1, b"k", b"1")], 0)
OLD = legacy.build([Record(2, 5, b"k", b"2"), Record(3, 6, b"k", b"3")], 1, codec=Codec.GZIP)
NEW = builder.build([Record(4, 7, b"k", b"4", (("h", b"x"),)), Record(5, 8, b"k", b"5")])
MIXED = OLDEST + OLD + NEW


def test_frames_of_all_magics_are_found_and_read():
    frames = list(iter_frames(MIXED))
    assert [(frame.magic, frame.offset) for frame in frames] == [(0, 0), (0, 1), (1, 3), (2, 4)]
    assert sum(frame.size for frame in frames) == len(MIXED)
    for frame in frames:
        check_frame(MIXED, frame)
    values = [record.value for frame in frames for record in records_of(MIXED, frame)]
    assert values == [b"0", b"1", b"2", b"3", b"4", b"5"]


def test_iteration_starts_where_it_is_told():
    start = len(OLDEST) + len(OLD)
    assert list(iter_frames(MIXED, start)) == [Frame(start, len(NEW), 2, 4)]


def test_a_cut_off_end_is_left_out_or_refused():
    for size in range(len(OLDEST) + len(OLD) + 1, len(MIXED)):
        assert len(list(iter_frames(MIXED[:size], partial=True))) == 3
        with pytest.raises(RecordError) as refused:
            list(iter_frames(MIXED[:size]))
        assert refused.value.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize(
    ("magic", "length"), [(3, 100), (-1, 100), (2, 48), (1, 21), (0, 13), (2, -1), (0, -(2**31))]
)
def test_magics_nobody_knows_and_impossible_lengths_are_refused(magic, length):
    buffer = struct.pack(">qiib", 0, length, 0, magic) + bytes(200)
    with pytest.raises(RecordError) as refused:
        read_frame(buffer)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE


def test_a_frame_may_reach_past_the_bytes_at_hand():
    assert read_frame(NEW[:17]) == Frame(0, len(NEW), 2, 4)


@pytest.mark.parametrize("raw", [OLDEST, OLD, NEW])
def test_damage_is_found_by_the_rules_of_each_format(raw):
    damaged = bytearray(raw)
    damaged[-1] ^= 1
    frame = list(iter_frames(damaged))[-1]
    with pytest.raises(RecordError) as refused:
        check_frame(damaged, frame)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
