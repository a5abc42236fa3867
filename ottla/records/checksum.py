"""The two checksums of Kafka's record formats, over any slice of any buffer, without copying it.

Magic 2 batches carry CRC-32C (Castagnoli), magic 0 and 1 messages the CRC-32 of zlib. Both functions release
the GIL for long inputs, so a recovery scan in a thread leaves the event loop alone.
"""

import zlib

from fastcrc.crc32 import iscsi as _castagnoli

from ottla.core.types import Buffer


def crc32c(buffer: Buffer, start: int = 0, end: int | None = None) -> int:
    """CRC-32C of `buffer[start:end]`."""
    if start == 0 and end is None:
        return _castagnoli(buffer)
    return _castagnoli(memoryview(buffer)[start:end])


def crc32(buffer: Buffer, start: int = 0, end: int | None = None) -> int:
    """CRC-32 of `buffer[start:end]`."""
    if start == 0 and end is None:
        return zlib.crc32(buffer)
    return zlib.crc32(memoryview(buffer)[start:end])
