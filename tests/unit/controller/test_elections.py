"""Who leads a partition, when brokers die, come back with or without their memory, or lose a disk."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.controller.context import NO_STATE, Policy, StoredEpoch
from ottla.controller.elections import Voters, elect, eligible_after, hand_over, settle, voters
from ottla.replication.state import NO_LEADER
from tests.unit.controller.helpers import broker, cluster, look, state

TWO = Policy(min_insync_replicas=2)
UNCLEAN = Policy(min_insync_replicas=2, allows_unclean=True)


def lives(live, born="", unclean="", leaving=""):
    return Voters(*(frozenset(map(int, ids)) for ids in (live, born, unclean, leaving)))


# --- the ISR and its leader


def test_a_leader_that_lives_stays():
    before = state(1, "012", "012")
    assert elect(before, {0, 1, 2}) is before
    assert settle(before, lives("012")) is before


def test_the_first_of_the_assignment_that_is_in_sync_and_alive_leads():
    after = elect(state(0, "0123", "0321"), {1, 2, 3})
    assert look(after) == (1, (3, 2, 1), (), 4)
    assert elect(state(0, "0123", "032"), {1, 2, 3}).leader == 2


def test_the_death_of_a_follower_shrinks_the_isr_without_an_election():
    assert look(settle(state(0, "012", "012"), lives("01"))) == (0, (0, 1), (), 3)


def test_without_a_replica_in_sync_nobody_leads_and_who_led_last_stays_on_record():
    after = settle(state(0, "012", "0"), lives("12"))
    assert look(after) == (NO_LEADER, (), (0,), 4)
    assert after.last_known_leader == 0
    assert settle(after, lives("12")) is after, "nothing changes until it comes back"
    back = settle(after, lives("012", born="0"))
    assert (look(back), back.last_known_leader) == ((0, (0,), (), 5), NO_LEADER)


def test_a_new_partition_is_led_by_its_first_replica_that_lives():
    newborn = state(NO_LEADER, "012", "", partition_epoch=NO_STATE, leader_epoch=-1)
    after = elect(newborn, {1, 2})
    assert (look(after), after.is_new) == ((1, (1, 2), (), 0), True)
    assert elect(newborn, {7}) == newborn


def test_a_new_partition_is_not_given_to_who_is_about_to_stop_unless_nobody_else_is_there():
    newborn = state(NO_LEADER, "012", "", partition_epoch=NO_STATE, leader_epoch=-1)
    assert look(elect(newborn, {0, 1, 2}, leaving={0})) == (1, (1, 2), (), 0)
    assert look(elect(newborn, {0}, leaving={0})) == (0, (0,), (), 0)


def test_a_replica_on_a_failed_disk_does_not_lead():
    assert elect(state(0, "012", "012", offline=(0, 1)), {0, 1, 2}).leader == 2
    assert elect(state(0, "0", "0", offline=(0,)), {0}).leader == NO_LEADER


def test_the_disk_of_a_broker_that_starts_again_is_tried_again():
    after = settle(state(1, "01", "1", offline=(0,)), lives("01", born="0"))
    assert after.offline == ()


def test_a_member_of_the_isr_that_is_about_to_stop_leads_only_if_nobody_else_can():
    assert settle(state(2, "012", "012"), lives("01", leaving="0")).leader == 1
    assert settle(state(2, "012", "02"), lives("01", leaving="0"), UNCLEAN).leader == 0
    assert settle(state(2, "012", "02", elr=(1,)), lives("01", leaving="0"), TWO).leader == 1


def test_leadership_is_handed_over_only_within_the_isr():
    assert look(hand_over(state(0, "012", "01"), 1)) == (1, (0, 1), (), 4)
    with pytest.raises(AssertionError):
        hand_over(state(0, "012", "01"), 2)


# --- eligible leader replicas


def test_who_leaves_an_isr_that_stays_large_enough_is_not_eligible():
    assert eligible_after(state(0, "012", "012"), (0, 1), TWO) == ()
    assert eligible_after(state(0, "012", "0", elr=(1,)), (0, 2), TWO) == ()


def test_who_leaves_an_isr_that_becomes_too_small_is_eligible():
    after = settle(state(0, "012", "01"), lives("02"), TWO)
    assert look(after) == (0, (0,), (1,), 3)


def test_no_more_can_be_required_than_there_are_replicas():
    assert look(settle(state(0, "01", "01"), lives("0"), Policy(5))) == (0, (0,), (1,), 3)
    assert eligible_after(state(0, "0", "0"), (0,), Policy(5)) == ()


def test_an_eligible_replica_leads_when_nobody_in_sync_lives_and_the_others_stay_eligible():
    after = settle(state(0, "012", "0", elr=(1, 2)), lives("12"), TWO)
    assert look(after) == (1, (1,), (0, 2), 4)


def test_a_clean_restart_stays_eligible():
    after = settle(state(0, "012", "0", elr=(1,)), lives("012", born="1"), TWO)
    assert look(after) == (0, (0,), (1,), 3)


def test_an_unclean_restart_is_not_eligible_any_more():
    after = settle(state(0, "012", "0", elr=(1, 2)), lives("012", born="1", unclean="1"), TWO)
    assert look(after) == (0, (0,), (2,), 3)


def test_an_unclean_last_in_sync_does_not_lead_before_one_that_is_eligible():
    """With fsync-less logs it would come back with less than the others, and have them all truncate."""
    before = state(0, "012", "0", elr=(1,))
    after = settle(before, lives("012", born="0", unclean="0"), TWO)
    assert look(after) == (1, (1,), (), 4)


def test_the_eligible_that_are_dead_are_waited_for_unless_unclean_leaders_are_allowed():
    before = state(0, "012", "0", elr=(1,))
    after = settle(before, lives("2"), TWO)
    assert look(after) == (NO_LEADER, (), (0, 1), 4)
    wild = settle(before, lives("2"), UNCLEAN)
    assert (look(wild), wild.is_recovering) == ((2, (2,), (), 4), True)


def test_who_led_last_leads_when_nobody_is_eligible_any_more():
    """Kill -9 of all replicas at once: nobody is known to have everything."""
    after = settle(state(1, "012", "012"), lives("012", born="012", unclean="012"), TWO)
    assert (look(after), after.last_known_leader) == ((1, (1,), (), 4), NO_LEADER)


def test_an_unclean_replica_waits_for_who_led_last():
    after = settle(state(1, "01", "1"), lives("0", born="0", unclean="0"))
    assert look(after) == (NO_LEADER, (), (1,), 4)
    gone = settle(after, lives("01", born="1", unclean="1"))
    assert look(gone) == (1, (1,), (), 5)


def test_where_only_an_isr_of_the_dead_is_on_record_its_first_counts_as_who_led_last():
    """So Kafka's controller on ZooKeeper leaves it."""
    after = settle(state(NO_LEADER, "01", "1"), lives("01", born="01", unclean="01"))
    assert look(after) == (1, (1,), (), 4)


