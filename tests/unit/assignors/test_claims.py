import itertools

from ottla.assignors.claims import claims, settled
from tests.unit.assignors.groups import member


def test_partitions_that_do_not_exist_are_not_claimed():
    members = {"c": member("t", "t--1 t-0 t-3 gone-0")}
    assert list(claims(members, {"t": 3})) == [("t", 0, "c")]


def test_a_sole_claim_counts_whatever_its_generation():
    members = {"a": member("t", "t-0", generation_id=-1), "b": member("t", "t-1", generation_id=7)}
    assert settled(members, {"t": 2}) == {"t": {0: "a", 1: "b"}}


def test_the_newest_of_several_claims_counts_in_whichever_order_they_come():
    generations = {"a": 3, "b": 5, "c": 4}
    for names in itertools.permutations(generations):
        members = {name: member("t", "t-0", generation_id=generations[name]) for name in names}
        assert settled(members, {"t": 1}) == {"t": {0: "b"}}


def test_two_newest_claims_cancel_each_other_in_whichever_order_they_come():
    generations = {"a": 5, "b": 5, "c": 4, "d": 5}
    for names in itertools.permutations(generations):
        members = {name: member("t", "t-0", generation_id=generations[name]) for name in names}
        assert settled(members, {"t": 1}) == {"t": {}}


def test_a_newer_claim_settles_a_dispute_of_older_ones():
    generations = {"a": 4, "b": 4, "c": 5}
    for names in itertools.permutations(generations):
        members = {name: member("t", "t-0", generation_id=generations[name]) for name in names}
        assert settled(members, {"t": 1}) == {"t": {0: "c"}}


def test_an_owner_that_unsubscribed_owns_nothing_and_nobody_older_does():
    members = {"new": member("other", "t-0", generation_id=5), "old": member("t", "t-0", generation_id=4)}
    assert settled(members, {"t": 1}) == {"t": {}}
