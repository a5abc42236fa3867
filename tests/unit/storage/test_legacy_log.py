"""Logs that brokers before Kafka 0.11 began: opened, recovered, searched, cut and gone on with."""

import itertools
import struct

import pytest

from ottla.core.errors import ErrorCode, KafkaError
from ottla.records import frames
from ottla.records.compression import Codec
from ottla.records.record import Record
from ottla.storage.log import Log
from ottla.storage.recovery import CorruptLog
from ottla.testing.disk import SimDisk
from tests.unit.storage.helpers import HERE, config, crash, open_log, put
from tests.unit.storage.legacy_segments import (
    NOW,
    SHAPES,
    STAMPED_AT,
    WRAPPERS,
    OldLog,
    Shape,
    lay,
    old_log,
    written,
)

NEW = Shape(2, Codec.GZIP)
MIXED = [Shape(0), Shape(0, Codec.LZ4), Shape(1, Codec.SNAPPY), Shape(1), Shape(2), Shape(2, Codec.ZSTD)]
SETTINGS = config(segment_bytes=1 << 20, index_interval_bytes=200)


def opened(old: OldLog, **how) -> Log:
    disk = SimDisk()
    lay(disk, HERE, old.segments)
    return open_log(disk, SETTINGS, **how)


def records_from(log: Log, offset: int | None = None, bytes_max: int = 500) -> list[Record]:
    """What a reader finds who takes a few bytes at a time."""
    at = log.log_start_offset if offset is None else offset
    found: list[Record] = []
    while data := log.read(at, bytes_max).read():
        for frame in frames.iter_frames(data, partial=True):
            found += [record for record in frames.records_of(data, frame) if record.offset >= at]
            at = found[-1].offset + 1
    return found


def named(shapes):
    return pytest.mark.parametrize("shape", shapes, ids=str)


@named(SHAPES)
@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("clean", [True, False])
def test_every_old_format_is_read_from_every_offset(shape, gaps, clean):
    old = old_log(shape, gaps=gaps)
    log = opened(old, clean=clean)
    assert (log.log_start_offset, log.end_offset) == (0, old.records[-1].offset + 1)
    assert not log.recovery.damage and not log.recovery.cut_bytes
    for offset in range(log.end_offset):
        assert records_from(log, offset) == [r for r in old.records if r.offset >= offset]


@pytest.mark.parametrize("segments", [1, 2, 6])
@pytest.mark.parametrize("clean", [True, False])
def test_formats_may_follow_each_other_in_one_segment_or_in_several(segments, clean):
    old = old_log(*MIXED, segments=segments)
    log = opened(old, clean=clean)
    assert len(log.segments) == segments
    assert records_from(log) == old.records
    log.close()


@named(SHAPES)
def test_a_tail_that_a_crash_tore_is_cut_at_the_last_whole_message(shape):
    old = old_log(shape, count=10)
    whole = old.segments[0]
    starts = [frame.position for frame in frames.iter_frames(whole)]
    for size in range(starts[-1] + 1, len(whole)):
        log = opened(OldLog({0: whole[:size]}, []))
        assert log.recovery.cut_bytes == size - starts[-1]
        assert log.segments.active.size == starts[-1]
        kept = records_from(log)
        assert kept == old.records[: len(kept)]
        assert log.end_offset == (kept[-1].offset + 1 if kept else 0)


@named(SHAPES)
def test_a_flipped_bit_is_found_by_the_checksum(shape):
    old = old_log(shape, count=20)
    *_, second_last, _ = frames.iter_frames(old.segments[0])
    for at in range(second_last.position + 12, second_last.position + second_last.size, 3):
        damaged = bytearray(old.segments[0])
        damaged[at] ^= 4
        log = opened(OldLog({0: bytes(damaged)}, []))
        assert log.segments.active.size == second_last.position
        assert log.recovery.cut_bytes == len(damaged) - second_last.position


