"""The member of a classic group, answer by answer."""

import pytest

from ottla.client.consumer.classic_member import ClassicMember, Next, Step
from ottla.core.errors import AuthorizationError, ErrorCode, FencedError, KafkaError
from ottla.protocol.messages.groups import JoinGroupRequest, JoinGroupResponse, SyncGroupResponse

VOTES = ["range", "sticky"]


def new_member(instance_id=None):
    return ClassicMember("group", instance_id, session_timeout_ms=6000, rebalance_timeout_ms=60_000)


def join_answer(code=0, generation_id=1, leader="me", member_id="me", **more):
    return JoinGroupResponse(
        error_code=code,
        generation_id=generation_id,
        protocol_type=more.pop("protocol_type", "consumer"),
        protocol_name=more.pop("protocol_name", "range"),
        leader=leader,
        member_id=member_id,
        members=[],
        **more,
    )


def sync_answer(code=0, protocol_name="range"):
    return SyncGroupResponse(error_code=code, protocol_name=protocol_name, assignment=b"")


def joined_member(instance_id=None, generation_id=1, member=None):
    member = member or new_member(instance_id)
    member.begin()
    member.join_request([])
    assert member.joined(join_answer(generation_id=generation_id), VOTES) is Next.GO_ON
    return member


def stable_member(instance_id=None, generation_id=1, member=None):
    member = joined_member(instance_id, generation_id, member)
    assert member.synced(member.sync_request(), sync_answer()) is Next.GO_ON
    return member


def beat(member, code):
    return member.beaten(member.heartbeat_request(), code)


def test_a_new_member_is_nobody_and_wants_to_join():
    member = new_member("instance")
    assert member.needs_join and not member.is_in and not member.beats
    assert member.metadata == ("group", -1, "", "instance")


def test_a_join_says_what_the_settings_say():
    member = new_member("instance")
    member.rejoin("because " * 100)
    member.begin()
    votes = [JoinGroupRequest.Protocol(name="range", metadata=b"wishes")]
    request = member.join_request(votes)
    assert (request.group_id, request.member_id, request.group_instance_id) == ("group", "", "instance")
    assert (request.session_timeout_ms, request.rebalance_timeout_ms) == (6000, 60_000)
    assert (request.protocol_type, request.protocols) == ("consumer", votes)
    assert request.reason is not None and len(request.reason) == 255


def test_the_first_join_is_told_an_id_and_asks_again_with_it():
    member = new_member()
    member.begin()
    member.join_request([])
    answer = join_answer(ErrorCode.MEMBER_ID_REQUIRED, generation_id=-1, member_id="given")
    assert member.joined(answer, VOTES) is Next.AT_ONCE
    request = member.join_request([])
    assert request.member_id == "given" and request.reason
    assert not member.is_in


def test_whoever_is_named_the_leader_leads():
    assert joined_member().is_leader
    follower = new_member()
    follower.begin()
    follower.joined(join_answer(leader="other"), VOTES)
    assert not follower.is_leader
    assert follower.step is Step.SYNCING and follower.beats and follower.is_in


def test_a_member_that_has_its_partitions_is_stable():
    member = stable_member()
    assert member.step is Step.STABLE and not member.needs_join
    assert member.metadata == ("group", 1, "me", None)
    request = member.sync_request()
    assert (request.generation_id, request.member_id, request.protocol_name) == (1, "me", "range")


@pytest.mark.parametrize(
    "code", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.REBALANCE_IN_PROGRESS], ids=str
)
def test_a_join_is_tried_again_after_a_pause(code):
    member = new_member()
    member.begin()
    assert member.joined(join_answer(code), VOTES) is Next.AGAIN


@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE], ids=str)
def test_a_coordinator_that_moved_is_looked_for_and_nothing_is_lost(code):
    member = stable_member()
    member.rejoin("whatever")
    member.begin()
    assert member.joined(join_answer(code), VOTES) is Next.ELSEWHERE
    assert member.is_in and member.member_id == "me"
    member = joined_member()
    assert member.synced(member.sync_request(), sync_answer(code)) is Next.ELSEWHERE
    member = stable_member()
    assert beat(member, code) is Next.ELSEWHERE
    assert member.is_in and not member.needs_join


def test_a_join_of_somebody_that_the_group_has_forgotten_begins_anew():
    member = stable_member()
    member.rejoin("whatever")
    member.begin()
    assert member.joined(join_answer(ErrorCode.UNKNOWN_MEMBER_ID), VOTES) is Next.PREPARE
    assert not member.is_in and member.member_id == "" and member.needs_join


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.INVALID_SESSION_TIMEOUT,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
    ids=str,
)
def test_a_refused_join_is_an_error_that_names_the_group(code):
    member = new_member("instance")
    member.begin()
    with pytest.raises(KafkaError, match="group") as caught:
        member.joined(join_answer(code), VOTES)
    assert caught.value.code == code
    assert not member.is_in and member.needs_join


def test_refusals_have_the_class_for_what_can_be_done_about_them():
    member = new_member()
    with pytest.raises(AuthorizationError):
        member.joined(join_answer(ErrorCode.GROUP_AUTHORIZATION_FAILED), VOTES)
    with pytest.raises(FencedError):
        member.joined(join_answer(ErrorCode.FENCED_INSTANCE_ID), VOTES)


