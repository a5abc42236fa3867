"""Who may join a classic group, under which id, and who takes whose place."""

import pytest

from ottla.core.errors import ErrorCode, KafkaError
from ottla.groups import classic_join
from ottla.groups.classic_states import ClassicState
from tests.unit.groups.classics import Classics, hard_state, last_written, members_told
from tests.unit.groups.hosting import GroupSettings


@pytest.fixture
def classics():
    return Classics()


# --- what is refused


@pytest.mark.parametrize("session", [5_999, 1_800_001, 0, -1, (1 << 31) - 1])
def test_a_session_timeout_out_of_bounds_is_refused_and_nothing_changes(classics, session):
    slip = classics.join("me", session=session)
    assert (slip.code, slip.reply.member_id) == (ErrorCode.INVALID_SESSION_TIMEOUT, "me")
    assert not classics.group.members and len(classics.host.timers) == 0


def test_a_group_must_have_a_name(classics):
    assert classics.join(group="").code == ErrorCode.INVALID_GROUP_ID


def test_an_id_that_was_never_given_out_is_unknown(classics):
    slip = classics.join("me")
    assert (slip.code, slip.reply.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "me")
    classics.settle({})
    for version in range(10):
        slip = classics.join("me", version=version)
        assert (slip.code, slip.reply.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "me")
        assert slip.reply.protocol_name == (None if version >= 7 else "")


@pytest.mark.parametrize("how", [{"protocols": {}}, {"protocol_type": ""}])
def test_whoever_speaks_no_protocol_cannot_join_an_empty_group(classics, how):
    assert classics.join(**how).code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert not classics.group.members


@pytest.mark.parametrize(
    "how",
    [{"protocols": {}}, {"protocols": {"sticky": b""}}, {"protocol_type": "connect"}, {"protocol_type": ""}],
)
def test_whoever_shares_no_protocol_with_the_members_cannot_join_them(classics, how):
    (only,) = classics.settle({})
    assert classics.join(**how).code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert classics.join(only, **how).code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert classics.group.state is ClassicState.STABLE


def test_a_protocol_that_some_members_share_is_not_enough(classics):
    classics.settle({"protocols": {"range": b"", "sticky": b""}}, {"protocols": {"range": b""}})
    assert classics.join(protocols={"sticky": b""}).code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


# --- ids


@pytest.mark.parametrize("version", [4, 5, 9])
def test_from_v4_on_a_new_member_is_sent_back_with_its_id(classics, version):
    slip = classics.join(version=version, client="reader")
    assert slip.code == ErrorCode.MEMBER_ID_REQUIRED
    assert slip.reply.member_id == "reader-00000000-0000-0000-0000-000000000001"
    assert not classics.group.members and classics.group.is_empty
    assert classics.join(slip.reply.member_id, version=version).is_waiting


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_before_v4_a_new_member_is_in_at_once(classics, version):
    slip = classics.join(version=version)
    classics.host.advance(0)
    assert slip.code == ErrorCode.NONE and slip.reply.member_id in classics.group.members


def test_before_v1_the_session_timeout_is_the_rebalance_timeout_as_well(classics):
    classics.join(version=0, session=7_000)
    (member,) = classics.group.members.values()
    assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (7_000, 7_000)


def test_an_id_is_kept_for_a_session_and_then_forgotten(classics):
    member_id = classics.join().reply.member_id
    classics.host.advance(9_999)
    assert classics.join(member_id).is_waiting
    other = classics.join().reply.member_id
    classics.host.advance(10_000)
    assert classics.join(other).code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_needs_no_second_turn_and_its_id_tells_its_name(classics):
    slip = classics.join(instance="host-1")
    classics.host.advance(0)
    assert slip.code == ErrorCode.NONE and slip.reply.member_id.startswith("host-1-")


def test_a_pending_id_with_an_instance_id_is_nobody(classics):
    member_id = classics.join().reply.member_id
    assert classics.join(member_id, instance="i").code == ErrorCode.UNKNOWN_MEMBER_ID


