"""The LZ4 frame: what Java accepts, what others write, and the checksum that Kafka once got wrong."""

import lz4.frame
import pytest

from ottla.core.errors import ErrorCode
from ottla.records.errors import RecordError
from ottla.records.lz4 import MAGIC, compress, decompress, xxh32

TEXT = b"".join(b"%d bottles, " % i for i in range(30_000))
CAP = 1 << 20


@pytest.mark.parametrize(
    ("data", "digest"),
    [
        (b"", 0x02CC5D05),
        (b"a", 0x550D7456),
        (b"abc", 0x32D153FF),
        (b"Nobody inspects the spammish repetition", 0xE2293B2F),
    ],
)
def test_xxh32_of_known_strings(data, digest):
    assert xxh32(data) == digest


@pytest.mark.parametrize("level", [0, 1, 3, 9, 12])
@pytest.mark.parametrize(
    "data", [b"", b"x", TEXT, bytes(range(256)) * 2], ids=["empty", "byte", "text", "bytes"]
)
def test_frames_are_read_by_the_reference_library(level, data):
    frame = compress(data, level)
    assert lz4.frame.decompress(frame) == data
    assert decompress(frame, CAP) == data


def test_blocks_are_independent_because_java_reads_no_others():
    info = lz4.frame.get_frame_info(compress(TEXT))
    assert not info["block_linked"]
    assert info["block_size"] == 64 * 1024
    assert not info["content_checksum"]


@pytest.mark.parametrize("linked", [True, False])
@pytest.mark.parametrize("checksums", [True, False])
@pytest.mark.parametrize("store_size", [True, False])
@pytest.mark.parametrize("block_size", [4, 5, 6, 7])
def test_frames_of_others_are_read(linked, checksums, store_size, block_size):
    frame = lz4.frame.compress(
        TEXT,
        block_linked=linked,
        content_checksum=checksums,
        block_checksum=checksums,
        store_size=store_size,
        block_size=block_size,
    )
    assert decompress(frame, CAP) == TEXT
    assert decompress(frame + b"behind", CAP) == TEXT
    with pytest.raises(RecordError) as refused:
        decompress(frame, len(TEXT) - 1)
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE
    for end in (6, 7, 10, 14, 100, len(frame) - 1):
        with pytest.raises(RecordError) as refused:
            decompress(frame[:end], CAP)
        assert refused.value.code is ErrorCode.CORRUPT_MESSAGE


def test_the_broken_checksum_covers_the_magic():
    frame = compress(TEXT, broken_checksum=True)
    assert frame[:4] == MAGIC
    assert frame[6] == xxh32(frame[:6]) >> 8 & 0xFF
    assert frame[7:] == compress(TEXT)[7:]


def test_readers_of_magic_0_take_either_checksum_and_others_only_the_right_one():
    broken, right = compress(TEXT, broken_checksum=True), compress(TEXT)
    assert decompress(broken, CAP, broken_checksum=True) == TEXT
    assert decompress(right, CAP, broken_checksum=True) == TEXT
    with pytest.raises(RecordError):
        decompress(broken, CAP)


def test_the_broken_checksum_is_mended_in_headers_with_a_content_size():
    frame = bytearray(lz4.frame.compress(TEXT, store_size=True))
    frame[14] ^= 0xFF
    assert decompress(frame, CAP, broken_checksum=True) == TEXT


@pytest.mark.parametrize(
    "damage",
    [
        (4, 0x20),  # no such version
        (5, 0x00),  # no such block size
        (7, 0xFF),  # a block longer than blocks are
    ],
)
def test_damaged_headers_are_refused(damage):
    frame = bytearray(compress(TEXT))
    at, value = damage
    frame[at] = value
    frame[9] |= 0x10 if at == 7 else 0
    with pytest.raises(RecordError) as refused:
        decompress(frame, CAP, broken_checksum=True)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
