"""Groups of the consumer protocol: what they refuse, what they answer, and what their shard may ask of them."""

import copy

import pytest

from ottla.core.errors import ErrorCode, KafkaError
from ottla.groups.consumer import ConsumerGroup
from ottla.protocol.messages.consumer_groups import ConsumerGroupHeartbeatRequest
from tests.unit.groups.consumer_hosting import NOWHERE, World, places
from tests.unit.groups.hosting import GroupSettings, asker, surroundings


@pytest.fixture
def world():
    return World(orders=4, payments=2)


def refusal(call, *args, **kwargs):
    with pytest.raises(KafkaError) as caught:
        call(*args, **kwargs)
    return caught.value.code


def settled(world, *members):
    """Everybody has what it should have."""
    epochs = {member: world.join(member).member_epoch for member in members}
    for _ in range(3):
        for member in members:
            held = world.has(member)
            epochs[member] = world.beat(member, epochs[member], held).member_epoch
    assert world.group.state_name == "Stable"
    return epochs


BAD = {
    "no group id": {"group_id": "", "member_id": "x", "member_epoch": 0},
    "an epoch below -2": {"member_id": "a", "member_epoch": -3},
    "no member id": {"member_id": "", "member_epoch": 1},
    "no member id to leave with": {"member_id": "", "member_epoch": -1},
    "an empty instance id": {"member_id": "a", "member_epoch": 2, "instance_id": ""},
    "an empty rack": {"member_id": "a", "member_epoch": 2, "rack_id": ""},
    "leaving for a while without an instance id": {"member_id": "a", "member_epoch": -2},
    "a join without a rebalance timeout": {
        "member_id": "x",
        "member_epoch": 0,
        "subscribed_topic_names": ["orders"],
        "topic_partitions": [],
    },
    "a rebalance timeout of nothing": {
        "member_id": "x",
        "member_epoch": 0,
        "rebalance_timeout_ms": 0,
        "subscribed_topic_names": ["orders"],
        "topic_partitions": [],
    },
    "a negative rebalance timeout": {"member_id": "a", "member_epoch": 2, "rebalance_timeout_ms": -7},
    "a join without a subscription": {
        "member_id": "x",
        "member_epoch": 0,
        "rebalance_timeout_ms": 1,
        "topic_partitions": [],
    },
    "a join that does not say what it owns": {
        "member_id": "x",
        "member_epoch": 0,
        "rebalance_timeout_ms": 1,
        "subscribed_topic_names": ["orders"],
    },
}


@pytest.mark.parametrize("name", BAD)
def test_what_makes_no_sense_is_refused_and_changes_nothing(world, name):
    settled(world, "a")
    world.advance(1_000)
    written, deadline = len(world.log), world.shard.timers.next_deadline_ms()
    request = ConsumerGroupHeartbeatRequest(**{"group_id": "g", **BAD[name]})
    assert refusal(world.send, request) == ErrorCode.INVALID_REQUEST
    assert len(world.log) == written
    assert world.shard.timers.next_deadline_ms() == deadline


def test_a_join_that_claims_partitions_is_refused(world):
    owned = world.by_id(places("orders-0"))
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="x",
        member_epoch=0,
        rebalance_timeout_ms=1,
        subscribed_topic_names=["orders"],
        topic_partitions=owned,
    )
    assert refusal(world.send, request) == ErrorCode.INVALID_REQUEST
    assert not world.log


def test_the_coordinator_makes_ids_for_members_of_version_0_only(world):
    reply = world.join("", version=0)
    assert reply.member_id == "00000000-0000-0000-0000-000000000001"
    assert refusal(world.join, "", version=1) == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"server_assignor": "best"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ({"subscribed_topic_regex": "("}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ({"subscribed_topic_regex": "(?<!a)b"}, ErrorCode.INVALID_REGULAR_EXPRESSION),
    ],
)
def test_what_the_broker_cannot_do_changes_nothing(world, given, code):
    epoch = settled(world, "a")["a"]
    written = len(world.log)
    assert refusal(world.beat, "a", epoch, **given) == code
    assert refusal(world.join, "b", **given) == code
    assert len(world.log) == written
    assert set(world.group.clocks._running) == {"a"}


