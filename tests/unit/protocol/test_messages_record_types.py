"""Keys and values of the internal topics: the number in front tells what they are."""

import pytest

from ottla.core.errors import ProtocolError
from ottla.protocol.codec import decode_exactly, encode_versioned
from ottla.protocol.messages.coordinator_records import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
    TransactionLogKey,
)
from ottla.protocol.messages.record_types import (
    CONSUMER_OFFSETS,
    TRANSACTION_STATE,
    decode_key,
    decode_value,
    encode_key,
    record_type,
)
from tests.oracles.messages import random_messages, to_bytes


def test_a_committed_offset_looks_as_kafka_writes_it():
    key = OffsetCommitKey(group="g", topic="t", partition=3)
    assert encode_key(key) == bytes.fromhex("000100016700017400000003")
    value = OffsetCommitValue(offset=42, leader_epoch=5, metadata="", commit_timestamp=7)
    written = encode_versioned(value, 3)
    assert written == bytes.fromhex("0003000000000000002a0000000500000000000000000007")
    assert decode_value(CONSUMER_OFFSETS, encode_key(key), written) == value


@pytest.mark.parametrize(
    "row", [*CONSUMER_OFFSETS.values(), *TRANSACTION_STATE.values()], ids=lambda row: row.key.__name__
)
def test_every_key_and_value_reads_back(row):
    topic = TRANSACTION_STATE if row.key is TransactionLogKey else CONSUMER_OFFSETS
    for key in random_messages(row.key, 0):
        written = encode_key(key)
        assert written == row.number.to_bytes(2, "big") + to_bytes(key, 0)
        assert decode_key(topic, written) == key
        assert record_type(topic, written) is row
        for value in random_messages(row.value, row.value.versions.last):
            blob = encode_versioned(value, row.value.versions.last)
            assert decode_value(topic, written, blob) == value


def test_the_first_offset_keys_have_values_like_any_other():
    key = encode_key(LegacyOffsetCommitKey(group="g", topic="t", partition=0))
    value = OffsetCommitValue(offset=1, metadata="m", commit_timestamp=2, expire_timestamp=3)
    assert decode_value(CONSUMER_OFFSETS, key, encode_versioned(value, 1)) == value


def test_records_of_a_newer_kafka_are_passed_over():
    assert decode_key(CONSUMER_OFFSETS, b"\x00\x63anything") is None
    assert decode_value(CONSUMER_OFFSETS, b"\x00\x63anything", b"\x00\x09") is None


@pytest.mark.parametrize("key", [b"", b"\0", b"\0\1", b"\0\2\0\5g", b"\0\2\0\1gx"])
def test_a_damaged_key_is_refused(key):
    with pytest.raises(ProtocolError):
        decode_key(CONSUMER_OFFSETS, key)


@pytest.mark.parametrize("value", [b"", b"\0", b"\0\x05", b"\0\3\0"])
def test_a_damaged_value_is_refused(value):
    with pytest.raises(ProtocolError):
        decode_value(CONSUMER_OFFSETS, encode_key(OffsetCommitKey(group="g", topic="t", partition=0)), value)


def test_the_classic_member_of_a_modern_group_carries_a_marker():
    member = ConsumerGroupMemberMetadataValue.ClassicMember(session_timeout_ms=9, supported_protocols=[])
    value = ConsumerGroupMemberMetadataValue(
        instance_id=None,
        rack_id=None,
        client_id="",
        client_host="",
        subscribed_topic_names=[],
        subscribed_topic_regex=None,
        server_assignor=None,
        classic_member_metadata=member,
    )
    # One tagged field: number 0, seven bytes, the marker of a struct that is not null, the struct.
    assert to_bytes(value, 0).endswith(bytes.fromhex("01000701000000090100"))


def test_null_in_a_modern_group_is_written_as_kafka_4_writes_it():
    """Bytes of Kafka's own classes, in which null is no default: it takes a tag, absent means empty."""
    written = bytes.fromhex("00000263026802027400000000050001000100")
    value = decode_exactly(ConsumerGroupMemberMetadataValue, written, 0)
    assert value.classic_member_metadata is None
    assert to_bytes(value, 0) == written
    absent = bytes.fromhex("00000263026802027400000000050000")
    value = decode_exactly(ConsumerGroupMemberMetadataValue, absent, 0)
    assert value.classic_member_metadata.supported_protocols == []
    assert to_bytes(value, 0) == absent


@pytest.mark.parametrize(("tags", "epochs"), [("00", []), ("01000100", None), ("0100050200000007", [7])])
def test_epochs_of_an_assignment_are_written_as_kafka_4_writes_them(tags, epochs):
    written = bytes.fromhex("00000000000000000002" + "00" * 16 + "0200000001" + tags + "0100")
    value = decode_exactly(ConsumerGroupCurrentMemberAssignmentValue, written, 0)
    assert value.assigned_partitions[0].assignment_epochs == epochs
    assert to_bytes(value, 0) == written
