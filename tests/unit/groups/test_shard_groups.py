"""Which group a record belongs to, whatever came before it."""

import pytest

from ottla.groups.classic import ClassicGroup
from ottla.groups.consumer import ConsumerGroup
from ottla.groups.shard_groups import CONSUMER_KEYS, Groups
from ottla.protocol.messages import coordinator_records as records
from ottla.protocol.messages.record_types import CONSUMER_OFFSETS
from ottla.replication.machine import Entry
from tests.unit.groups.hosting import surroundings

KEY = records.ConsumerGroupMetadataKey(group_id="group")
EPOCH = Entry(KEY, records.ConsumerGroupMetadataValue(epoch=1))
CLASSIC = records.GroupMetadataValue(
    protocol_type="consumer", generation=4, protocol=None, leader=None, members=[]
)


@pytest.fixture
def with_offsets() -> set[str]:
    """The groups that have offsets."""
    return set()


@pytest.fixture
def groups(with_offsets) -> Groups:
    return Groups(surroundings(), None, with_offsets.__contains__)


def test_every_record_of_consumer_groups_is_known_as_one():
    named = {row.key for row in CONSUMER_OFFSETS.values() if row.key.__name__.startswith("ConsumerGroup")}
    assert named == CONSUMER_KEYS


def test_a_record_of_a_consumer_group_replaces_what_only_kept_offsets(groups):
    groups.apply_commit("group")
    assert isinstance(groups.get("group"), ClassicGroup)
    groups.apply_consumer(EPOCH)
    assert isinstance(groups.get("group"), ConsumerGroup)


def test_a_stray_record_does_not_end_a_group_of_the_other_type(groups):
    groups.apply_classic("group", CLASSIC)
    groups.apply_consumer(EPOCH)
    groups.apply_consumer(Entry(KEY))
    assert isinstance(groups.get("group"), ClassicGroup)
    other = Entry(records.ConsumerGroupMetadataKey(group_id="other"), EPOCH.value)
    groups.apply_consumer(other)
    groups.apply_classic("other", CLASSIC)
    groups.apply_classic("other", None)
    assert isinstance(groups.get("other"), ConsumerGroup)


def test_tombstones_for_nobody_make_nobody(groups):
    groups.apply_classic("group", None)
    groups.apply_consumer(Entry(KEY))
    assert list(groups) == []


@pytest.mark.parametrize("has_offsets", [True, False])
def test_who_is_erased_is_gone_unless_there_are_offsets(groups, with_offsets, has_offsets):
    if has_offsets:
        with_offsets.add("group")
    groups.apply_classic("group", CLASSIC)
    groups.apply_classic("group", None)
    assert [group.protocol_type for group in groups] == [""] * has_offsets
    groups.apply_consumer(EPOCH)
    groups.apply_consumer(Entry(KEY))
    assert [group.type_name for group in groups] == ["Classic"] * has_offsets
