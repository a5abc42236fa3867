"""Up for old producers, down for old consumers."""

import pytest

from ottla.core.errors import ErrorCode
from ottla.records import batch, builder, control, legacy
from ottla.records.batch import CREATE_TIME, LOG_APPEND_TIME, NO_LEADER_EPOCH, NO_PRODUCER_ID
from ottla.records.compression import Codec
from ottla.records.convert import down_convert, modernised, up_convert
from ottla.records.errors import RecordError
from ottla.records.frames import iter_frames
from ottla.records.record import Record

RECORDS = [Record(50, 1000, b"a", b"1"), Record(51, 1005, None, b"2"), Record(52, 990, b"c", None)]
OLD_CODECS = [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4]


def read_all(buffer):
    return [r for position, _ in legacy.iter_messages(buffer) for r in legacy.records_of(buffer, position)]


def at_magic(magic):
    return [record if magic else record.with_(timestamp=-1) for record in RECORDS]


def refusal(function, *arguments, **options):
    with pytest.raises(RecordError) as refused:
        function(*arguments, **options)
    return refused.value.code


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", OLD_CODECS)
def test_there_and_back(magic, codec):
    up = up_convert(legacy.build(RECORDS, magic, codec=codec), base_offset=50, leader_epoch=3)
    header = batch.check(up)
    assert (header.codec, header.leader_epoch, header.count) == (codec, 3, 3)
    assert list(batch.records_of(up)) == at_magic(magic)
    down = down_convert(up, magic)
    assert {frame.magic for frame in iter_frames(down)} == {magic}
    assert read_all(down) == at_magic(magic)
    assert {header.codec for _, header in legacy.iter_messages(down)} == {codec}


def test_offsets_are_assigned_anew_and_a_codec_may_be_named():
    up = up_convert(legacy.build(RECORDS, 1), base_offset=7, codec=Codec.ZSTD)
    assert batch.check(up).codec is Codec.ZSTD
    assert [record.offset for record in batch.records_of(up)] == [7, 8, 9]


def test_the_brokers_time_replaces_what_old_formats_lack():
    up = up_convert(legacy.build(RECORDS, 0), timestamp_type=LOG_APPEND_TIME, log_append_time=4242)
    assert batch.check(up).timestamp_type == LOG_APPEND_TIME
    assert {record.timestamp for record in batch.records_of(up)} == {4242}


def test_the_brokers_time_goes_down_too():
    raw = builder.build(RECORDS, timestamp_type=LOG_APPEND_TIME, log_append_time=4242)
    for codec in OLD_CODECS:
        raw = builder.build(RECORDS, codec=codec, timestamp_type=LOG_APPEND_TIME, log_append_time=4242)
        down = down_convert(raw, 1)
        assert {record.timestamp for record in read_all(down)} == {4242}
        assert legacy.read_header(down).timestamp_type == LOG_APPEND_TIME


def test_headers_are_lost_and_control_batches_dropped_on_the_way_down():
    data = builder.build([Record(1, 2, b"k", b"v", (("h", b"x"),))], is_transactional=True, producer_id=3)
    marker = control.build_marker(
        control.ControlType.COMMIT,
        producer_id=3,
        producer_epoch=0,
        coordinator_epoch=1,
        timestamp=3,
        base_offset=2,
    )
    assert read_all(down_convert(data + marker, 1)) == [Record(1, 2, b"k", b"v")]


def test_zstd_does_not_go_down():
    raw = builder.build(RECORDS, codec=Codec.ZSTD)
    assert refusal(down_convert, raw, 1) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_what_is_old_enough_is_left_as_it_is():
    oldest, old, new = legacy.build(RECORDS, 0), legacy.build(RECORDS, 1), builder.build(RECORDS)
    assert down_convert(oldest + old, 1) == oldest + old
    assert down_convert(oldest + old, 0) == oldest + oldest
    assert down_convert(oldest + new, 1) == oldest + old


def test_a_fetch_starts_in_the_middle_of_a_batch_and_may_end_in_one():
    raw = builder.build(RECORDS)
    down = down_convert(raw + raw[:-1], 1, first_offset=51)
    assert [record.offset for record in read_all(down)] == [51, 52]
    assert down_convert(raw, 1, first_offset=99) == b""


