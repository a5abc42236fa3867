import uuid

import pytest

from ottla.assignors.range import assign
from ottla.assignors.spec import MemberSpec
from tests.unit.assignors.groups import assigned, group, loads, member


def test_of_8_partitions_the_first_two_of_three_consumers_get_three():
    assert assigned(assign, group(c0="t", c1="t", c2="t"), t=8) == {
        "c0": "t-0 t-1 t-2",
        "c1": "t-3 t-4 t-5",
        "c2": "t-6 t-7",
    }


def test_when_the_first_consumer_dies_the_other_two_get_half_each():
    assert assigned(assign, group(c1="t", c2="t"), t=8) == {
        "c1": "t-0 t-1 t-2 t-3",
        "c2": "t-4 t-5 t-6 t-7",
    }


def test_with_ten_topics_of_8_partitions_two_consumers_read_ten_partitions_more_than_the_third():
    topics = {f"t{number}": 8 for number in range(10)}
    everything = " ".join(topics)
    assignment = assign(group(c0=everything, c1=everything, c2=everything), topics)
    assert loads(assignment) == {"c0": 30, "c1": 30, "c2": 20}


@pytest.mark.parametrize(("partition_count", "consumer_count"), [(4, 2), (8, 4), (9, 3), (5, 5), (7, 1)])
def test_where_it_comes_out_even_a_consumer_gets_the_run_of_the_textbook_formula(
    partition_count, consumer_count
):
    times = -(-partition_count // consumer_count)  # rounded up, as the textbook says
    names = [f"c{place}" for place in range(consumer_count)]
    assignment = assign(group(**dict.fromkeys(names, "t")), {"t": partition_count})
    for place, name in enumerate(names):
        assert assignment[name] == {"t": frozenset(range(place * times, (place + 1) * times))}


def test_with_more_consumers_than_partitions_the_last_ones_get_nothing():
    assert assigned(assign, group(c0="t", c1="t", c2="t"), t=2) == {"c0": "t-0", "c1": "t-1", "c2": ""}


def test_each_topic_is_cut_among_its_own_subscribers():
    assert assigned(assign, group(c0="a", c1="a b", c2="b"), a=3, b=3) == {
        "c0": "a-0 a-1",
        "c1": "a-2 b-0 b-1",
        "c2": "b-2",
    }


def test_equal_topics_are_cut_at_the_same_places():
    assignment = assign(group(c0="a b", c1="a b", c2="a b"), {"a": 7, "b": 7})
    assert all(share["a"] == share["b"] for share in assignment.values())


def test_static_members_keep_their_runs_when_a_restart_gives_them_new_member_ids():
    before = {"m1": member("t", instance_id="i1"), "m2": member("t", instance_id="i2")}
    after = {"m9": member("t", instance_id="i1"), "m3": member("t", instance_id="i2")}
    assert assign(before, {"t": 3})["m1"] == assign(after, {"t": 3})["m9"] == {"t": frozenset({0, 1})}


def test_a_topic_that_does_not_exist_is_nobodys():
    assert assigned(assign, group(c0="t gone", c1="gone"), t=1) == {"c0": "t-0", "c1": ""}


def test_the_coordinator_assigns_topics_by_their_ids():
    topic = uuid.UUID(int=7)
    members = {"m": MemberSpec(frozenset([topic]), {})}
    assert assign(members, {topic: 2}) == {"m": {topic: frozenset({0, 1})}}


def test_a_group_without_members_has_no_assignment():
    assert assign({}, {"t": 3}) == {}
