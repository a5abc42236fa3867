"""Decoders: from bytes to something to read, whatever the bytes are."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.dump.decoders import as_json, decoder_of, offsets_decoder, transactions_decoder
from ottla.core.ids import format_id
from ottla.protocol.codec import encode_versioned
from ottla.protocol.messages.coordinator_records import (
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    TransactionLogKey,
    TransactionLogValue,
)
from ottla.protocol.messages.record_types import encode_key
from ottla.protocol.messages.subscription import ConsumerProtocolSubscription
from ottla.records.builder import build
from tests.unit.cli.dump.helpers import SEGMENT, dump, record, write


def test_text_hex_and_json_are_each_shown_their_way():
    assert decoder_of("string", "hex")("käse".encode(), b"\1\xff") == ("käse", "01ff")
    assert decoder_of("json", "string")(b'{"a": [1, null]}', b"\xff!") == ({"a": [1, None]}, "\\xff!")
    assert decoder_of("json", "json")(None, None) == (None, None)


@pytest.mark.parametrize(
    "data", [b"{", b"NaN", b"\xff", b"[" * 100_000, b"[" * 200 + b"]" * 200, b"1" * 5000]
)
def test_what_is_no_json_is_said_to_be_none(data):
    shown = as_json(data)
    assert shown["undecodable"] == data.hex()


def test_committed_offsets_are_read():
    key = encode_key(OffsetCommitKey(group="g", topic="t", partition=3))
    value = encode_versioned(
        OffsetCommitValue(offset=17, leader_epoch=2, metadata="m", commit_timestamp=5), 3
    )
    assert offsets_decoder(key, value) == (
        {"type": "OffsetCommit", "group": "g", "topic": "t", "partition": 3},
        {
            "version": 3,
            "offset": 17,
            "leader_epoch": 2,
            "metadata": "m",
            "commit_timestamp": 5,
            "expire_timestamp": -1,
            "topic_id": "AAAAAAAAAAAAAAAAAAAAAA",
        },
    )
    assert offsets_decoder(key, None)[1] is None


def test_members_of_a_group_show_what_they_subscribe_to():
    subscription = encode_versioned(ConsumerProtocolSubscription(topics=["orders"]), 1)
    member = GroupMetadataValue.Member(
        member_id="m",
        client_id="c",
        client_host="/h",
        session_timeout=1,
        subscription=subscription,
        assignment=b"\0",
    )
    group = GroupMetadataValue(
        protocol_type="consumer", generation=4, protocol="range", leader="m", members=[member]
    )
    _, shown = offsets_decoder(encode_key(GroupMetadataKey(group="g")), encode_versioned(group, 3))
    assert shown["generation"] == 4
    assert shown["members"][0]["subscription"]["topics"] == ["orders"]
    assert shown["members"][0]["assignment"]["undecodable"] == "00"
    group.protocol_type, member.assignment = "connect", b""
    _, shown = offsets_decoder(encode_key(GroupMetadataKey(group="g")), encode_versioned(group, 3))
    assert shown["members"][0]["subscription"] == subscription.hex()


def test_ids_are_shown_as_kafka_spells_them():
    topic = ConsumerGroupTargetAssignmentMemberValue.Topic(topic_id=uuid.UUID(int=1 << 120), partitions=[1])
    key = encode_key(ConsumerGroupTargetAssignmentMemberKey(group_id="g", member_id="m"))
    value = encode_versioned(ConsumerGroupTargetAssignmentMemberValue(topic_partitions=[topic]), 0)
    assert offsets_decoder(key, value)[1]["topic_partitions"][0]["topic_id"] == format_id(topic.topic_id)


def test_transactions_are_read_with_the_name_of_their_state():
    key = encode_key(TransactionLogKey(transactional_id="t"))
    value = TransactionLogValue(
        producer_id=1,
        producer_epoch=2,
        transaction_timeout_ms=3,
        transaction_status=4,
        transaction_partitions=[TransactionLogValue.Topic(topic="orders", partition_ids=[0])],
        transaction_last_update_timestamp_ms=5,
        transaction_start_timestamp_ms=6,
    )
    shown_key, shown = transactions_decoder(key, encode_versioned(value, 1))
    assert shown_key == {"type": "TransactionLog", "transactional_id": "t"}
    assert shown["transaction_status"] == "CompleteCommit"
    assert shown["transaction_partitions"] == [{"topic": "orders", "partition_ids": [0]}]


def test_what_cannot_be_read_is_shown_in_hex_with_the_reason():
    assert offsets_decoder(b"\0\x63", b"\1")[0] == {
        "undecodable": "0063",
        "reason": "record type 99 is not known",
    }
    assert offsets_decoder(None, b"\1")[1]["undecodable"] == "01"
    assert offsets_decoder(None, None) == (None, None)
    assert offsets_decoder(b"\0", b"\1")[0]["undecodable"] == "00"
    key = encode_key(OffsetCommitKey(group="g", topic="t", partition=3))
    assert offsets_decoder(key, b"\0\x09")[1]["undecodable"] == "0009"


@given(st.binary() | st.none(), st.binary() | st.none())
def test_no_bytes_upset_a_decoder(key, value):
    for decode in (offsets_decoder, transactions_decoder, decoder_of("json", "string")):
        decode(key, value)


@pytest.mark.parametrize("flag", ["--offsets-decoder", "--transaction-log-decoder"])
def test_a_topic_decoder_implies_printing_the_data(tmp_path, flag):
    path = write(tmp_path, f"{SEGMENT}.log", build([record(0, key=b"\0\x63", value=None)]))
    (shown,) = dump("--json", flag, path).objects
    assert shown["key"]["reason"] == "record type 99 is not known"
    assert shown["value"] is None


def test_decoders_of_keys_and_values_are_chosen_apart(tmp_path):
    path = write(tmp_path, f"{SEGMENT}.log", build([record(0, key=b"\xff", value=b'{"a":1}')]))
    options = ("--print-data-log", "--key-decoder", "hex", "--value-decoder", "json")
    (shown,) = dump("--json", *options, path).objects
    assert (shown["key"], shown["value"]) == ("ff", {"a": 1})
    (shown,) = dump(*options, path).rows()
    assert (shown["key"], shown["value"]) == ("ff", '{"a": 1}')
