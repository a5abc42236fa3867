"""Heartbeats taken in and answered, members shown."""

from ottla.groups.consumer_member import Member
from ottla.groups.consumer_requests import farewell, heartbeat_reply, leaves, owned_by, taken_in
from ottla.protocol.messages.consumer_groups import ConsumerGroupHeartbeatRequest
from tests.unit.groups.consumer_hosting import World, places
from tests.unit.groups.hosting import asker

WHO = asker(1, "client", "/host")
KNOWN = Member(
    "m",
    epoch=2,
    instance_id="i",
    rack_id="r",
    rebalance_timeout_ms=5,
    client_id="client",
    client_host="/host",
    topic_names=frozenset({"orders"}),
    topic_regex="p.*",
    assignor="range",
)


def heartbeat(**given):
    return ConsumerGroupHeartbeatRequest(**{"group_id": "g", "member_id": "m", "member_epoch": 2, **given})


def test_what_a_member_leaves_out_stays_as_it_was():
    assert taken_in(KNOWN, heartbeat(), WHO) == KNOWN


def test_what_a_member_says_is_taken_in():
    said = heartbeat(
        rack_id="s",
        rebalance_timeout_ms=7,
        subscribed_topic_names=[],
        subscribed_topic_regex="",
        server_assignor="uniform",
    )
    after = taken_in(KNOWN, said, asker(1, "other", "/elsewhere"))
    assert (after.rack_id, after.rebalance_timeout_ms, after.assignor) == ("s", 7, "uniform")
    assert (after.topic_names, after.topic_regex) == (frozenset(), None)
    assert (after.client_id, after.client_host, after.instance_id) == ("other", "/elsewhere", "i")


def test_saying_nothing_about_partitions_is_not_owning_none():
    assert owned_by(heartbeat()) is None
    assert owned_by(heartbeat(topic_partitions=[])) == {}


def test_who_leaves():
    assert [leaves(heartbeat(member_epoch=epoch)) for epoch in (-2, -1, 0, 1)] == [True, True, False, False]
    reply = farewell("m", -2)
    assert (reply.member_id, reply.member_epoch, reply.assignment) == ("m", -2, None)


def test_a_full_heartbeat_is_one_with_timeout_subscription_and_partitions():
    def told(**given):
        return heartbeat_reply(heartbeat(**given), KNOWN, KNOWN, 5).assignment is not None

    full = {"rebalance_timeout_ms": 7, "subscribed_topic_names": ["orders"], "topic_partitions": []}
    assert told(**full)
    for name in full:
        assert not told(**{key: value for key, value in full.items() if key != name})
    assert told(rebalance_timeout_ms=7, subscribed_topic_regex="p.*", topic_partitions=[])
    assert told(member_epoch=0)


def test_a_group_is_shown_with_what_members_have_and_shall_have():
    world = World(orders=2)
    world.join("a", rack_id="r")
    world.join("b", ["orders", "gone"], instance_id="i")
    group = world.shard.describe_consumer("g")
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Reconciling", 3, 3)
    a, b = group.members
    assert (a.member_id, a.member_epoch, a.rack_id, a.member_type, a.client_id) == ("a", 2, "r", 1, "client")
    assert world.named(a.assignment.topic_partitions) == places("orders-0 orders-1")
    assert world.named(a.target_assignment.topic_partitions) == places("orders-0")
    assert (b.instance_id, b.subscribed_topic_names, b.subscribed_topic_regex) == (
        "i",
        ["gone", "orders"],
        "",
    )
    assert a.assignment.topic_partitions[0].topic_name == "orders"
    world.delete_topic("orders")
    assert not world.shard.describe_consumer("g").members[0].assignment.topic_partitions
