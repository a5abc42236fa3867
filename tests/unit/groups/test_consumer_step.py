"""What one request makes of a group."""

import sys

import pytest

from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.patterns import compile_pattern
from ottla.groups.consumer_member import NOTHING, Member, MemberState, metadata_value
from ottla.groups.consumer_state import ConsumerState
from ottla.groups.consumer_step import Step
from ottla.protocol.messages.coordinator_records import (
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
)
from tests.unit.groups.consumer_hosting import World, places
from tests.unit.groups.hosting import START, surroundings


@pytest.fixture
def world():
    return World(orders=2, payments=1)


def kinds(entries):
    return [type(entry.key).__name__.removeprefix("ConsumerGroup").removesuffix("Key") for entry in entries]


def written(world, act):
    before = len(world.log)
    act()
    return kinds(entry for entry, _ in world.log[before:])


def step_of(state, world):
    return Step("g", state, surroundings(topics=world.topics), START)


def test_a_step_changes_nothing_by_itself(world):
    state = ConsumerState()
    step = step_of(state, world)
    after = step.advance(
        Member("a"), Member("a", topic_names=frozenset({"orders"})), NOTHING, looks_again=True
    )
    assert after.epoch == step.epoch == 2 and world.named(after.assigned) == places("orders-0 orders-1")
    assert vars(state) == vars(ConsumerState())
    for entry in step.entries:
        state.apply(entry)
    assert state.members["a"] == after


def test_a_group_begins_in_epoch_1_and_moves_on_with_its_first_subscription(world):
    assert world.join("a", []).member_epoch == 1
    assert world.join("b", []).member_epoch == 1, "nobody reads anything new"
    assert world.join("c").member_epoch == 2


def test_each_kind_of_record_is_written_when_it_is_due(world):
    everything = ["MemberMetadata", "Metadata", "TargetAssignmentMember"]
    everything += ["TargetAssignmentMetadata", "CurrentMemberAssignment"]
    assert written(world, lambda: world.join("a")) == everything
    assert written(world, lambda: world.beat("a", 2)) == []
    assert written(world, lambda: world.beat("a", 2, rack_id="r")) == ["MemberMetadata"]
    assert written(world, lambda: world.beat("a", 2, server_assignor="range")) == ["MemberMetadata"]
    world.make_topic("orders", 3)
    assert written(world, lambda: world.beat("a", 2)) == everything[1:]


def test_topics_that_were_looked_at_in_vain_write_nothing(world):
    world.join("a")
    world.take_over()
    assert written(world, lambda: world.beat("a", 2)) == []
    assert not world.group.looks_again


def test_what_older_coordinators_wrote_goes_with_the_next_epoch(world):
    world.join("a")
    world.write(
        ConsumerGroupPartitionMetadataKey(group_id="g"), ConsumerGroupPartitionMetadataValue(topics=[])
    )
    assert written(world, lambda: world.beat("a", 2)) == []
    assert "PartitionMetadata" in written(world, lambda: world.join("b"))
    assert "PartitionMetadata" not in written(world, lambda: world.join("c"))


def test_who_takes_anothers_place_inherits_everything_but_the_epoch(world):
    state = ConsumerState()
    old = Member(
        "old",
        epoch=5,
        state=MemberState.UNREVOKED_PARTITIONS,
        instance_id="i",
        topic_names=frozenset({"orders"}),
        to_revoke={world.topics.topics["orders"].topic_id: frozenset({1})},
    )
    new = step_of(state, world).replace(old, "new")
    assert new == old._replace(
        id="new", epoch=0, previous_epoch=0, state=MemberState.STABLE, to_revoke=NOTHING
    )


def test_who_takes_anothers_place_with_other_wishes_starts_an_epoch(world):
    world.join("a", instance_id="i")
    world.go("a", -2, "i")
    reply = world.join("b", ["orders", "payments"], instance_id="i")
    assert reply.member_epoch == 3
    assert world.told(reply) == places("orders-0 orders-1 payments-0")
    assert set(world.group.state.members) == set(world.group.state.targets) == {"b"}


def test_who_comes_back_under_its_own_id_is_one_member(world):
    world.join("a", instance_id="i")
    world.go("a", -2, "i")
    reply = world.join("a", instance_id="i")
    assert (reply.member_epoch, world.told(reply)) == (2, places("orders-0 orders-1"))
    assert world.group.state.static_members == {"i": "a"}


def test_who_came_back_under_its_own_id_has_a_session_like_everybody(world):
    world.join("a", instance_id="i")
    world.go("a", -2, "i")
    world.join("a", instance_id="i")
    world.advance(world.settings.consumer_session_timeout_ms)
    assert world.group.is_empty, "it was never heard of again"


def test_a_pattern_of_another_engine_hurts_neither_the_other_members_nor_their_clocks(world):
    epoch = world.join("a").member_epoch
    value = metadata_value(Member("from elsewhere", rebalance_timeout_ms=1, topic_regex="("))
    world.write(ConsumerGroupMemberMetadataKey(group_id="g", member_id="from elsewhere"), value)
    world.take_over()
    world.advance(world.settings.consumer_session_timeout_ms - 1)
    assert world.beat("a", epoch).error_code == ErrorCode.NONE
    world.join("b")
    with pytest.raises(KafkaError, match="INVALID_REGULAR_EXPRESSION"):
        world.join("c", None, subscribed_topic_regex=")")
    world.advance(1)
    assert set(world.group.state.members) == {"a", "b"}


def test_a_pattern_stays_what_it_was_when_the_engine_is_gone(world, monkeypatch):
    world.join("a", None, subscribed_topic_regex="o.*")
    monkeypatch.setitem(sys.modules, "re2", None)
    compile_pattern.cache_clear()
    world.make_topic("others", 1)
    assert world.told(world.beat("a", 2)) is None
    assert world.group.is_subscribed_to("orders")
