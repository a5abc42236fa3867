"""Groups that change their protocol: down."""

import pytest

from ottla.core.errors import ErrorCode
from ottla.groups.classic import ClassicGroup
from ottla.groups.consumer import ConsumerGroup
from ottla.groups.consumer_downgrade import may_downgrade, to_classic
from ottla.protocol.messages.coordinator_records import GroupMetadataValue
from tests.unit.groups.consumer_hosting import World, assigned, places
from tests.unit.groups.hosting import GroupSettings


def mixed(settings=None, **given):
    """A member of the new protocol, and one of the classic, which has half of the partitions."""
    world = World(settings, orders=4)
    world.join("a", **given)
    m = world.classic_enter(protocols=("sticky", "range")).member_id
    instance = given.get("instance_id")
    world.beat("a", 2, places("orders-0 orders-1"), instance_id=instance)
    world.classic_join(m, protocols=("sticky", "range"))
    world.classic_sync(m, 3)
    assert world.group.state_name == "Stable"
    return world, m


def group_of(world):
    return world.shard._groups.get("g")


def test_when_the_last_of_the_new_protocol_goes_the_others_go_on_without_it():
    world, m = mixed()
    before = len(world.log)
    world.go("a")
    value = world.log[-1][0].value
    assert isinstance(value, GroupMetadataValue)
    assert (value.generation, value.protocol_type, value.protocol) == (3, "consumer", "sticky")
    (member,) = value.members
    assert (member.member_id, member.session_timeout, member.rebalance_timeout) == (m, 10_000, 60_000)
    assert assigned(member.assignment) == places("orders-2 orders-3"), "what it has"
    assert {entry.value for entry, _ in world.log[before:-1]} == {None}


def test_the_classic_group_begins_a_rebalance_and_keeps_all_protocols():
    world, m = mixed()
    world.go("a")
    world.advance(0)
    group = group_of(world)
    assert isinstance(group, ClassicGroup) and group.state_name == "PreparingRebalance"
    assert [one.name for one in group.members[m].protocols] == ["sticky", "range"]
    assert world.classic_beat(m, 3) == ErrorCode.REBALANCE_IN_PROGRESS
    reply = world.classic_join(m, protocols=("sticky", "range")).reply
    assert (reply.generation_id, reply.leader) == (4, m)


def test_sessions_go_on_in_the_classic_group():
    world, _m = mixed()
    world.go("a")
    world.advance(10_000)
    group = group_of(world)
    assert isinstance(group, ClassicGroup) and not group.members


def test_a_member_that_dies_takes_the_protocol_with_it():
    world, m = mixed()
    for _ in range(5):
        world.advance(9_000)
        world.classic_beat(m, 3)
    assert isinstance(group_of(world), ClassicGroup)


def test_a_shard_that_reads_the_log_finds_a_classic_group():
    world, m = mixed()
    world.go("a")
    world.take_over()
    group = group_of(world)
    assert isinstance(group, ClassicGroup) and set(group.members) == {m}


@pytest.mark.parametrize(
    ("policy", "is_fine"),
    [("downgrade", True), ("BIDIRECTIONAL", True), ("upgrade", False), ("disabled", False)],
)
def test_the_policy_decides(policy, is_fine):
    world, m = mixed()
    world.settings.group_consumer_migration_policy = policy
    world.go("a")
    assert isinstance(group_of(world), ClassicGroup if is_fine else ConsumerGroup)
    if not is_fine:
        world.classic_join(m)
        assert world.has(m) == places("orders-0 orders-1 orders-2 orders-3")


def test_it_is_not_for_groups_that_are_too_large_mixed_or_empty():
    world, m = mixed(GroupSettings(group_max_size=0))
    assert not may_downgrade(world.group.state, world.settings, "a")
    world.settings.group_max_size = 1
    assert may_downgrade(world.group.state, world.settings, "a")
    assert not may_downgrade(world.group.state, world.settings, m), (
        "a classic member that goes changes nothing"
    )
    world.join("b")
    assert not may_downgrade(world.group.state, world.settings, "a")
    alone = World(orders=1)
    alone.join("a")
    assert not may_downgrade(alone.group.state, alone.settings, "a")


def test_a_static_member_may_come_back_as_a_classic_one():
    world, m = mixed(instance_id="i")
    world.go("a", -2, "i")
    reply = world.classic_join(instance="i").reply
    assert (reply.error_code, reply.generation_id) == (0, 3)
    group = group_of(world)
    assert isinstance(group, ClassicGroup)
    assert set(group.members) == {m, reply.member_id}
    assert assigned(group.members[reply.member_id].assignment) == places("orders-0 orders-1")
    world.advance(0)
    assert group.state_name == "PreparingRebalance"
    read = world.new_shard()._groups.get("g")
    assert isinstance(read, ClassicGroup) and set(read.members) == set(group.members)


def test_no_partition_goes_to_two_members_while_they_move():
    world = World(orders=4)
    world.join("a")
    first = world.classic_enter().member_id
    world.beat("a", 2, places("orders-0 orders-1"))
    world.classic_join(first)
    second = world.classic_enter().member_id  # first must give something to it, and has not yet
    downgrade = to_classic("g", world.group.state, world.shard._around, world.now, leaving_id="a")
    given = {one.member_id: assigned(one.assignment) for one in downgrade.entries[-1].value.members}
    assert given[first] == places("orders-2 orders-3") and not given[second]
