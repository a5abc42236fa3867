import uuid

from ottla.assignors.spec import MemberSpec
from ottla.assignors.uniform import assign
from tests.unit.assignors.groups import assigned, group, loads, member, next_round

TOPICS = [uuid.UUID(int=number) for number in (1, 2)]


def test_loads_differ_by_one_at_most_where_all_want_the_same():
    members = {f"m{place}": MemberSpec(frozenset(TOPICS), {}) for place in range(4)}
    assignment = assign(members, {TOPICS[0]: 5, TOPICS[1]: 6})
    assert sorted(sum(map(len, share.values())) for share in assignment.values()) == [2, 3, 3, 3]


def test_every_topic_is_spread_over_the_members_at_first():
    assignment = assign(group(m0="a b", m1="a b"), {"a": 4, "b": 4})
    assert all(len(share["a"]) == len(share["b"]) == 2 for share in assignment.values())


def test_the_extra_partitions_stay_with_those_who_have_them():
    members = {"m0": member("t", "t-0"), "m1": member("t", "t-1 t-2"), "m2": member("t", "t-3 t-4")}
    assert assigned(assign, members, t=5) == {"m0": "t-0", "m1": "t-1 t-2", "m2": "t-3 t-4"}


def test_a_member_that_joins_takes_from_those_who_have_most():
    members = {"m0": member("t", "t-0 t-1 t-2"), "m1": member("t", "t-3 t-4"), "m2": member("t")}
    given = assigned(assign, members, t=5)
    assert given["m1"] == "t-3 t-4"
    assert sorted(len(share.split()) for share in given.values()) == [1, 2, 2]


def test_with_different_wishes_balance_comes_before_stickiness():
    members = {"m0": member("a b", "a-0 a-1 b-0"), "m1": member("b")}
    assert assigned(assign, members, a=2, b=1) == {"m0": "a-0 a-1", "m1": "b-0"}


def test_an_assignment_is_the_best_answer_to_itself():
    members = group(m0="a", m1="a b", m2="b c", m3="c")
    first = assign(members, {"a": 3, "b": 5, "c": 2})
    assert assign(next_round(members, first), {"a": 3, "b": 5, "c": 2}) == first


def test_members_that_want_nothing_that_exists_are_there_and_get_nothing():
    assert assigned(assign, group(m0="t", m1="gone", m2=""), t=2) == {"m0": "t-0 t-1", "m1": "", "m2": ""}
    assert assign(group(m0=""), {"t": 2}) == {"m0": {}}
    assert assign({}, {"t": 2}) == {}


def test_a_topic_that_does_not_exist_makes_no_difference_between_wishes():
    assert loads(assign(group(m0="t", m1="t gone"), {"t": 4})) == {"m0": 2, "m1": 2}
