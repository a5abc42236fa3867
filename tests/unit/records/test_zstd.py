"""zstd frames: with and without a content size, several in a row, and what their headers may not claim."""

import struct

import cramjam
import pytest

from ottla.core.errors import ErrorCode
from ottla.records import zstd
from ottla.records.errors import RecordError

TEXT = b"".join(b"%d bottles, " % i for i in range(30_000))
CAP = 1 << 20
SKIPPABLE = struct.pack("<II", 0x184D2A53, 5) + b"hello"


def refusal(data, limit=CAP):
    with pytest.raises(RecordError) as refused:
        zstd.decompress(data, limit)
    return refused.value.code


def without_content_size(data):
    stream = cramjam.zstd.Compressor(level=3)
    stream.compress(data)
    return bytes(stream.finish())


def frame(*blocks, descriptor=0, header=b"\x40"):
    """A frame by hand: blocks are (type, size, bytes)."""
    out = struct.pack("<IB", zstd.MAGIC, descriptor) + header
    for index, (kind, size, content) in enumerate(blocks):
        last = index == len(blocks) - 1
        out += (size << 3 | kind << 1 | last).to_bytes(3, "little") + content
    return out


@pytest.mark.parametrize("data", [b"", b"x", TEXT, bytes(200_000)], ids=["empty", "byte", "text", "zeros"])
@pytest.mark.parametrize("make", [lambda data: zstd.compress(data, 3), without_content_size])
def test_frames_are_read(data, make):
    assert zstd.decompress(make(data), CAP) == data
    if data:
        assert refusal(make(data), len(data) - 1) is ErrorCode.MESSAGE_TOO_LARGE


def test_frames_follow_each_other_and_some_are_skipped():
    several = zstd.compress(b"one ", 3) + SKIPPABLE + without_content_size(TEXT)
    assert zstd.decompress(several, CAP) == b"one " + TEXT


def test_blocks_by_hand():
    assert zstd.decompress(frame((0, 3, b"abc"), (1, 4, b"z")), CAP) == b"abczzzz"
    assert zstd.decompress(frame((0, 3, b"abc"), descriptor=0x20, header=b"\x03"), CAP) == b"abc"


def test_sizes_that_blocks_state_are_added_up_before_anything_is_decoded():
    assert refusal(frame(*[(1, 128 * 1024, b"z")] * 9)) is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x28\xb5\x2f",
        struct.pack("<II", 1234, 0),
        SKIPPABLE[:-1],
        frame((0, 3, b"ab")),
        frame((0, 3, b"abc"), descriptor=0x20, header=b"\x09"),  # says 9, holds 3
        frame((0, 3, b"abc"), descriptor=4),  # lacks its checksum
        frame((1, 128 * 1024 + 1, b"z")),
        frame((3, 1, b"z")),
        frame((2, 3, b"abc")),
        frame((0, 3, b"abc"), descriptor=0xC0, header=b""),
        zstd.compress(TEXT, 3)[:-1],
    ],
)
def test_what_is_no_frame_is_refused(data):
    assert refusal(data) is ErrorCode.CORRUPT_MESSAGE