@pytest.mark.parametrize("other", [{"protocol_type": "connect"}, {"protocol_name": "theirs"}], ids=str)
def test_a_group_that_does_something_else_is_not_ours(other):
    member = new_member()
    member.begin()
    with pytest.raises(KafkaError, match=next(iter(other.values()))) as caught:
        member.joined(join_answer(**other), VOTES)
    assert caught.value.code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_old_brokers_do_not_say_the_type_of_the_protocol():
    member = new_member()
    member.begin()
    assert member.joined(join_answer(protocol_type=None), VOTES) is Next.GO_ON


def test_a_rebalance_during_the_sync_means_to_join_at_once_as_the_same_member():
    member = joined_member()
    assert member.synced(member.sync_request(), sync_answer(ErrorCode.REBALANCE_IN_PROGRESS)) is Next.AT_ONCE
    assert member.is_in and member.member_id == "me"


@pytest.mark.parametrize(
    ("code", "member_id"), [(ErrorCode.UNKNOWN_MEMBER_ID, ""), (ErrorCode.ILLEGAL_GENERATION, "me")]
)
def test_what_was_held_is_lost_with_the_generation_and_the_id_only_if_it_is_unknown(code, member_id):
    member = joined_member()
    assert member.synced(member.sync_request(), sync_answer(code)) is Next.PREPARE
    assert not member.is_in and member.member_id == member_id
    member = stable_member()
    assert beat(member, code) is Next.PREPARE
    assert not member.is_in and member.member_id == member_id and member.needs_join


@pytest.mark.parametrize(
    "code", [ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.INVALID_REQUEST]
)
def test_a_refused_sync_is_an_error(code):
    member = joined_member()
    with pytest.raises(KafkaError) as caught:
        member.synced(member.sync_request(), sync_answer(code))
    assert caught.value.code == code


def test_a_sync_for_another_protocol_is_an_error():
    member = joined_member()
    with pytest.raises(KafkaError) as caught:
        member.synced(member.sync_request(), sync_answer(protocol_name="sticky"))
    assert caught.value.code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_sync_that_a_heartbeat_has_overtaken_does_not_count():
    member = joined_member()
    request = member.sync_request()
    beat(member, ErrorCode.UNKNOWN_MEMBER_ID)
    assert member.synced(request, sync_answer()) is Next.PREPARE
    assert not member.is_in


def test_a_heartbeat_brings_the_news_of_a_rebalance():
    member = stable_member()
    assert beat(member, 0) is Next.GO_ON and not member.needs_join
    assert beat(member, ErrorCode.REBALANCE_IN_PROGRESS) is Next.GO_ON
    assert member.needs_join and member.is_in


def test_a_rebalance_is_no_news_to_who_is_in_it():
    member = joined_member()
    beat(member, ErrorCode.REBALANCE_IN_PROGRESS)
    assert member.rejoin_reason is None


def test_a_heartbeat_about_an_earlier_generation_does_not_count():
    member = stable_member()
    old = member.heartbeat_request()
    member.rejoin("whatever")
    stable_member(generation_id=2, member=member)
    assert member.beaten(old, ErrorCode.ILLEGAL_GENERATION) is Next.GO_ON
    assert member.is_in


def test_while_it_joins_a_member_does_not_listen_to_heartbeats():
    member = stable_member()
    old = member.heartbeat_request()
    member.rejoin("whatever")
    member.begin()
    assert not member.beats
    assert member.beaten(old, ErrorCode.ILLEGAL_GENERATION) is Next.GO_ON
    assert member.is_in


def test_a_fenced_member_is_out():
    member = stable_member("instance")
    with pytest.raises(FencedError, match="instance"):
        beat(member, ErrorCode.FENCED_INSTANCE_ID)
    assert not member.is_in


def test_a_heartbeat_that_is_not_allowed_is_an_error_but_the_session_goes_on():
    member = stable_member()
    with pytest.raises(AuthorizationError):
        beat(member, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    assert member.is_in and member.beats


def test_a_coordinator_that_loads_is_waited_for():
    assert beat(stable_member(), ErrorCode.COORDINATOR_LOAD_IN_PROGRESS) is Next.AGAIN
    member = joined_member()
    outcome = member.synced(member.sync_request(), sync_answer(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    assert outcome is Next.AGAIN


def test_the_first_reason_to_join_again_is_the_one_that_is_told():
    member = stable_member()
    member.rejoin("one")
    member.rejoin("two")
    member.begin()
    assert member.join_request([]).reason == "one"
    assert member.rejoin_reason is None


def test_a_reason_that_comes_up_during_a_join_leads_to_another():
    member = joined_member()
    member.rejoin("the subscription has changed")
    assert not member.needs_join
    member.synced(member.sync_request(), sync_answer())
    assert member.needs_join


def test_a_member_whose_work_failed_joins_again_and_keeps_what_it_has():
    member = joined_member()
    member.stop()
    assert member.needs_join and member.is_in


def test_a_member_leaves_with_a_reason_if_the_broker_wants_to_hear_it():
    member = stable_member()
    new = member.leave_request(5, "enough")
    assert [(each.member_id, each.reason) for each in new.members] == [("me", "enough")]
    old = member.leave_request(2, "enough")
    assert (old.member_id, old.members) == ("me", [])


def test_static_members_and_strangers_go_silently():
    assert stable_member().says_goodbye
    assert not stable_member("instance").says_goodbye
    assert not new_member().says_goodbye
