"""Who leads a partition, when brokers die, come back, or lose a disk."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.controller.context import NO_STATE
from ottla.controller.elections import elect, settle, without
from ottla.replication.state import NO_LEADER
from tests.unit.controller.helpers import state


def test_a_leader_that_lives_stays():
    before = state(1, "012", "012")
    assert elect(before, {0, 1, 2}) is before


def test_the_first_of_the_assignment_that_is_in_sync_and_alive_leads():
    after = elect(state(0, "0123", "0321"), {1, 2, 3})
    assert (after.leader, after.isr, after.leader_epoch) == (1, (3, 2, 1), 4)
    assert elect(state(0, "0123", "032"), {1, 2, 3}).leader == 2


def test_without_a_replica_in_sync_nobody_leads_and_the_last_ones_stay_on_record():
    after = elect(state(0, "012", "0"), {1, 2})
    assert (after.leader, after.isr, after.leader_epoch) == (NO_LEADER, (0,), 4)
    assert elect(after, {1, 2}) == after, "nothing changes until they come back"
    assert elect(after, {0, 1, 2}).leader == 0


def test_a_new_partition_is_led_by_its_first_replica_that_lives():
    newborn = state(NO_LEADER, "012", "", partition_epoch=NO_STATE, leader_epoch=-1)
    after = elect(newborn, {1, 2})
    assert (after.leader, after.isr, after.leader_epoch, after.is_new) == (1, (1, 2), 0, True)
    assert elect(newborn, {7}) == newborn


def test_the_death_of_a_follower_shrinks_the_isr_without_an_election():
    after = without(state(0, "012", "012"), 2, {0, 1})
    assert (after.leader, after.isr, after.leader_epoch) == (0, (0, 1), 3)


def test_a_replica_on_a_failed_disk_does_not_lead():
    assert elect(state(0, "012", "012", offline=(0, 1)), {0, 1, 2}).leader == 2
    assert elect(state(0, "0", "0", offline=(0,)), {0}).leader == NO_LEADER


def test_the_only_replica_leads_again_after_a_restart_with_the_next_epoch():
    after = settle(state(0, "0", "0"), live={0}, born={0})
    assert (after.leader, after.isr, after.leader_epoch) == (0, (0,), 4)


def test_a_leader_that_restarted_before_anybody_noticed_has_lost_its_place_to_one_that_did_not():
    after = settle(state(0, "012", "012"), live={0, 1, 2}, born={0})
    assert (after.leader, after.isr, after.leader_epoch) == (1, (1, 2), 4)


def test_a_follower_that_restarted_leaves_the_isr():
    after = settle(state(0, "012", "012"), live={0, 1, 2}, born={2})
    assert (after.leader, after.isr, after.leader_epoch) == (0, (0, 1), 3)


def test_when_all_restart_at_once_the_first_in_sync_leads_and_nobody_knows_about_the_others():
    after = settle(state(1, "012", "12"), live={0, 1, 2}, born={0, 1, 2})
    assert (after.leader, after.isr, after.leader_epoch) == (1, (1,), 4)


def test_when_all_in_sync_are_dead_they_stay_on_record():
    after = settle(state(1, "012", "12"), live={0})
    assert (after.leader, after.isr, after.leader_epoch) == (NO_LEADER, (1, 2), 4)


@pytest.mark.parametrize("born", [(), (0,)])
def test_what_is_settled_stays_as_it_is(born):
    once = settle(state(1, "123", "123"), live={1, 2}, born=born)
    assert settle(once, live={1, 2}) == once


ids = st.frozensets(st.integers(0, 4))


@given(st.permutations(range(4)), ids, ids, ids)
def test_only_replicas_in_sync_lead_and_the_isr_never_grows_nor_empties(replicas, isr, live, born):
    isr = tuple(id for id in replicas if id in isr) or tuple(replicas[:1])
    before = state(isr[0], "".join(map(str, replicas)), "".join(map(str, isr)))
    after = settle(before, live, born & live)
    assert after.leader == NO_LEADER or after.leader in set(isr) & live
    assert set() < set(after.isr) <= set(isr)
    assert after.leader in (NO_LEADER, *after.isr)
    assert (after.leader == NO_LEADER) == (not set(isr) & live)
    assert after.leader_epoch - before.leader_epoch in (0, 1)
    if after.leader != before.leader:
        assert after.leader_epoch > before.leader_epoch
