from ottla.assignors.balance import balanced
from tests.unit.assignors.groups import group, loads, shares


def test_everybody_keeps_up_to_its_share_and_the_rest_is_dealt():
    owners = {"t": {0: "c0", 1: "c0", 2: "c0", 3: "c1"}}
    assignment = balanced(group(c0="t", c1="t", c2="t"), {"t": 6}, owners)
    assert shares(assignment) == {"c0": "t-0 t-1", "c1": "t-3 t-4", "c2": "t-2 t-5"}


def test_different_wishes_are_met_by_counts_first_and_own_partitions_then():
    owners = {"a": {2: "c0", 3: "c0"}, "b": {0: "c1"}}
    assignment = balanced(group(c0="a", c1="a b"), {"a": 4, "b": 2}, owners)
    assert shares(assignment) == {"c0": "a-0 a-2 a-3", "c1": "a-1 b-0 b-1"}


def test_a_chain_of_moves_is_found_where_no_single_move_helps():
    # c0 can only give a to c1, who has just one less; but c1 can give b to c2.
    owners = {"a": {0: "c0", 1: "c0", 2: "c0"}, "b": {0: "c1", 1: "c1"}, "c": {0: "c2"}}
    members = group(c0="a", c1="a b", c2="b c")
    assert loads(balanced(members, {"a": 3, "b": 2, "c": 1}, owners)) == {"c0": 2, "c1": 2, "c2": 2}


def test_more_members_than_partitions_leave_some_without():
    assignment = balanced(group(c0="t", c1="t", c2="t"), {"t": 1}, {"t": {0: "c2"}})
    assert shares(assignment) == {"c0": "", "c1": "", "c2": "t-0"}
