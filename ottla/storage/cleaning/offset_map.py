"""For every key of the dirty part of a log, the offset of its newest record: 24 bytes a slot, whatever the key.

    slot:  hash of the key 16 | offset 8

Keys are known by their MD5, as in Kafka: two keys with the same hash would be taken for one, which happens once in
10^20 cleanings of a billion keys. Collisions of slots are resolved by stepping on by a second part of the hash, so that
the table can be nine tenths full. The number of slots is prime: every step visits all of them.

Compiled by the optional mypyc build.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from mypy_extensions import i64  # only ever an annotation: nothing to install

SLOT_BYTES: Final = 24
HASH_BYTES: Final = 16
NO_OFFSET: Final = -1
_EMPTY: Final = bytes(HASH_BYTES)
_PARTS: Final = struct.Struct(">II")
_OFFSET: Final = struct.Struct(">q")


class _Hash(Protocol):
    def digest(self) -> bytes: ...


def _md5() -> Callable[[bytes], _Hash]:
    """The interpreter's own is twice as fast for keys as the one of OpenSSL, but some builds lack it."""
    try:
        from _md5 import md5  # type: ignore[import-not-found]  # the interpreter's own, which has no stub
    except ImportError:
        import functools
        import hashlib

        return functools.partial(hashlib.md5, usedforsecurity=False)
    found: Callable[[bytes], _Hash] = md5
    return found


hash_of: Final = _md5()


class OffsetMap:
    """A hash table of a fixed size. `keys_max` keys fit; who puts more must look at `is_full` first."""

    def __init__(self, bytes_max: int, load_factor: float) -> None:
        slots = _prime_below(max(3, bytes_max // SLOT_BYTES))
        self.slots: i64 = slots
        self.keys_max: i64 = max(1, min(int(slots * load_factor), slots - 1))
        self.count: i64 = 0
        self._table = bytearray(slots * SLOT_BYTES)

    def put(self, key: bytes, offset: i64) -> bool:
        """Remember that the newest record of `key` so far is at `offset`. False if there is no room for another key."""
        digest = hash_of(key).digest()
        table = self._table
        at: i64 = self._slot(digest)
        if table[at : at + HASH_BYTES] == _EMPTY:
            if self.count >= self.keys_max:
                return False
            self.count += 1
            table[at : at + HASH_BYTES] = digest
        _OFFSET.pack_into(table, at + HASH_BYTES, offset)
        return True

    def get(self, key: bytes) -> i64:
        """Where the newest record of `key` is, as far as it was put; NO_OFFSET for a key that was not."""
        table = self._table
        at: i64 = self._slot(hash_of(key).digest())
        if table[at : at + HASH_BYTES] == _EMPTY:
            return NO_OFFSET
        offset: i64 = _OFFSET.unpack_from(table, at + HASH_BYTES)[0]
        return offset

    def _slot(self, digest: bytes) -> i64:
        """Where the slot of this hash begins, or the empty one that it would get."""
        table = self._table
        first, second = _PARTS.unpack_from(digest)
        slot: i64 = first % self.slots
        at: i64 = slot * SLOT_BYTES
        found = table[at : at + HASH_BYTES]
        if found in (digest, _EMPTY):
            return at
        step: i64 = 1 + second % (self.slots - 1)
        while True:
            slot = (slot + step) % self.slots
            at = slot * SLOT_BYTES
            found = table[at : at + HASH_BYTES]
            if found in (digest, _EMPTY):
                return at


def _prime_below(number: int) -> int:
    """The largest prime up to `number`, which is 3 or more."""
    while any(number % divisor == 0 for divisor in range(2, int(number**0.5) + 1)):
        number -= 1
    return number
