"""What a served store and its clients say to each other: frames of JSON behind their length, and nothing else.

A frame is an object with a word in `say`. Data of nodes are base64. Neither side believes the other: what is too large,
no JSON, no such word or of another type is a ProtocolError, and ends that connection only.

    client                                        server
    hello  timeout_ms [session, secret]           welcome  session, secret, timeout_ms    or: lost, refused
    beat   number                                 beat     number
    ask    number, do, ...                        answer   number, and result, or error and detail
                                                  changed  path
"""

import asyncio
import base64
import binascii
import json
import struct
from collections.abc import Sequence
from typing import Any

from ottla.core.errors import ProtocolError
from ottla.metadata.store import (
    BadVersion,
    Check,
    Create,
    Delete,
    EphemeralParent,
    Node,
    NodeExists,
    NoNode,
    NotEmpty,
    Op,
    SessionLost,
    Set,
    StoreError,
    StoreUnavailable,
)

FRAME_BYTES_MAX = 16 * 1024 * 1024  # all topics of a large cluster in one `multi` are far below
ASKED_MAX = 1000  # requests of one session at a time: a client holds back the next, a server hangs up
PATH_CHARACTERS_MAX = 1024  # topic names end at 249
_SIZE = struct.Struct(">I")
_INT_MAX = 2**63 - 1

Frame = dict[str, Any]

_ERRORS: dict[str, type[StoreError]] = {
    error.__name__: error
    for error in (
        NodeExists,
        NoNode,
        BadVersion,
        NotEmpty,
        EphemeralParent,
        SessionLost,
        StoreUnavailable,
        StoreError,
    )
}


# --- frames ---------------------------------------------------------------------------------------------------------


def encode(say: str, **fields: object) -> bytes:
    """A frame with its length. Raises StoreError if it is too large: nothing of it was sent."""
    body = json.dumps({"say": say, **fields}, separators=(",", ":")).encode()
    if len(body) > FRAME_BYTES_MAX:
        raise StoreError(f"{len(body)} bytes are too many for one request: {FRAME_BYTES_MAX} is the most")
    return _SIZE.pack(len(body)) + body


async def read(reader: asyncio.StreamReader) -> Frame | None:
    """The next frame, None when the other side has hung up. Raises ProtocolError, or OSError."""
    try:
        (size,) = _SIZE.unpack(await reader.readexactly(_SIZE.size))
        if size > FRAME_BYTES_MAX:
            raise ProtocolError(f"a frame of {size} bytes, {FRAME_BYTES_MAX} is the most")
        body = await reader.readexactly(size)
    except asyncio.IncompleteReadError:
        return None
    return decode(body)


def decode(body: bytes) -> Frame:
    try:
        frame = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"a frame that is no JSON: {error}") from error
    if not isinstance(frame, dict) or not isinstance(frame.get("say"), str):
        raise ProtocolError("a frame that says nothing")
    return frame


# --- fields ---------------------------------------------------------------------------------------------------------


def integer(frame: Frame, name: str, least: int = 0, most: int = _INT_MAX) -> int:
    value = frame.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ProtocolError(f"{name} is no number from {least} to {most}")
    return value


def text(frame: Frame, name: str) -> str:
    value = frame.get(name)
    if not isinstance(value, str):
        raise ProtocolError(f"{name} is no text")
    return value


def items(frame: Frame, name: str) -> list[Any]:
    value = frame.get(name)
    if not isinstance(value, list):
        raise ProtocolError(f"{name} is no list")
    return value


def path_of(value: object) -> str:
    """A path that a tree can take, see `tree.check_path`: a stranger's may be anything."""
    if not isinstance(value, str) or len(value) > PATH_CHARACTERS_MAX or not value.startswith("/"):
        raise ProtocolError("a path that is none")
    if (value.endswith("/") and value != "/") or "//" in value or "\0" in value:
        raise ProtocolError(f"{value!r} cannot be a path")
    try:
        value.encode()
    except UnicodeEncodeError as error:  # half of a surrogate pair: no file could keep it
        raise ProtocolError(f"{value!r} cannot be a path") from error
    return value


def pack_bytes(data: bytes) -> str:
    return base64.b64encode(data).decode()


def unpack_bytes(value: object) -> bytes:
    if not isinstance(value, str):
        raise ProtocolError("data that is no text")
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ProtocolError(f"data that is no base64: {error}") from error


# --- nodes, operations, errors --------------------------------------------------------------------------------------


def pack_node(node: Node) -> list[object]:
    return [pack_bytes(node.data), node.version, node.created]


def unpack_node(value: object) -> Node:
    if not isinstance(value, list) or len(value) != 3:
        raise ProtocolError("a node that is none")
    fields = {"version": value[1], "created": value[2]}
    return Node(unpack_bytes(value[0]), integer(fields, "version"), integer(fields, "created"))


def unpack_nodes(value: object, most: int) -> list[Node | None]:
    """Nodes in the order in which they were asked for, at least one of them unless none was."""
    if not isinstance(value, list) or len(value) > most or (most and not value):
        raise ProtocolError("other nodes than were asked for")
    return [unpack_node(each) if each is not None else None for each in value]


def unpack_names(value: object) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise ProtocolError("names that are none")
    return value


def unpack_results(value: object) -> list[int]:
    if not isinstance(value, list) or not all(type(result) is int for result in value):
        raise ProtocolError("results that are none")
    return value


def pack_ops(ops: Sequence[Op]) -> list[Frame]:
    return [_pack_op(op) for op in ops]


def _pack_op(op: Op) -> Frame:
    packed: Frame = {"op": type(op).__name__, "path": op.path}
    if isinstance(op, Create | Set):
        packed["data"] = pack_bytes(op.data)
    if isinstance(op, Create):
        packed["ephemeral"] = op.ephemeral
    else:
        packed["version"] = op.version
    return packed


def unpack_ops(values: Sequence[object]) -> list[Op]:
    return [_unpack_op(value) for value in values]


def _unpack_op(value: object) -> Op:
    if not isinstance(value, dict):
        raise ProtocolError("an operation that is none")
    kind, path = value.get("op"), path_of(value.get("path"))
    if path == "/" and kind != "Check":
        raise ProtocolError("the root is always there, and empty")
    if kind == "Create":
        return Create(path, unpack_bytes(value.get("data")), value.get("ephemeral") is True)
    version = integer(value, "version", least=-1)
    if kind == "Set":
        return Set(path, unpack_bytes(value.get("data")), version)
    if kind == "Delete":
        return Delete(path, version)
    if kind == "Check":
        return Check(path, version)
    raise ProtocolError("an operation that we do not know")


def name_of(error: StoreError) -> str:
    name = type(error).__name__
    return name if name in _ERRORS else StoreError.__name__


def error_of(frame: Frame) -> StoreError:
    """The error in an answer. One that we do not know refuses all the same."""
    return _ERRORS.get(text(frame, "error"), StoreError)(text(frame, "detail"))
