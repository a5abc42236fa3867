"""The record section of a magic 2 batch: the loops that run once per record.

    length varint | attributes int8 | timestamp delta varlong | offset delta varint
    | key length varint (-1: null), key | value length varint, value | header count varint, (key, value)...

Compiled by the optional mypyc build, and written for both worlds: the one-byte varint is inlined because a
call costs more than the work, positions are native integers when compiled. Everything here is hostile: a
length is compared with the bytes that remain before anything is sliced, and a record must end exactly where
its length says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from ottla.records.errors import invalid
from ottla.records.record import Header, Record
from ottla.records.varint import (
    TABLE,
    TABLE_SIZE,
    VARLONG_SIZE_MAX,
    encode_varint,
    read_raw,
    read_varint,
    read_varlong,
    wrapping_sum,
)

if TYPE_CHECKING:
    from mypy_extensions import i64  # only ever an annotation: nothing to install

COMPILED = __file__.endswith((".so", ".pyd"))
RECORD_SIZE_MIN = 7
"""One byte for each of length, attributes, two deltas, two lengths and the header count."""
HEADERS_MAX: Final = 200_000
"""Headers of one record. Two bytes make one, and a few compressed bytes millions of those: unbounded, they
would take dozens of times the cap on what is decompressed."""
_NULL: Final = b"\x01"  # the length of what is null: -1, zig-zagged
SUM_SAFE: Final = 1 << 62
"""A sum of two 64-bit numbers below this, either way, may still be one that wrapped around."""


def decode(
    data: bytes,
    position: i64,
    end: i64,
    count: i64,
    base_offset: i64,
    base_timestamp: i64,
    is_append_time: bool,
    as_rows: bool,
) -> tuple[list[Any], int]:
    """The next `count` records of `data[position:end]`, and the position behind them. Fewer, but at least
    one, if they hold many headers.

    They come as `Record` objects or, `as_rows`, as plain tuples of the same five fields, which interpreted
    code unpacks faster than it reads attributes. With `is_append_time` the base timestamp is every record's
    own.

    Longer than a function should be: this is the hottest loop there is, and a call per varint would halve its speed.
    """
    out: list[Any] = []
    index: i64 = 0
    headers_left: i64 = HEADERS_MAX
    try:
        while index < count:
            # Of every varint the first two bytes are read here, as a zig-zagged number; the rest is rare.
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
            position += 1  # attributes: unused, and ignored by every reader

            number = data[position]
            position += 1
            if number >= 0x80:
                more = data[position]
                if more < 0x80:
                    position += 1
                    number = number & 0x7F | more << 7
                    number = (number >> 1) ^ -(number & 1)
                else:
                    number, position = read_varlong(data, position - 1)
            else:
                number = (number >> 1) ^ -(number & 1)
            timestamp: i64 = base_timestamp
            if number != 0 and not is_append_time:
                timestamp += number
                if not -SUM_SAFE < timestamp < SUM_SAFE:
                    timestamp = wrapping_sum(base_timestamp, number)

            number = data[position]
            position += 1
            if number >= 0x80:
                more = data[position]
                if more < 0x80:
                    position += 1
                    number = number & 0x7F | more << 7
                else:
                    number, position = read_raw(data, position - 1)
            offset: i64 = base_offset + ((number >> 1) ^ -(number & 1))

            number = data[position]
            position += 1
            if number >= 0x80:
                more = data[position]
                if more < 0x80:
                    position += 1
                    number = number & 0x7F | more << 7
                else:
                    number, position = read_raw(data, position - 1)
            key: bytes | None = None
            if not number & 1:
                stop: i64 = position + (number >> 1)
                if stop > record_end:
                    raise invalid("a key reaches past its record")
                key = data[position:stop]
                position = stop

            number = data[position]
            position += 1
            if number >= 0x80:
                more = data[position]
                if more < 0x80:
                    position += 1
                    number = number & 0x7F | more << 7
                else:
                    number, position = read_raw(data, position - 1)
            value: bytes | None = None
            if not number & 1:
                stop = position + (number >> 1)
                if stop > record_end:
                    raise invalid("a value reaches past its record")
                value = data[position:stop]
                position = stop

            headers: tuple[Header, ...] = ()
            if data[position] == 0:
                position += 1
            else:
                headers, position = read_headers(data, position, record_end)
                headers_left -= len(headers)
                if headers_left < 0:
                    count = index + 1
            if position != record_end:
                raise invalid("a record is not as long as its fields")
            if as_rows:
                out.append((offset, timestamp, key, value, headers))
            else:
                out.append(Record(offset, timestamp, key, value, headers))
            index += 1
    except IndexError:
        raise invalid("the record section ends before its last record") from None
    return out, position


def read_headers(data: bytes, position: i64, end: i64) -> tuple[tuple[Header, ...], i64]:
    """The headers of a record that ends at `end`, their count first."""
    count, position = read_varint(data, position)
    if count < 0 or count * 2 > end - position:
        raise invalid("a record's header count does not fit it")
    if count > HEADERS_MAX:
        raise invalid(f"a record has {count} headers, {HEADERS_MAX} are allowed")
    headers: list[Header] = []
    while count > 0:
        size, position = read_varint(data, position)
        if size < 0 or size > end - position:
            raise invalid("a header key does not fit its record")
        key = data[position : position + size].decode("utf-8", "surrogateescape")
        position += size
        size, position = read_varint(data, position)
        if size > end - position:
            raise invalid("a header value does not fit its record")
        if size < 0:
            headers.append((key, None))
        else:
            headers.append((key, data[position : position + size]))
            position += size
        count -= 1
    return tuple(headers), position


def walk(data: bytes, position: i64, end: i64, count: i64, last_delta: i64, consecutive: bool) -> None:
    """Verify `count` records in exactly `data[position:end]`, building nothing."""
    previous: i64 = -1
    index: i64 = 0
    try:
        while index < count:
            number, position = read_raw(data, position)
            record_end: i64 = position + (number >> 1)
            if number & 1 or record_end > end:
                raise invalid("a record's length does not fit its batch")
            position += 1
            varlong_end: i64 = position + VARLONG_SIZE_MAX
            while data[position] >= 0x80:  # of the timestamp only the size matters
                position += 1
                if position == varlong_end:
                    raise invalid("a varlong is longer than ten bytes")
            number, position = read_raw(data, position + 1)
            delta: i64 = (number >> 1) ^ -(number & 1)
            if delta <= previous or delta > last_delta or (consecutive and delta != index):
                raise invalid(f"offset delta {delta} follows {previous} in a batch that ends at {last_delta}")
            previous = delta
            number, position = read_raw(data, position)
            if not number & 1:
                position += number >> 1
            number, position = read_raw(data, position)
            if not number & 1:
                position += number >> 1
            if position >= record_end:
                raise invalid("a record ends inside its fields")
            if data[position] == 0:
                position += 1
            else:
                position = walk_headers(data, position, record_end)
            if position != record_end:
                raise invalid("a record is not as long as its fields")
            index += 1
    except IndexError:
        raise invalid("the record section ends before its last record") from None
    if position != end:
        raise invalid("bytes follow the last record of a batch")


def walk_headers(data: bytes, position: i64, end: i64) -> i64:
    """Where the headers that start at `position` end."""
    count, position = read_varint(data, position)
    if count < 0 or count * 2 > end - position:
        raise invalid("a record's header count does not fit it")
    if count > HEADERS_MAX:
        raise invalid(f"a record has {count} headers, {HEADERS_MAX} are allowed")
    while count > 0:
        size, position = read_varint(data, position)
        if size < 0 or size > end - position:
            raise invalid("a header key does not fit its record")
        size, position = read_varint(data, position + size)
        if size > end - position:
            raise invalid("a header value does not fit its record")
        if size > 0:
            position += size
        count -= 1
    return position


def encode(
    out: bytearray,
    offset_delta: i64,
    timestamp_delta: i64,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[Header],
) -> None:
    """Append one record to a section."""
    parts = [b"\x00", encode_varint(timestamp_delta), encode_varint(offset_delta)]  # no attributes
    if key is None:
        parts.append(_NULL)
    else:
        parts.append(encode_varint(len(key)))
        parts.append(key)
    if value is None:
        parts.append(_NULL)
    else:
        parts.append(encode_varint(len(value)))
        parts.append(value)
    parts.append(encode_headers(headers) if headers else b"\x00")
    body = b"".join(parts)
    out += encode_varint(len(body))
    out += body


def encode_rows(
    rows: list[tuple[int, bytes | None, bytes | None, Sequence[Header]]], base_timestamp: i64, head: bytes
) -> tuple[bytearray, int]:
    """The section of a whole batch behind `head`, and its latest timestamp. Rows are timestamp, key, value and headers
    of each record, at offsets 0, 1, 2...

    What producers write. Everything is joined at once, and small numbers are looked up where they are needed: a call
    for each would take as long as all the rest.
    """
    parts: list[bytes] = [head]
    small, small_end = TABLE, TABLE_SIZE
    known: i64 = base_timestamp
    latest: i64 = base_timestamp
    lead = b"\x00\x00"  # no attributes, and the distance in time, which many records share
    for delta, (timestamp, key, value, headers) in enumerate(rows):
        if timestamp != known:
            known = timestamp
            lead = b"\x00" + _distance(timestamp, base_timestamp)
            if known > latest:
                latest = known
        place = small[delta] if delta < small_end else encode_varint(delta)
        size: i64 = len(lead) + len(place) + 1  # and the number of headers
        if key is None:
            key_size, key = _NULL, b""
            size += 1
        else:
            count: i64 = len(key)
            key_size = small[count] if count < small_end else encode_varint(count)
            size += len(key_size) + count
        if value is None:
            value_size, value = _NULL, b""
            size += 1
        else:
            count = len(value)
            value_size = small[count] if count < small_end else encode_varint(count)
            size += len(value_size) + count
        tail = b"\x00"
        if headers:
            tail = encode_headers(headers)
            size += len(tail) - 1
        length = small[size] if size < small_end else encode_varint(size)
        parts += (length, lead, place, key_size, key, value_size, value, tail)
    return bytearray().join(parts), latest


def _distance(timestamp: int, base_timestamp: int) -> bytes:
    delta = timestamp - base_timestamp
    if not -SUM_SAFE < delta < SUM_SAFE:
        delta = wrapping_sum(timestamp, -base_timestamp)
    return encode_varint(delta)


def encode_headers(headers: Sequence[Header]) -> bytes:
    """The headers of a record, their count first."""
    parts = [encode_varint(len(headers))]
    for name, content in headers:
        encoded = name.encode("utf-8", "surrogateescape")
        parts.append(encode_varint(len(encoded)))
        parts.append(encoded)
        if content is None:
            parts.append(_NULL)
        else:
            parts.append(encode_varint(len(content)))
            parts.append(content)
    return b"".join(parts)
