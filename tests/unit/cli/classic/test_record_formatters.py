"""How records become lines, and bytes become text as Java writes it."""

import struct

import pytest

from ottla.cli.classic.deserializers import SerializationError, deserializer
from ottla.cli.classic.record_formatters import UnknownFormatter, formatter_of
from ottla.client.records import ConsumerRecord
from ottla.core.errors import ProtocolError
from ottla.protocol.codec import encode_versioned
from ottla.protocol.messages.coordinator_records import GroupMetadataKey, OffsetCommitKey, OffsetCommitValue
from ottla.protocol.messages.record_types import encode_key

DEFAULT = "org.apache.kafka.tools.consumer.DefaultMessageFormatter"
OFFSETS = "kafka.coordinator.group.GroupMetadataManager$OffsetsMessageFormatter"


def printed(name, record, **properties):
    out = []
    formatter_of(name, {key.replace("_", "."): value for key, value in properties.items()})(
        record, out.append
    )
    return b"".join(out)


def record(**fields):
    return ConsumerRecord(
        **{"topic": "t", "partition": 1, "offset": 2, "timestamp": 3, "key": b"k", "value": b"v"} | fields
    )


def test_fields_come_in_their_order_with_separators():
    wanted = dict.fromkeys(
        ("print_key", "print_offset", "print_partition", "print_timestamp", "print_headers", "print_epoch"),
        "true",
    )
    assert (
        printed(DEFAULT, record(), **wanted)
        == b"CreateTime:3\tPartition:1\tOffset:2\tEpoch:NOT_PRESENT\tNO_HEADERS\tk\tv\n"
    )


def test_times_say_whose_they_are():
    assert printed(DEFAULT, record(timestamp_type=1), print_timestamp="true") == b"LogAppendTime:3\tv\n"
    assert printed(DEFAULT, record(timestamp=-1), print_timestamp="true") == b"NO_TIMESTAMP\tv\n"


def test_separators_and_nulls_are_properties():
    headers = (("a", b"1"), ("b", None), ("\udcff", b"\xff"))
    out = printed(
        DEFAULT, record(key=None, headers=headers), print_headers="true", print_key="true", key_separator="=",
        line_separator=";", headers_separator="&", null_literal="-",
    )  # fmt: skip
    assert out == b"a:1&b:-&\xff:\xff=-=v;"


def test_nothing_is_printed_by_the_one_that_prints_nothing():
    assert printed("org.apache.kafka.tools.consumer.NoOpMessageFormatter", record()) == b""


def test_a_formatter_that_is_none_is_unknown():
    with pytest.raises(UnknownFormatter, match=r"no\.such\.Formatter"):
        formatter_of("no.such.Formatter", {})


def test_offsets_are_json_and_other_records_are_passed_over():
    key = encode_key(OffsetCommitKey(group="g", topic="čaj", partition=0))
    value = encode_versioned(OffsetCommitValue(offset=5, leader_epoch=1, metadata="", commit_timestamp=9), 3)
    start = '{"key":{"type":1,"data":{"group":"g","topic":"čaj","partition":0}},"value":'
    assert printed(OFFSETS, record(key=key, value=value)).decode() == (
        start + '{"version":3,"data":{"offset":5,"leaderEpoch":1,"metadata":"","commitTimestamp":9}}}'
    )
    assert printed(OFFSETS, record(key=key, value=None)).decode() == start + "null}"
    assert printed(OFFSETS, record(key=encode_key(GroupMetadataKey(group="g")), value=None)) == b""
    assert printed(OFFSETS, record(key=b"\x00\x63x", value=None)) == b""
    assert printed(OFFSETS, record(key=None, value=None)) == b""
    with pytest.raises(ProtocolError):
        printed(OFFSETS, record(key=b"", value=None))


@pytest.mark.parametrize(
    ("name", "data", "text"),
    [
        ("Integer", struct.pack(">i", -7), b"-7"),
        ("Integer", b"null", b"1853189228"),
        ("Long", struct.pack(">q", 2**62 + 1), b"4611686018427387905"),
        ("Short", struct.pack(">h", -3), b"-3"),
        ("Double", struct.pack(">d", 1e-5), b"1.0E-5"),
        ("Float", struct.pack(">f", 0.1), b"0.1"),
        ("Float", struct.pack(">f", 3.4028235e38), b"3.4028235E38"),
        ("Float", struct.pack(">f", float("nan")), b"NaN"),
        ("Float", struct.pack(">f", float("-inf")), b"-Infinity"),
        ("Boolean", b"\x00", b"false"),
        ("UUID", b"123E4567-e89b-12d3-a456-426614174000", b"123e4567-e89b-12d3-a456-426614174000"),
        ("String", b"a\xff", b"a\xef\xbf\xbd"),
        ("ByteArray", b"a\xff", b"a\xff"),
        ("Bytes", b"a\\\x00 \xff", rb"a\x5C\x00 \xFF"),
        ("ByteBuffer", b"ab", b"java.nio.HeapByteBuffer[pos=0 lim=2 cap=2]"),
    ],
)
def test_bytes_become_what_java_prints(name, data, text):
    assert deserializer(f"org.apache.kafka.common.serialization.{name}Deserializer")(data) == text


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("Integer", b"abc"),
        ("Long", b""),
        ("Boolean", b"\x02"),
        ("Boolean", b""),
        ("UUID", b"x"),
        ("Void", b"x"),
    ],
)
def test_bytes_of_another_kind_are_refused(name, data):
    with pytest.raises(SerializationError):
        deserializer(f"{name}Deserializer")(data)


def test_a_deserializer_that_is_not_known_is_none():
    assert deserializer("com.example.Own") is None
