"""What generated codecs call in the uncommon case: long varints, tagged sections, record parts, complaints.

The common case stands in the generated source itself. Nothing here trusts the buffer: a length is compared
with what is left before anything is sliced or allocated.
"""

import functools
import struct
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

from ottla.core.errors import ProtocolError
from ottla.core.types import Buffer
from ottla.protocol.wiretypes import NULL_UUID

UVARINT_BYTES_MAX = 5  # lengths, counts and tags have 32 bits; a sixth byte can only be an attack
BUFFERS = frozenset((bytes, bytearray, memoryview))
RECORDS_INLINE_MAX = 4096  # below this size a copy is cheaper than one more part for the socket
SMALL_ARRAY_MAX = 16  # arrays of numbers up to this length have their struct ready


@functools.lru_cache(maxsize=4096)
def uvarint(value: int) -> bytes:
    """`value` in groups of seven bits, low group first."""
    if value < 0x80:
        return value.to_bytes(1, "big")
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    """The value at `position`, and the position after it."""
    value = buffer[position]
    if value < 0x80:
        return value, position + 1
    byte = buffer[position + 1]
    if byte < 0x80:  # the length of nearly every batch
        return value & 0x7F | byte << 7, position + 2
    value = value & 0x7F | (byte & 0x7F) << 7
    for index in range(2, UVARINT_BYTES_MAX):
        byte = buffer[position + index]
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80 and value < 1 << 32:
            return value, position + index + 1
    raise ProtocolError(f"varint of more than 32 bits at byte {position}")


def refuse_length(field: str, length: int, position: int, size: int) -> NoReturn:
    """Say why a field of `length` bytes cannot be at `position` of a buffer of `size`."""
    if length == -1:
        raise ProtocolError(f"{field} is null, which this version does not allow")
    if length < 0:
        raise ProtocolError(f"{field} has length {length}")
    raise ProtocolError(f"{field} claims {length} bytes at byte {position}, where {size - position} are left")


def refuse_count(field: str, count: int, position: int, size: int) -> NoReturn:
    """Say why an array of `count` elements cannot be at `position` of a buffer of `size`."""
    if count == -1:
        raise ProtocolError(f"{field} is null, which this version does not allow")
    if count < 0:
        raise ProtocolError(f"{field} has {count} elements")
    raise ProtocolError(
        f"{field} claims {count} elements at byte {position}, where {size - position} bytes are left"
    )


def refuse_objects(field: str) -> NoReturn:
    raise ProtocolError(f"{field}: more objects than one message may have")


class UnknownTags(Mapping[int, bytes]):
    """Tagged fields that the declaration does not know, kept as they came and parsed when somebody looks.

    One bytes object instead of a dict: a struct of four bytes must not grow to three hundred. Whoever looks
    gets the dict, made once: a mapping that parses per key takes the square of a hostile section's length.
    """

    __slots__ = ("_tags",)

    def __init__(self, raw: bytes) -> None:
        self._tags: bytes | dict[int, bytes] = raw

    def __getitem__(self, tag: int) -> bytes:
        return self._parsed()[tag]

    def __iter__(self) -> Iterator[int]:
        return iter(self._parsed())

    def __len__(self) -> int:
        return len(self._parsed())

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return repr(self._parsed())

    def _parsed(self) -> dict[int, bytes]:
        if isinstance(self._tags, bytes):
            self._tags = dict(_tags_in(self._tags))
        return self._tags


def _tags_in(raw: bytes) -> Iterator[tuple[int, bytes]]:
    position = 0
    while position < len(raw):
        tag, position = read_uvarint(raw, position)
        size, position = read_uvarint(raw, position)
        yield tag, raw[position : position + size]
        position += size


def read_tag_count(buffer: Buffer, position: int, size: int) -> tuple[int, int]:
    """The number of tagged fields: each takes two bytes at least."""
    count, position = read_uvarint(buffer, position)
    if count * 2 > size - position:
        refuse_count("the tagged section", count, position, size)
    return count, position


def read_tag(buffer: Buffer, position: int, size: int, last: int) -> tuple[int, int, int]:
    """The next tag, the start and the end of its payload. Tags only grow: `last` is the one before."""
    tag, position = read_uvarint(buffer, position)
    if tag <= last:
        raise ProtocolError(f"tag {tag} after tag {last}")
    length, position = read_uvarint(buffer, position)
    end = position + length
    if end > size:
        refuse_length(f"tag {tag}", length, position, size)
    return tag, position, end


def refuse_tag_size(field: str, position: int, end: int) -> NoReturn:
    raise ProtocolError(f"{field}: its tag ends at byte {end}, its value at byte {position}")


def read_unknown_tags(buffer: Buffer, position: int, size: int) -> tuple[UnknownTags, int]:
    """A tagged section of which nothing is known: checked, and kept in one piece."""
    count, start = read_tag_count(buffer, position, size)
    last, end = -1, start
    for _ in range(count):
        last, _, end = read_tag(buffer, end, size, last)
    return UnknownTags(bytes(buffer[start:end])), end


def write_tags(out: bytearray, known: Mapping[int, Buffer], unknown: Mapping[int, bytes]) -> None:
    """A tagged section, known and unknown fields merged in the order of their tags."""
    if both := known.keys() & unknown.keys():
        raise ProtocolError(f"unknown_tags holds tag {min(both)}, which is a declared field")
    merged: dict[int, Buffer] = {**known, **unknown}
    out += uvarint(len(merged))
    for tag in sorted(merged):
        out += uvarint(tag)
        out += uvarint(len(merged[tag]))
        out += merged[tag]


def part_size(part: Any) -> int:
    """Bytes in a buffer, or in a stretch of a file."""
    if type(part) is bytes or type(part) is bytearray:
        return len(part)
    return part.nbytes if type(part) is memoryview else int(part.size)


def records_size(records: Any) -> int:
    """Bytes in a part, or in a list of parts."""
    if type(records) is list:
        return sum(map(part_size, records))
    return part_size(records)


def put_records(out: bytearray, parts: list[Any], records: Any, size: int) -> bytearray:
    """Hang `records` on: small ones into `out`, others as own parts. Returns what to write to next."""
    pieces: Sequence[Any] = records if type(records) is list else (records,)
    if size <= RECORDS_INLINE_MAX and all(type(piece) in BUFFERS for piece in pieces):
        for piece in pieces:
            out += piece
        return out
    parts.append(out)
    parts.extend(pieces)
    return bytearray()


def put_numbers(out: bytearray, code: str, numbers: Sequence[int], *, flexible: bool) -> None:
    """An array of fixed-width numbers that is too long for the ready-made structs."""
    count = len(numbers)
    out += uvarint(count + 1) if flexible else struct.pack(">i", count)
    out += struct.pack(f">{count}{code}", *numbers)


@functools.lru_cache(maxsize=4096)
def _uuid(raw: bytes) -> uuid.UUID:
    return uuid.UUID(bytes=raw)


def read_uuid(raw: bytes) -> uuid.UUID:
    """A uuid from sixteen bytes. Topic ids come again and again, so recent ones are remembered."""
    return NULL_UUID if raw == _NO_UUID else _uuid(raw)


_NO_UUID = bytes(16)
