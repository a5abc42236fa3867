"""A shard finds the group that a request is for, or says as Kafka does that there is none."""

import pytest

from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.protocol.messages.consumer_groups import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.coordinator_records import (
    GroupMetadataKey,
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
)
from ottla.protocol.messages.groups import LeaveGroupRequest
from ottla.protocol.messages.share_records import ShareGroupMetadataKey, ShareGroupMetadataValue
from ottla.replication.machine import Producer
from tests.unit.groups.hosting import GroupSettings, asker
from tests.unit.groups.shard_hosting import ShardHost, assert_replay_agrees, cluster, consumer_heartbeat

ORDERS = ("orders", 0)
PLACE = TopicPartition(*ORDERS)


@pytest.fixture
def host():
    host = ShardHost()
    yield host
    assert_replay_agrees(host)


def groups(host: ShardHost) -> dict[str, tuple[str, str]]:
    return {row.group_id: (row.group_type, row.group_state) for row in host.shard.list((), ())}


class Refused:
    """The block raises a KafkaError with this code."""

    def __init__(self, code: ErrorCode) -> None:
        self.code = code

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind, error, trace) -> bool:
        assert isinstance(error, KafkaError), f"{self.code.name} was expected"
        assert error.code == self.code
        return True


# --- groups that are not there ---


def test_who_has_a_member_id_of_a_group_that_is_not_there_must_come_without(host):
    reply = host.join("nobody", "member-1").reply
    assert (reply.error_code, reply.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "member-1")
    assert not groups(host)


@pytest.mark.parametrize(("version", "nothing"), [(6, ""), (7, None)])
def test_who_is_refused_by_no_group_reads_no_protocol_as_its_version_does(host, version, nothing):
    assert host.join("nobody", "member-1", version=version).reply.protocol_name == nothing


def test_members_of_no_group_are_unknown(host):
    with Refused(ErrorCode.UNKNOWN_MEMBER_ID):
        raise host.sync("nobody", "m", 1).reply
    with Refused(ErrorCode.UNKNOWN_MEMBER_ID):
        host.heartbeat("nobody", "m", 1)
    assert [row.error_code for row in host.leave("nobody", "m").members] == [ErrorCode.UNKNOWN_MEMBER_ID]
    with Refused(ErrorCode.UNKNOWN_MEMBER_ID):
        request = LeaveGroupRequest(group_id="nobody", member_id="m")
        host.shard.decide_leave(request, asker(2), host.now)
    assert not groups(host)


@pytest.mark.parametrize("epoch", [1, -1])
def test_only_a_join_makes_a_group_of_the_consumer_protocol(host, epoch):
    with Refused(ErrorCode.GROUP_ID_NOT_FOUND):
        consumer_heartbeat(host, "nobody", "x", epoch)
    host.settle("classic")
    with Refused(ErrorCode.GROUP_ID_NOT_FOUND):
        consumer_heartbeat(host, "classic", "x", epoch)
    assert list(groups(host)) == ["classic"]


def test_a_senseless_heartbeat_is_refused_whether_there_is_a_group_or_not(host):
    request = ConsumerGroupHeartbeatRequest(group_id="nobody", member_id="x", member_epoch=-7)
    with Refused(ErrorCode.INVALID_REQUEST):
        host.shard.decide_consumer_heartbeat(request, asker(1), host.now)


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"session_ms": 1}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_ms": 2**31 - 1}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_who_is_not_let_in_makes_no_group(host, given, code):
    assert host.join("fresh", **given).reply.error_code == code
    assert not groups(host)
    assert not host.log


def test_a_group_that_does_not_exist_can_be_neither_erased_nor_changed(host):
    with Refused(ErrorCode.GROUP_ID_NOT_FOUND):
        host.delete_group("nobody")
    with Refused(ErrorCode.GROUP_ID_NOT_FOUND):
        host.delete_offsets("nobody", ORDERS)


# --- bad input ---


