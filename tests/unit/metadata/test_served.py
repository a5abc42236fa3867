"""A served store against strangers: whatever they send, others do not notice."""

import asyncio
import contextlib
import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.core.errors import ConfigError, ProtocolError
from ottla.metadata import store_wire as wire
from ottla.metadata.embedded import MEMORY, EmbeddedStore
from ottla.metadata.remote import RemoteStore
from ottla.metadata.served import StoreServer
from ottla.metadata.store import Check, Create, Delete, Node, SessionState, Set

PATIENCE_S = 60


@contextlib.asynccontextmanager
async def served():
    store = await EmbeddedStore.open(MEMORY)
    server = StoreServer(store)
    await server.start()
    try:
        yield server
    finally:
        await server.close()
        await store.close()


def framed(value: object) -> bytes:
    body = json.dumps(value).encode()
    return struct.pack(">I", len(body)) + body


HELLO = framed({"say": "hello", "timeout_ms": 60_000})


async def hears_nothing_more(reader: asyncio.StreamReader) -> None:
    async with asyncio.timeout(PATIENCE_S):
        with contextlib.suppress(OSError):
            while await reader.read(65536):
                pass


def asking(do: str, **fields: object) -> bytes:
    return framed({"say": "ask", "number": 1, "do": do, **fields})


def writing(**op: object) -> bytes:
    return asking("multi", ops=[op])


NONSENSE = {
    "not a frame": b"GET / HTTP/1.1\r\n\r\n",
    "a frame too large": struct.pack(">I", wire.FRAME_BYTES_MAX + 1),
    "no JSON": b"\0\0\0\1{",
    "deep JSON": struct.pack(">I", 100_000) + b"[" * 100_000,
    "a large number": framed({"say": "hello", "timeout_ms": 1})[:-2] + b"9" * 10 + b"}",
    "no object": framed([1, 2]),
    "no hello": framed({"say": "beat", "number": 1}),
    "no timeout": framed({"say": "hello"}),
    "an endless timeout": framed({"say": "hello", "timeout_ms": 10**18}),
    "a session that is no number": framed({"say": "hello", "session": "1", "secret": "x"}),
    "another word": HELLO + framed({"say": "sudo"}),
    "hello twice": HELLO + HELLO,
    "a request without a number": HELLO + framed({"say": "ask", "do": "get", "path": "/"}),
    "a request that we do not know": HELLO + asking("__class__"),
    "a request that is a list": HELLO + asking(["get"]),
    "a path that is none": HELLO + asking("get", path=7),
    "a path from nowhere": HELLO + asking("get", path="a"),
    "a path with a hole": HELLO + writing(op="Create", path="/a//b", data=""),
    "a path with half a character": HELLO + writing(op="Create", path="/\ud800", data=""),
    "the root": HELLO + writing(op="Set", path="/", data="", version=-1),
    "data that is no base64": HELLO + writing(op="Create", path="/a", data="\u00e9"),
    "a version that is true": HELLO + writing(op="Check", path="/a", version=True),
    "an operation that we do not know": HELLO + writing(op="Drop", path="/a", version=0),
    "operations that are none": HELLO + asking("multi", ops=["/a"]),
}


@pytest.mark.parametrize("sent", NONSENSE.values(), ids=NONSENSE.keys())
def test_who_makes_no_sense_is_hung_up_on_and_others_do_not_notice(sent):
    async def scenario() -> None:
        async with served() as server:
            other = await RemoteStore.open("127.0.0.1", server.port, session_timeout_ms=60_000)
            states = []
            other.on_session(states.append)
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(sent)
            await hears_nothing_more(reader)
            writer.close()
            await other.create("/fine", b"")
            assert await other.children("/") == ["fine"]
            assert states == []
            await other.close()

    asyncio.run(scenario())


def test_an_id_without_its_secret_opens_nothing():
    async def scenario() -> None:
        async with served() as server:
            other = await RemoteStore.open("127.0.0.1", server.port, session_timeout_ms=60_000)
            for session, secret in [(other.id, "guess"), (other.id + 1, "guess"), (other.id, "\ud800")]:
                reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
                writer.write(framed({"say": "hello", "session": session, "secret": secret}))
                assert await wire.read(reader) == {"say": "lost"}
                writer.close()
            assert other.session is SessionState.CONNECTED
            await other.close()

    asyncio.run(scenario())


def test_who_comes_when_it_closes_gets_no_session_that_nobody_would_end():
    async def scenario() -> None:
        async with served() as server:
            _, writer = await asyncio.open_connection("127.0.0.1", server.port)
            await server.close()
            late = asyncio.StreamReader()  # of a connection that was accepted, but not heard yet
            late.feed_data(HELLO)
            late.feed_eof()
            await asyncio.create_task(server._serve(late, writer))
            assert server.sessions == []

    asyncio.run(scenario())


@pytest.mark.parametrize("host", ["0.0.0.0", "", "::", "192.0.2.1", "example.org"])
def test_it_is_served_on_the_loopback_only(host):
    async def scenario() -> None:
        store = await EmbeddedStore.open(MEMORY)
        with pytest.raises(ConfigError, match="no authentication"):
            await StoreServer(store).start(host)
        await store.close()

    asyncio.run(scenario())


@given(st.binary(max_size=200))
def test_any_bytes_are_a_frame_or_refused(body):
    with contextlib.suppress(ProtocolError):
        assert isinstance(wire.decode(body)["say"], str)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)


@given(JSON)
def test_any_value_is_understood_or_refused(value):
    for unpack in (
        wire.path_of,
        wire.unpack_node,
        wire.unpack_bytes,
        wire.unpack_names,
        wire.unpack_results,
        lambda value: wire.unpack_nodes(value, 2),
        lambda value: wire.unpack_ops([value]),
        lambda value: wire.unpack_ops([{"op": "Set", "path": "/a", "data": "", "version": value}]),
    ):
        with contextlib.suppress(ProtocolError):
            unpack(value)


OPS = st.one_of(
    st.builds(Create, st.just("/a"), st.binary(), st.booleans()),
    st.builds(Set, st.just("/a"), st.binary(), st.integers(-1, 2**31)),
    st.builds(Delete, st.just("/a/b"), st.integers(-1, 2**31)),
    st.builds(Check, st.just("/a"), st.integers(-1, 2**31)),
)


@given(st.lists(OPS), st.builds(Node, st.binary(), st.integers(0, 2**31), st.integers(0, 2**62)))
def test_operations_and_nodes_travel_unchanged(ops, node):
    assert wire.unpack_ops(json.loads(json.dumps(wire.pack_ops(ops)))) == ops
    assert wire.unpack_node(json.loads(json.dumps(wire.pack_node(node)))) == node
