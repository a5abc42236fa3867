"""Record batches with a lie in them and a checksum that fits."""

import gzip
import struct
import zlib

from ottla.records import batch, legacy
from ottla.records.batch import CRC_AT
from ottla.records.builder import build
from ottla.records.checksum import crc32c
from ottla.records.compression import Codec
from ottla.records.record import Record


def good(count: int = 3, value: bytes = b"value", **settings: object) -> bytes:
    return build([Record(n, 1000 + n, b"key", value) for n in range(count)], **settings)


def lying(at: int, code: str, value: int, data: bytes | None = None) -> bytes:
    """A batch in which the number at byte `at` is another one, under a checksum that covers it."""
    raw = bytearray(good() if data is None else data)
    struct.pack_into(f">{code}", raw, at, value)
    return sealed(raw)


def sealed(raw: bytearray) -> bytes:
    struct.pack_into(">I", raw, CRC_AT, crc32c(raw, batch.ATTRIBUTES_AT))
    return bytes(raw)


def of_section(section: bytes, codec: Codec | int, count: int = 1) -> bytes:
    """A batch whose record section is whatever is given."""
    raw = bytearray(good(count)[: batch.RECORDS_AT]) + section
    struct.pack_into(">i", raw, batch.LENGTH_AT, len(raw) - batch.LENGTH_OVERHEAD)
    struct.pack_into(">h", raw, batch.ATTRIBUTES_AT, int(codec))
    return sealed(raw)


def message_in_message(depth: int) -> bytes:
    """A message set of magic 1 whose only message is a compressed set whose only message is a compressed set..."""
    data = legacy.build([Record(0, 1000, None, b"inner")], magic=1)
    for _ in range(depth):
        value = gzip.compress(data)
        body = struct.pack(">bbqii", 1, Codec.GZIP, 1000, -1, len(value)) + value
        message = struct.pack(">I", zlib.crc32(body)) + body
        data = struct.pack(">qi", 0, len(message)) + message
    return data