@pytest.mark.parametrize(
    ("member", "generation", "code"),
    [
        ("stranger", 1, ErrorCode.UNKNOWN_MEMBER_ID),
        ("stranger", -1, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, ErrorCode.UNKNOWN_MEMBER_ID),
        (None, 0, ErrorCode.ILLEGAL_GENERATION),
        (None, 2, ErrorCode.ILLEGAL_GENERATION),
        (None, -1, ErrorCode.ILLEGAL_GENERATION),
        (None, 2**31 - 1, ErrorCode.ILLEGAL_GENERATION),
    ],
)
def test_a_commit_from_somebody_else_or_another_time_changes_nothing(host, member, generation, code):
    known = host.settle("group")
    written = len(host.log)
    with Refused(code):
        host.commit("group", {ORDERS: 5}, member=known if member is None else member, generation=generation)
    assert len(host.log) == written
    assert host.fetch("group", ORDERS) == {PLACE: -1}


def test_a_static_member_that_was_replaced_is_fenced(host):
    known = host.settle("group")
    with Refused(ErrorCode.UNKNOWN_MEMBER_ID):
        host.commit("group", {ORDERS: 5}, member=known, generation=1, instance="nobody-has-it")


def test_a_long_note_is_refused_for_its_partition_alone(host):
    assert host.commit("group", {ORDERS: 5}, metadata="x" * 4096) == [ErrorCode.NONE]
    assert host.commit("group", {ORDERS: 6}, metadata="x" * 4097) == [ErrorCode.OFFSET_METADATA_TOO_LARGE]
    assert host.txn_commit("group", {ORDERS: 6}, metadata="x" * 4097) == [12]
    assert host.fetch("group", ORDERS, is_stable=True) == {PLACE: 5}


# --- consumer groups ---


def test_members_of_the_consumer_protocol_commit_and_fetch_in_their_epoch(host):
    epoch = consumer_heartbeat(host, "group", "x", 0).member_epoch
    host.commit("group", {ORDERS: 5}, member="x", generation=epoch, version=9)
    assert host.fetch("group", ORDERS, member="x", epoch=epoch) == {PLACE: 5}
    with Refused(ErrorCode.STALE_MEMBER_EPOCH):
        host.commit("group", {ORDERS: 6}, member="x", generation=epoch + 1, version=9)
    with Refused(ErrorCode.STALE_MEMBER_EPOCH):
        host.fetch("group", ORDERS, member="x", epoch=epoch + 1)
    with Refused(ErrorCode.UNKNOWN_MEMBER_ID):
        host.fetch("group", ORDERS, member="y", epoch=epoch)


def test_a_producer_knows_no_epochs_of_members_only_generations(host):
    epoch = consumer_heartbeat(host, "group", "x", 0).member_epoch
    assert host.txn_commit("group", {ORDERS: 5}, member="x", generation=epoch) == [0]
    with Refused(ErrorCode.ILLEGAL_GENERATION):
        host.txn_commit("group", {ORDERS: 5}, member="x", generation=epoch + 1)


def test_offsets_that_a_consumer_group_reads_are_neither_deleted_nor_expired(host):
    consumer_heartbeat(host, "group", "x", 0, ["orders"])
    epoch = consumer_heartbeat(host, "group", "y", 0, ["orders"]).member_epoch
    host.commit("group", {ORDERS: 1, ("payments", 0): 1}, member="y", generation=epoch, version=9)
    assert host.delete_offsets("group", ORDERS, ("payments", 1)) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, 0]
    host.clock.step_wall(8 * 86_400_000)
    host.expire()
    assert host.fetch("group") == {PLACE: 1}
    with Refused(ErrorCode.NON_EMPTY_GROUP):
        host.delete_group("group")