@named(SHAPES)
def test_damage_that_was_safe_on_the_disk_costs_one_message_and_not_what_follows(shape):
    old = old_log(shape)
    frame = list(frames.iter_frames(old.segments[0]))[2]
    damaged = bytearray(old.segments[0])
    damaged[frame.position + frame.size - 1] ^= 1
    log = opened(OldLog({0: bytes(damaged)}, []), recovery_point=old.records[-1].offset + 1)
    assert [place.position for place in log.recovery.damage] == [frame.position]
    assert log.end_offset == old.records[-1].offset + 1
    assert not log.recovery.cut_bytes


@named(SHAPES)
def test_a_length_that_was_damaged_on_the_disk_is_no_reason_to_cut_what_follows(shape):
    old = old_log(shape)
    frame = list(frames.iter_frames(old.segments[0]))[2]
    damaged = bytearray(old.segments[0])
    damaged[frame.position + 8] = 0x7F
    with pytest.raises(CorruptLog, match="whole batches follow"):
        opened(OldLog({0: bytes(damaged)}, []), recovery_point=old.records[-1].offset + 1)


@named(SHAPES)
@pytest.mark.parametrize("kept", [0, 5, 17, 30])
def test_a_file_that_lost_its_end_is_cut_whatever_its_last_message_looks_like_inside(shape, kept):
    """Small numbers, as in many values, look like the beginnings of messages wherever one looks."""
    old = old_log(shape)
    tempting = [Record(len(old.records), NOW, b"k", struct.pack(">8i", 0, 0, 0, 40, 0, 14, 0, 30) * 5000)]
    torn = written(Shape(shape.magic), tempting)[: 20_000 + kept]
    for rest in (torn, torn + bytes(3 << 20)):
        log = opened(OldLog({0: old.segments[0] + rest}, []), recovery_point=len(old.records) + 1)
        assert records_from(log) == old.records
        assert log.recovery.cut_bytes == len(rest)


@named(WRAPPERS)
@pytest.mark.parametrize("offset", range(10, 15))
def test_truncating_within_a_wrapper_forgets_all_of_it(shape, offset):
    old = old_log(shape)
    log = opened(old)
    log.flush()
    log.truncate_to(offset)
    assert (log.end_offset, log.recovery_point) == (10, 10)
    assert records_from(log) == old.records[:10]
    assert put(log, b"new").first_offset == 10


@named(WRAPPERS)
@pytest.mark.parametrize("offset", range(12, 15))
def test_truncating_the_wrapper_that_the_log_starts_in_leaves_an_empty_log(shape, offset):
    log = opened(old_log(shape), log_start_offset=12)
    log.truncate_to(offset)
    assert (log.log_start_offset, log.end_offset) == (12, 12)
    assert put(log, b"new").first_offset == 12


@named(SHAPES)
@pytest.mark.parametrize("log_start_offset", [0, 3, 12, 14])
def test_offsets_are_found_by_time_inside_wrappers_too(shape, log_start_offset):
    old = old_log(shape)
    log = opened(old, log_start_offset=log_start_offset)
    visible = [record for record in old.records if record.offset >= log_start_offset]
    for timestamp in {record.timestamp + step for record in old.records for step in (0, 1)} - {-1}:
        expected = next((r for r in visible if r.timestamp >= timestamp), None)
        found = log.offset_by_time(timestamp) if timestamp else None
        if expected is None or timestamp == 0:
            assert found is None
        else:
            assert (found.timestamp, found.offset, found.leader_epoch) == (
                expected.timestamp,
                expected.offset,
                -1,
            )
    assert log.newest_timestamp() == max(record.timestamp for record in visible)


def test_old_records_have_no_transactions():
    log = opened(old_log(*MIXED, segments=3))
    assert log.aborted_txns(0, log.end_offset) == []
    assert len(log.producers) == 0
    assert log.last_stable_offset == log.high_watermark


@named(SHAPES)
def test_a_log_goes_on_in_the_new_format_behind_the_old_one(shape):
    old = old_log(shape)
    log = opened(old)
    numbers = itertools.count(log.end_offset)
    for sequence in range(5):
        stamp = (7, 0, sequence)
        assert put(log, b"new", producer=stamp, at_ms=STAMPED_AT + 1).first_offset == next(numbers)
    assert len(log.segments) == 1
    assert [r.offset for r in records_from(log)] == list(range(log.end_offset))
    assert log.offset_by_time(STAMPED_AT + 1).offset == len(old.records)
    log.close()
    again = open_log(log.files, SETTINGS, clean=True, recovery_point=log.end_offset)
    assert len(again.producers) == 1
    assert [r.offset for r in records_from(again)] == list(range(log.end_offset))


