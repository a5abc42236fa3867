"""The same batch under another codec: its record section is opened and closed again, its header kept.

Producer, sequence, timestamps and offsets stay what they were; codec, length and CRC follow the new bytes.
"""

from ottla.core.types import Buffer
from ottla.records.batch import (
    ATTRIBUTES_AT,
    CODEC_BITS,
    HEADER,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    RECORDS_AT,
    BatchHeader,
    read_header,
)
from ottla.records.checksum import crc32c
from ottla.records.compression import OUTPUT_BYTES_MAX, Codec, compress, decompress
from ottla.records.errors import corrupt, invalid
from ottla.records.section import RECORD_SIZE_MIN


def open_section(buffer: Buffer, *, limit: int = OUTPUT_BYTES_MAX) -> tuple[BatchHeader, bytes]:
    """The header of the batch that `buffer` starts with, and its records, decompressed to at most `limit` bytes.

    The CRC is the caller's to check. That there can be as many records as the header says is checked here.
    """
    header = read_header(buffer)
    if header.length < HEADER_SIZE - LENGTH_OVERHEAD or header.size > len(buffer):
        raise corrupt(f"a batch of {header.length} bytes does not fit into {len(buffer)}")
    packed = memoryview(buffer)[RECORDS_AT : header.size]
    codec = header.codec
    records = decompress(codec, packed, limit) if codec is not Codec.NONE and len(packed) else bytes(packed)
    if not 0 <= header.count <= len(records) // RECORD_SIZE_MIN:
        raise invalid(f"{header.count} records do not fit into {len(records)} bytes")
    return header, records


def close_section(header: BatchHeader, records: Buffer, codec: Codec, level: int | None = None) -> bytearray:
    """A batch with `header` and the plain `records`, compressed with `codec`. Writable, for offsets to be placed."""
    out = bytearray(HEADER_SIZE)
    out += compress(codec, records, level) if len(records) else b""
    changed = header._replace(
        length=len(out) - LENGTH_OVERHEAD,
        crc=0,
        attributes=header.attributes & ~CODEC_BITS | (codec if len(records) else Codec.NONE),
    )
    HEADER.pack_into(out, 0, *changed)
    HEADER.pack_into(out, 0, *changed._replace(crc=crc32c(out, ATTRIBUTES_AT)))
    return out


def recompress(
    buffer: Buffer, codec: Codec, level: int | None = None, *, limit: int = OUTPUT_BYTES_MAX
) -> bytearray:
    """The batch that `buffer` starts with, compressed with `codec`."""
    header, records = open_section(buffer, limit=limit)
    return close_section(header, records, codec, level)