# --- births and deaths


def test_the_only_replica_leads_again_after_a_restart_with_the_next_epoch():
    for unclean in ("", "0"):
        assert look(settle(state(0, "0", "0"), lives("0", "0", unclean))) == (0, (0,), (), 4)


def test_a_leader_that_restarted_before_anybody_noticed_has_lost_its_place_to_one_that_did_not():
    assert look(settle(state(0, "012", "012"), lives("012", born="0"))) == (1, (1, 2), (), 4)


def test_a_follower_that_restarted_leaves_the_isr():
    assert look(settle(state(0, "012", "012"), lives("012", born="2"))) == (0, (0, 1), (), 3)


def test_when_all_stop_cleanly_and_start_again_the_first_leads_and_the_others_are_eligible():
    assert look(settle(state(1, "012", "12"), lives("012", born="012"), TWO)) == (1, (1,), (2,), 4)


def test_a_life_is_new_when_no_controller_has_seen_it_and_unclean_when_it_cannot_name_the_last_one():
    context = cluster(0, 1, 2, 3)
    context.epochs[3] = StoredEpoch(4, 2)
    context.shutting_down = {0, 3}
    who = voters(
        context, [broker(0), broker(1, 7, previous=1), broker(2, 8), broker(3, 9, previous=1), broker(4, 10)]
    )
    assert who == Voters({0, 1, 2, 3, 4}, {1, 2, 3, 4}, {2, 3, 4}, {0})


def test_a_partition_that_nobody_ever_led_is_led_when_its_broker_is_back_with_another_disk():
    newborn = state(NO_LEADER, "0", "", partition_epoch=NO_STATE, leader_epoch=-1, offline=(0,))
    assert settle(newborn, lives("0")).leader == NO_LEADER
    after = settle(newborn, lives("0", born="0", unclean="0"))
    assert (look(after), after.offline) == ((0, (0,), (), 0), ())


def test_a_controller_that_wants_fewer_in_sync_leaves_nobody_eligible_for_whom_the_leader_would_wait():
    before = state(0, "012", "0", elr=(1,))  # by a controller whose own default was 2
    assert look(settle(before, lives("02"), Policy(1))) == (0, (0,), (), 3)
    assert settle(before, lives("02"), TWO) is before


ids = st.frozensets(st.integers(0, 3))


@given(st.permutations(range(4)), ids, ids, ids, ids, ids, st.integers(1, 4), st.booleans())
def test_whatever_happens_leaders_are_in_sync_and_what_is_settled_stays(
    replicas, isr, elr, live, born, unclean, least, allows_unclean
):
    policy = Policy(least, allows_unclean)
    in_sync = [id for id in replicas if id in isr]
    eligible = [id for id in replicas if id in elr - isr] if len(in_sync) < least else []
    leader = in_sync[0] if in_sync else NO_LEADER
    before = state(leader, "".join(map(str, replicas)), "".join(map(str, in_sync)), elr=tuple(eligible))
    who = Voters(live, born & live, unclean & born & live)
    after = settle(before, who, policy)
    assert (after.leader == NO_LEADER) == (not after.isr)
    assert after.leader == NO_LEADER or after.leader in set(after.isr) & live
    assert set(after.isr) | set(after.elr) <= set(replicas)
    assert not set(after.isr) & set(after.elr)
    assert not after.elr or len(after.isr) < least
    assert not set(after.elr) & who.unclean
    assert set(after.isr) & who.unclean <= {leader} or after.is_recovering
    assert 0 <= after.leader_epoch - before.leader_epoch <= 1
    if after.leader != before.leader or leader in who.born:
        assert after.leader_epoch > before.leader_epoch
    assert settle(after, Voters(live), policy) == after
