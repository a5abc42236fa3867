"""The generated codec agrees with the slow one, on messages that use every feature of the declaration language."""

import random
import uuid
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.core.errors import ProtocolError
from ottla.protocol.codec import decode, decode_exactly, encode, encode_bytes
from ottla.protocol.schema import (
    NULL_UUID,
    Bool,
    Bytes,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Records,
    String,
    UInt16,
    UInt32,
    Uuid,
    declaration,
    field,
    message,
    struct,
    unknown_tags,
)
from ottla.protocol.wiretypes import BLOB, TEXT, UUID_BYTES, ArrayOf, Fixed, StructOf, WireType
from tests.property import closures


@struct
class Leaf:
    number: Int32 = field(default=-1)
    text: String = field("1+", default="leaf")


@message(versions="0-5", flexible="3+")
class Everything:
    """One of each, with ranges that begin and end in different versions."""

    @struct
    class Branch:
        name: String
        flag: Bool
        leaves: list[Leaf]
        numbers: list[Int16] | None = field("1+", default=[], nullable="2+")
        later: Leaf | None = field("2+", default=None)
        ends: Int64 = field("0-3", default=7)
        tagged_number: Int64 = field("4+", tag=2, default=-1)

    tiny: Int8
    small: Int16
    medium: Int32
    id: Uuid = field("2+", default=NULL_UUID)
    large: Int64
    port: UInt16 = field("1+", default=9092)
    ip: UInt32
    ratio: Float64
    flag: Bool
    text: String
    plain_text: String | None = field(default=None, compact=False)
    maybe_text: String | None
    data: Bytes
    maybe_data: Bytes | None = field("1-4", default=None)
    branches: list[Branch]
    maybe_branches: list[Branch] | None = field("1+", default=[])
    words: list[String]
    blobs: list[Bytes]
    ids: list[Uuid]
    flags: list[Bool]
    longs: list[Int64]
    leaf: Leaf
    maybe_leaf: Leaf | None = field("2+", default=None)
    records: Records | None
    must_records: Records = field("4+", default=b"")
    tagged_text: String = field("3+", tag=0, default="")
    tagged_maybe: String | None = field("3+", tag=1, default="x")
    tagged_leaf: Leaf | None = field("4+", tag=3, default=None)
    tagged_marked: Leaf | None = field("3+", tag=4, default=None, nullable="3+")
    tagged_whole: Leaf = field("3+", tag=5, default=Leaf())
    tagged_numbers: list[Int32] = field("3+", tag=6, default=[1, 2])
    tagged_id: Uuid = field("3+", tag=9, default=NULL_UUID)
    tagged_branches: list[Branch] = field("3+", tag=300, default=[])
    becomes_tagged: Int32 = field("0+", tag=7, tagged="4+", default=5)


VERSIONS = list(Everything.versions)
BITS = {"b": 7, "h": 15, "i": 31, "q": 63, "H": 16, "I": 32}
LENGTHS = [0, 0, 1, 2, 3, 126, 127, 128, 129, 300]
LARGE = [bytes(4096), bytes(4097), bytearray(5000), memoryview(bytes(9000)), bytes(20_000)]


class Chance(random.Random):
    """Random messages of a version. A seed makes the same message again."""

    def message(self, version: int) -> Everything:
        return self.struct(Everything, version, version in Everything.flexible)

    def struct(self, cls: type, version: int, flexible: bool) -> Any:
        made: dict[str, Any] = {}
        tags = set()
        for each in declaration(cls).fields:
            if version not in each.versions or (version in each.tagged and not flexible):
                continue
            if version in each.tagged:
                tags.add(each.tag)
            if not each.has_default or self.random() < 0.5:
                null = version in each.nullable and self.random() < 0.3
                made[each.name] = None if null else self.value(each.type, version, flexible)
        if flexible and self.random() < 0.2:
            others = {self.choice([self.randrange(13), self.getrandbits(32)]) for _ in range(3)} - tags
            made["unknown_tags"] = {tag: self.randbytes(self.choice(LENGTHS)) for tag in others}
        return cls(**made)

    def value(self, kind: WireType, version: int, flexible: bool) -> Any:
        match kind:
            case Fixed():
                return self.number(kind)
            case StructOf(cls):
                return self.struct(cls, version, flexible)
            case ArrayOf(element):
                most = 20 if isinstance(element, Fixed) else 3
                return [self.value(element, version, flexible) for _ in range(self.randint(0, most))]
        size = self.choice(LENGTHS)
        if kind == TEXT:
            return "".join(self.choices("xyzé€😀", k=size))
        if kind != BLOB and self.random() < 0.3:
            return self.choice(LARGE)
        return self.randbytes(size)

    def number(self, kind: Fixed) -> Any:
        if kind == UUID_BYTES:
            return self.choice([NULL_UUID, uuid.UUID(int=self.getrandbits(128))])
        if kind.code == "?":
            return self.random() < 0.5
        if kind.code == "d":
            return self.choice([0.0, self.uniform(-1e300, 1e300)])
        bits = BITS[kind.code]
        low = 0 if kind.code in "HI" else -(1 << bits)
        return self.choice([low, 0, 1, (1 << bits) - 1, self.randrange(low, 1 << bits)])

    def damage(self, data: bytes) -> bytes:
        raw = bytearray(data)
        for _ in range(self.randint(1, 3)):
            raw[self.randrange(len(raw))] = self.choice([0, 1, 2, 127, 128, 255])
        return bytes(raw[: self.choice([len(raw), self.randint(0, len(raw))])])