def test_ids_given_out_are_bounded(classics, monkeypatch):
    monkeypatch.setattr(classic_join, "PENDING_MAX", 3)
    codes = [classics.join().code for _ in range(4)]
    assert codes == [ErrorCode.MEMBER_ID_REQUIRED] * 3 + [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    classics.host.advance(10_000)
    assert classics.join().code == ErrorCode.MEMBER_ID_REQUIRED


# --- size


def test_a_full_group_takes_nobody_else():
    classics = Classics(GroupSettings(group_max_size=2))
    ids = classics.settle({}, {})
    slip = classics.join()
    assert (slip.code, slip.reply.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert classics.group.state is ClassicState.STABLE and set(classics.group.members) == set(ids)
    again = [classics.join(one) for one in ids]
    assert [one.code for one in again] == [ErrorCode.NONE] * 2


def test_while_members_join_the_first_to_come_have_the_places():
    classics = Classics(GroupSettings(group_max_size=2, group_initial_rebalance_delay_ms=100))
    pending = [classics.join().reply.member_id for _ in range(3)]
    first, second, third = (classics.join(one) for one in pending)
    assert third.code == ErrorCode.GROUP_MAX_SIZE_REACHED
    classics.host.advance(500)
    assert first.code == second.code == ErrorCode.NONE


# --- coming back


def test_a_follower_that_joins_again_unchanged_disturbs_nobody(classics):
    leader, follower = classics.settle({}, {})
    slip = classics.join(follower)
    assert (slip.code, slip.reply.generation_id, slip.reply.leader) == (ErrorCode.NONE, 1, leader)
    assert classics.group.state is ClassicState.STABLE


def test_a_follower_with_other_metadata_and_any_leader_begin_a_rebalance(classics):
    leader, follower = classics.settle({}, {})
    assert classics.join(follower, protocols={"range": b"news"}).is_waiting
    slip = classics.join(leader)
    assert members_told(slip.reply) == {leader: b"x", follower: b"news"}
    assert classics.group.state is ClassicState.COMPLETING_REBALANCE


def test_whoever_joins_twice_in_one_generation_gets_the_same_answer_twice(classics):
    leader, follower = classics.settle({}, {})
    classics.join(leader)
    first, second = classics.join(follower), classics.join(follower)
    assert (first.reply.generation_id, second.reply.generation_id) == (2, 2)
    assert members_told(classics.join(leader).reply) == {leader: b"x", follower: b"x"}
    assert classics.group.state is ClassicState.COMPLETING_REBALANCE


def test_whoever_changes_its_mind_while_the_leader_assigns_begins_anew(classics):
    leader, follower = classics.settle({}, {})
    classics.join(leader), classics.join(follower)
    waiting = classics.sync(leader, generation=1)
    assert waiting.code == ErrorCode.ILLEGAL_GENERATION
    syncing = classics.sync(follower)
    assert classics.join(follower, protocols={"range": b"news"}).is_waiting
    assert syncing.code == ErrorCode.REBALANCE_IN_PROGRESS
    assert classics.join(leader).reply.generation_id == 3


def test_a_request_that_is_repeated_while_it_waits_leaves_nobody_waiting(classics):
    leader, follower = classics.settle({}, {})
    first, second = classics.join(leader), classics.join(leader)
    assert first.code == ErrorCode.REBALANCE_IN_PROGRESS
    classics.join(follower)
    assert second.reply.generation_id == 2


def test_of_two_protocols_with_one_name_the_first_counts(classics):
    slip = classics.join(version=3, protocols=[("range", b"first"), ("range", b"second")])
    classics.host.advance(0)
    assert members_told(slip.reply) == {slip.reply.member_id: b"first"}


# --- static members


def test_a_static_member_takes_its_place_again_without_a_rebalance(classics):
    leader, static = classics.settle({}, {"instance": "i"})
    slip = classics.join(instance="i")
    new = slip.reply.member_id
    assert slip.code == ErrorCode.NONE and new != static
    assert (slip.reply.generation_id, slip.reply.leader, slip.reply.skip_assignment) == (1, leader, False)
    assert classics.group.state is ClassicState.STABLE and set(classics.group.members) == {leader, new}
    assert classics.sync(new, instance="i").reply.assignment == b"p1"
    assert {one.member_id for one in last_written(classics).members} == {leader, new}
    assert len(classics.host.timers) == 2, "the session of the one before has ended"
    assert hard_state(classics.replayed()) == hard_state(classics.group)


def test_whoever_was_replaced_is_fenced(classics):
    leader, static = classics.settle({}, {"instance": "i"})
    classics.join(instance="i")
    assert classics.heartbeat(static, instance="i") == ErrorCode.FENCED_INSTANCE_ID
    assert classics.heartbeat(static) == ErrorCode.UNKNOWN_MEMBER_ID
    assert classics.sync(static, instance="i").code == ErrorCode.FENCED_INSTANCE_ID
    assert classics.join(static, instance="i").code == ErrorCode.FENCED_INSTANCE_ID
    assert classics.commit(static, 1, "i") == ErrorCode.FENCED_INSTANCE_ID
    assert classics.leave((static, "i")).members[0].error_code == ErrorCode.FENCED_INSTANCE_ID
    assert classics.heartbeat(leader) == ErrorCode.NONE


def test_from_v9_on_a_leader_that_comes_back_is_told_to_skip_the_assignment(classics):
    _, follower = classics.settle({"instance": "i"}, {})
    slip = classics.join(instance="i", version=9)
    new = slip.reply.member_id
    assert (slip.reply.leader, slip.reply.skip_assignment) == (new, True)
    assert members_told(slip.reply) == {new: b"x", follower: b"x"}
    assert classics.group.leader_id == new


def test_before_v9_a_leader_that_comes_back_is_not_told_that_it_leads(classics):
    leader, _ = classics.settle({"instance": "i"}, {})
    slip = classics.join(instance="i", version=8)
    assert (slip.reply.leader, slip.reply.members) == (leader, [])
    assert classics.group.leader_id == slip.reply.member_id


def test_a_place_that_cannot_be_written_stays_with_the_one_before(classics):
    leader, static = classics.settle({}, {"instance": "i"})
    before = hard_state(classics.group)
    classics.host.refuse_with = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
    slip = classics.join(instance="i", protocols={"range": b"news"})
    assert (slip.code, slip.reply.member_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, "")
    assert hard_state(classics.group) == before
    assert classics.heartbeat(static, instance="i") == ErrorCode.NONE
    assert len(classics.host.timers) == 2, "one session each, none for the one that did not come in"
    assert not classics.group._rebalances.incoming
    assert classics.heartbeat(leader) == ErrorCode.NONE


def test_a_static_member_that_changes_the_vote_begins_a_rebalance(classics):
    both, other = {"range": b"", "sticky": b""}, {"sticky": b"", "range": b""}
    leader, static = classics.settle({"protocols": both}, {"protocols": both, "instance": "i"})
    assert classics.group.protocol_name == "range"
    slip = classics.join(instance="i", protocols={"sticky": b""})
    assert slip.is_waiting and classics.group.state is ClassicState.PREPARING_REBALANCE
    again = classics.join(leader, protocols=other)
    assert again.reply.protocol_name == slip.reply.protocol_name == "sticky"
    assert static not in classics.group.members


def test_a_static_member_that_is_replaced_while_it_waits_is_told(classics):
    leader, static = classics.settle({}, {"instance": "i"})
    assert classics.join(leader).is_waiting
    slip = classics.join(static, instance="i", protocols={"range": b"a"})
    assert slip.code == ErrorCode.NONE  # all have joined
    syncing = classics.sync(static, instance="i")
    assert syncing.is_waiting
    newer = classics.join(instance="i")
    assert syncing.code == ErrorCode.FENCED_INSTANCE_ID
    assert newer.is_waiting and classics.group.state is ClassicState.PREPARING_REBALANCE
    newest = classics.join(instance="i")
    assert newer.code == ErrorCode.FENCED_INSTANCE_ID and newest.is_waiting
    assert classics.join(leader).code == newest.code == ErrorCode.NONE


def test_the_session_of_the_one_before_does_not_end_the_one_after(classics):
    leader, _ = classics.settle({}, {"instance": "i"})
    classics.host.advance(9_000)
    new = classics.join(instance="i").reply.member_id
    classics.heartbeat(leader)
    classics.host.advance(9_999)
    assert set(classics.group.members) == {leader, new}
    classics.heartbeat(leader)
    classics.host.advance(1)
    assert set(classics.group.members) == {leader}


def test_a_static_member_keeps_its_place_when_it_misses_a_rebalance(classics):
    leader, static = classics.settle({}, {"instance": "i", "session": 300_000})
    slip = classics.join(leader)
    for _ in range(60):
        assert slip.is_waiting
        classics.host.advance(1_000)
    assert slip.reply.generation_id == 2
    assert set(members_told(slip.reply)) == {leader, static}


@pytest.mark.parametrize("is_refused", [False, True])
def test_whoever_takes_a_place_owes_the_sync_of_the_one_before(classics, is_refused):
    leader, static = classics.settle({}, {"instance": "i"})
    classics.join(leader), classics.join(static, instance="i", protocols={"range": b"news"})
    classics.sync(leader)
    assert classics.group.state is ClassicState.STABLE
    if is_refused:
        classics.host.refuse_with = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
    slip = classics.join(instance="i", protocols={"range": b"news"})
    classics.host.refuse_with = None
    holder = static if is_refused else slip.reply.member_id
    for _ in range(60):
        assert set(classics.group.members) == {leader, holder}
        classics.heartbeat(leader), classics.heartbeat(holder, instance="i")
        classics.host.advance(1_000)
    assert set(classics.group.members) == {leader}, "its time to sync is over"


def test_a_session_ends_with_its_member_also_when_the_group_rebalances(classics):
    leader, static = classics.settle({}, {"instance": "i"})
    classics.join(leader)
    assert len(classics.host.timers) == 3, "two sessions, and the time to join"
    classics.join(instance="i")
    assert static not in classics.group.members
    assert len(classics.host.timers) == 3, "two sessions, and the time to sync"
