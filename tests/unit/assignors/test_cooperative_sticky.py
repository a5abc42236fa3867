from ottla.assignors.cooperative_sticky import assign
from tests.unit.assignors.groups import assigned, group, loads, member, next_round


def test_a_partition_that_moves_is_first_withheld_from_its_new_owner():
    joined = {"c0": member("t", "t-0 t-1 t-2 t-3", generation_id=1), "c1": member("t")}
    assert assigned(assign, joined, t=4) == {"c0": "t-0 t-1", "c1": ""}


def test_its_new_owner_gets_it_in_the_second_round():
    joined = {"c0": member("t", "t-0 t-1 t-2 t-3", generation_id=1), "c1": member("t")}
    second = next_round(joined, assign(joined, {"t": 4}))
    assert assigned(assign, second, t=4) == {"c0": "t-0 t-1", "c1": "t-2 t-3"}


def test_what_nobody_claims_is_given_at_once():
    members = group(c0="t", c1="t", c2="t")
    before = assign(members, {"t": 8})
    after = assign(next_round(members, before, "c0"), {"t": 8})
    assert loads(after) == {"c1": 4, "c2": 4}


def test_a_partition_that_two_claim_in_one_generation_is_given_to_neither_until_both_gave_it_up():
    joined = {"c0": member("t", "t-0", generation_id=3), "c1": member("t", "t-0", generation_id=3)}
    first = assign(joined, {"t": 1})
    assert first == {"c0": {}, "c1": {}}
    assert assigned(assign, next_round(joined, first), t=1) == {"c0": "t-0", "c1": ""}


def test_an_owner_keeps_what_a_member_claims_that_missed_a_rebalance():
    joined = {"late": member("t", "t-0 t-1", generation_id=2), "owner": member("t", "t-0", generation_id=3)}
    assert assigned(assign, joined, t=2) == {"late": "t-1", "owner": "t-0"}


def test_what_a_newer_member_claims_is_withheld_from_a_third():
    joined = {
        "a": member("t", "t-0 t-1 t-2", generation_id=3),
        "b": member("t", "t-0 t-1 t-2", generation_id=2),
        "c": member("t", generation_id=3),
    }
    assert assigned(assign, joined, t=3) == {"a": "t-0", "b": "", "c": ""}


def test_a_topic_is_withheld_as_long_as_a_member_that_unsubscribed_still_owns_it():
    joined = {"c0": member("a", "a-0 b-0", generation_id=1), "c1": member("b", generation_id=1)}
    first = assign(joined, {"a": 1, "b": 1})
    assert first == {"c0": {"a": frozenset({0})}, "c1": {}}
    assert assigned(assign, next_round(joined, first), a=1, b=1) == {"c0": "a-0", "c1": "b-0"}