@pytest.mark.parametrize("epoch", [1, -1])
def test_there_is_no_heartbeat_without_a_group(world, epoch):
    assert refusal(world.beat, "a", epoch) == ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize("epoch", [1, -1])
def test_there_is_no_heartbeat_without_a_member(world, epoch):
    world.join("a")
    assert refusal(world.beat, "b", epoch) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_full_group_takes_nobody():
    world = World(GroupSettings(group_consumer_max_size=2), orders=4)
    settled(world, "a", "b")
    assert refusal(world.join, "c") == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert set(world.group.state.members) == {"a", "b"}
    assert world.join("a").error_code == 0


def test_the_settings_of_the_group_say_how_often_and_how_long():
    world = World(
        GroupSettings(consumer_heartbeat_interval_ms=123, consumer_session_timeout_ms=4_000), orders=1
    )
    assert world.join("a").heartbeat_interval_ms == 123
    world.advance(3_999)
    assert not world.group.is_empty
    world.advance(1)
    assert world.group.is_empty


def test_an_assignment_is_told_when_it_changes_or_when_the_member_tells_all_of_itself(world):
    epoch = settled(world, "a")["a"]
    assert world.told(world.beat("a", epoch)) is None
    assert world.told(world.beat("a", epoch, world.has("a"))) is None
    full = world.beat("a", epoch, NOWHERE, rebalance_timeout_ms=60_000, subscribed_topic_names=["orders"])
    assert world.told(full) == world.has("a") == places("orders-0 orders-1 orders-2 orders-3")


def test_an_idle_heartbeat_writes_nothing(world):
    epochs = settled(world, "a", "b")
    written = len(world.log)
    for member, epoch in epochs.items():
        world.beat(member, epoch, world.has(member))
        world.beat(member, epoch)
    assert len(world.log) == written


def test_the_preference_of_most_members_decides_the_assignor(world):
    world.join("a", server_assignor="range")
    assert world.group.describe().assignor_name == "range"
    world.join("b", server_assignor="uniform")
    assert world.group.describe().assignor_name == "uniform", "a draw is for the default"
    world.join("c", server_assignor="range")
    assert world.group.describe().assignor_name == "range"


def test_an_assignor_of_ones_own_is_loaded_by_its_place():
    settings = GroupSettings(group_consumer_assignors=(f"{__name__}:all_to_the_first",))
    world = World(settings, orders=3)
    world.join("b")
    world.join("a")
    assert world.named(world.group.state.targets["a"]) == places("orders-0 orders-1 orders-2")
    assert world.group.describe().assignor_name == "all_to_the_first"


def test_an_assignor_that_fails_keeps_the_member_out():
    world = World(GroupSettings(group_consumer_assignors=(f"{__name__}:out_of_order",)), orders=3)
    assert refusal(world.join, "a") == ErrorCode.UNKNOWN_SERVER_ERROR
    assert not world.log


def all_to_the_first(members, partition_counts):
    first = min(members)
    return {first: {topic: range(count) for topic, count in partition_counts.items()}}


def out_of_order(members, partition_counts):
    raise ZeroDivisionError


# --- commits and fetches ---