@pytest.mark.parametrize("codec", OLD_CODECS)
def test_the_cap_holds_in_both_directions(codec):
    records = [Record(0, 0, None, bytes(100_000))] * 2
    records = [record.with_(offset=i) for i, record in enumerate(records)]
    assert (
        refusal(up_convert, legacy.build(records, 1, codec=codec), limit=150_000)
        is ErrorCode.MESSAGE_TOO_LARGE
    )
    if codec is not Codec.NONE:
        raw = builder.build(records, codec=codec)
        assert refusal(down_convert, raw, 1, limit=150_000) is ErrorCode.MESSAGE_TOO_LARGE


def test_timestamps_at_both_ends_of_64_bits_survive():
    records = [Record(0, 2**63 - 1, None, b"last"), Record(1, -(2**63), None, b"first")]
    up = up_convert(legacy.build(records, 1))
    assert list(batch.records_of(up)) == records
    assert read_all(down_convert(up, 1)) == records


def test_a_batch_that_swells_on_the_way_down_is_capped():
    raw = builder.build([Record(i, 0, None, None) for i in range(1000)], codec=Codec.GZIP)
    assert len(read_all(down_convert(raw, 1, limit=40_000))) == 1000
    assert refusal(down_convert, raw, 1, limit=20_000) is ErrorCode.MESSAGE_TOO_LARGE


def test_a_set_without_messages_is_refused():
    assert refusal(up_convert, b"") is ErrorCode.INVALID_RECORD


def test_damage_is_found_on_the_way():
    for convert, raw in (
        (up_convert, legacy.build(RECORDS, 1)),
        (lambda b: down_convert(b, 0), builder.build(RECORDS)),
    ):
        damaged = bytearray(raw)
        damaged[-1] ^= 1
        assert refusal(convert, damaged) is ErrorCode.CORRUPT_MESSAGE


COMPACTED = [Record(50, 1000, b"a", b"1"), Record(53, -1, None, b"2"), Record(90, 990, b"c", None)]


def renewed(records, codec=Codec.NONE, timestamp_type=CREATE_TIME, log_append_time=-1):
    return modernised(records, codec=codec, timestamp_type=timestamp_type, log_append_time=log_append_time)


@pytest.mark.parametrize("codec", list(Codec))
def test_records_of_an_old_segment_keep_their_offsets_and_times_in_a_batch(codec):
    raw = renewed(COMPACTED, codec)
    header = batch.check(raw)
    assert (header.codec, header.count, header.size) == (codec, 3, len(raw))
    assert (header.base_offset, header.last_offset, header.max_timestamp) == (50, 90, 1000)
    assert (header.producer_id, header.leader_epoch) == (NO_PRODUCER_ID, NO_LEADER_EPOCH)
    assert not header.is_transactional and not header.is_control and header.delete_horizon_ms is None
    assert list(batch.records_of(raw)) == COMPACTED


def test_records_without_a_time_stay_without_one():
    raw = renewed([record.with_(timestamp=-1) for record in COMPACTED])
    assert batch.check(raw).max_timestamp == -1
    assert {record.timestamp for record in batch.records_of(raw)} == {-1}


def test_the_brokers_time_stays_the_brokers_time():
    raw = renewed([record.with_(timestamp=4242) for record in COMPACTED], Codec.LZ4, LOG_APPEND_TIME, 4242)
    header = batch.check(raw)
    assert (header.timestamp_type, header.max_timestamp) == (LOG_APPEND_TIME, 4242)
    assert {record.timestamp for record in batch.records_of(raw)} == {4242}


def test_a_delete_horizon_changes_no_time():
    raw = modernised(
        COMPACTED, codec=Codec.GZIP, timestamp_type=CREATE_TIME, log_append_time=-1, delete_horizon_ms=5000
    )
    assert batch.check(raw).delete_horizon_ms == 5000
    assert list(batch.records_of(raw)) == COMPACTED


@pytest.mark.parametrize("offsets", [[], [7, 7], [8, 7], [0, 2**31], [-1, 0]])
def test_offsets_that_no_batch_can_have_are_refused(offsets):
    assert refusal(renewed, [Record(at, 0, None, b"v") for at in offsets]) is ErrorCode.INVALID_RECORD
