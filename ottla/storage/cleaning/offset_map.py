"""For every key of the dirty part of a log, the offset of its newest record: 24 bytes a slot, whatever the key.

    slot:  hash of the key 8 + 8 | offset 8        where the first word is 0, the slot is empty

A key is known by 128 bits of SipHash, the interpreter's own hash, which has another secret in every process: nobody
can make keys that collide, and by chance two of a billion do so once in 10^20 cleanings. Collisions of slots are
resolved by stepping on by a second part of the hash, so that the table can be nine tenths full. The number of slots is
prime: every step visits all of them.

Compiled by the optional mypyc build.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.storage.files import aligned_buffer

if TYPE_CHECKING:
    from mypy_extensions import i64  # only ever an annotation: nothing to install

WORDS: Final = 3
SLOT_BYTES: Final = 8 * WORDS
NO_OFFSET: Final = -1
_OTHER: Final = b"\xff"
"""Behind a key it makes another one, whose hash is the second half."""
_PIECE: Final = WORDS * 4096


class OffsetMap:
    """A hash table of a fixed size, in which `keys_max` keys find room."""

    def __init__(self, bytes_max: int, load_factor: float) -> None:
        slots = _prime_below(max(3, bytes_max // SLOT_BYTES))
        self.slots: i64 = slots
        self.keys_max: i64 = max(1, min(int(slots * load_factor), slots - 1))
        self.count: i64 = 0
        self._words = aligned_buffer(slots * SLOT_BYTES, huge=True).cast("q")

    def put(self, key: bytes, offset: i64) -> bool:
        """Remember that the newest record of `key` so far is at `offset`. False if there is no room for another key."""
        high: i64 = hash(key) or 1
        low: i64 = hash(key + _OTHER)
        words, slots = self._words, self.slots
        at: i64 = high % slots * WORDS
        found: i64 = words[at]
        while found != 0:
            if found == high and words[at + 1] == low:
                words[at + 2] = offset
                return True
            at += (1 + low % (slots - 1)) * WORDS
            if at >= slots * WORDS:
                at -= slots * WORDS
            found = words[at]
        if self.count >= self.keys_max:
            return False
        self.count += 1
        words[at] = high
        words[at + 1] = low
        words[at + 2] = offset
        return True

    def get(self, key: bytes) -> i64:
        """Where the newest record of `key` is, as far as it was put; NO_OFFSET for a key that was not."""
        high: i64 = hash(key) or 1
        low: i64 = hash(key + _OTHER)
        words, slots = self._words, self.slots
        at: i64 = high % slots * WORDS
        found: i64 = words[at]
        while found != 0:
            if found == high and words[at + 1] == low:
                offset: i64 = words[at + 2]
                return offset
            at += (1 + low % (slots - 1)) * WORDS
            if at >= slots * WORDS:
                at -= slots * WORDS
            found = words[at]
        return NO_OFFSET

    def newest(self, first_offset: int, end_offset: int) -> bytes:
        """A bit for every offset in [first_offset, end_offset), the lowest first: is it the newest of its key?"""
        bits = bytearray((end_offset - first_offset + 7) // 8)
        words = self._words
        for start in range(0, len(words), _PIECE):
            piece = words[start : start + _PIECE]
            for high, offset in zip(piece[::WORDS], piece[2::WORDS], strict=True):
                if high and first_offset <= offset < end_offset:
                    at: i64 = offset - first_offset
                    bits[at >> 3] |= 1 << (at & 7)
        return bytes(bits)


def _prime_below(number: int) -> int:
    """The largest prime up to `number`, which is 3 or more."""
    while any(number % divisor == 0 for divisor in range(2, int(number**0.5) + 1)):
        number -= 1
    return number
