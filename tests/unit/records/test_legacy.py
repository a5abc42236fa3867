"""Message sets of magic 0 and 1: layout, wrappers, offsets inside them, and damage."""

import struct

import pytest

from ottla.core.errors import ErrorCode
from ottla.records import legacy
from ottla.records.batch import CREATE_TIME, LOG_APPEND_TIME
from ottla.records.checksum import crc32
from ottla.records.compression import Codec, compress
from ottla.records.errors import RecordError
from ottla.records.record import Record

RECORDS = [Record(50, 1000, b"a", b"1"), Record(51, 1005, None, b"2"), Record(53, 990, b"c", None)]
CODECS = [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4]


def message(offset, magic, attributes, value, key=None, timestamp=0):
    body = bytes([magic, attributes])
    if magic:
        body += struct.pack(">q", timestamp)
    for part in (key, value):
        body += struct.pack(">i", -1 if part is None else len(part)) + (part or b"")
    return struct.pack(">qiI", offset, len(body) + 4, crc32(body)) + body


def read_all(buffer):
    return [r for position, _ in legacy.iter_messages(buffer) for r in legacy.records_of(buffer, position)]


def refusal(function, *arguments, **options):
    with pytest.raises(RecordError) as refused:
        list(function(*arguments, **options))
    return refused.value.code


def at_magic(magic, records=RECORDS):
    return [record if magic else record.with_(timestamp=-1) for record in records]


@pytest.mark.parametrize("magic", [0, 1])
def test_a_message_is_laid_out_as_kafka_laid_it_out(magic):
    built = legacy.build([Record(3, 7, b"k", b"val")], magic)
    assert built == message(3, magic, 0, b"val", b"k", 7)
    assert len(built) == legacy.ENTRY_OVERHEAD + legacy.MESSAGE_SIZE_MIN[magic] + 4


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("make", [bytes, bytearray, memoryview])
def test_sets_read_back(magic, codec, make):
    built = legacy.build(RECORDS, magic, codec=codec)
    assert read_all(make(built)) == at_magic(magic)
    headers = [header for _, header in legacy.iter_messages(built)]
    assert [h.offset for h in headers] == ([50, 51, 53] if codec is Codec.NONE else [53])
    assert {(h.magic, h.codec, h.timestamp_type) for h in headers} == {(magic, codec, CREATE_TIME)}
    assert sum(h.size for h in headers) == len(built)


def test_inside_a_wrapper_offsets_are_relative_in_magic_1_and_absolute_in_magic_0():
    inner = message(0, 1, 0, b"x") + message(2, 1, 0, b"y")
    wrapper = message(12, 1, Codec.GZIP, compress(Codec.GZIP, inner))
    assert [r.offset for r in legacy.records_of(wrapper)] == [10, 12]
    inner = message(10, 0, 0, b"x") + message(12, 0, 0, b"y")
    wrapper = message(12, 0, Codec.GZIP, compress(Codec.GZIP, inner))
    assert [r.offset for r in legacy.records_of(wrapper)] == [10, 12]


def test_a_wrapper_at_offset_0_says_nothing_about_the_offsets_inside():
    inner = message(0, 1, 0, b"x") + message(1, 1, 0, b"y")
    wrapper = message(0, 1, Codec.SNAPPY, compress(Codec.SNAPPY, inner))
    assert [r.offset for r in legacy.records_of(wrapper)] == [0, 1]


@pytest.mark.parametrize("magic", [0, 1])
def test_producers_that_number_nothing_are_read_all_the_same(magic):
    inner = message(0, magic, 0, b"x") + message(0, magic, 0, b"y")
    wrapper = message(0, magic, Codec.GZIP, compress(Codec.GZIP, inner))
    assert [(r.offset, r.value) for r in legacy.records_of(wrapper)] == [(0, b"x"), (0, b"y")]


def test_a_wrapper_stamped_by_the_broker_lends_its_time_to_all_it_holds():
    built = legacy.build(RECORDS, 1, codec=Codec.GZIP, timestamp_type=LOG_APPEND_TIME, log_append_time=5555)
    ((_, header),) = legacy.iter_messages(built)
    assert (header.timestamp_type, header.timestamp) == (LOG_APPEND_TIME, 5555)
    assert {r.timestamp for r in legacy.records_of(built)} == {5555}


def test_plain_messages_carry_the_brokers_time_themselves():
    built = legacy.build(RECORDS, 1, timestamp_type=LOG_APPEND_TIME, log_append_time=5555)
    assert {r.timestamp for r in read_all(built)} == {5555}
    assert legacy.read_header(built).timestamp_type == LOG_APPEND_TIME