def test_a_classic_member_joins_a_consumer_group(host):
    consumer_heartbeat(host, "group", "x", 0)
    reply = host.join("group").reply
    assert reply.error_code == ErrorCode.NONE
    assert host.heartbeat("group", reply.member_id, reply.generation_id).error_code in (0, 27)
    assert groups(host)["group"][0] == "Consumer"
    assert host.sync("group", reply.member_id, reply.generation_id).reply.error_code == 0
    assert [row.error_code for row in host.leave("group", reply.member_id).members] == [0]


def test_the_first_member_of_the_new_protocol_takes_a_classic_group_along_with_its_offsets(host):
    member = host.settle("group")
    host.commit("group", {ORDERS: 5}, member=member, generation=1)
    consumer_heartbeat(host, "group", "x", 0)
    assert groups(host)["group"][0] == "Consumer"
    assert host.fetch("group", ORDERS) == {PLACE: 5}
    assert_replay_agrees(host)
    consumer_heartbeat(host, "group", "x", -1)
    assert groups(host)["group"][0] == "Classic"
    host.advance(0)
    assert groups(host)["group"] == ("Classic", "PreparingRebalance")
    host.take_over()
    assert groups(host)["group"] == ("Classic", "PreparingRebalance")
    assert host.fetch("group", ORDERS) == {PLACE: 5}


def test_whoever_waited_in_a_classic_group_is_told_that_it_changed(host):
    host.settle("group")
    waiting = host.join("group")
    assert waiting.is_waiting
    consumer_heartbeat(host, "group", "x", 0)
    assert isinstance(waiting.reply, KafkaError)
    assert waiting.reply.code == ErrorCode.REBALANCE_IN_PROGRESS
    written = len(host.log)
    host.advance(3_600_000)
    assert groups(host)["group"] == ("Consumer", "Empty")
    assert not any(isinstance(entry.key, GroupMetadataKey) for entry, _ in host.log[written:]), (
        "its clocks stopped"
    )


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_without_permission_a_classic_group_stays_what_it_is(policy):
    host = ShardHost(GroupSettings(group_consumer_migration_policy=policy))
    host.settle("group")
    with Refused(ErrorCode.GROUP_ID_NOT_FOUND):
        consumer_heartbeat(host, "group", "x", 0)
    assert groups(host)["group"] == ("Classic", "Stable")
    host.advance(5_000)
    assert groups(host)["group"] == ("Classic", "Stable")


@pytest.mark.parametrize("has_members_before", [True, False])
def test_an_empty_classic_group_becomes_one_of_the_consumer_protocol(host, has_members_before):
    if has_members_before:
        host.leave("group", host.settle("group"))
    host.commit("group", {ORDERS: 5})
    consumer_heartbeat(host, "group", "x", 0)
    assert groups(host)["group"][0] == "Consumer"
    assert host.fetch("group", ORDERS) == {PLACE: 5}


def test_an_empty_consumer_group_becomes_a_classic_one_and_its_offsets_stay(host):
    consumer_heartbeat(host, "group", "x", 0)
    consumer_heartbeat(host, "group", "x", -1)
    host.commit("group", {ORDERS: 5})
    assert host.join("group", "some-id").reply.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert groups(host)["group"] == ("Consumer", "Empty")
    assert host.join("group", version=9).reply.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert groups(host)["group"] == ("Classic", "Empty")
    assert_replay_agrees(host)
    host.take_over()
    assert groups(host)["group"] == ("Classic", "Empty")
    assert host.fetch("group", ORDERS) == {PLACE: 5}
    host.settle("group")
    assert groups(host)["group"] == ("Classic", "Stable")


# --- when the log takes nothing ---


@pytest.fixture
def refusing(host):
    """From now on nothing can be written."""

    def refuse() -> None:
        host.host.refuse_with = KafkaError(ErrorCode.MESSAGE_TOO_LARGE, "the log is full")

    yield refuse
    host.host.refuse_with = None


def test_a_group_whose_records_are_refused_was_never_there(host, refusing):
    refusing()
    with Refused(ErrorCode.UNKNOWN_SERVER_ERROR):
        consumer_heartbeat(host, "group", "x", 0)
    assert not groups(host)
    assert not len(host.shard.timers), "nobody's session ends later"


