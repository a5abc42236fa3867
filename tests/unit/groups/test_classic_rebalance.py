"""How long a rebalance waits, for whom, and what comes of it."""

import pytest

from ottla.core.errors import ErrorCode
from ottla.groups.classic_rebalance import NEW_MEMBER_JOIN_TIMEOUT_MS
from ottla.groups.classic_states import ClassicState
from ottla.protocol.messages.subscription import TopicPartitions
from tests.unit.groups.classics import Classics, last_written, members_told, subscription
from tests.unit.groups.hosting import GroupSettings


@pytest.fixture
def classics():
    return Classics(GroupSettings(group_initial_rebalance_delay_ms=3_000))


# --- the first rebalance


def test_the_first_rebalance_waits_for_others(classics):
    slip = classics.come()[1]
    classics.host.advance(2_999)
    assert slip.is_waiting
    classics.host.advance(1)
    assert slip.reply.generation_id == 1


def test_every_new_member_makes_the_first_rebalance_wait_longer(classics):
    first = classics.come()[1]
    slips = [first]
    for _ in range(3):
        classics.host.advance(2_000)
        slips.append(classics.come()[1])
        assert all(slip.is_waiting for slip in slips)
    classics.host.advance(6_000)
    assert len(members_told(first.reply)) == 4
    assert {slip.reply.generation_id for slip in slips} == {1}


def test_the_first_rebalance_waits_no_longer_than_the_rebalance_timeout(classics):
    first = classics.come(rebalance=7_000)[1]
    for _ in range(7):
        classics.host.advance(1_000)
        if first.is_waiting:
            classics.come(rebalance=7_000)
    assert not first.is_waiting
    assert len(members_told(first.reply)) == 7


def test_a_group_that_everybody_left_before_its_first_generation_is_empty(classics):
    member_id, slip = classics.come()
    classics.leave(member_id)
    assert slip.code == ErrorCode.UNKNOWN_MEMBER_ID
    classics.host.advance(3_000)
    assert classics.group.is_empty and last_written(classics).generation == 1


# --- later ones


def test_a_rebalance_ends_as_soon_as_everybody_has_joined(classics):
    ids = classics.settle({}, {}, {})
    slips = [classics.join(one) for one in ids]
    assert [slip.reply.generation_id for slip in slips] == [2, 2, 2]


def test_a_rebalance_waits_for_members_that_were_given_an_id(classics):
    (leader,) = classics.settle({})
    pending = classics.join().reply.member_id
    slip = classics.join(leader)
    assert slip.is_waiting
    classics.join(pending)
    assert set(members_told(slip.reply)) == {leader, pending}


def test_a_rebalance_waits_no_longer_for_an_id_that_ran_out(classics):
    (leader,) = classics.settle({})
    classics.join(session=6_000)
    slip = classics.join(leader)
    classics.host.advance(5_999)
    assert slip.is_waiting
    classics.host.advance(1)
    assert set(members_told(slip.reply)) == {leader}


def test_members_that_do_not_come_are_dropped_when_the_slowest_has_had_its_time(classics):
    leader, slow, other = classics.settle({}, {"rebalance": 90_000, "session": 100_000}, {"session": 100_000})
    slip, joined = classics.join(leader), classics.join(other)
    classics.host.advance(89_999)
    assert slip.is_waiting
    classics.host.advance(1)
    assert set(members_told(slip.reply)) == {leader, other}
    assert joined.reply.leader == leader
    assert classics.heartbeat(slow) == ErrorCode.UNKNOWN_MEMBER_ID


def test_another_leads_when_the_leader_does_not_come(classics):
    leader, follower = classics.settle({"session": 100_000}, {})
    slip = classics.come()[1]
    again = classics.join(follower)
    classics.host.advance(60_000)
    assert again.reply.leader == slip.reply.leader == follower
    assert leader not in classics.group.members


def test_static_members_of_whom_none_comes_are_waited_for_until_their_sessions_end(classics):
    ids = classics.settle({"instance": "a", "session": 200_000}, {"instance": "b", "session": 200_000}, {})
    classics.leave(ids[2])
    assert classics.group.state is ClassicState.PREPARING_REBALANCE
    classics.host.advance(190_000)
    assert set(classics.group.members) == set(ids[:2])
    classics.host.advance(20_000)
    assert classics.group.is_empty