def test_a_wrapper_bears_the_latest_time_of_what_it_holds():
    assert legacy.read_header(legacy.build(RECORDS, 1, codec=Codec.LZ4)).timestamp == 1005


def test_lz4_in_magic_0_has_the_checksum_of_old():
    old = legacy.build(RECORDS, 0, codec=Codec.LZ4)
    new = legacy.build(RECORDS, 1, codec=Codec.LZ4)
    assert old[26 + 6] == 0x1A
    assert new[34 + 6] == 0x82


def test_zstd_is_too_young_for_message_sets():
    assert refusal(legacy.build, RECORDS, 1, codec=Codec.ZSTD) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    wrapper = message(0, 1, Codec.ZSTD, compress(Codec.ZSTD, message(0, 1, 0, b"x")))
    assert refusal(legacy.records_of, wrapper) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codecs_are_refused(codec):
    assert refusal(legacy.records_of, message(0, 1, codec, b"x")) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def wrapped(inner, magic=1):
    return message(9, magic, Codec.GZIP, compress(Codec.GZIP, inner))


WRONG_INSIDE = {
    "another wrapper": wrapped(message(0, 1, Codec.GZIP, compress(Codec.GZIP, message(0, 1, 0, b"x")))),
    "another magic": wrapped(message(0, 0, 0, b"x")),
    "nothing": wrapped(b""),
    "offsets that fall below 0": wrapped(message(0, 1, 0, b"x") + message(2**40, 1, 0, b"y")),
    "offsets that pass 64 bits": wrapped(message(2**63 - 1, 1, 0, b"x") + message(0, 1, 0, b"y")),
    "no value": message(9, 1, Codec.GZIP, None),
}


@pytest.mark.parametrize("wrapper", WRONG_INSIDE.values(), ids=WRONG_INSIDE.keys())
def test_a_wrapper_holding_something_else_is_refused(wrapper):
    assert refusal(legacy.records_of, wrapper) is ErrorCode.INVALID_RECORD


def test_a_damaged_message_inside_a_wrapper_is_found():
    inner = bytearray(message(0, 1, 0, b"x"))
    inner[-1] ^= 1
    assert refusal(legacy.records_of, wrapped(inner)) is ErrorCode.CORRUPT_MESSAGE
    assert refusal(legacy.records_of, wrapped(inner[:-1])) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("magic", [0, 1])
def test_every_flip_of_every_bit_but_the_offsets_is_caught(magic):
    raw = legacy.build(RECORDS[:1], magic)
    missed = set()
    for at in range(len(raw)):
        for bit in range(8):
            flipped = bytearray(raw)
            flipped[at] ^= 1 << bit
            try:
                legacy.check(flipped)
                missed.add(at)
            except RecordError:
                pass
    assert missed == set(range(8))


@pytest.mark.parametrize("magic", [0, 1])
def test_a_set_that_is_cut_off_is_left_short_or_refused_at_every_length(magic):
    whole = legacy.build(RECORDS, magic)
    sizes = [header.size for _, header in legacy.iter_messages(whole)]
    for size in range(sum(sizes[:2]) + 1, len(whole)):
        assert len(list(legacy.iter_messages(whole[:size], partial=True))) == 2
        assert refusal(legacy.iter_messages, whole[:size]) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize(
    ("key_size", "value_size"), [(100, 0), (2**31 - 1, 0), (0, 100), (0, 2**31 - 1), (3, 0), (-1, 0)]
)
def test_lengths_that_do_not_fill_the_message_are_lies(key_size, value_size):
    body = bytes([0, 0]) + struct.pack(">i", key_size) + b"" + struct.pack(">i", value_size) + b"zz"
    raw = struct.pack(">qiI", 0, len(body) + 4, crc32(body)) + body
    assert refusal(legacy.records_of, raw) is ErrorCode.INVALID_RECORD


def test_a_set_that_would_pass_its_limit_is_not_built():
    assert len(legacy.build(RECORDS, 1, limit=200)) < 200
    assert refusal(legacy.build, RECORDS, 1, limit=50) is ErrorCode.MESSAGE_TOO_LARGE


def test_the_cap_holds_inside_wrappers():
    built = legacy.build([Record(0, 0, None, bytes(100_000))], 1, codec=Codec.GZIP)
    assert refusal(legacy.records_of, built, limit=50_000) is ErrorCode.MESSAGE_TOO_LARGE
