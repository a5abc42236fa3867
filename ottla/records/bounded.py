"""Decompression into a buffer of a size that was decided beforehand.

cramjam's decoders write to a buffer we hand them and stop with an error when it is full: that is the whole
defence.
"""

from collections.abc import Callable

from cramjam import DecompressionError

from ottla.core.types import Buffer
from ottla.records.errors import corrupt, too_large

_FULL = "failed to write whole buffer"


def decompress_into(
    decoder: Callable[[Buffer, bytearray], int], name: str, data: Buffer, bound: int, limit: int
) -> bytes:
    """What `decoder` makes of `data`, of which the headers say that it is at most `bound` bytes long."""
    output = bytearray(min(bound, limit))
    try:
        size = decoder(data, output)
    except DecompressionError as error:
        if bound > limit and _FULL in str(error):
            raise too_large(f"{name} data decompresses to more than {limit} bytes") from None
        raise corrupt(f"{name}: {error}") from None
    if size == len(output):
        return bytes(output)
    return bytes(memoryview(output)[:size])