def test_static_members_without_patience_are_not_looked_for_all_the_time(classics):
    statics = [{"instance": name, "session": 200_000} for name in "ab"]
    ids = classics.settle(*statics, {})
    for static in statics:
        classics.join(**static, rebalance=0)
    classics.leave(ids[2])
    host, alarms = classics.host, 0
    while alarms < 100 and (due := list(host.timers.fire(host.now.monotonic_ms))):
        alarms += len([host.carry_out(timer.value(host.now)) for timer in due])
    assert alarms == 1
    assert classics.group.state is ClassicState.PREPARING_REBALANCE


def test_whoever_waits_for_a_rebalance_need_not_send_heartbeats(classics):
    leader, _ = classics.settle({}, {"session": 100_000})
    slip = classics.join(leader)
    classics.host.advance(59_000)
    assert slip.is_waiting
    classics.host.advance(1_000)
    assert slip.code == ErrorCode.NONE
    classics.host.advance(9_999)
    assert leader in classics.group.members, "its session begins with the answer"


def test_a_new_member_does_not_wait_for_ever(classics):
    ids = classics.settle({"rebalance": 10 * NEW_MEMBER_JOIN_TIMEOUT_MS})
    slip = classics.come(session=7_000)[1]
    for _ in range(NEW_MEMBER_JOIN_TIMEOUT_MS // 1_000):
        assert slip.is_waiting
        classics.heartbeat(ids[0])
        classics.host.advance(1_000)
    assert slip.code == ErrorCode.UNKNOWN_MEMBER_ID and slip.reply.member_id == ""


def test_a_member_that_dies_while_the_leader_assigns_begins_a_new_rebalance(classics):
    leader, follower = classics.settle({}, {})
    classics.join(leader), classics.join(follower)
    syncing = classics.sync(follower)
    classics.host.advance(10_000)
    assert syncing.code == ErrorCode.REBALANCE_IN_PROGRESS
    assert set(classics.group.members) == {follower}


def test_the_time_to_sync_begins_anew_with_each_generation(classics):
    leader, follower = classics.settle({}, {})
    classics.join(leader), classics.join(follower)
    for second in range(110):
        if second == 50:
            classics.join(follower, protocols={"range": b"news"}), classics.join(leader)
            assert classics.group.generation == 3
        classics.heartbeat(leader), classics.heartbeat(follower)
        assert set(classics.group.members) == {leader, follower}
        classics.host.advance(1_000)
    assert classics.group.is_empty, "sixty seconds after the second generation began"


def test_timers_are_as_many_as_there_are_reasons(classics):
    ids = classics.settle({}, {})
    assert len(classics.host.timers) == 2, "two sessions"
    classics.join(ids[0])
    assert len(classics.host.timers) == 3, "and the time to join"
    classics.leave(*ids)
    assert len(classics.host.timers) == 0


# --- cooperative members


def owning(*partitions):
    """A cooperative member that still reads these."""
    owned = [TopicPartitions(topic="orders", partitions=list(partitions))] if partitions else []
    return {"cooperative-sticky": subscription("orders", owned_partitions=owned)}


def test_cooperative_members_give_back_what_they_own_in_a_second_rebalance(classics):
    """The protocol is the clients': the broker hands on what they own, and lets anybody join again at once."""
    first, second = classics.settle({"protocols": owning()}, {"protocols": owning()})
    joined = classics.join(first, protocols=owning(0, 1))
    classics.join(second, protocols=owning())
    assert members_told(joined.reply)[first] == owning(0, 1)["cooperative-sticky"]
    classics.sync(second)
    classics.sync(first, assignments={first: b"0", second: b""})
    # It has given back partition 1, and says so by joining again: this time the other gets it.
    again = classics.join(first, protocols=owning(0))
    assert classics.heartbeat(second) == ErrorCode.REBALANCE_IN_PROGRESS
    classics.join(second, protocols=owning())
    assert again.reply.generation_id == 3
    classics.sync(first, assignments={first: b"0", second: b"1"})
    assert classics.sync(second).reply.assignment == b"1"
