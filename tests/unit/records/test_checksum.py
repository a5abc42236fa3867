"""CRC-32C and CRC-32 against their published check values."""

import pytest

from ottla.records.checksum import crc32, crc32c

DIGITS = b"123456789"


@pytest.mark.parametrize("make", [bytes, bytearray, memoryview])
def test_check_values(make):
    assert crc32c(make(DIGITS)) == 0xE3069283
    assert crc32(make(DIGITS)) == 0xCBF43926


@pytest.mark.parametrize("checksum", [crc32, crc32c])
def test_a_slice_counts_alone(checksum):
    framed = b"<<<" + DIGITS + b">>"
    assert checksum(framed, 3, 12) == checksum(DIGITS)
    assert checksum(memoryview(bytearray(framed)), 3, 12) == checksum(DIGITS)
    assert checksum(b"<<<" + DIGITS, 3) == checksum(DIGITS)
    assert checksum(DIGITS + b">>", 0, 9) == checksum(DIGITS)
