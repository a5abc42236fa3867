"""A member, as it joins and as the log remembers it."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.groups.classic_member import (
    ClassicMember,
    Supported,
    from_record,
    new_member_id,
    subscribed_topics,
    to_record,
)
from ottla.protocol.messages.coordinator_records import GroupMetadataValue
from tests.unit.groups.classics import subscription

PROTOCOLS = (Supported("range", b"r"), Supported("sticky", b"s"))
MEMBER = ClassicMember("m-1", "i", "client", "/127.0.0.1", 60_000, 10_000, "consumer", PROTOCOLS)


def test_the_log_remembers_of_its_protocols_the_one_that_was_chosen():
    value = GroupMetadataValue(
        protocol_type="consumer", generation=1, protocol="sticky", leader="m-1", members=[]
    )
    loaded = from_record(value, to_record(MEMBER, "sticky", b"mine"))
    assert loaded.protocols == (Supported("sticky", b"s"),)
    assert loaded.assignment == b"mine"
    kept = (
        "member_id",
        "instance_id",
        "client_id",
        "client_host",
        "rebalance_timeout_ms",
        "session_timeout_ms",
    )
    assert all(getattr(loaded, name) == getattr(MEMBER, name) for name in kept)


def test_a_protocol_that_it_does_not_support_has_no_metadata():
    assert MEMBER.metadata("sticky") == b"s"
    assert MEMBER.metadata("modern") == MEMBER.metadata(None) == b""


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_topics_are_found_in_every_version_of_a_subscription(version):
    assert subscribed_topics(subscription("b", "a", version=version)) == {"a", "b"}


def test_topics_are_found_in_versions_to_come():
    future = subscription("a", version=3)
    assert subscribed_topics(b"\x00\x09" + future[2:] + b"more") == {"a"}


@given(st.binary(max_size=64))
def test_no_bytes_are_too_strange(junk):
    topics = subscribed_topics(junk)
    assert topics is None or all(isinstance(topic, str) for topic in topics)


def test_one_unreadable_protocol_makes_all_topics_possible():
    protocols = (Supported("range", subscription("a")), Supported("sticky", b"?"))
    assert ClassicMember("m", None, "", "", 1, 1, "consumer", protocols).topics() is None
    assert ClassicMember("m", None, "", "", 1, 1, "consumer", protocols[:1]).topics() == {"a"}
    assert ClassicMember("m", None, "", "", 1, 1, "connect", protocols[:1]).topics() is None


def test_an_id_begins_with_the_name_of_its_member_and_fits_into_a_record():
    assert new_member_id("tea", None, uuid.UUID(int=1)) == "tea-00000000-0000-0000-0000-000000000001"
    assert new_member_id("tea", "pot", uuid.UUID(int=1)) == "pot-00000000-0000-0000-0000-000000000001"
    for names in (("\u20ac" * 10_000, None), ("tea", "\u20ac" * 10_000)):
        assert len(new_member_id(*names, uuid.UUID(int=1)).encode()) < 1_000
