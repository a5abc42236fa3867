import random
import struct

import pytest

from ottla.assignors.user_data import (
    Claim,
    as_list,
    as_mapping,
    decode_cooperative,
    decode_sticky,
    encode_cooperative,
    encode_sticky,
)
from ottla.protocol.messages.subscription import TopicPartitions

CLAIM = Claim({"a": frozenset({0, 2}), "b": frozenset({1})}, 7)


def test_stickys_user_data_survives_the_way_there_and_back():
    assert decode_sticky(encode_sticky(CLAIM)) == CLAIM


def test_the_old_form_has_no_generation():
    assert decode_sticky(encode_sticky(CLAIM, version=0)) == Claim(CLAIM.partitions, -1)


def test_the_bytes_are_kafkas():
    expected = "00000001 0001 74 00000002 00000000 00000003 00000005"
    assert encode_sticky(Claim({"t": frozenset({3, 0})}, 5)) == bytes.fromhex(expected)


@pytest.mark.parametrize(
    "data",
    [
        None,
        b"",
        b"\x00",
        b"\xff" * 4,
        b"\x7f\xff\xff\xff",
        b"\x00\x00\x00\x01\xff\xff",
        b"\x00\x00\x00\x01\x00\x02\xc3\x28\x00\x00\x00\x00",
        b"\x00\x00\x00\x01\x00\x01t\x7f\xff\xff\xff",
        b"\x00\x00\x00\x01\x00\x01t\xff\xff\xff\xff",
        struct.pack(">i", 1_000_000) + b"\x00\x00\x00\x00\x00\x00" * 1_000_000,
    ],
    ids=lambda data: "none" if data is None else data[:12].hex() or "empty",
)
def test_bytes_that_are_no_user_data_claim_nothing(data):
    assert decode_sticky(data) == Claim({}, -1)


def test_no_bytes_whatever_do_harm():
    source = random.Random(1)
    whole = encode_sticky(CLAIM)
    for _ in range(2000):
        data = bytearray(whole[: source.randint(0, len(whole))])
        for _ in range(source.randint(0, 3)):
            if data:
                data[source.randrange(len(data))] = source.randrange(256)
        claim = decode_sticky(bytes(data))
        assert all(isinstance(partitions, frozenset) for partitions in claim.partitions.values())


def test_cooperative_members_tell_their_generation():
    assert encode_cooperative(9) == b"\x00\x00\x00\x09"
    assert decode_cooperative(b"\x00\x00\x00\x09") == 9
    assert decode_cooperative(memoryview(b"\x00\x00\x00\x09 and more")) == 9


@pytest.mark.parametrize("data", [None, b"", b"\x00\x00\x09"])
def test_without_a_generation_there_is_none(data):
    assert decode_cooperative(data) == -1


def test_a_topic_that_is_listed_twice_counts_with_all_its_partitions():
    listed = [TopicPartitions(topic="t", partitions=[1, 1]), TopicPartitions(topic="t", partitions=[0])]
    assert as_mapping(listed) == {"t": frozenset({0, 1})}


def test_partitions_are_listed_in_order():
    listed = as_list({"b": [2, 0], "a": [1]})
    assert [(each.topic, each.partitions) for each in listed] == [("a", [1]), ("b", [0, 2])]
