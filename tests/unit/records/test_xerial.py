"""Snappy, raw and in xerial's blocks."""

import struct

import cramjam
import pytest

from ottla.core.errors import ErrorCode
from ottla.records import xerial
from ottla.records.errors import RecordError

TEXT = b"".join(b"%d bottles, " % i for i in range(10_000))
CAP = 1 << 20


def refusal(data, limit=CAP):
    with pytest.raises(RecordError) as refused:
        xerial.decompress(data, limit)
    return refused.value.code


def test_blocks_begin_with_xerials_header():
    framed = xerial.compress(TEXT)
    assert framed[:16] == b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    (size,) = struct.unpack_from(">i", framed, 16)
    assert bytes(cramjam.snappy.decompress_raw(framed[20 : 20 + size])) == TEXT[: 32 * 1024]
    assert xerial.decompress(framed, CAP) == TEXT


def test_raw_snappy_is_told_apart():
    assert xerial.decompress(xerial.compress_raw(TEXT), CAP) == TEXT
    assert xerial.decompress(xerial.compress_raw(b""), CAP) == b""
    assert xerial.decompress(xerial.compress(b""), CAP) == b""


def test_a_stated_size_beyond_the_cap_is_refused_at_once():
    assert refusal(xerial.compress_raw(TEXT), len(TEXT) - 1) is ErrorCode.MESSAGE_TOO_LARGE
    assert refusal(xerial.compress(TEXT), len(TEXT) - 1) is ErrorCode.MESSAGE_TOO_LARGE


def test_a_stated_size_that_the_bytes_cannot_hold_is_a_lie():
    assert refusal(b"\xff\xff\x3f" + b"\x00x") is ErrorCode.CORRUPT_MESSAGE


def test_damaged_blocks_are_refused():
    framed = xerial.compress(TEXT)
    for end in (10, 15, 17, 19, 30, len(framed) - 1):
        assert refusal(framed[:end]) is ErrorCode.CORRUPT_MESSAGE
    assert refusal(framed[:16] + struct.pack(">i", -1)) is ErrorCode.CORRUPT_MESSAGE
