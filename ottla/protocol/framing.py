"""Frames and headers: where messages begin and end on a connection. Sans-IO: bytes in, frames out.

A frame is an int32 size and that many bytes: a header, then a message. Which header goes with which message
is decided here and nowhere else. A frame is handed out as a `bytes` object of its own, so that `Records` may
point into it for as long as they live.
"""

import struct
from collections.abc import Iterator
from typing import Any, TypeVar

from ottla.core.errors import ProtocolError
from ottla.core.types import Buffer
from ottla.protocol.apis import Api, api_of
from ottla.protocol.codec import Writer, decode, decode_exactly, encode_into
from ottla.protocol.schema import Int16, Int32, String, declaration, field, message

_M = TypeVar("_M")
_SIZE = struct.Struct(">i")
_REQUEST_START = struct.Struct(">hhi")  # key, version and correlation id stand first in every request header
_API_VERSIONS, _CONTROLLED_SHUTDOWN = 18, 7

FRAME_BYTES_MAX = 100 * 1024 * 1024  # socket.request.max.bytes
_SMALL_PIECE = 1024


@message(versions="0-2", flexible="2+")
class RequestHeader:
    """v0 lacks the client id, v2 has tagged fields. The id is never compact: old brokers must read it."""

    request_api_key: Int16
    request_api_version: Int16
    correlation_id: Int32
    client_id: String | None = field("1+", default=None, ignorable=True, compact=False)


@message(versions="0-1", flexible="1+")
class ResponseHeader:
    """v1 has tagged fields."""

    correlation_id: Int32


class UnsupportedVersion(ProtocolError):
    """A request in a version we do not speak. ApiVersions is answered all the same, so its id is kept."""

    def __init__(self, api: Api, version: int, correlation_id: int) -> None:
        super().__init__(f"{api.name} version {version} is not spoken here, only {api.versions}")
        self.api, self.version, self.correlation_id = api, version, correlation_id


class FrameReader:
    """Cuts a byte stream into frames. Holds what has arrived, never what was only announced."""

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self.frame_bytes_max = frame_bytes_max
        self._pieces: list[bytes | bytearray] = []
        self._held = 0
        self._wanted = _SIZE.size
        self._in_body = False

    @property
    def held_bytes(self) -> int:
        """Bytes that wait for the rest of their frame."""
        return self._held

    def feed(self, data: Buffer) -> Iterator[bytes]:
        """Take what the socket gave; yields each frame that is now complete. Must be read to its end."""
        data, position = bytes(data), 0
        while len(data) - position >= self._wanted - self._held:
            end = position + self._wanted - self._held
            self._pieces.append(data[position:end])
            whole = b"".join(self._pieces)  # no copy when it is one piece
            self._pieces.clear()
            position, self._held = end, 0
            if self._in_body:
                self._wanted, self._in_body = _SIZE.size, False
                yield whole
            else:
                self._wanted, self._in_body = self._body_size(whole), True
        self._keep(data[position:])

    def _keep(self, rest: bytes) -> None:
        """Small pieces are merged, or a peer that sends byte by byte would cost many times what it sent."""
        if not rest:
            return
        last = self._pieces[-1] if self._pieces else None
        if len(rest) >= _SMALL_PIECE:
            self._pieces.append(rest)
        elif isinstance(last, bytearray):
            last += rest
        else:
            self._pieces.append(bytearray(rest))
        self._held += len(rest)

    def _body_size(self, first: bytes) -> int:
        return size_of(first, 0, self.frame_bytes_max)


def size_of(buffer: Buffer, position: int, frame_bytes_max: int) -> int:
    """The size that stands in front of a frame, if it is one that may be."""
    size: int = _SIZE.unpack_from(buffer, position)[0]
    if not 0 <= size <= frame_bytes_max:
        hint = _hint(bytes(buffer[position : position + _SIZE.size]))
        raise ProtocolError(f"frame of {size} bytes, {frame_bytes_max} allowed{hint}")
    return size


def _hint(first: bytes) -> str:
    """What the peer probably speaks instead of Kafka."""
    if first in (b"GET ", b"POST", b"HEAD", b"PUT ", b"OPTI", b"CONN", b"PRI "):
        return " (this looks like HTTP: the peer has the wrong port)"
    if first == b"HTTP":
        return " (this looks like the answer of an HTTP server: we have the wrong port)"
    if first[0] == 0x16 and first[1] == 0x03:
        return " (this looks like a TLS handshake: the listener speaks plaintext)"
    if first[0] == 0x15 and first[1] == 0x03:
        return " (this looks like a TLS alert: the peer speaks TLS)"
    return ""


def request_header_version(cls: type[Any], version: int) -> int:
    """Flexible messages have flexible headers; ControlledShutdown v0 is older than the client id."""
    declared = declaration(cls)
    if version in declared.flexible:
        return 2
    return 0 if declared.api_key == _CONTROLLED_SHUTDOWN and version == 0 else 1


def response_header_version(cls: type[Any], version: int) -> int:
    """As for requests, but ApiVersions stays at v0: the asker does not know yet what we speak (KIP-511)."""
    declared = declaration(cls)
    return 1 if version in declared.flexible and declared.api_key != _API_VERSIONS else 0


def encode_request(header: RequestHeader, request: object, version: int) -> list[Buffer]:
    """A request frame, size in front, as parts to send in order."""
    assert header.request_api_version == version, "header and body are of one version"
    return _frame(header, request_header_version(type(request), version), request, version)


def encode_response(header: ResponseHeader, response: object, version: int) -> list[Buffer]:
    """A response frame, size in front, as parts to send in order."""
    return _frame(header, response_header_version(type(response), version), response, version)


def _frame(header: object, header_version: int, body: object, version: int) -> list[Buffer]:
    writer = Writer(bytes(_SIZE.size))
    encode_into(header, header_version, writer)
    encode_into(body, version, writer)
    parts = writer.finish()
    first = parts[0]
    assert isinstance(first, bytearray)
    size = sum(memoryview(part).nbytes for part in parts) if len(parts) > 1 else len(first)
    _SIZE.pack_into(first, 0, size - _SIZE.size)
    return parts


def decode_request(frame: Buffer) -> tuple[RequestHeader, Any]:
    """Header and request of a frame (without its size). Imports the message module on first use."""
    if len(frame) < _REQUEST_START.size:
        raise ProtocolError(f"a request of {len(frame)} bytes has no header")
    key, version, correlation_id = _REQUEST_START.unpack_from(frame)
    api = api_of(key)
    if version not in api.versions:
        raise UnsupportedVersion(api, version, correlation_id)
    request = api.request
    header, position = decode(RequestHeader, frame, request_header_version(request, version))
    return header, decode_exactly(request, frame, version, position)


def decode_response(cls: type[_M], frame: Buffer, version: int) -> tuple[ResponseHeader, _M]:
    """Header and response of a frame (without its size); the caller knows what it asked for."""
    header, position = decode(ResponseHeader, frame, response_header_version(cls, version))
    return header, decode_exactly(cls, frame, version, position)
