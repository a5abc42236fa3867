"""Batches of magic 2: the header, what is checked, what is patched in place."""

import struct

import pytest

from ottla.core.errors import ErrorCode
from ottla.records import batch
from ottla.records.builder import build
from ottla.records.checksum import crc32c
from ottla.records.compression import Codec
from ottla.records.errors import RecordError
from ottla.records.record import Record

RECORDS = [
    Record(10, 1000, b"a", b"1"),
    Record(11, 1005, None, b"2", (("trace", b"\x01"), ("empty", None))),
    Record(13, 990, b"c", None),
]
CODECS = list(Codec)


def signed(raw):
    """The batch with a CRC that fits whatever was changed in it."""
    raw = bytearray(raw)
    struct.pack_into(">I", raw, batch.CRC_AT, crc32c(raw, batch.ATTRIBUTES_AT))
    return bytes(raw)


def patched(raw, form, at, value):
    raw = bytearray(raw)
    struct.pack_into(form, raw, at, value)
    return signed(raw)


def refusal(function, *arguments, **options):
    with pytest.raises(RecordError) as refused:
        result = function(*arguments, **options)
        list(result)  # readers that are lazy refuse when they are read
    return refused.value.code


def test_a_batch_known_byte_by_byte():
    raw = build(
        [Record(5, 100, b"k", b"v")],
        producer_id=7,
        producer_epoch=1,
        base_sequence=3,
        leader_epoch=2,
        is_transactional=True,
    )
    header = "0000000000000005" + "0000003a" + "00000002" + "02"
    checked = (
        "0010" + "00000000" + "0000000000000064" * 2 + "0000000000000007" + "0001" + "00000003" + "00000001"
        "10" + "00" + "00" + "00" + "026b" + "0276" + "00"
    )
    crc = f"{crc32c(bytes.fromhex(checked)):08x}"
    assert raw.hex() == header + crc + checked


def test_the_header_gives_every_field_and_what_follows_from_it():
    raw = build(
        RECORDS, codec=Codec.GZIP, producer_id=9, producer_epoch=4, base_sequence=2**31 - 2, leader_epoch=6
    )
    header = batch.check(raw)
    assert header == batch.read_header(raw)
    assert (header.base_offset, header.last_offset, header.next_offset) == (10, 13, 14)
    assert (header.size, header.length) == (len(raw), len(raw) - 12)
    assert (header.magic, header.leader_epoch, header.count) == (2, 6, 3)
    assert (header.base_timestamp, header.max_timestamp) == (1000, 1005)
    assert (header.producer_id, header.producer_epoch, header.has_producer_id) == (9, 4, True)
    assert (header.base_sequence, header.last_sequence) == (2**31 - 2, 1), "sequences start over"
    assert header.codec is Codec.GZIP
    assert header.timestamp_type == batch.CREATE_TIME
    assert not header.is_transactional
    assert not header.is_control
    assert header.delete_horizon_ms is None


def test_without_a_producer_there_are_no_sequences():
    header = batch.read_header(build(RECORDS))
    assert (header.last_sequence, header.has_producer_id) == (batch.NO_SEQUENCE, False)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("make", [bytes, bytearray, memoryview])
def test_records_come_back_from_any_buffer_at_any_position(codec, make):
    raw = build(RECORDS, codec=codec)
    buffer = make(b"noise" + raw + b"more noise")
    assert batch.check(buffer, 5).count == 3
    assert list(batch.records_of(buffer, 5)) == RECORDS
    assert list(batch.rows_of(buffer, 5)) == [tuple(record) for record in RECORDS]
    assert batch.walk(buffer, 5) == batch.read_header(raw)


def test_thousands_of_records_come_in_their_order():
    records = [Record(i, i, str(i).encode(), b"") for i in range(3000)]
    assert list(batch.records_of(build(records))) == records


def test_a_delete_horizon_lives_in_the_base_timestamp_and_changes_no_records_time():
    raw = build(RECORDS, delete_horizon_ms=777)
    header = batch.check(raw)
    assert (header.delete_horizon_ms, header.base_timestamp, header.max_timestamp) == (777, 777, 1005)
    assert list(batch.records_of(raw)) == RECORDS


def test_offsets_and_epoch_are_assigned_in_place_without_touching_the_crc():
    raw = bytearray(b"??" + build(RECORDS))
    batch.assign_offsets(raw, 2, 500, 8)
    header = batch.check(raw, 2)
    assert (header.base_offset, header.leader_epoch) == (500, 8)
    assert [record.offset for record in batch.records_of(raw, 2)] == [500, 501, 503]


def test_log_append_time_is_stamped_in_place_with_a_new_crc():
    raw = bytearray(b"??" + build(RECORDS) + b"??")
    batch.set_log_append_time(memoryview(raw), 2, 123_456)
    header = batch.check(raw, 2)
    assert (header.timestamp_type, header.max_timestamp) == (batch.LOG_APPEND_TIME, 123_456)
    assert {record.timestamp for record in batch.records_of(raw, 2)} == {123_456}


def test_batches_are_found_one_after_the_other():
    first, second = build(RECORDS), build([Record(20, 0, None, b"x")], codec=Codec.LZ4)
    found = list(batch.iter_batches(first + second))
    assert [(position, header.base_offset) for position, header in found] == [(0, 10), (len(first), 20)]
    assert list(batch.iter_batches(first + second, len(first))) == found[1:]
    assert list(batch.iter_batches(b"")) == []