def test_members_commit_in_their_epoch(world):
    epoch = settled(world, "a")["a"]

    def check(member, epoch, version=9, is_txn=False):
        world.group.check_commit(member, epoch, None, asker(version), world.now, is_txn=is_txn)

    check("a", epoch)
    assert refusal(check, "a", epoch - 1) == ErrorCode.STALE_MEMBER_EPOCH
    assert refusal(check, "a", epoch + 1) == ErrorCode.STALE_MEMBER_EPOCH
    assert refusal(check, "b", epoch) == ErrorCode.UNKNOWN_MEMBER_ID
    assert refusal(check, "", -1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert refusal(check, "a", epoch, version=8) == ErrorCode.UNSUPPORTED_VERSION
    check("", -1, is_txn=True)
    assert refusal(check, "a", -1, is_txn=True) == ErrorCode.STALE_MEMBER_EPOCH
    world.go("a")
    check("", -1)


def test_members_fetch_in_their_epoch_and_others_without_one(world):
    epoch = settled(world, "a")["a"]
    world.group.check_fetch(None, -1)
    world.group.check_fetch("a", epoch)
    assert refusal(world.group.check_fetch, "a", epoch - 1) == ErrorCode.STALE_MEMBER_EPOCH
    assert refusal(world.group.check_fetch, "b", epoch) == ErrorCode.UNKNOWN_MEMBER_ID


def test_only_an_empty_group_is_deleted(world):
    world.join("a")
    group = world.group
    assert refusal(group.check_delete) == ErrorCode.NON_EMPTY_GROUP
    world.go("a")
    group.check_delete()
    world.delete_group("g")
    assert group.state_name == "Dead"
    assert refusal(group.check_delete) == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_deleted_group_leaves_no_record(world):
    world.join("a", None, subscribed_topic_regex="o.*")
    world.go("a")
    world.delete_group("g")
    last = {}
    for entry, _ in world.log:
        last[repr(entry.key)] = entry.value
    assert set(last.values()) == {None}


def test_a_group_knows_which_topics_it_reads(world):
    world.join("a", ["orders"])
    world.join("b", None, subscribed_topic_regex="pay.*")
    assert world.group.is_subscribed_to("orders")
    assert world.group.is_subscribed_to("payments")
    assert not world.group.is_subscribed_to("refunds")
    world.go("b")
    assert not world.group.is_subscribed_to("payments")


def test_a_group_knows_since_when_it_is_empty(world):
    world.join("a")
    assert world.group.empty_since_ms() is None
    world.advance(1_000)
    world.go("a")
    left_ms = world.now.wall_ms
    world.advance(1_000)
    assert world.group.empty_since_ms() == left_ms
    world.take_over()
    assert world.group.empty_since_ms() == world.now.wall_ms, "late, and never early"


def test_topics_that_do_not_concern_the_group_are_not_looked_at(world):
    settled(world, "a")
    assert not world.group.looks_again
    world.group.topics_changed(["payments"])
    assert not world.group.looks_again
    world.group.topics_changed(["orders"])
    assert world.group.looks_again


def test_a_group_is_what_its_shard_expects():
    group = ConsumerGroup("g", surroundings())
    assert (group.type_name, group.protocol_type, group.state_name) == ("Consumer", "consumer", "Empty")
    assert group.is_empty and not list(group.waiting())


def test_the_clocks_of_a_member_go_with_it(world):
    settled(world, "a", "b")
    world.go("a")
    assert set(world.group.clocks._running) == {"b"}
    world.go("b")
    world.delete_group("g")
    assert not len(world.shard.timers)


# --- a log that takes nothing ---

FULL = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "not enough replicas")


def soft(world):
    """What is in memory only, as far as it must agree with the log."""
    group = world.group
    return set(group.clocks._running), group.successor, copy.deepcopy(vars(group.state))


def test_what_could_not_be_written_has_not_happened(world):
    epoch = settled(world, "a")["a"]
    before = soft(world)
    world.host.refuse_with = FULL
    assert refusal(world.join, "b") == FULL.code
    assert soft(world) == before
    assert refusal(world.go, "a") == FULL.code
    assert soft(world) == before
    world.make_topic("orders", 5)
    assert refusal(world.beat, "a", epoch) == FULL.code
    world.host.refuse_with = None
    assert world.beat("a", epoch).member_epoch == epoch + 1, "the topic is looked at again"


def test_who_could_not_be_expelled_is_expelled_later(world):
    settled(world, "a")
    world.host.refuse_with = FULL
    world.advance(45_000)
    assert "a" in world.group.state.members
    world.host.refuse_with = None
    world.advance(45_000)
    assert world.group.is_empty


def test_a_group_that_could_not_change_its_protocol_has_no_successor(world):
    settled(world, "a")
    m = world.classic_enter().member_id
    before = soft(world)
    world.host.refuse_with = FULL
    assert refusal(world.go, "a") == FULL.code
    world.advance(0)
    assert soft(world) == before
    assert world.classic_beat(m, 3) == 0
