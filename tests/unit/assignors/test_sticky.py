import pytest

from ottla.assignors.sticky import assign
from tests.unit.assignors.groups import assigned, group, loads, member, next_round, pairs, shares


def test_8_partitions_come_to_three_consumers_as_evenly_as_possible():
    assert sorted(loads(assign(group(c0="t", c1="t", c2="t"), {"t": 8})).values()) == [2, 3, 3]


@pytest.mark.parametrize("dead", ["c0", "c1", "c2"])
def test_when_one_of_three_consumers_dies_only_its_partitions_move(dead):
    members = group(c0="t", c1="t", c2="t")
    before = assign(members, {"t": 8})
    after = assign(next_round(members, before, dead), {"t": 8})
    assert set(loads(after).values()) == {4}
    owner_before, owner_after = pairs(before), pairs(after)
    moved = {each for each, owner in owner_after.items() if owner != owner_before[each]}
    assert moved == {each for each, owner in owner_before.items() if owner == dead}


def test_what_the_other_two_had_by_chance_they_keep_when_the_first_dies():
    members = {"c1": member("t", "t-2 t-4 t-6"), "c2": member("t", "t-1 t-7")}
    after = assign(members, {"t": 8})
    assert {2, 4, 6} < after["c1"]["t"]
    assert {1, 7} < after["c2"]["t"]
    assert loads(after) == {"c1": 4, "c2": 4}


def test_a_new_member_is_given_its_share_and_nothing_else_moves():
    members = group(c0="t", c1="t", c2="t")
    before = assign(members, {"t": 9})
    after = assign(next_round(members, before) | group(c3="t"), {"t": 9})
    assert sorted(loads(after).values()) == [2, 2, 2, 3]
    assert all(after[name]["t"] <= before[name]["t"] for name in ("c0", "c1", "c2"))


def test_new_partitions_go_to_whoever_has_least():
    members = {"c0": member("t", "t-0 t-1"), "c1": member("t", "t-2")}
    assert assigned(assign, members, t=4) == {"c0": "t-0 t-1", "c1": "t-2 t-3"}


def test_a_balanced_group_keeps_everything():
    members = {"c0": member("a b", "a-1 b-0"), "c1": member("a b", "a-0 b-2"), "c2": member("a b", "b-1")}
    assert assigned(assign, members, a=2, b=3) == {"c0": "a-1 b-0", "c1": "a-0 b-2", "c2": "b-1"}


def test_with_uneven_subscriptions_it_is_more_even_than_round_robin():
    members = group(c0="t0", c1="t0 t1", c2="t0 t1 t2")
    assert assigned(assign, members, t0=1, t1=2, t2=3) == {
        "c0": "t0-0",
        "c1": "t1-0 t1-1",
        "c2": "t2-0 t2-1 t2-2",
    }


def test_a_member_that_unsubscribed_loses_the_topic():
    members = {"c0": member("a", "a-0 b-0 b-1"), "c1": member("a b")}
    assert assigned(assign, members, a=1, b=2) == {"c0": "a-0", "c1": "b-0 b-1"}


def test_a_claim_of_an_older_generation_gives_way():
    for names in (("old", "new"), ("new", "old")):
        members = {name: member("t", "t-0 t-1", generation_id=4 if name == "old" else 5) for name in names}
        members["third"] = member("t", "t-2", generation_id=5)
        assert "t-0" in shares(assign(members, {"t": 3}))["new"]


def test_claims_to_what_does_not_exist_count_for_nothing():
    members = {"c0": member("t", "t--1 t-0 t-9 gone-0"), "c1": member("t", "t-1")}
    assert assigned(assign, members, t=2) == {"c0": "t-0", "c1": "t-1"}
