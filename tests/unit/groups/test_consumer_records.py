"""Records of a group: they survive the bytes, and erase what they should."""

import uuid

from ottla.groups.consumer_member import Member
from ottla.groups.consumer_records import (
    current_entry,
    epoch_entry,
    member_entry,
    no_group_entries,
    no_member_entries,
    no_partition_metadata_entry,
    regex_entry,
    target_entry,
    target_epoch_entry,
)
from ottla.protocol.messages.record_types import CONSUMER_OFFSETS, encode_key, record_type
from tests.unit.groups.hosting import as_kept

T, U = uuid.UUID(int=1), uuid.UUID(int=2)
WRITTEN = [
    epoch_entry("g", 3, -5),
    member_entry("g", Member("m", topic_names=frozenset({"b", "a"}))),
    target_epoch_entry("g", 3, 1_700_000_000_000),
    target_entry("g", "m", {U: frozenset({1}), T: frozenset({3, 2})}),
    current_entry("g", Member("m", epoch=3, assigned={T: frozenset({1, 0})})),
    regex_entry("g", "p.*", {"pb", "pa"}, 2, 1_700_000_000_000),
]


def number(entry):
    return record_type(CONSUMER_OFFSETS, encode_key(entry.key)).number


def test_all_survive_their_bytes():
    assert [number(entry) for entry in WRITTEN] == [3, 5, 6, 7, 8, 16]
    assert [as_kept(entry) for entry in WRITTEN] == WRITTEN


def test_what_has_no_order_is_written_in_one():
    assert WRITTEN[1].value.subscribed_topic_names == ["a", "b"]
    assert [topic.topic_id for topic in WRITTEN[3].value.topic_partitions] == [T, U]
    assert WRITTEN[3].value.topic_partitions[0].partitions == [2, 3]
    assert WRITTEN[5].value.topics == ["pa", "pb"]


def test_a_member_and_a_group_are_erased_in_the_order_that_kafka_insists_on():
    assert [number(entry) for entry in no_member_entries("g", "m")] == [8, 7, 5]
    entries = no_group_entries("g", ["m", "n"], ["p.*"])
    assert [number(entry) for entry in entries] == [8, 8, 7, 7, 6, 5, 5, 16, 3]
    assert {entry.value for entry in [*entries, no_partition_metadata_entry("g")]} == {None}
    assert {repr(entry.key) for entry in WRITTEN} <= {repr(entry.key) for entry in entries}
