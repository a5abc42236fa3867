"""Zig-zag varints, the integers of magic 2 records: 1-5 bytes for 32 bits (varint), 1-10 for 64 (varlong).

Small numbers of either sign take few bytes: 0, -1, 1, -2 are written as 0, 1, 2, 3, seven bits at a time, low
bits first, the high bit saying that more follow. A reader never looks at an eleventh byte, nor past the end.

This module is compiled when the optional mypyc build is made; the record loops in `section.py` inline the
one-byte case and call here for the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.records.errors import invalid

if TYPE_CHECKING:
    from mypy_extensions import i64  # only ever an annotation: nothing to install


VARINT_SIZE_MAX: Final = 5
VARLONG_SIZE_MAX: Final = 10


def read_raw(data: bytes, position: i64) -> tuple[i64, i64]:
    """The 32 bits at `position` before their zig-zag is undone, and the position behind them."""
    end: i64 = len(data)
    if position < 0:
        raise invalid("a varint starts before its buffer")
    shift: i64 = 0
    raw: i64 = 0
    while shift < 7 * VARINT_SIZE_MAX:
        if position >= end:
            raise invalid("the bytes end inside a varint")
        byte: i64 = data[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return raw & 0xFFFFFFFF, position
        shift += 7
    raise invalid("a varint is longer than five bytes")


def read_varint(data: bytes, position: i64) -> tuple[i64, i64]:
    """The 32-bit value at `position`, and the position behind it."""
    raw, position = read_raw(data, position)
    return (raw >> 1) ^ -(raw & 1), position


def read_varlong(data: bytes, position: i64) -> tuple[i64, i64]:
    """The 64-bit value at `position`, and the position behind it.

    The last of ten bytes holds a single bit. Halves are kept apart so that native 64-bit arithmetic never
    overflows.
    """
    end: i64 = len(data)
    if position < 0:
        raise invalid("a varlong starts before its buffer")
    sign: i64 = 0
    half: i64 = 0  # the raw value without its lowest bit, which is the sign
    shift: i64 = 0
    while shift < 7 * VARLONG_SIZE_MAX:
        if position >= end:
            raise invalid("the bytes end inside a varlong")
        byte: i64 = data[position]
        position += 1
        if shift == 0:
            sign = byte & 1
            half = (byte & 0x7F) >> 1
        elif shift < 63:
            half |= (byte & 0x7F) << (shift - 1)
        else:
            half |= (byte & 1) << 62
        if byte < 0x80:
            return half ^ -sign, position
        shift += 7
    raise invalid("a varlong is longer than ten bytes")


def wrapping_sum(left: int, right: int) -> int:
    """The sum as 64-bit arithmetic has it: past the largest number comes the smallest, as in Java."""
    return (left + right + (1 << 63) & (1 << 64) - 1) - (1 << 63)


def encode_varint(value: i64) -> bytes:
    """`value`, which must fit 32 bits (varint) or 64 (varlong): both look the same on the wire."""
    if 0 <= value < TABLE_SIZE:
        return TABLE[value]
    if 64 <= value < 8192:
        pair: int = (value & 0x3F) << 1 | 0x80 | value >> 6 << 8
        return pair.to_bytes(2, "little")
    return _encode(value)


def _encode(value: i64) -> bytes:
    # The lowest bit of what is written is the sign; keeping it apart, nothing overflows native integers.
    sign: i64 = 1 if value < 0 else 0
    half: i64 = ~value if value < 0 else value
    byte: i64 = (half & 0x3F) << 1 | sign
    half >>= 6
    encoded = []
    while half > 0:
        encoded.append(byte | 0x80)
        byte = half & 0x7F
        half >>= 7
    encoded.append(byte)
    return bytes(encoded)


TABLE_SIZE: Final = 1024
TABLE: Final = [_encode(value) for value in range(TABLE_SIZE)]
"""Lengths, and deltas of small batches, are numbers like these."""