seeds = given(st.integers(0, 2**32), st.sampled_from(VERSIONS))
examples = partial(settings, deadline=None)


@examples(max_examples=400)
@seeds
def test_generated_and_slow_codec_write_and_read_the_same(seed, version):
    made = Chance(seed).message(version)
    data = encode_bytes(made, version)
    assert data.hex() == closures.write(made, version).hex()
    assert decode_exactly(Everything, data, version) == made == closures.read(Everything, data, version)


@examples(max_examples=50)
@seeds
def test_any_kind_of_buffer_and_any_position_will_do(seed, version):
    made = Chance(seed).message(version)
    data = b"abc" + encode_bytes(made, version)
    for buffer in (data, bytearray(data), memoryview(data), memoryview(b"--" + data)[2:]):
        found, end = decode(Everything, buffer, version, 3)
        assert found == made
        assert end == len(data)


@examples(max_examples=50)
@seeds
def test_parts_join_to_the_whole_and_large_records_are_not_copied(seed, version):
    made = Chance(seed).message(version)
    parts = encode(made, version)
    assert b"".join(parts) == closures.write(made, version)
    if made.records is not None and len(made.records) > 4096:
        assert any(part is made.records for part in parts)


@examples(max_examples=50)
@seeds
def test_records_may_come_in_pieces(seed, version):
    made = Chance(seed).message(version)
    whole = bytes(made.records or b"")
    made.records = [whole[:7], memoryview(whole)[7:]]
    assert encode_bytes(made, version) == closures.write(made, version)


@examples(max_examples=400)
@seeds
def test_damaged_messages_are_judged_alike_and_refused_with_one_error_only(seed, version):
    chance = Chance(seed)
    damaged = chance.damage(encode_bytes(chance.message(version), version))
    try:
        expected = closures.read(Everything, damaged, version)
    except ProtocolError:
        with pytest.raises(ProtocolError):
            decode_exactly(Everything, damaged, version)
    else:
        found = decode_exactly(Everything, damaged, version)
        assert closures.write(found, version) == closures.write(expected, version)


@examples(max_examples=50)
@given(st.integers(0, 2**32), st.sampled_from(list(Everything.flexible)), st.integers(1000, 2**32 - 1))
def test_unknown_tags_survive_a_round_trip(seed, version, tag):
    made = Chance(seed).message(version)
    made.unknown_tags = {tag: b"from the future", 200: b""}
    found = decode_exactly(Everything, encode_bytes(made, version), version)
    assert unknown_tags(found) == {200: b"", tag: b"from the future"}
    assert encode_bytes(found, version) == encode_bytes(made, version)


def test_uuids_that_come_again_are_equal():
    made = uuid.uuid4()
    data = closures.write(_with_id(made), 2)
    assert decode_exactly(Everything, data, 2).id == decode_exactly(Everything, data, 2).id == made


def _with_id(made: uuid.UUID) -> Everything:
    return Everything(
        tiny=1, small=1, medium=1, id=made, large=1, ip=1, ratio=1.0, flag=True, text="", maybe_text=None,
        data=b"", branches=[], words=[], blobs=[], ids=[made], flags=[], longs=[], leaf=Leaf(), records=None,
    )  # fmt: skip
