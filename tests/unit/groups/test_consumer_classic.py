"""Classic members in a group of the consumer protocol."""

import pytest

from ottla.core.errors import ErrorCode, KafkaError
from ottla.groups.consumer_member import ClassicClient, Member, metadata_value
from ottla.protocol.messages.coordinator_records import ConsumerGroupMemberMetadataKey
from ottla.protocol.messages.groups import JoinGroupRequest
from tests.unit.groups.consumer_hosting import NOWHERE, World, assigned, places
from tests.unit.groups.hosting import GroupSettings, asker


@pytest.fixture
def world():
    """With one member of the new protocol, which has everything."""
    world = World(orders=4)
    world.join("a")
    return world


def code_of(slip):
    return slip.reply.code if isinstance(slip.reply, KafkaError) else slip.reply.error_code


def refusal(call, *args, **kwargs):
    with pytest.raises(KafkaError) as caught:
        call(*args, **kwargs)
    return caught.value.code


def handed_over(world):
    """a gives up half, m takes it. Returns the id of m."""
    joined = world.classic_enter()
    world.beat("a", 2, places("orders-0 orders-1"))
    assert world.classic_beat(joined.member_id, joined.generation_id) == ErrorCode.REBALANCE_IN_PROGRESS
    world.classic_join(joined.member_id)
    assert world.classic_sync(joined.member_id, 3).reply.error_code == 0
    return joined.member_id


def test_the_first_answer_brings_an_id_since_version_4(world):
    written = len(world.log)
    reply = world.classic_join().reply
    assert reply.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert reply.member_id.startswith("client-") and reply.protocol_name is None
    assert len(world.log) == written
    assert world.classic_join(version=6).reply.protocol_name == ""
    assert world.classic_join(version=3).reply.error_code == 0


def test_a_join_is_answered_at_once_and_nobody_leads(world):
    reply = world.classic_enter(protocols=("sticky", "range"))
    assert (reply.generation_id, reply.leader, reply.members) == (3, "", [])
    assert (reply.protocol_type, reply.protocol_name) == ("consumer", "sticky")


def test_a_sync_tells_what_the_member_has(world):
    m = handed_over(world)
    assert assigned(world.classic_sync(m, 3).reply.assignment) == places("orders-2 orders-3")
    assert world.classic_beat(m, 3) == 0
    assert world.group.state_name == "Stable"


def test_an_eager_member_owns_nothing_when_it_joins(world):
    m = handed_over(world)
    world.join("b")
    assert world.classic_beat(m, 3) == ErrorCode.REBALANCE_IN_PROGRESS
    reply = world.classic_join(m, owns=NOWHERE).reply
    assert reply.generation_id == 4, "it has revoked everything before it joined"


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": ("sticky",)}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"session_ms": 1}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_ms": 1 << 30}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"instance": "i", "member": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_join_that_cannot_be_is_refused_and_changes_nothing(world, given, code):
    handed_over(world)
    written, clocks = len(world.log), len(world.group.clocks)
    assert code_of(world.classic_join(given.pop("member", ""), **given)) == code
    assert (len(world.log), len(world.group.clocks)) == (written, clocks)


def test_bytes_that_are_no_subscription_are_refused(world):
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=1,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequest.Protocol(name="range", metadata=b"\x00")],
    )
    slip = world.host.ask(world.shard.decide_join, request, asker(3))
    assert code_of(slip) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_full_group_takes_no_classic_members_either():
    world = World(GroupSettings(group_consumer_max_size=1), orders=1)
    world.join("a")
    assert code_of(world.classic_join()) == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_static_member_without_an_id_takes_the_place_of_its_predecessor(world):
    first = world.classic_join(instance="i").reply
    assert first.error_code == 0, "static members get no id to come back with"
    second = world.classic_join(instance="i").reply
    assert second.member_id != first.member_id
    assert second.generation_id == first.generation_id
    assert code_of(world.classic_join(first.member_id, instance="i")) == ErrorCode.FENCED_INSTANCE_ID
    assert refusal(world.classic_beat, first.member_id, 3, "i") == ErrorCode.FENCED_INSTANCE_ID
    assert world.classic_beat(second.member_id, 3, "i") == 0


