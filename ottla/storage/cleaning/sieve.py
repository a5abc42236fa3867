"""The loops of a cleaning that run once per record: noting keys, and finding out which records stay.

Compiled by the optional mypyc build, and written as `records.section` is: of every record as little is read as the
question needs, and nothing is built from it but its key. What stays is told as stretches of bytes: records that follow
each other are copied as they are, since neither their offsets nor their timestamps depend on their neighbours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ottla.records.errors import invalid
from ottla.records.varint import read_raw, read_varlong
from ottla.storage.cleaning.offset_map import OffsetMap

if TYPE_CHECKING:
    from mypy_extensions import i64  # only ever an annotation: nothing to install


def note_keys(
    data: bytes, position: i64, end: i64, count: i64, base_offset: i64, first_offset: i64, offsets: OffsetMap
) -> bool:
    """Put the keys of `count` records into the map, those from `first_offset` on. False if not all found room."""
    index: i64 = 0
    try:
        while index < count:
            number, position = read_raw(data, position)
            record_end: i64 = position + (number >> 1)
            if number & 1 or record_end > end:
                raise invalid("a record's length does not fit its batch")
            position += 1  # attributes
            while data[position] >= 0x80:  # the timestamp
                position += 1
            number, position = read_raw(data, position + 1)
            if number & 1:
                raise invalid("a record's offset lies before its batch")
            offset: i64 = base_offset + (number >> 1)
            number, position = read_raw(data, position)
            if not number & 1:
                stop: i64 = position + (number >> 1)
                if stop > record_end:
                    raise invalid("a key reaches past its record")
                if offset >= first_offset and not offsets.put(data[position:stop], offset):
                    return False
            position = record_end
            index += 1
    except IndexError:
        raise invalid("the record section ends before its last record") from None
    if position != end:
        raise invalid("bytes follow the last record of a batch")
    return True


class Sifted(NamedTuple):
    """Which records of a batch stay."""

    stretches: list[tuple[int, int]]
    """Where they lie: neighbours are one stretch."""
    kept: int
    timestamp_delta_max: int
    has_tombstones: bool
    """Is the value of one that stays null?"""


def sift(
    data: bytes,
    position: i64,
    end: i64,
    count: i64,
    base_offset: i64,
    mapped_end: i64,
    keeps_tombstones: bool,
    offsets: OffsetMap,
) -> Sifted:
    """What stays of `count` records: those from `mapped_end` on, and the newest of each key. A record without a key is
    nobody's newest."""
    stretches: list[tuple[int, int]] = []
    start: i64 = -1  # of the stretch that is growing
    kept: i64 = 0
    latest: i64 = -1 << 62
    has_tombstones = False
    index: i64 = 0
    try:
        while index < count:
            record_start: i64 = position
            number, position = read_raw(data, position)
            record_end: i64 = position + (number >> 1)
            if number & 1 or record_end > end:
                raise invalid("a record's length does not fit its batch")
            delta, position = read_varlong(data, position + 1)
            number, position = read_raw(data, position)
            if number & 1:
                raise invalid("a record's offset lies before its batch")
            offset: i64 = base_offset + (number >> 1)
            number, position = read_raw(data, position)
            stays = offset >= mapped_end
            if not number & 1:
                stop: i64 = position + (number >> 1)
                if stop > record_end:
                    raise invalid("a key reaches past its record")
                stays = stays or offset >= offsets.get(data[position:stop])
                position = stop
            number, position = read_raw(data, position)
            if number & 1 and not keeps_tombstones and offset < mapped_end:
                stays = False
            if stays:
                kept += 1
                if delta > latest:
                    latest = delta
                if number & 1:
                    has_tombstones = True
                if start < 0:
                    start = record_start
            elif start >= 0:
                stretches.append((start, record_start))
                start = -1
            position = record_end
            index += 1
    except IndexError:
        raise invalid("the record section ends before its last record") from None
    if position != end:
        raise invalid("bytes follow the last record of a batch")
    if start >= 0:
        stretches.append((start, end))
    return Sifted(stretches, kept, latest, has_tombstones)
