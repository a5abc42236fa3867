"""One API in one version, from the side that answers: everything that never changes is looked up once.

A broker reads the first eight bytes of a request, finds the Exchange for its key and version, and lets it do the rest.
"""

import struct
from typing import Any

from ottla.core.errors import ProtocolError
from ottla.core.types import Buffer, Part
from ottla.protocol.apis import Api, api_of
from ottla.protocol.codec import OBJECTS_MAX, Writer, decode, encode_into
from ottla.protocol.framing import (
    RequestHeader,
    UnsupportedVersion,
    request_header_version,
    response_header_version,
)
from ottla.protocol.primitives import part_size

START = struct.Struct(">hhi")
"""Key, version and correlation id stand first in every request."""
_LENGTH = struct.Struct(">h")
_SIZE_AND_ID = struct.Struct(">ii")


class Exchange:
    """How requests of one API and version are read, and their responses written."""

    def __init__(self, api: Api, version: int, correlation_id: int = 0) -> None:
        if version not in api.versions:
            raise UnsupportedVersion(api, version, correlation_id)
        self.api = api
        self.version = version
        self._request = api.request
        self.request_end = 0
        """Where the last request that was read ended. Something may follow it."""
        self._header_version = request_header_version(api.request, version)
        # Room for size and correlation id, and the empty tagged section of a flexible header.
        self._head = bytes(_SIZE_AND_ID.size + response_header_version(api.response, version))

    @classmethod
    def of(cls, frame: Buffer) -> "Exchange":
        """The exchange that a request asks for."""
        if len(frame) < START.size:
            raise ProtocolError(f"a request of {len(frame)} bytes has no header")
        key, version, correlation_id = START.unpack_from(frame)
        return cls(api_of(key), version, correlation_id)

    def read(self, frame: Buffer, objects_max: int = OBJECTS_MAX) -> tuple[str | None, Any]:
        """Client id and request. What follows the request is ignored, as Kafka does: librdkafka leaves three bytes
        behind the null of a flexible Metadata request, whenever somebody lists all topics."""
        client_id, position = self._read_header(frame)
        request, self.request_end = decode(
            self._request, frame, self.version, position, objects_max=objects_max
        )
        return client_id, request

    def _read_header(self, frame: Buffer) -> tuple[str | None, int]:
        """By hand where it is plain, since every request has one: a client id, and no tagged fields."""
        if self._header_version and len(frame) > START.size + 2:
            (length,) = _LENGTH.unpack_from(frame, START.size)
            end = START.size + 2 + length
            if length >= 0 and end < len(frame) and (self._header_version == 1 or frame[end] == 0):
                try:
                    return str(frame[START.size + 2 : end], "utf-8"), end + self._header_version - 1
                except UnicodeDecodeError:
                    raise ProtocolError("the client id is not UTF-8") from None
        header, position = decode(RequestHeader, frame, self._header_version)
        return header.client_id, position

    def write(self, correlation_id: int, response: object) -> list[Part]:
        """The frame of a response, size in front, as parts to send in order."""
        writer = Writer(self._head)
        encode_into(response, self.version, writer)
        parts: list[Part] = list(writer.parts)
        parts.append(writer.tail)
        size = sum(map(part_size, parts))
        _SIZE_AND_ID.pack_into(parts[0], 0, size - 4, correlation_id)  # type: ignore[arg-type]  # the head is a bytearray
        return parts
