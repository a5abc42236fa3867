"""Message sets of magic 0 and 1, which clients before Kafka 0.11 write and read.

    offset 8 | size 4 | crc 4 | magic 1 | attributes 1 | timestamp 8 (magic 1)
    | key length 4, key | value length 4, value

A set has no header of its own: messages follow each other. Compression wraps a whole set into the value of
one message. The wrapper bears the offset of the last message inside; those inside count from 0 (magic 1) or
are absolute (magic 0). A wrapper stamped by the broker lends its timestamp to all it holds. Wrappers do not
nest.
"""

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ottla.core.errors import ErrorCode
from ottla.core.types import Buffer
from ottla.records import lz4
from ottla.records.batch import CREATE_TIME, LOG_APPEND_TIME, TIMESTAMP_TYPE_BIT
from ottla.records.checksum import crc32
from ottla.records.compression import OUTPUT_BYTES_MAX, Codec, codec_of, compress, decompress
from ottla.records.errors import RecordError, corrupt, invalid, too_large
from ottla.records.record import NO_TIMESTAMP, Record

ENTRY_OVERHEAD = 12
"""Offset and size, which the size does not count."""
MESSAGE_SIZE_MIN = (14, 22)
"""Bytes of a message of each magic with neither key nor value."""

_ENTRY = struct.Struct(">qiIbb")
_CRC_AT, _MAGIC_AT, _ATTRIBUTES_AT, _TIMESTAMP_AT = 12, 16, 17, 18
_KEY_AT = (18, 26)
_INT32, _INT64 = struct.Struct(">i"), struct.Struct(">q")
_OFFSET_MAX = (1 << 63) - 1


class MessageHeader(NamedTuple):
    """What stands in front of a message's key: of a plain message, or of a wrapper."""

    offset: int
    length: int
    crc: int
    magic: int
    attributes: int
    timestamp: int

    @property
    def size(self) -> int:
        """Bytes of the whole entry."""
        return ENTRY_OVERHEAD + self.length

    @property
    def codec(self) -> Codec:
        return codec_of(self.attributes)

    @property
    def timestamp_type(self) -> int:
        return LOG_APPEND_TIME if self.magic and self.attributes & TIMESTAMP_TYPE_BIT else CREATE_TIME


def read_header(buffer: Buffer, position: int = 0) -> MessageHeader:
    """The header of the entry at `position`, which lies whole in the buffer; the CRC is not checked."""
    if len(buffer) - position < _ENTRY.size:
        raise corrupt(f"no room for a message at byte {position} of {len(buffer)}")
    offset, length, crc, magic, attributes = _ENTRY.unpack_from(buffer, position)
    if magic not in (0, 1):
        raise corrupt(f"magic {magic} where a message of magic 0 or 1 was expected")
    if length < MESSAGE_SIZE_MIN[magic] or length > len(buffer) - position - ENTRY_OVERHEAD:
        raise corrupt(f"a message of {length} bytes does not fit at byte {position} of {len(buffer)}")
    timestamp = _INT64.unpack_from(buffer, position + _TIMESTAMP_AT)[0] if magic else NO_TIMESTAMP
    return MessageHeader(offset, length, crc, magic, attributes, timestamp)


def check(buffer: Buffer, position: int = 0) -> MessageHeader:
    """The header of the entry at `position` once size, magic, CRC and codec have been found sound."""
    header = read_header(buffer, position)
    if crc32(buffer, position + _MAGIC_AT, position + header.size) != header.crc:
        raise corrupt(f"the message at offset {header.offset} fails its CRC")
    if header.codec is Codec.ZSTD:
        raise RecordError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs magic 2")
    return header


def iter_messages(
    buffer: Buffer, position: int = 0, *, partial: bool = False
) -> Iterator[tuple[int, MessageHeader]]:
    """Positions and headers of the entries of a set, wrappers unopened. `partial`: the last may be cut."""
    end = len(buffer)
    while position < end:
        if partial and _is_cut_off(buffer, position):
            return
        header = read_header(buffer, position)
        yield position, header
        position += header.size


def _is_cut_off(buffer: Buffer, position: int) -> bool:
    rest = len(buffer) - position
    return rest < _ENTRY.size or _INT32.unpack_from(buffer, position + 8)[0] > rest - ENTRY_OVERHEAD


def records_of(buffer: Buffer, position: int = 0, *, limit: int = OUTPUT_BYTES_MAX) -> Iterator[Record]:
    """The record of the entry at `position`, or the records of the set that it wraps. CRCs are checked."""
    header = check(buffer, position)
    key, value = _key_and_value(buffer, position, header)
    if header.codec is Codec.NONE:
        return iter((Record(header.offset, header.timestamp, key, value),))
    if value is None:
        raise invalid("a compressed message without a value")
    inner = _decompress(header, value, limit)
    return _inner_records(header, inner, _base_offset(header, inner))