@named(SHAPES)
def test_what_was_appended_behind_old_records_is_recovered_with_them(shape):
    old = old_log(shape)
    disk = SimDisk()
    lay(disk, HERE, old.segments)
    log = open_log(disk, SETTINGS)
    put(log, b"new", producer=(7, 0, 0))
    log.flush()
    put(log, b"lost perhaps")
    crash(disk)
    again = open_log(disk, SETTINGS, recovery_point=log.recovery_point)
    assert records_from(again)[: len(old.records)] == old.records
    assert again.end_offset >= len(old.records) + 1
    assert len(again.producers) == 1


@named(SHAPES)
def test_indexes_are_built_for_old_segments_and_believed_the_next_time(shape):
    old = old_log(shape, count=200)
    log = opened(old)
    log.close()
    names = [f"{HERE}/{0:020d}{suffix}" for suffix in (".index", ".timeindex")]
    before = [log.files.read(name) for name in names]
    assert before[0] and bool(before[1]) == (shape.magic > 0)
    again = open_log(log.files, SETTINGS, clean=True, recovery_point=log.end_offset)
    assert records_from(again, 150) == old.records[150:]
    assert [log.files.read(name) for name in names] == before


@named([Shape(0), Shape(0, Codec.GZIP)])
def test_a_segment_without_times_is_as_old_as_its_file(shape):
    old = old_log(shape, shape, segments=2)
    disk = SimDisk()
    lay(disk, HERE, old.segments)
    log = open_log(disk, config(retention_ms=1000), clean=True)
    log.advance_high_watermark(log.end_offset)
    modified = disk.modified_ms(log.segments[0].path)
    assert log.segments[0].newest_ms == modified
    assert log.delete_old(modified + 1000) == 0
    assert log.delete_old(modified + 1001) >= 1


def test_a_segment_that_began_without_times_is_closed_when_its_first_timed_record_is_old():
    log = opened(old_log(Shape(0)))
    put(log, b"first with a time", at_ms=NOW)
    later = NOW + SETTINGS.segment_ms + 1
    put(log, b"much later", at_ms=later, now_ms=later)
    assert len(log.segments) == 2


@named([Shape(0, Codec.GZIP), Shape(1, Codec.GZIP), Shape(1)])
def test_deleting_records_up_to_the_middle_of_a_wrapper_hides_the_first_half(shape):
    old = old_log(shape)
    log = opened(old)
    log.advance_high_watermark(log.end_offset)
    log.advance_log_start(12)
    assert records_from(log) == old.records[12:]
    with pytest.raises(KafkaError) as refused:
        log.read(11, 100)
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_reader_of_what_is_committed_gets_no_wrapper_that_goes_beyond():
    log = opened(old_log(Shape(1, Codec.GZIP)))
    for limit in range(6, 10):
        data = log.read(0, 1 << 20, limit).read()
        assert [frame.offset for frame in frames.iter_frames(data)] == [4]


@named([*SHAPES, NEW])
def test_a_follower_copies_old_messages_as_they_are(shape):
    old = old_log(shape)
    leader, follower = opened(old), open_log(SimDisk(), SETTINGS)
    while data := leader.read(follower.end_offset, 700).read():
        follower.append_fetched(data, NOW)
    assert follower.end_offset == leader.end_offset
    assert follower.segments.active.file.read_at(0, 1 << 20) == old.segments[0]
    for offset in range(follower.end_offset):
        assert records_from(follower, offset) == old.records[offset:]
    put(follower, b"new", epoch=3)
    assert follower.epochs.latest == 3


@named(SHAPES)
def test_a_follower_takes_no_damaged_message(shape):
    damaged = bytearray(old_log(shape).segments[0])
    damaged[-1] ^= 1
    with pytest.raises(KafkaError) as refused:
        open_log(SimDisk(), SETTINGS).append_fetched(bytes(damaged), NOW)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
