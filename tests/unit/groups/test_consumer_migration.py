"""Groups that change their protocol: up."""

import pytest

from ottla.core.errors import ErrorCode, KafkaError
from ottla.groups.classic import ClassicGroup
from ottla.groups.consumer_migration import check_upgrade, decide_upgrade, from_classic
from ottla.protocol.messages.consumer_groups import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.coordinator_records import GroupMetadataKey
from tests.unit.groups.consumer_hosting import World, places
from tests.unit.groups.hosting import GroupSettings, asker


def refusal(call, *args):
    with pytest.raises(KafkaError) as caught:
        call(*args)
    return caught.value.code


def classic_of(world):
    group = world.shard._groups.get("g")
    assert isinstance(group, ClassicGroup)
    return group


@pytest.fixture
def world():
    return World(orders=4)


def test_members_are_where_the_last_generation_put_them(world):
    m, n = world.classic_group_of(places("orders-0"), places("orders-1 orders-2"))
    upgrade = from_classic(classic_of(world), world.shard._around, world.now)
    state = upgrade.group.state
    assert (state.epoch, state.assignment_epoch, upgrade.group.state_name) == (1, 1, "Stable")
    assert world.named(state.members[m].assigned) == world.named(state.targets[m]) == places("orders-0")
    assert world.named(state.members[n].assigned) == places("orders-1 orders-2")
    assert state.members[m].classic.session_timeout_ms == 10_000
    assert state.members[m].rebalance_timeout_ms == 60_000
    assert upgrade.entries[0].key == GroupMetadataKey(group="g") and upgrade.entries[0].value is None
    assert not upgrade.answers
    assert classic_of(world).state_name == "Stable", "the classic group is as it was"


def test_who_waits_in_the_classic_group_is_told_to_join_again(world):
    (m,) = world.classic_group_of(places("orders-0"))
    new_id = world.classic_join().reply.member_id
    waiting = world.classic_join(new_id)
    assert waiting.is_waiting
    world.join("a")
    assert waiting.reply.code == ErrorCode.REBALANCE_IN_PROGRESS
    assert set(world.group.state.members) == {m, new_id, "a"}
    assert world.classic_beat(m, 1) == ErrorCode.REBALANCE_IN_PROGRESS


def test_sessions_of_classic_members_go_on(world):
    (_m,) = world.classic_group_of(places("orders-0"))
    world.join("a")
    world.advance(10_000)
    assert set(world.group.state.members) == {"a"}


@pytest.mark.parametrize(
    ("policy", "is_fine"),
    [("upgrade", True), ("Bidirectional", True), ("downgrade", False), ("disabled", False)],
)
def test_the_policy_decides(world, policy, is_fine):
    world.classic_group_of(places("orders-0"))
    world.settings.group_consumer_migration_policy = policy
    if is_fine:
        assert world.join("a").member_epoch == 2
    else:
        assert refusal(world.join, "a") == ErrorCode.GROUP_ID_NOT_FOUND
        assert classic_of(world).state_name == "Stable"


def test_a_group_that_is_too_large_stays_what_it_is():
    world = World(GroupSettings(group_consumer_max_size=1), orders=1)
    world.classic_group_of(places("orders-0"), frozenset())
    assert refusal(check_upgrade, classic_of(world), world.shard._around) == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_of_something_else_than_consumers_stays_what_it_is(world):
    m = world.classic_join(protocol_type="connect").reply.member_id
    world.classic_join(m, protocol_type="connect")
    assert refusal(world.join, "a") == ErrorCode.GROUP_ID_NOT_FOUND


def test_assignments_that_cannot_be_read_keep_the_group_what_it_is(world):
    (m,) = world.classic_group_of(places("orders-0"))
    classic_of(world).members[m].assignment = b"\x00\x01rubbish"
    written = len(world.log)
    assert refusal(world.join, "a") == ErrorCode.GROUP_ID_NOT_FOUND
    assert len(world.log) == written


def test_an_empty_group_changes_whatever_the_policy_is(world):
    world.settings.group_consumer_migration_policy = "disabled"
    (m,) = world.classic_group_of(places("orders-0"))
    world.classic_leave((m, None))
    classic = classic_of(world)
    assert classic.is_empty
    upgrade = from_classic(classic, world.shard._around, world.now)
    assert upgrade.group.is_empty and len(upgrade.entries) == 1
    assert world.join("a").error_code == 0
    assert set(world.group.state.members) == {"a"}


def test_a_refused_join_leaves_the_classic_group_and_no_clocks(world):
    world.classic_group_of(places("orders-0"))
    timers, written = len(world.shard.timers), len(world.log)
    with pytest.raises(KafkaError):
        world.join("a", subscribed_topic_regex="(")
    assert (len(world.shard.timers), len(world.log)) == (timers, written)
    assert classic_of(world).state_name == "Stable"


@pytest.mark.parametrize("epoch", [1, -1])
def test_only_a_join_changes_the_protocol(world, epoch):
    world.classic_group_of(places("orders-0"))
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=epoch)
    args = (classic_of(world), world.shard._around, request, asker(1), world.now)
    assert refusal(decide_upgrade, *args) == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_static_classic_member_may_come_back_with_the_new_protocol(world):
    world.join("a")
    first = world.classic_join(instance="i").reply
    world.beat("a", 2, places("orders-0 orders-1"))
    world.classic_join(first.member_id, instance="i")
    reply = world.join("b", instance_id="i")
    assert world.told(reply) == places("orders-2 orders-3")
    assert world.group.state.members["b"].classic is None