def _decompress(header: MessageHeader, value: bytes, limit: int) -> bytes:
    if header.codec is Codec.LZ4:
        return lz4.decompress(value, limit, broken_checksum=header.magic == 0)
    return decompress(header.codec, value, limit)


def _base_offset(wrapper: MessageHeader, inner: bytes) -> int:
    """What to add to the offsets inside a wrapper, once all of its messages have been found sound."""
    least = most = last = None
    for position, _ in iter_messages(inner):
        header = check(inner, position)
        if header.magic != wrapper.magic or header.codec is not Codec.NONE:
            raise invalid("a compressed message holds a message of another magic, or another compressed one")
        last = header.offset
        least = last if least is None else min(least, last)
        most = last if most is None else max(most, last)
    if least is None or most is None or last is None:
        raise invalid("a compressed message holds nothing")
    if wrapper.magic == 0 or wrapper.offset == 0:
        return 0  # absolute offsets; or a librdkafka of old, which leaves the wrapper's at 0
    if wrapper.offset - last + least < 0 or wrapper.offset - last + most > _OFFSET_MAX:
        raise invalid("the offsets inside a compressed message contradict its own")
    return wrapper.offset - last


def _inner_records(wrapper: MessageHeader, inner: bytes, base_offset: int) -> Iterator[Record]:
    stamped = wrapper.timestamp_type == LOG_APPEND_TIME
    for position, header in iter_messages(inner):
        key, value = _key_and_value(inner, position, header)
        timestamp = wrapper.timestamp if stamped else header.timestamp
        yield Record(base_offset + header.offset, timestamp, key, value)


def _key_and_value(buffer: Buffer, position: int, header: MessageHeader) -> tuple[bytes | None, bytes | None]:
    end = position + header.size
    key, at = _read_bytes(buffer, position + _KEY_AT[header.magic], end)
    value, at = _read_bytes(buffer, at, end)
    if at != end:
        raise invalid("a message is longer than its key and value")
    return key, value


def _read_bytes(buffer: Buffer, position: int, end: int) -> tuple[bytes | None, int]:
    if position + 4 > end:
        raise invalid("a message ends inside a length")
    (size,) = _INT32.unpack_from(buffer, position)
    position += 4
    if size < 0:
        return None, position
    if size > end - position:
        raise invalid("a key or value reaches past its message")
    return bytes(buffer[position : position + size]), position + size


def build(
    records: Iterable[Record],
    magic: int,
    *,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    timestamp_type: int = CREATE_TIME,
    log_append_time: int = NO_TIMESTAMP,
    limit: int | None = None,
) -> bytes:
    """A set of `records` at their offsets, in one wrapper if there is a codec. Headers are lost.

    With a `limit`, a set that would be larger before compression is refused.
    """
    if codec is Codec.ZSTD:
        raise RecordError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs magic 2")
    is_wrapped = codec is not Codec.NONE
    stamped = timestamp_type == LOG_APPEND_TIME and magic == 1
    attributes = TIMESTAMP_TYPE_BIT if stamped else 0
    base_offset: int | None = None if is_wrapped and magic else 0
    last_offset = 0
    latest: int | None = None
    out = bytearray()
    for record in records:
        last_offset = record.offset
        if base_offset is None:
            base_offset = last_offset
        timestamp = log_append_time if stamped and not is_wrapped else record.timestamp
        latest = timestamp if latest is None else max(latest, timestamp)
        out += _message(last_offset - base_offset, timestamp, record.key, record.value, magic, attributes)
        if limit is not None and len(out) > limit:
            raise too_large(f"a message set would be larger than {limit} bytes")
    if not is_wrapped or latest is None:
        return bytes(out)
    value = _compress(codec, out, level, magic)
    timestamp = log_append_time if stamped else latest
    return _message(last_offset, timestamp, None, value, magic, attributes | codec)


def _compress(codec: Codec, inner: Buffer, level: int | None, magic: int) -> bytes:
    if codec is Codec.LZ4:
        return lz4.compress(inner, 1 if level is None else level, broken_checksum=magic == 0)
    return compress(codec, inner, level)


def _message(
    offset: int, timestamp: int, key: bytes | None, value: bytes | None, magic: int, attributes: int
) -> bytes:
    body = bytearray((magic, attributes if magic else attributes & 7))
    if magic:
        body += _INT64.pack(timestamp)
    for part in (key, value):
        body += _INT32.pack(-1 if part is None else len(part))
        if part is not None:
            body += part
    return struct.pack(">qiI", offset, 4 + len(body), crc32(body)) + body