def test_a_batch_that_is_cut_off_is_left_out_or_refused_at_every_length():
    first, second = build(RECORDS), build(RECORDS)
    for size in range(1, len(second)):
        buffer = first + second[:size]
        assert [position for position, _ in batch.iter_batches(buffer, partial=True)] == [0]
        assert refusal(batch.iter_batches, buffer) is ErrorCode.CORRUPT_MESSAGE
        for function in (batch.check, batch.records_of, batch.walk):
            assert refusal(function, second[:size]) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("magic", [-1, 0, 1, 3, 127])
def test_other_magics_are_no_batches(magic):
    raw = bytearray(build(RECORDS))
    raw[batch.MAGIC_AT] = magic & 0xFF
    for function in (batch.check, batch.records_of, batch.walk, batch.iter_batches):
        assert refusal(function, raw) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("length", [-1, 0, 48, -(2**31), 2**31 - 1])
def test_impossible_lengths_are_refused(length):
    raw = bytearray(build(RECORDS))
    struct.pack_into(">i", raw, batch.LENGTH_AT, length)
    for function in (batch.check, batch.records_of, batch.walk, batch.iter_batches):
        assert refusal(function, raw) is ErrorCode.CORRUPT_MESSAGE


def test_every_flip_of_every_bit_under_the_crc_and_in_length_magic_and_crc_is_caught():
    raw = build(RECORDS)
    missed = set()
    for at in range(len(raw)):
        for bit in range(8):
            flipped = bytearray(raw)
            flipped[at] ^= 1 << bit
            try:
                batch.check(flipped)
                missed.add(at)
            except RecordError:
                pass
    outside = {*range(batch.BASE_OFFSET_AT, batch.LENGTH_AT), *range(batch.LEADER_EPOCH_AT, batch.MAGIC_AT)}
    assert missed == outside, "only what brokers write in place is outside the CRC"


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_codecs_nobody_knows_have_a_code_of_their_own(codec):
    raw = patched(build(RECORDS), ">h", batch.ATTRIBUTES_AT, codec)
    for function in (batch.check, batch.records_of, batch.walk):
        assert refusal(function, raw) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


@pytest.mark.parametrize("count", [-1, -(2**31), 5, 2**31 - 1])
def test_a_count_that_cannot_be_is_refused_before_anything_is_built(count):
    raw = patched(build(RECORDS), ">i", batch.COUNT_AT, count)
    for function in (batch.check, batch.records_of, batch.walk):
        assert refusal(function, raw) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("count", [0, 1, 2, 4])
def test_a_count_that_lies_a_little_is_found_by_whoever_opens_the_records(count):
    raw = patched(build(RECORDS), ">i", batch.COUNT_AT, count)
    assert batch.check(raw).count == count
    for function in (batch.records_of, batch.rows_of, batch.walk):
        assert refusal(function, raw) is ErrorCode.INVALID_RECORD


def test_a_last_offset_that_is_negative_or_too_small_is_refused():
    raw = build(RECORDS)
    assert refusal(batch.check, patched(raw, ">i", 23, -1)) is ErrorCode.INVALID_RECORD
    assert refusal(batch.check, patched(raw, ">i", 23, 1)) is ErrorCode.INVALID_RECORD
    assert refusal(batch.walk, patched(raw, ">i", 23, 2)) is ErrorCode.INVALID_RECORD


def test_a_batch_from_a_producer_has_consecutive_offsets():
    whole = build([Record(i, 0, None, b"x") for i in range(3)])
    assert batch.walk(whole, consecutive=True).count == 3
    assert refusal(batch.walk, build(RECORDS), consecutive=True) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("base_offset", [-1, 2**63 - 1])
def test_a_base_offset_outside_of_any_log_is_refused_by_readers(base_offset):
    raw = bytearray(build(RECORDS))
    struct.pack_into(">q", raw, 0, base_offset)
    assert refusal(batch.records_of, raw) is ErrorCode.INVALID_RECORD


def test_an_empty_batch_holds_its_place():
    raw = build([], base_offset=40, last_offset=49, producer_id=1, producer_epoch=0, base_sequence=5)
    header = batch.check(raw)
    assert (header.size, header.count, header.last_offset, header.last_sequence) == (61, 0, 49, 14)
    assert list(batch.records_of(raw)) == []
    batch.walk(raw)


@pytest.mark.parametrize("codec", CODECS)
def test_an_empty_batch_is_not_compressed_and_is_read_even_if_it_says_so(codec):
    raw = build([], base_offset=40, last_offset=49, codec=codec)
    assert batch.check(raw).codec is Codec.NONE
    claims = raw[: batch.ATTRIBUTES_AT] + struct.pack(">h", codec) + raw[batch.ATTRIBUTES_AT + 2 :]
    assert list(batch.records_of(claims)) == []
    assert batch.walk(claims).count == 0


def test_records_with_many_headers_are_all_read():
    records = [Record(i, 0, None, None, (("", None),) * 70_000) for i in range(5)]
    assert [r.offset for r in batch.records_of(build(records, codec=Codec.ZSTD))] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("codec", CODECS[1:])
def test_the_cap_holds_for_batches(codec):
    raw = build([Record(0, 0, None, bytes(100_000))], codec=codec)
    assert len(list(batch.records_of(raw, limit=100_100))) == 1
    for function in (batch.records_of, batch.walk):
        assert refusal(function, raw, limit=99_999) is ErrorCode.MESSAGE_TOO_LARGE