def test_a_classic_group_that_cannot_be_upgraded_goes_on_with_everybody_who_waits(host, refusing):
    host.settle("group")
    waiting = host.join("group")
    refusing()
    with Refused(ErrorCode.UNKNOWN_SERVER_ERROR):
        consumer_heartbeat(host, "group", "x", 0)
    assert waiting.is_waiting
    host.host.refuse_with = None
    assert groups(host)["group"] == ("Classic", "PreparingRebalance")
    host.advance(60_000)
    assert waiting.reply.error_code == ErrorCode.NONE, (
        "the other did not join again, and the rebalance went on"
    )


def test_an_empty_consumer_group_that_cannot_be_erased_stays(host, refusing):
    consumer_heartbeat(host, "group", "x", 0)
    consumer_heartbeat(host, "group", "x", -1)
    refusing()
    with Refused(ErrorCode.UNKNOWN_SERVER_ERROR):
        raise host.join("group").reply
    host.host.refuse_with = None
    assert groups(host)["group"] == ("Consumer", "Empty")
    assert not len(host.shard.timers)
    consumer_heartbeat(host, "group", "x", 0)


def test_commits_and_deletions_that_are_refused_change_nothing_and_can_be_tried_again(host, refusing):
    host.commit("group", {ORDERS: 5})
    refusing()
    for ask in (
        lambda: host.commit("group", {ORDERS: 6}),
        lambda: host.txn_commit("group", {ORDERS: 6}),
        lambda: host.delete_offsets("group", ORDERS),
        lambda: host.delete_group("group"),
        lambda: host.forget("orders"),
    ):
        with Refused(ErrorCode.UNKNOWN_SERVER_ERROR):
            ask()
    assert host.fetch("group", ORDERS, is_stable=True) == {PLACE: 5}
    host.host.refuse_with = None
    host.delete_group("group")
    assert not groups(host)


# --- looking at groups ---


def test_groups_are_listed_by_state_and_type_in_any_case(host):
    host.settle("classic")
    host.commit("simple", {ORDERS: 5})
    consumer_heartbeat(host, "new", "x", 0)

    def listed(states: list[str], types: list[str]) -> list[str]:
        return [row.group_id for row in host.shard.list(states, types)]

    assert listed([], []) == ["classic", "simple", "new"]
    assert listed(["stable"], []) == ["classic", "new"]
    assert listed([" EMPTY "], []) == ["simple"]
    assert listed(["Stable", "Empty"], ["CLASSIC"]) == ["classic", "simple"]
    assert listed([], ["consumer"]) == ["new"]
    assert listed([], ["share", "nonsense"]) == []
    assert [row.protocol_type for row in host.shard.list((), ())] == ["consumer", "", "consumer"]


