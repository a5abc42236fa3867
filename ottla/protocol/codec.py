"""Messages to bytes and back, one generated codec per message and version.

`codec_for` writes Python source for a version, compiles it on first use and keeps it. Absent fields cost
nothing, and a traceback shows the generated line: `linecache` knows the source as `<ProduceRequest v9>`. This
is the only module that may use `exec`. Whatever the bytes, decoding refuses bad input with ProtocolError and
nothing else; encoding likewise refuses a value that the version cannot carry.
"""

import functools
import linecache
import struct
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

from ottla.core.errors import ProtocolError
from ottla.core.types import Buffer
from ottla.protocol.codegen import Source
from ottla.protocol.codegen_decode import DecoderWriter
from ottla.protocol.codegen_encode import EncoderWriter
from ottla.protocol.explain import why_not_writable
from ottla.protocol.schema import declaration

_M = TypeVar("_M")
_F = TypeVar("_F", bound=Callable[..., Any])

OBJECTS_MAX = 200_000  # structs and strings in arrays of one message; far above what real clients send
_VERSION = struct.Struct(">h")


class Codec(NamedTuple):
    """The two generated functions of a message version, and their source."""

    encode: Callable[[Any, bytearray, list[Buffer]], bytearray]
    decode: Callable[[Buffer, int, int], tuple[Any, int]]
    source: str


def _remembered(make: _F) -> _F:
    """`functools.cache`, typed. Bounded by the declarations: one entry per message and version in use."""
    return cast(_F, functools.cache(make))


@_remembered
def codec_for(cls: type[Any], version: int) -> Codec:
    """The codec of one version, compiled when first asked for."""
    declared = declaration(cls)
    if not declared.is_message:
        raise TypeError(f"{cls.__qualname__} is a struct: only messages have codecs")
    if version not in declared.versions:
        raise ProtocolError(f"{cls.__name__} has no version {version}, only {declared.versions}")
    source, flexible = Source(), version in declared.flexible
    EncoderWriter(source, version, flexible).function(cls)
    source.line("\n")
    DecoderWriter(source, version, flexible).function(cls)
    return _compile(source, f"<{cls.__name__} v{version}>")


def _compile(source: Source, filename: str) -> Codec:
    text = source.text()
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    exec(compile(text, filename, "exec"), source.names)
    return Codec(source.names["encode"], source.names["decode"], text)


class Writer:
    """Where encoders write: `parts` are finished, `tail` is still growing."""

    __slots__ = ("parts", "tail")

    def __init__(self, head: bytes = b"") -> None:
        self.parts: list[Buffer] = []
        self.tail = bytearray(head)

    def finish(self) -> list[Buffer]:
        """All parts, in order. The writer must not be used afterwards."""
        self.parts.append(self.tail)
        return self.parts


def encode_into(message: object, version: int, writer: Writer) -> None:
    """Write `message` after whatever `writer` holds already."""
    writer.tail = _encode(message, version, writer.tail, writer.parts)


def _encode(message: Any, version: int, out: bytearray, parts: list[Buffer]) -> bytearray:
    codec = codec_for(type(message), version)
    try:
        return codec.encode(message, out, parts)
    except (struct.error, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise ProtocolError(why_not_writable(message, version, error)) from error


def encode(message: object, version: int) -> list[Buffer]:
    """The message as parts to send in order; large record buffers are parts of their own, not copied."""
    parts: list[Buffer] = []
    parts.append(_encode(message, version, bytearray(), parts))
    return parts


def encode_bytes(message: object, version: int) -> bytes:
    """The message in one piece."""
    return b"".join(encode(message, version))


def decode(
    cls: type[_M], buffer: Buffer, version: int, position: int = 0, *, objects_max: int = OBJECTS_MAX
) -> tuple[_M, int]:
    """The message at `position`, and the position after it. `Records` are views: they keep `buffer` alive."""
    codec = codec_for(cls, version)
    if type(buffer) is not bytes:
        buffer = _plain(buffer)
    try:
        made: tuple[_M, int] = codec.decode(buffer, position, objects_max)
        return made
    except (IndexError, struct.error):
        raise ProtocolError(
            f"{cls.__name__} v{version} ends early: {len(buffer)} bytes are not enough"
        ) from None
    except UnicodeDecodeError as error:
        raise ProtocolError(
            f"{cls.__name__} v{version} holds a string that is not UTF-8: {error.reason}"
        ) from None
    except ProtocolError as error:
        raise ProtocolError(f"{cls.__name__} v{version}: {error}") from None


def decode_exactly(cls: type[_M], buffer: Buffer, version: int, position: int = 0) -> _M:
    """The message that fills the buffer from `position` to its last byte."""
    message, end = decode(cls, buffer, version, position)
    if end != len(buffer):
        raise ProtocolError(f"{cls.__name__} v{version}: {len(buffer) - end} bytes after its end")
    return message


def encode_versioned(message: object, version: int) -> bytes:
    """A message that carries its version in front: records of internal topics, subscriptions, assignments."""
    return encode_behind(_VERSION.pack(version), message, version)


def encode_behind(head: bytes, message: object, version: int) -> bytes:
    """The message in one piece, with `head` in front."""
    parts: list[Buffer] = []
    tail = _encode(message, version, bytearray(head), parts)
    return b"".join([*parts, tail]) if parts else bytes(tail)


def decode_versioned(cls: type[_M], buffer: Buffer) -> tuple[_M, int]:
    """The message behind a version number, and that version. A version we do not know is refused."""
    if len(buffer) < _VERSION.size:
        raise ProtocolError(f"{cls.__name__}: {len(buffer)} bytes cannot hold a version")
    (version,) = _VERSION.unpack_from(buffer)
    return decode_exactly(cls, buffer, version, _VERSION.size), version


def _plain(buffer: Buffer) -> Buffer:
    """The bytes object behind a view of all of it, since that is faster; else a view of single bytes."""
    view = memoryview(buffer)
    if type(view.obj) is bytes and view.nbytes == len(view.obj) and view.contiguous:
        return view.obj
    return view.cast("B")
