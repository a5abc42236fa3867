"""The member of a KIP-848 group, heartbeat by heartbeat."""

import uuid

import pytest

from ottla.client.consumer.modern_member import ConsumerMember, Next, Step, Wishes
from ottla.client.consumer.subscription_pattern import SubscriptionPattern
from ottla.client.errors import UnsupportedVersionError
from ottla.core.errors import AuthorizationError, ErrorCode, KafkaError
from ottla.core.ids import parse_id
from ottla.protocol.messages.consumer_groups import ConsumerGroupHeartbeatResponse, TopicPartitions

TEA, MILK = uuid.UUID(int=1000), uuid.UUID(int=1001)
WISHES = Wishes(frozenset({"tea"}))


def answer(code=0, epoch=1, assignment=None, member_id=None, message=None):
    rows = None
    if assignment is not None:
        listed = [TopicPartitions(topic_id=each, partitions=sorted(assignment[each])) for each in assignment]
        rows = ConsumerGroupHeartbeatResponse.Assignment(topic_partitions=listed)
    return ConsumerGroupHeartbeatResponse(
        error_code=code,
        error_message=message,
        member_id=member_id,
        member_epoch=epoch,
        heartbeat_interval_ms=500,
        assignment=rows,
    )


def new_member(instance_id=None, **more):
    return ConsumerMember("group", instance_id, 60_000, **more)


def joined_member(instance_id=None, assignment=None):
    member = new_member(instance_id)
    member.join()
    member.request(WISHES, 1)
    assert member.answered(answer(assignment=assignment)) is Next.GO_ON
    return member


def test_a_join_says_everything_with_epoch_0():
    member = new_member("instance", rack_id="rack", assignor="uniform")
    member.join()
    request = member.request(WISHES, 1)
    assert (request.group_id, request.member_epoch, request.instance_id) == ("group", 0, "instance")
    assert (request.rebalance_timeout_ms, request.rack_id, request.server_assignor) == (
        60_000,
        "rack",
        "uniform",
    )
    assert (request.subscribed_topic_names, request.topic_partitions) == (["tea"], [])
    assert request.subscribed_topic_regex is None


def test_a_member_makes_its_own_id_unless_the_broker_is_too_old_for_that():
    member = new_member()
    member.join()
    parse_id(member.request(WISHES, 1).member_id)
    old = new_member()
    old.join()
    assert old.request(WISHES, 0).member_id == ""
    old.answered(answer(member_id="theirs"))
    assert old.request(WISHES, 0).member_id == "theirs"


def test_after_the_join_only_what_has_changed_is_said():
    member = joined_member()
    assert member.metadata[1] == 1 and member.heartbeat_interval_ms == 500
    request = member.request(WISHES, 1)
    assert request.member_epoch == 1
    said = (request.subscribed_topic_names, request.topic_partitions, request.server_assignor)
    assert said == (None, None, None) and request.rebalance_timeout_ms == -1
    assert not member.has_news(WISHES)
    other = Wishes(frozenset({"milk", "tea"}))
    assert member.has_news(other)
    assert member.request(other, 1).subscribed_topic_names == ["milk", "tea"]


def test_a_target_is_told_and_acknowledged_once_it_is_reached():
    member = joined_member(assignment={TEA: {0, 1}})
    assert member.target == {TEA: {0, 1}} and not member.has_news(WISHES)
    member.holds(member.target, member.target)
    assert member.target is None and member.has_news(WISHES)
    request = member.request(WISHES, 1)
    assert request.topic_partitions == [TopicPartitions(topic_id=TEA, partitions=[0, 1])]
    member.answered(answer())
    assert member.request(WISHES, 1).topic_partitions is None


def test_a_target_that_is_reached_in_part_is_acknowledged_in_part():
    member = joined_member(assignment={TEA: {0}, MILK: {1}})
    member.holds({TEA: frozenset({0})}, member.target)
    assert member.target is not None
    request = member.request(WISHES, 1)
    assert request.topic_partitions == [TopicPartitions(topic_id=TEA, partitions=[0])]