@pytest.mark.parametrize("generation", [2, 4])
def test_generations_must_match(world, generation):
    m = handed_over(world)
    assert code_of(world.classic_sync(m, generation)) == ErrorCode.ILLEGAL_GENERATION
    assert refusal(world.classic_beat, m, generation) == ErrorCode.ILLEGAL_GENERATION


def test_members_of_the_new_protocol_do_not_speak_the_classic_one(world):
    assert refusal(world.classic_beat, "a", 2) == ErrorCode.UNKNOWN_MEMBER_ID
    assert code_of(world.classic_sync("a", 2)) == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.classic_leave(("a", None)) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert "a" in world.group.state.members


def test_a_sync_checks_the_protocol_that_it_names(world):
    m = handed_over(world)
    for given in ({"protocol_type": "connect"}, {"protocol_name": "sticky"}):
        assert code_of(world.classic_sync(m, 3, **given)) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    slip = world.classic_sync(m, 3, protocol_type="consumer", protocol_name="range")
    assert (slip.reply.protocol_type, slip.reply.protocol_name) == ("consumer", "range")


def test_who_syncs_too_late_must_join_again(world):
    m = handed_over(world)
    world.join("b")
    assert code_of(world.classic_sync(m, 3)) == ErrorCode.REBALANCE_IN_PROGRESS


def test_who_is_told_to_join_and_does_not_is_expelled(world):
    m = handed_over(world)
    world.join("b")
    for _ in range(7):
        assert world.classic_beat(m, 3) == ErrorCode.REBALANCE_IN_PROGRESS
        world.advance(8_000)
        for member in "ab":
            world.beat(member, world.group.state.members[member].epoch)
    world.classic_beat(m, 3)
    world.advance(4_000)
    assert m not in world.group.state.members


def test_a_session_is_as_long_as_the_member_said(world):
    m = handed_over(world)
    world.advance(9_999)
    assert m in world.group.state.members
    world.advance(1)
    assert m not in world.group.state.members


def test_several_leave_together_and_each_has_its_own_result(world):
    m = handed_over(world)
    world.classic_join(instance="i")
    epoch = world.group.state.epoch
    codes = world.classic_leave((m, None), ("", "i"), ("nobody", None), (m, None), ("x", "i"), ("", "j"))
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert codes == [0, 0, unknown, unknown, ErrorCode.FENCED_INSTANCE_ID, unknown]
    assert set(world.group.state.members) == {"a"}
    assert world.group.state.epoch == epoch + 1


def test_before_version_3_one_leaves_and_there_is_one_result(world):
    m = handed_over(world)
    assert world.classic_leave((m, None), version=2) == [0]
    assert world.classic_leave((m, None), version=2) == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_classic_members_commit_in_their_generation(world):
    m = handed_over(world)
    world.group.check_commit(m, 3, None, asker(2), world.now, is_txn=False)
    with pytest.raises(KafkaError) as caught:
        world.group.check_commit(m, 2, None, asker(9), world.now, is_txn=False)
    assert caught.value.code == ErrorCode.ILLEGAL_GENERATION


@pytest.mark.parametrize("protocols", [(), (("range", b""),), (("range", b"\xff\xff"),)])
def test_a_record_of_a_classic_member_that_makes_no_sense_stops_nobody(world, protocols):
    classic = ClassicClient(200_000, protocols)
    odd = Member("odd", rebalance_timeout_ms=500_000, topic_names=frozenset({"orders"}), classic=classic)
    world.write(ConsumerGroupMemberMetadataKey(group_id="g", member_id="odd"), metadata_value(odd))
    world.take_over()
    slip = world.classic_sync("odd", 0)
    assert isinstance(slip.reply, KafkaError) or slip.reply.error_code == ErrorCode.NONE
    world.advance(world.settings.consumer_session_timeout_ms)
    assert "a" not in {member.member_id for member in members_of(world)}, "it is expelled in time"
    world.advance(200_000)
    assert not members_of(world)


def members_of(world):
    """Whichever protocol the group speaks by now."""
    is_classic = world.shard.list((), ())[0].group_type == "Classic"
    found = world.shard.describe("g", asker(6)) if is_classic else world.shard.describe_consumer("g")
    return found.members