def test_a_group_of_the_other_protocol_is_as_good_as_dead(host):
    consumer_heartbeat(host, "new", "x", 0)
    for group_id, reason in (("new", "not a classic group"), ("nobody", "not found")):
        old, new = (host.shard.describe(group_id, asker(version)) for version in (5, 6))
        assert (old.error_code, old.error_message, old.group_state) == (0, None, "Dead")
        assert (new.error_code, new.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
        assert new.error_message is not None and reason in new.error_message
    host.settle("classic")
    assert host.shard.describe("classic", asker(6)).group_state == "Stable"
    assert host.shard.describe_consumer("new").group_state == "Stable"
    for group_id in ("classic", "nobody"):
        with Refused(ErrorCode.GROUP_ID_NOT_FOUND):
            host.shard.describe_consumer(group_id)


def test_committed_offsets_can_be_counted_for_lag(host):
    host.commit("a", {ORDERS: 5, ("orders", 1): 6})
    host.txn_commit("b", {ORDERS: 7})
    assert list(host.shard.committed()) == [("a", PLACE, 5), ("a", TopicPartition("orders", 1), 6)]


# --- bounds ---


def test_there_is_room_for_so_many_groups_and_no_more():
    host = ShardHost(groups_max=1)
    host.commit("first", {ORDERS: 5})
    too_many = ErrorCode.GROUP_MAX_SIZE_REACHED
    assert host.join("second").reply.error_code == too_many
    with Refused(too_many):
        host.commit("second", {ORDERS: 5})
    with Refused(too_many):
        host.txn_commit("second", {ORDERS: 5})
    with Refused(too_many):
        consumer_heartbeat(host, "second", "x", 0)
    host.settle("first")
    value = OffsetCommitValue(offset=1, metadata="", commit_timestamp=1)
    host.write(OffsetCommitKey(group="logged", topic="orders", partition=0), value)
    assert list(groups(host)) == ["first", "logged"], "what the log holds is always taken"
    assert_replay_agrees(host)


# --- the machine ---


def test_records_of_the_first_brokers_and_of_the_next_ones_do_no_harm(host):
    value = OffsetCommitValue(offset=5, metadata="", commit_timestamp=1)
    host.write(LegacyOffsetCommitKey(group="old", topic="orders", partition=0), value)
    host.write(ShareGroupMetadataKey(group_id="share"), ShareGroupMetadataValue(epoch=1, metadata_hash=0))
    host.write(GroupMetadataKey(group="nobody"))
    host.write(OffsetCommitKey(group="nobody", topic="orders", partition=0))
    assert groups(host) == {"old": ("Classic", "Empty")}
    assert host.fetch("old", ORDERS) == {PLACE: 5}


def test_a_group_whose_record_is_erased_lives_on_while_it_has_offsets(host):
    host.leave("group", host.settle("group"))
    host.commit("group", {ORDERS: 5})
    host.write(GroupMetadataKey(group="group"))
    assert host.fetch("group", ORDERS) == {PLACE: 5}
    host.delete_group("group")
    assert not groups(host)


def test_after_a_takeover_members_have_a_whole_session_and_no_more(host):
    member = host.settle("group")
    host.advance(9_000)
    host.take_over()
    host.advance(9_000)
    assert host.heartbeat("group", member, 1).error_code == 0
    host.advance(10_001)
    assert groups(host)["group"] == ("Classic", "Empty")


def test_who_retires_hands_over_everybody_who_waits(host):
    host.settle("group")
    slips = [host.join("group"), host.join("group")]
    assert all(slip.is_waiting for slip in slips)
    assert list(host.shard.retire()) == slips


def test_an_open_transaction_keeps_a_group_from_being_forgotten(host):
    host.txn_commit("group", {ORDERS: 5})
    written = len(host.log)
    host.expire()
    assert len(host.log) == written
    assert list(groups(host)) == ["group"]
    host.end(7, is_commit=True)
    host.expire()
    assert host.fetch("group", ORDERS) == {PLACE: 5}


def test_a_marker_of_another_epoch_ends_the_transaction_too(host):
    host.txn_commit("group", {ORDERS: 5})
    host.log.append((Producer(7, 1), True))
    host.shard.apply_end(Producer(7, 1), True)
    assert host.fetch("group", ORDERS) == {PLACE: 5}


def test_consumer_groups_look_again_at_topics_that_changed(host):
    epoch = consumer_heartbeat(host, "group", "x", 0, ["orders", "fresh"]).member_epoch
    host.topics.topics.update(cluster("fresh").topics)
    host.topics.topic_of_id.update(cluster("fresh").topic_of_id)
    assert consumer_heartbeat(host, "group", "x", epoch).member_epoch == epoch
    host.shard.topics_changed(["fresh"], host.now)
    assert consumer_heartbeat(host, "group", "x", epoch).member_epoch == epoch + 1


def test_many_tombstones_need_not_go_into_one_batch(host):
    host.commit("group", {ORDERS: 5})
    assert not host.shard.decide_forget_topic("orders", host.now).is_atomic
    assert not host.shard.decide_expire(host.now).is_atomic
