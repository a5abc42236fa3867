"""Blobs of classic consumers."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.core.errors import ProtocolError
from ottla.groups.consumer_protocol import read_assignment, read_subscription, write_assignment
from ottla.protocol.codec import encode_versioned
from ottla.protocol.messages.subscription import ConsumerProtocolSubscription, TopicPartitions
from tests.unit.groups.consumer_hosting import World, assigned, places

WORLD = World(orders=4, payments=1)
SAID = ConsumerProtocolSubscription(
    topics=["orders", "unknown"],
    owned_partitions=[
        TopicPartitions(topic="orders", partitions=[0, 1]),
        TopicPartitions(topic="unknown", partitions=[0]),
        TopicPartitions(topic="orders", partitions=[3]),
        TopicPartitions(topic="payments", partitions=[]),
    ],
    rack_id="rack",
)


def test_a_subscription_is_read_with_ids():
    read = read_subscription(encode_versioned(SAID, 3), WORLD.topics)
    assert read.topic_names == {"orders", "unknown"}
    assert WORLD.named(read.owned) == places("orders-0 orders-1 orders-3")
    assert len(read.owned) == 1
    assert read.rack_id == "rack"


def test_the_first_version_owns_nothing():
    assert read_subscription(encode_versioned(SAID, 0), WORLD.topics)[1:] == ({}, None)


def test_a_newer_version_is_read_as_our_newest():
    blob = b"\x00\x09" + encode_versioned(SAID, 3)[2:] + b"something new"
    assert read_subscription(blob, WORLD.topics).topic_names == {"orders", "unknown"}


@pytest.mark.parametrize("version", [0, 1, 2, 3, 9])
def test_an_assignment_comes_in_the_version_of_the_subscription(version):
    partitions = read_subscription(encode_versioned(SAID, 3), WORLD.topics).owned
    blob = write_assignment(partitions, version.to_bytes(2, "big"), WORLD.topics)
    assert blob[:2] == min(version, 3).to_bytes(2, "big")
    assert assigned(blob) == places("orders-0 orders-1 orders-3")
    assert read_assignment(blob, WORLD.topics) == partitions


def test_no_assignment_is_no_partitions():
    assert read_assignment(b"", WORLD.topics) == {}


@given(st.binary(max_size=40))
def test_bytes_that_are_none_are_refused_in_one_way(blob):
    for read in (read_subscription, read_assignment):
        with contextlib.suppress(ProtocolError):
            read(blob, WORLD.topics)
