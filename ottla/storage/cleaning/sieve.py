"""The loops of a cleaning that run once per record: noting keys, and finding out which records stay.

Compiled by the optional mypyc build, and written as `records.section` is: of every record as little is read as the
question needs, and nothing is built from it but its key; short varints are read in place: a call costs more than
the work. What stays is told as stretches of bytes: records are copied as they are, since neither their offsets nor
their timestamps depend on their neighbours.
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
            number: i64 = data[position]
            position += 1
            if number >= 0x80:
                more: i64 = data[position]
                if more < 0x80:
                    position += 1
                    number = number & 0x7F | more << 7
                else:
                    number, position = read_raw(data, position - 1)
            record_end: i64 = position + (number >> 1)
            if number & 1 or record_end > end:
                raise invalid("a record's length does not fit its batch")
            position += 1  # attributes
            while data[position] >= 0x80:  # the timestamp
                position += 1
            position += 1
            number = data[position]
            position += 1
            if number >= 0x80:
                number, position = read_raw(data, position - 1)
            if number & 1:
                raise invalid("a record's offset lies before its batch")
            offset: i64 = base_offset + (number >> 1)
            number = data[position]
            position += 1
            if number >= 0x80:
                number, position = read_raw(data, position - 1)
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
    kept_from: i64,
    keeps_tombstones: bool,
    newest: bytes,
    newest_from: i64,
    offsets: OffsetMap,
) -> Sifted:
    """What stays of `count` records: those from offset `kept_from` on, and the newest of each key.

    Of the records from `newest_from` on a bit in `newest` says whether they are that; keys of older ones are looked up.
    A record without a key is nobody's newest.
    """
    stretches: list[tuple[int, int]] = []
    start: i64 = -1  # of the stretch that is growing
    kept: i64 = 0
    latest: i64 = -0x7FFF_FFFF_FFFF_FFFF  # times count from a delete horizon that may be as far ahead
    has_tombstones = False
    index: i64 = 0
    try:
        while index < count:
            record_start: i64 = position
            number: i64 = data[position]
            position += 1
            if number >= 0x80:
                more: i64 = data[position]
                if more < 0x80:
                    position += 1
                    number = number & 0x7F | more << 7
                else:
                    number, position = read_raw(data, position - 1)
            record_end: i64 = position + (number >> 1)
            if number & 1 or record_end > end:
                raise invalid("a record's length does not fit its batch")
            position += 1  # attributes
            delta: i64 = data[position]
            position += 1
            if delta >= 0x80:
                delta, position = read_varlong(data, position - 1)
            else:
                delta = (delta >> 1) ^ -(delta & 1)
            number = data[position]
            position += 1
            if number >= 0x80:
                number, position = read_raw(data, position - 1)
            if number & 1:
                raise invalid("a record's offset lies before its batch")
            offset: i64 = base_offset + (number >> 1)
            number = data[position]
            position += 1
            if number >= 0x80:
                number, position = read_raw(data, position - 1)
            stop: i64 = position if number & 1 else position + (number >> 1)
            if stop >= record_end:
                raise invalid("a key reaches past its record")
            is_tombstone = data[stop] == 1  # the length of a value that is null
            if offset >= kept_from:
                stays = True
            elif number & 1 or (is_tombstone and not keeps_tombstones):
                stays = False
            elif offset >= newest_from:
                at: i64 = offset - newest_from
                stays = newest[at >> 3] >> (at & 7) & 1 != 0
            else:
                stays = offset >= offsets.get(data[position:stop])
            if stays:
                kept += 1
                if delta > latest:
                    latest = delta
                if is_tombstone:
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
