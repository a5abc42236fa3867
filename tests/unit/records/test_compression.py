"""The table of codecs: round trips, caps, and what is refused."""

import gzip
import struct

import cramjam
import pytest

from ottla.core.errors import ErrorCode
from ottla.records.compression import Codec, codec_of, compress, decompress
from ottla.records.errors import RecordError

TEXT = b"".join(b"line %d of a text that repeats itself\n" % i for i in range(5000))
CODECS = list(Codec)


def refusal(codec, data, limit=1 << 20):
    with pytest.raises(RecordError) as refused:
        decompress(codec, data, limit)
    return refused.value.code


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("data", [b"", b"x", TEXT, bytes(300_000)], ids=["empty", "byte", "text", "zeros"])
def test_what_is_compressed_comes_back(codec, data):
    for make in (bytes, bytearray, memoryview):
        assert decompress(codec, make(compress(codec, make(data)))) == data


@pytest.mark.parametrize("codec", CODECS)
def test_the_cap_is_exact(codec):
    compressed = compress(codec, TEXT)
    assert decompress(codec, compressed, len(TEXT)) == TEXT
    assert refusal(codec, compressed, len(TEXT) - 1) is ErrorCode.MESSAGE_TOO_LARGE
    assert refusal(codec, compressed, 0) is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", CODECS[1:])
def test_compressed_data_that_is_cut_off_is_damage(codec):
    compressed = compress(codec, TEXT)
    for size in (0, 1, 3, 7, 11, 20, len(compressed) // 2, len(compressed) - 1):
        assert refusal(codec, compressed[:size]) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("codec", CODECS[1:])
def test_noise_is_damage(codec):
    assert refusal(codec, b"\x07this was never compressed by anything") is ErrorCode.CORRUPT_MESSAGE


def test_attributes_name_the_codec_with_three_bits():
    assert [codec_of(0b1111_1000 | codec) for codec in CODECS] == CODECS
    for unknown in (5, 6, 7):
        with pytest.raises(RecordError) as refused:
            codec_of(unknown)
        assert refused.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_levels_are_passed_on():
    squares = b"".join(b"%d" % (i * i) for i in range(20_000))
    for codec, low, high in ((Codec.GZIP, 1, 9), (Codec.LZ4, 1, 12), (Codec.ZSTD, 1, 19)):
        assert len(compress(codec, squares, high)) < len(compress(codec, squares, low))


def test_gzip_members_follow_each_other_and_what_is_no_member_is_ignored():
    members = gzip.compress(b"one ") + gzip.compress(b"") + gzip.compress(TEXT)
    assert decompress(Codec.GZIP, members) == b"one " + TEXT
    assert decompress(Codec.GZIP, members + b"trailing") == b"one " + TEXT
    assert refusal(Codec.GZIP, members, len(TEXT)) is ErrorCode.MESSAGE_TOO_LARGE
    assert refusal(Codec.GZIP, members + b"\x1f\x8b") is ErrorCode.CORRUPT_MESSAGE


def test_thousands_of_empty_gzip_members_are_read_through():
    assert decompress(Codec.GZIP, gzip.compress(b"") * 5000) == b""


def test_tens_of_thousands_of_small_gzip_members_are_counted_against_one_cap():
    data = compress(Codec.GZIP, b"x") * 20_000
    assert decompress(Codec.GZIP, data, 20_000) == b"x" * 20_000
    assert refusal(Codec.GZIP, data, 19_999) is ErrorCode.MESSAGE_TOO_LARGE


def test_gzip_checksums_are_checked():
    damaged = bytearray(gzip.compress(TEXT))
    damaged[-5] ^= 1
    assert refusal(Codec.GZIP, damaged) is ErrorCode.CORRUPT_MESSAGE


def gzip_bomb():
    return gzip.compress(bytes(64 << 20), 9)


def snappy_bomb():
    return bytes(cramjam.snappy.compress_raw(bytes(64 << 20)))


def xerial_bomb():
    return compress(Codec.SNAPPY, bytes(32 << 20))


def lz4_bomb():
    return compress(Codec.LZ4, bytes(64 << 20))


def zstd_bomb():
    return compress(Codec.ZSTD, bytes(64 << 20))


def zstd_bomb_of_compressed_blocks():
    """A frame without a content size, whose blocks say nothing either."""
    stream = cramjam.zstd.Compressor(level=1)
    frame = b""
    for _ in range(64):
        stream.compress(TEXT * 6)
        frame += bytes(stream.flush())
    return frame + bytes(stream.finish())


BOMBS = [
    (Codec.GZIP, gzip_bomb),
    (Codec.SNAPPY, snappy_bomb),
    (Codec.SNAPPY, xerial_bomb),
    (Codec.LZ4, lz4_bomb),
    (Codec.ZSTD, zstd_bomb),
    (Codec.ZSTD, zstd_bomb_of_compressed_blocks),
]


@pytest.mark.parametrize(("codec", "make"), BOMBS, ids=[make.__name__ for _, make in BOMBS])
def test_a_bomb_costs_no_more_than_the_cap(codec, make, peak_memory):
    bomb = make()
    cap = 4 << 20
    with peak_memory() as peak:
        assert refusal(codec, bomb, cap) is ErrorCode.MESSAGE_TOO_LARGE
    assert peak.extra_bytes <= cap + (5 << 20), "the cap, and what a decoder keeps for itself"


@pytest.mark.parametrize(
    ("codec", "claim"),
    [
        (Codec.SNAPPY, b"\xff\xff\xff\xff\x0f" + bytes(20)),
        (Codec.ZSTD, struct.pack("<IBQ", 0xFD2FB528, 0xE0, 1 << 60) + b"\x01\x00\x00"),
        (Codec.LZ4, b"\x04\x22\x4d\x18\x68\x40" + struct.pack("<Q", 1 << 60) + b"\x00" + bytes(4)),
    ],
)
def test_a_claimed_size_is_not_believed(codec, claim, peak_memory):
    with peak_memory() as peak:
        assert refusal(codec, claim) is ErrorCode.CORRUPT_MESSAGE
    assert peak.extra_bytes < 2 << 20
