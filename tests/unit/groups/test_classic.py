"""A classic group as its members and its shard see it: sync, heartbeat, leave, commit, describe."""

import dataclasses

import pytest

from ottla.core.errors import ErrorCode, KafkaError
from ottla.groups.classic_states import ClassicState
from ottla.protocol.messages.coordinator_records import GroupMetadataKey, GroupMetadataValue
from ottla.replication.machine import Entry
from tests.unit.groups.classics import GROUP, Classics, hard_state, last_written, members_told, subscription


@pytest.fixture
def classics():
    return Classics()


def two_in_sync_phase(classics):
    """The ids of a leader and a follower that have joined and have not synced."""
    leader, follower = classics.settle({}, {})
    again = classics.join(leader), classics.join(follower)
    assert [one.code for one in again] == [ErrorCode.NONE] * 2
    assert classics.group.state is ClassicState.COMPLETING_REBALANCE
    return leader, follower


# --- sync


def test_the_leader_alone_is_told_the_members(classics):
    first, slip = classics.come(protocols={"range": b"one"})
    second, other = classics.come(protocols={"range": b"two"})
    classics.host.advance(0)
    assert slip.reply.leader == other.reply.leader == first
    assert members_told(slip.reply) == {first: b"one", second: b"two"}
    assert members_told(other.reply) == {}


def test_everybody_gets_the_part_that_the_leader_gave_it(classics):
    leader, follower = two_in_sync_phase(classics)
    waiting = classics.sync(follower)
    assert waiting.is_waiting
    own = classics.sync(leader, assignments={leader: b"left", follower: b"right", "stranger": b"none"})
    assert (own.reply.assignment, waiting.reply.assignment) == (b"left", b"right")
    assert classics.group.state is ClassicState.STABLE
    assert {one.member_id for one in last_written(classics).members} == {leader, follower}


def test_a_member_that_the_leader_forgot_gets_an_empty_part(classics):
    leader, follower = two_in_sync_phase(classics)
    classics.sync(leader, assignments={leader: b"all"})
    assert classics.sync(follower).reply.assignment == b""


def test_a_sync_says_which_protocol_was_chosen(classics):
    (leader,) = classics.settle({})
    reply = classics.sync(leader).reply
    assert (reply.protocol_type, reply.protocol_name) == ("consumer", "range")


