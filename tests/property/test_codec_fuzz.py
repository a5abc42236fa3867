"""Hostile bytes, for every API and version: one kind of error, and memory in proportion to the input."""

import contextlib
import random
import time
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.core.errors import ProtocolError
from ottla.protocol.apis import APIS, PRIVATE
from ottla.protocol.codec import decode, decode_exactly, encode_bytes
from ottla.protocol.framing import FrameReader, decode_request
from ottla.protocol.schema import declaration, field, message, struct
from ottla.protocol.wiretypes import NULL_UUID, TEXT, UUID_BYTES, ArrayOf, Fixed, String, StructOf, WireType
from tests.oracles.messages import random_messages

FUZZ_SECONDS = 5.0
MEMORY_FACTOR_MAX = 64
TOUGH_BYTES = [0, 1, 2, 3, 0x7F, 0x80, 0x81, 0xFE, 0xFF]


def messages_and_versions() -> list[tuple[type, int]]:
    return [
        (cls, version)
        for api in (*APIS.values(), *PRIVATE.values())
        for cls in (api.request, api.response)
        for version in api.versions
    ]


def mutate(chance: random.Random, data: bytes) -> bytes:
    raw = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(raw) + 1)
        match chance.randrange(4):
            case 0 if at < len(raw):
                raw[at] = chance.choice(TOUGH_BYTES)
            case 1:
                raw[at:at] = bytes(chance.choices(TOUGH_BYTES, k=chance.randint(1, 5)))
            case 2:
                del raw[at : at + chance.randint(1, 4)]
            case 3:
                raw[at : at + 4] = chance.choice([b"\x7f\xff\xff\xff", b"\xff\xff\xff\xfe", b"\x80\0\0\0"])
    return bytes(raw)


def test_no_bytes_raise_anything_but_protocol_error():
    """Random and mutated bytes, over all messages in random order, until the time is up and each had its turn."""
    chance = random.Random(20)
    cases = messages_and_versions()
    chance.shuffle(cases)
    corpus = {(cls, version): [encode_bytes(each, version) for each in random_messages(cls, version)[:2]]
              for cls, version in cases}  # fmt: skip
    deadline = time.monotonic() + FUZZ_SECONDS
    rounds = 0
    while rounds == 0 or time.monotonic() < deadline:
        for cls, version in cases:
            for data in corpus[cls, version]:
                decode_or_refuse(cls, mutate(chance, data), version)
            decode_or_refuse(cls, chance.randbytes(chance.randint(0, 60)), version)
            if rounds and time.monotonic() > deadline:
                break
        rounds += 1


def decode_or_refuse(cls: type, data: bytes, version: int) -> None:
    try:
        found, end = decode(cls, data, version)
    except ProtocolError:
        return
    assert 0 <= end <= len(data)
    again = encode_bytes(found, version)  # bytes are compared, because NaN differs from itself
    assert encode_bytes(decode_exactly(cls, again, version), version) == again


def test_no_frame_raises_anything_but_protocol_error():
    chance = random.Random(21)
    for _ in range(2000):
        frame = chance.choice([b"", b"\0", b"\0\x12\0\x03"]) + chance.randbytes(chance.randint(0, 40))
        with contextlib.suppress(ProtocolError):
            decode_request(frame)
        with contextlib.suppress(ProtocolError):
            list(FrameReader(1000).feed(frame))


def smallest(kind: WireType, version: int) -> Any:
    """The value that takes the fewest bytes but costs the most memory."""
    match kind:
        case ArrayOf():
            return []
        case StructOf(cls):
            return smallest_struct(cls, version)
        case Fixed("?"):
            return True
        case Fixed():
            return (
                NULL_UUID if kind == UUID_BYTES else 1.5 if kind.code == "d" else 100 << 8 * (kind.size - 1)
            )
    return "" if kind == TEXT else b""


def smallest_struct(cls: type, version: int) -> Any:
    """Null where that is a byte, and tagged fields left out."""
    values = {}
    for each in declaration(cls).fields:
        if version in each.versions and version not in each.tagged:
            nullable = version in each.nullable and isinstance(each.type, StructOf)
            values[each.name] = None if nullable else smallest(each.type, version)
    return cls(**values)


def swollen_messages(cls: type, version: int, count: int) -> Iterator[Any]:
    """Per array of the message, however deep: one message in which that array has `count` smallest elements."""
    for path in array_paths(cls, version):
        whole = smallest_struct(cls, version)
        at = whole
        for name, kind in path[:-1]:
            inner = smallest(kind.element if isinstance(kind, ArrayOf) else kind, version)
            setattr(at, name, [inner] if isinstance(kind, ArrayOf) else inner)
            at = inner
        name, kind = path[-1]
        setattr(at, name, [smallest(kind.element, version) for _ in range(count)])
        yield whole


def array_paths(cls: type, version: int) -> Iterator[list[tuple[str, Any]]]:
    for each in declaration(cls).fields:
        if version not in each.versions:
            continue
        below = each.type.element if isinstance(each.type, ArrayOf) else each.type
        if isinstance(each.type, ArrayOf):
            yield [(each.name, each.type)]
        if isinstance(below, StructOf):
            for rest in array_paths(below.cls, version):
                yield [(each.name, each.type), *rest]


def peak_bytes(cls: type, data: bytes, version: int) -> int:
    decode(cls, data, version)  # compile first
    tracemalloc.start()
    try:
        kept = decode(cls, data, version)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        del kept


@pytest.mark.parametrize("api", [*APIS.values(), *PRIVATE.values()], ids=lambda api: api.name)
def test_the_smallest_elements_cost_at_most_64_times_their_bytes(api):
    versions = {api.versions.first, api.versions.last, max(api.versions.first, api.flexible.first)}
    for cls in (api.request, api.response):
        for version in versions & set(api.versions):
            for swollen in swollen_messages(cls, version, 300):
                data = encode_bytes(swollen, version)
                peak = peak_bytes(cls, data, version)
                assert peak <= MEMORY_FACTOR_MAX * len(data), f"v{version}: {peak} bytes for {len(data)}"


@message(versions="0", flexible="0+")
class Tiny:
    @struct
    class Element:
        name: String

    elements: list[Element]
    words: list[String] = field(tag=0, default=[])


def test_unknown_tags_on_every_element_cost_at_most_64_times_their_bytes():
    data = b"\xe9\x07" + b"\x01\x01\x09\x00" * 1000 + b"\0"
    assert len(decode_exactly(Tiny, data, 0).elements) == 1000
    assert peak_bytes(Tiny, data, 0) <= MEMORY_FACTOR_MAX * len(data)


def test_a_section_of_many_unknown_tags_costs_at_most_64_times_its_bytes():
    tags = b"".join(bytes([tag & 0x7F | 0x80, tag >> 7, 0]) for tag in range(200, 2200))
    data = b"\x01" + b"\xd0\x0f" + tags
    decode_exactly(Tiny, data, 0)
    assert peak_bytes(Tiny, data, 0) <= MEMORY_FACTOR_MAX * len(data)


def test_a_claim_of_many_elements_allocates_nothing():
    data = b"\xff\xff\xff\xff\x0f" + bytes(1000)
    with pytest.raises(ProtocolError, match="claims 4294967294 elements"):
        decode(Tiny, data, 0)
    tracemalloc.start()
    try:
        with contextlib.suppress(ProtocolError):
            decode(Tiny, data, 0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 16_384