def test_a_target_that_came_meanwhile_is_not_taken_for_reached():
    member = joined_member(assignment={TEA: {0, 1}})
    first = member.target
    member.answered(answer(assignment={TEA: {0}}))
    member.holds(first, first)
    assert member.target == {TEA: {0}}


def test_the_same_target_is_acknowledged_again():
    member = joined_member(assignment={TEA: {0}})
    member.holds(member.target, member.target)
    member.request(WISHES, 1)
    member.answered(answer(assignment={TEA: {0}}))
    member.holds(member.target, member.target)
    assert member.request(WISHES, 1).topic_partitions is not None


def test_after_a_failure_everything_is_said_again():
    member = joined_member(assignment={TEA: {0}})
    member.holds(member.target, member.target)
    member.failed()
    request = member.request(WISHES, 1)
    assert request.member_epoch == 1
    assert request.subscribed_topic_names == ["tea"] and request.rebalance_timeout_ms == 60_000
    assert request.topic_partitions == [TopicPartitions(topic_id=TEA, partitions=[0])]


@pytest.mark.parametrize(
    "code",
    [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND],
    ids=str,
)
def test_a_fenced_member_holds_nothing_and_joins_as_the_same_member(code):
    member = joined_member(assignment={TEA: {0}})
    member.holds(member.target, member.target)
    member_id = member.member_id
    assert member.answered(answer(code)) is Next.LOST
    assert member.step is Step.OUT and not member.is_in and member.metadata[1] == -1
    member.join()
    request = member.request(WISHES, 1)
    assert (request.member_id, request.member_epoch, request.topic_partitions) == (member_id, 0, [])


@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE], ids=str)
def test_a_coordinator_that_moved_is_looked_for_and_told_everything(code):
    member = joined_member()
    assert member.answered(answer(code)) is Next.ELSEWHERE
    assert member.is_in
    assert member.request(WISHES, 1).subscribed_topic_names == ["tea"]


def test_a_coordinator_that_loads_is_waited_for():
    member = joined_member()
    assert member.answered(answer(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)) is Next.AGAIN
    assert member.is_in


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.UNRELEASED_INSTANCE_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNSUPPORTED_ASSIGNOR,
        ErrorCode.INVALID_REGULAR_EXPRESSION,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
    ids=str,
)
def test_a_refusal_is_an_error_with_the_brokers_words(code):
    member = joined_member("instance")
    with pytest.raises(KafkaError, match="the broker's words") as caught:
        member.answered(answer(code, message="the broker's words"))
    assert caught.value.code == code
    assert not member.is_in


def test_who_may_not_read_a_topic_stays_in_the_group():
    member = joined_member()
    with pytest.raises(AuthorizationError):
        member.answered(answer(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    assert member.is_in


def test_a_pattern_is_sent_once_and_taken_back_with_an_empty_one():
    member = new_member()
    member.join()
    wishes = Wishes(frozenset(), SubscriptionPattern("tea.*"))
    request = member.request(wishes, 1)
    assert (request.subscribed_topic_regex, request.subscribed_topic_names) == ("tea.*", [])
    member.answered(answer())
    assert member.request(wishes, 1).subscribed_topic_regex is None
    request = member.request(WISHES, 1)
    assert (request.subscribed_topic_regex, request.subscribed_topic_names) == ("", ["tea"])


def test_brokers_that_match_no_patterns_are_not_asked_to():
    member = new_member()
    member.join()
    with pytest.raises(UnsupportedVersionError, match=r"re\.Pattern"):
        member.request(Wishes(frozenset(), SubscriptionPattern("tea.*")), 0)


@pytest.mark.parametrize(("instance_id", "epoch"), [(None, -1), ("instance", -2)])
def test_a_member_leaves_and_a_static_one_keeps_its_place(instance_id, epoch):
    member = joined_member(instance_id)
    request = member.leave_request()
    assert (request.member_epoch, request.member_id, request.instance_id) == (
        epoch,
        member.member_id,
        instance_id,
    )
    assert member.says_goodbye
    member.forget()
    assert not member.says_goodbye