@pytest.mark.parametrize(
    ("names", "version", "code"),
    [
        (("consumer", "range"), 5, ErrorCode.NONE),
        (("connect", "range"), 5, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (("consumer", "sticky"), 5, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ((None, "range"), 5, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (("consumer", None), 5, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ((None, None), 4, ErrorCode.NONE),
    ],
)
def test_from_v5_on_a_sync_must_name_the_protocol_of_the_group(classics, names, version, code):
    (leader,) = classics.settle({})
    assert classics.sync(leader, names=names, version=version).code == code


def test_a_sync_of_another_generation_or_of_nobody_is_refused(classics):
    leader, _ = two_in_sync_phase(classics)
    assert classics.sync(leader, generation=1).code == ErrorCode.ILLEGAL_GENERATION
    assert classics.sync("nobody").code == ErrorCode.UNKNOWN_MEMBER_ID
    assert classics.sync(leader, instance="ghost").code == ErrorCode.UNKNOWN_MEMBER_ID
    assert classics.group.state is ClassicState.COMPLETING_REBALANCE


def test_nobody_syncs_with_an_empty_group(classics):
    assert classics.sync("nobody").code == ErrorCode.UNKNOWN_MEMBER_ID


def test_whoever_syncs_twice_gets_an_answer_for_each(classics):
    leader, follower = two_in_sync_phase(classics)
    first, second = classics.sync(follower), classics.sync(follower)
    assert first.code == ErrorCode.REBALANCE_IN_PROGRESS
    classics.sync(leader)
    assert second.code == ErrorCode.NONE


@pytest.mark.parametrize(
    ("refusal", "told"),
    [
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
def test_an_assignment_that_cannot_be_written_fails_everybody_and_the_group_rebalances(
    classics, refusal, told
):
    leader, follower = two_in_sync_phase(classics)
    written = len(classics.host.log)
    waiting = classics.sync(follower)
    classics.host.refuse_with = KafkaError(refusal)
    own = classics.sync(leader, assignments={leader: b"left", follower: b"right"})
    assert (own.code, waiting.code) == (told, told)
    assert classics.group.state is ClassicState.PREPARING_REBALANCE
    assert len(classics.host.log) == written
    assert [one.assignment for one in classics.group.members.values()] == [b"", b""]
    classics.host.refuse_with = None
    again = classics.join(leader), classics.join(follower)
    assert [one.reply.generation_id for one in again] == [3, 3]


def test_members_that_never_sync_are_dropped_with_the_rebalance_timeout(classics):
    leader, follower = two_in_sync_phase(classics)
    waiting = classics.sync(follower)
    for _ in range(60):
        classics.heartbeat(leader)
        classics.host.advance(1_000)
    assert waiting.code == ErrorCode.REBALANCE_IN_PROGRESS
    assert set(classics.group.members) == {follower}
    assert classics.group.leader_id == follower


def test_a_follower_that_never_syncs_is_dropped_also_when_the_group_is_stable(classics):
    leader, follower = two_in_sync_phase(classics)
    classics.sync(leader)
    assert classics.group.state is ClassicState.STABLE
    for _ in range(60):
        assert classics.heartbeat(follower) == ErrorCode.NONE
        classics.heartbeat(leader)
        classics.host.advance(1_000)
    assert set(classics.group.members) == {leader}
    assert classics.group.state is ClassicState.PREPARING_REBALANCE


# --- heartbeats


def test_heartbeats_by_state(classics):
    leader, follower = classics.settle({}, {})
    assert classics.heartbeat(follower) == ErrorCode.NONE
    classics.join(leader)
    assert classics.heartbeat(follower) == ErrorCode.REBALANCE_IN_PROGRESS
    classics.join(follower)
    assert classics.group.state is ClassicState.COMPLETING_REBALANCE
    assert classics.heartbeat(follower) == ErrorCode.NONE
    assert classics.heartbeat(follower, generation=1) == ErrorCode.ILLEGAL_GENERATION
    assert classics.heartbeat("nobody") == ErrorCode.UNKNOWN_MEMBER_ID


def test_heartbeats_keep_a_member_and_silence_ends_its_session(classics):
    leader, follower = classics.settle({}, {})
    for _ in range(5):
        classics.host.advance(9_000)
        assert classics.heartbeat(leader) == ErrorCode.NONE
        assert classics.heartbeat(follower) == ErrorCode.NONE
    classics.host.advance(9_999)
    assert len(classics.group.members) == 2
    classics.heartbeat(leader)
    classics.host.advance(1)
    assert set(classics.group.members) == {leader}
    assert classics.group.state is ClassicState.PREPARING_REBALANCE


# --- leaving


def test_the_last_to_leave_empties_the_group_in_a_generation_of_its_own(classics):
    (only,) = classics.settle({})
    classics.host.advance(500)
    reply = classics.leave(only)
    assert [(one.member_id, one.error_code) for one in reply.members] == [(only, ErrorCode.NONE)]
    value = last_written(classics)
    assert (value.generation, value.members, value.protocol, value.leader) == (2, [], None, None)
    assert (value.protocol_type, value.current_state_timestamp) == ("consumer", classics.host.now.wall_ms)
    assert classics.group.is_empty and classics.group.empty_since_ms() == classics.host.now.wall_ms


def test_a_group_is_empty_also_when_that_could_not_be_written(classics):
    (only,) = classics.settle({})
    classics.host.refuse_with = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert classics.leave(only).members[0].error_code == ErrorCode.NONE
    assert classics.group.is_empty and classics.group.generation == 2


@pytest.mark.parametrize("version", [0, 2])
def test_before_v3_a_leave_is_about_one_member(classics, version):
    (only,) = classics.settle({})
    assert classics.leave("nobody", version=version).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert classics.leave(only, version=version).error_code == ErrorCode.NONE
    assert classics.group.is_empty


def test_many_leave_at_once_and_each_has_its_own_error(classics):
    one, _, stays = classics.settle({}, {"instance": "i1"}, {})
    pending = classics.join().reply.member_id
    reply = classics.leave(one, ("", "i1"), ("", "i2"), ("other", "i1"), pending, "nobody", "", version=3)
    assert [member.error_code for member in reply.members] == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,  # i1 has left already, a line above
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert [member.group_instance_id for member in reply.members][1:4] == ["i1", "i2", "i1"]
    assert set(classics.group.members) == {stays}


def test_whoever_leaves_in_the_name_of_another_is_fenced(classics):
    (static,) = classics.settle({"instance": "i1"})
    assert classics.leave(("other", "i1")).members[0].error_code == ErrorCode.FENCED_INSTANCE_ID
    assert set(classics.group.members) == {static}


def test_whoever_waits_and_is_shown_the_door_is_told(classics):
    leader, follower = classics.settle({}, {})
    joining = classics.join(leader)
    classics.leave(leader)
    assert joining.code == ErrorCode.UNKNOWN_MEMBER_ID
    assert classics.join(follower).code == ErrorCode.NONE
    other = classics.come()[1]
    assert other.is_waiting
    again = classics.join(follower)
    assert again.code == other.code == ErrorCode.NONE
    syncing = classics.sync(other.reply.member_id)
    classics.leave(other.reply.member_id)
    assert syncing.code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_pending_member_that_leaves_an_empty_group_begins_no_rebalance(classics):
    pending = classics.join().reply.member_id
    assert classics.leave(pending).members[0].error_code == ErrorCode.NONE
    assert classics.group.is_empty and not classics.host.log
    assert classics.join(pending).code == ErrorCode.UNKNOWN_MEMBER_ID


# --- commits


def test_without_members_anybody_may_commit_who_claims_to_be_none(classics):
    assert classics.commit() == ErrorCode.NONE
    assert classics.commit("somebody", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert classics.commit("somebody", -1) == ErrorCode.NONE


def test_with_members_only_they_commit_in_their_generation(classics):
    leader, static = classics.settle({}, {"instance": "i1"})
    assert classics.commit() == ErrorCode.UNKNOWN_MEMBER_ID
    assert classics.commit(leader, 1) == ErrorCode.NONE
    assert classics.commit(leader, 2) == ErrorCode.ILLEGAL_GENERATION
    assert classics.commit("nobody", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert classics.commit(static, 1, "i1") == ErrorCode.NONE
    assert classics.commit(leader, 1, "i1") == ErrorCode.FENCED_INSTANCE_ID
    classics.join(leader)
    assert classics.commit(static, 1, "i1") == ErrorCode.NONE, (
        "what was read before the rebalance still counts"
    )
    classics.join(static, instance="i1")
    assert classics.commit(leader, 2) == ErrorCode.REBALANCE_IN_PROGRESS
    assert classics.commit(leader, 1) == ErrorCode.ILLEGAL_GENERATION


def test_a_transaction_may_commit_without_naming_a_member(classics):
    leader, _ = two_in_sync_phase(classics)
    assert classics.commit(is_txn=True) == ErrorCode.NONE
    assert classics.commit(leader, 2, is_txn=True) == ErrorCode.NONE
    assert classics.commit(leader, 1, is_txn=True) == ErrorCode.ILLEGAL_GENERATION
    assert classics.commit("nobody", 2, is_txn=True) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_commit_is_a_sign_of_life_but_not_within_a_transaction(classics):
    leader, follower = classics.settle({}, {})
    classics.host.advance(9_000)
    classics.commit(leader, 1)
    classics.commit(follower, 1, is_txn=True)
    classics.host.advance(2_000)
    assert set(classics.group.members) == {leader}


# --- what the shard asks


def test_a_group_with_members_cannot_be_deleted(classics):
    classics.group.check_delete()
    (only,) = classics.settle({})
    with pytest.raises(KafkaError) as caught:
        classics.group.check_delete()
    assert caught.value.code == ErrorCode.NON_EMPTY_GROUP
    classics.leave(only)
    classics.group.check_delete()
    assert classics.group.tombstones() == [Entry(GroupMetadataKey(group=GROUP))]


def test_a_dead_group_sends_everybody_away(classics):
    (only,) = classics.settle({})
    classics.group.apply_tombstone()
    assert classics.join().code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert classics.sync(only).code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert classics.heartbeat(only) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert classics.commit(only, 1) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    with pytest.raises(KafkaError) as caught:
        classics.leave(only)
    assert caught.value.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    for check in (classics.group.check_delete, lambda: classics.group.check_fetch(None, -1)):
        with pytest.raises(KafkaError) as caught:
            check()
        assert caught.value.code == ErrorCode.GROUP_ID_NOT_FOUND
    assert len(classics.host.timers) == 0, "its timers die with it"
    assert classics.group.describe().group_state == "Dead"


def test_subscriptions_of_consumers_are_read_in_any_version(classics):
    classics.settle(
        {"protocols": {"range": subscription("orders", "bills", version=0)}},
        {"protocols": {"range": subscription("logs", version=3, rack_id="r")}},
    )
    told = {topic: classics.group.is_subscribed_to(topic) for topic in ("orders", "bills", "logs", "other")}
    assert told == {"orders": True, "bills": True, "logs": True, "other": False}


@pytest.mark.parametrize(
    "junk",
    [b"", b"\x00", b"\x00\x03\xff\xff\xff\x7f", b"\x00\x00\x00\x00\x00\x01\x00\x02\xff\xfe", b"\x00" * 5],
)
def test_a_subscription_that_cannot_be_read_is_one_to_everything(classics, junk):
    classics.settle({"protocols": {"range": subscription("orders")}}, {"protocols": {"range": junk}})
    assert classics.group.is_subscribed_to("anything")


def test_groups_of_others_than_consumers_may_mean_any_topic_and_empty_ones_mean_none(classics):
    assert not classics.group.is_subscribed_to("orders")
    (worker,) = classics.settle({"protocol_type": "connect"})
    assert classics.group.is_subscribed_to("orders")
    classics.leave(worker)
    assert not classics.group.is_subscribed_to("orders")


def test_a_group_that_never_had_members_was_never_left(classics):
    assert classics.group.empty_since_ms() is None and classics.group.protocol_type == ""
    classics.settle({})
    assert classics.group.empty_since_ms() is None


def test_descriptions_show_metadata_in_stable_groups_only(classics):
    (only,) = classics.settle({"client": "reader"})
    shown = classics.group.describe()
    assert (shown.group_state, shown.protocol_type, shown.protocol_data) == ("Stable", "consumer", "range")
    (member,) = shown.members
    assert (member.member_id, member.client_id, member.client_host) == (only, "reader", "/127.0.0.1")
    assert (member.member_metadata, member.member_assignment) == (b"x", b"p0")
    classics.join(only, protocols={"range": b"y"})
    shown = classics.group.describe()
    assert (shown.group_state, shown.protocol_data) == ("CompletingRebalance", "")
    assert shown.members[0].member_metadata == b""


def test_whoever_waits_can_be_found_when_leadership_goes(classics):
    leader, follower = classics.settle({}, {})
    slip = classics.join(leader)
    assert list(classics.group.waiting()) == [slip]
    classics.join(follower)
    syncing = classics.sync(follower)
    assert list(classics.group.waiting()) == [syncing]


# --- loading


def test_what_was_settled_is_what_is_loaded(classics):
    classics.settle(
        {"instance": "i1", "protocols": {"sticky": b"s", "range": b"r"}}, {"protocols": {"range": b"q"}}
    )
    assert hard_state(classics.replayed()) == hard_state(classics.group)


def test_sessions_of_loaded_members_begin_when_the_shard_is_active(classics):
    leader, _ = classics.settle({}, {})
    classics.host.advance(9_000)
    classics.restart()
    classics.host.advance(9_999)
    assert classics.heartbeat(leader) == ErrorCode.NONE
    classics.host.advance(1)
    assert set(classics.group.members) == {leader}


def test_a_loaded_group_above_its_size_rebalances_and_takes_the_first_to_come():
    classics = Classics()
    ids = classics.settle({}, {}, {})
    classics.settings.group_max_size = 2
    classics.restart()
    assert classics.group.state is ClassicState.PREPARING_REBALANCE
    first, second = classics.join(ids[2]), classics.join(ids[0])
    assert classics.join(ids[1]).code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert first.code == second.code == ErrorCode.NONE
    assert set(classics.group.members) == {ids[0], ids[2]}


def test_a_loaded_group_without_a_leader_joins_anew():
    """It came from the consumer protocol, and its coordinator died before its members had joined again."""
    classics = Classics()
    ids = classics.settle({}, {})
    entry, producer = classics.host.log[-1]
    leaderless = dataclasses.replace(entry.value, leader=None)
    classics.host.log.append((Entry(entry.key, leaderless), producer))
    classics.restart()
    assert classics.heartbeat(ids[0]) == ErrorCode.REBALANCE_IN_PROGRESS
    first, second = (classics.join(member_id) for member_id in ids)
    assert first.code == second.code == ErrorCode.NONE


def test_records_that_make_no_sense_are_loaded_as_far_as_they_do():
    classics = Classics()

    def member(member_id, instance=None):
        return GroupMetadataValue.Member(
            member_id=member_id,
            group_instance_id=instance,
            client_id="",
            client_host="",
            session_timeout=10_000,
            subscription=b"",
            assignment=b"",
        )

    value = GroupMetadataValue(
        protocol_type="",
        generation=-7,
        protocol=None,
        leader="nobody",
        members=[member("a", "i"), member("a"), member("b", "i"), member("c")],
    )
    classics.group.apply_metadata(value)
    classics.group.started(classics.host.now)
    assert set(classics.group.members) == {"a", "c"} and classics.group.leader_id == "a"
    assert classics.group.members["a"].rebalance_timeout_ms == 10_000
    assert classics.heartbeat("a") == ErrorCode.NONE
    classics.host.advance(100_000)
    assert classics.group.is_empty


def test_an_old_record_without_a_time_leaves_offsets_to_their_own(classics):
    value = GroupMetadataValue(protocol_type="consumer", generation=3, protocol=None, leader=None, members=[])
    classics.group.apply_metadata(value)
    assert classics.group.is_empty and classics.group.empty_since_ms() is None


def test_members_that_come_from_elsewhere_bring_all_their_protocols(classics):
    other = Classics()
    (only,) = other.settle({"protocols": {"range": b"r", "sticky": b"s"}})
    group = classics.group
    group.expect(other.group.members.values())
    group.apply_metadata(last_written(other))
    group.started(classics.host.now)
    assert [one.name for one in group.members[only].protocols] == ["range", "sticky"]
    classics.host.carry_out(group.decide_rebalance(classics.host.now))
    assert group.state is ClassicState.PREPARING_REBALANCE


def test_generations_begin_anew_when_they_are_used_up(classics):
    (only,) = classics.settle({})
    value = last_written(classics)
    value.generation = (1 << 31) - 1
    other = Classics()
    other.group.apply_metadata(value)
    other.group.started(other.host.now)
    assert other.join(only).reply.generation_id == 1


def test_the_youngest_entry_counts_also_for_what_members_say(classics):
    (only,) = classics.settle({"protocols": {"range": b"old"}})
    classics.join(only, protocols={"range": b"new"})
    classics.sync(only)
    assert classics.replayed().members[only].metadata("range") == b"new"
