import zlib

import pytest

from ottla.cli.cat.parting import Pieces, chooser
from ottla.cli.cat.wanted import Input
from ottla.cli.sending.inputs import Block
from ottla.core.errors import ConfigError

PLAIN = Input(b"\n", None, None, (), (), False, False, None)


def parted(pieces, partitions=1, partitioner=None, has_nulls=False, is_whole=False, **said):
    parser = Pieces(
        PLAIN._replace(**said), partitions, chooser(partitioner), has_nulls=has_nulls, is_whole=is_whole
    )
    parcels, fault = parser(Block("-", 1, pieces, 0))
    assert fault is None
    return parcels


def rows(parcels):
    return [
        (key, value)
        for each in parcels
        for key, value in zip(each.keys or [None] * len(each.values), each.values, strict=True)
    ]


def test_a_piece_is_a_value_and_an_empty_one_is_none():
    (parcel,) = parted([b"a", b"", b"b"])
    assert (list(parcel.values), parcel.keys, list(parcel.places)) == ([b"a", b"b"], None, [0, 2])
    assert parted([b""]) == []


def test_keys_end_at_the_first_delimiter_and_need_not_be_there():
    found = rows(parted([b"a:1", b"b:2:3", b"c", b":d", b"e:"], key_delimiter=b":"))
    assert found == [(b"a", b"1"), (b"b", b"2:3"), (None, b"c"), (b"", b"d"), (b"e", b"")]


def test_with_Z_what_is_empty_beside_a_delimiter_is_null():
    found = rows(parted([b":d", b"e:", b"c"], key_delimiter=b":", has_nulls=True))
    assert found == [(None, b"d"), (b"e", None), (None, b"c")]


def test_the_fixed_key_is_that_of_records_without_one():
    assert rows(parted([b"a", b"b"], fixed_key=b"k")) == [(b"k", b"a"), (b"k", b"b")]
    found = rows(parted([b"a:1", b"b"], fixed_key=b"k", key_delimiter=b":"))
    assert found == [(b"a", b"1"), (b"k", b"b")]


def test_a_whole_file_is_a_value_whatever_is_in_it():
    assert rows(parted([b"a:1\n"], key_delimiter=b":", is_whole=True)) == [(None, b"a:1\n")]


def test_keys_are_spread_by_their_crc_32_and_stay_in_order():
    pieces = [b"k%d:%d" % (number % 7, number) for number in range(50)]
    parcels = parted(pieces, partitions=3, key_delimiter=b":")
    for parcel in parcels:
        assert {zlib.crc32(key) % 3 for key in parcel.keys} == {parcel.partition}
        assert list(parcel.places) == sorted(parcel.places)
    assert sorted(rows(parcels)) == sorted(tuple(each.split(b":")) for each in pieces)


def test_records_without_a_key_go_where_the_producer_likes():
    assert [each.partition for each in parted([b"a", b"b"], partitions=3)] == [None]
    assert {each.partition for each in parted([b":a", b"b"], partitions=3, key_delimiter=b":")} == {None}


def test_other_partitioners_have_the_names_of_librdkafka():
    assert [each.partition for each in parted([b"a:1"], 3, "murmur2_random", key_delimiter=b":")] == [None]
    assert [each.partition for each in parted([b"a"], 3, "consistent")] == [0]
    assert sorted(each.partition for each in parted([b"a"] * 3, 3, "round_robin")) == [0, 1, 2]
    assert {each.partition for each in parted([b"a"] * 90, 3, "random")} == {0, 1, 2}


def test_a_partitioner_that_nobody_has_is_refused_with_those_there_are():
    with pytest.raises(ConfigError, match="but must be consistent_random, consistent, murmur2_random"):
        chooser("fnv1a")
