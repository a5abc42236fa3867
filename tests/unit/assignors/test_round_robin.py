from ottla.assignors.round_robin import assign
from tests.unit.assignors.groups import assigned, group, member


def test_8_partitions_are_dealt_to_three_consumers_in_turn():
    assert assigned(assign, group(c0="t", c1="t", c2="t"), t=8) == {
        "c0": "t-0 t-3 t-6",
        "c1": "t-1 t-4 t-7",
        "c2": "t-2 t-5",
    }


def test_when_the_first_consumer_dies_they_are_dealt_anew_to_the_other_two():
    assert assigned(assign, group(c1="t", c2="t"), t=8) == {
        "c1": "t-0 t-2 t-4 t-6",
        "c2": "t-1 t-3 t-5 t-7",
    }


def test_with_uneven_subscriptions_loads_are_uneven():
    members = group(c0="t0", c1="t0 t1", c2="t0 t1 t2")
    assert assigned(assign, members, t0=1, t1=2, t2=3) == {
        "c0": "t0-0",
        "c1": "t1-0",
        "c2": "t1-1 t2-0 t2-1 t2-2",
    }


def test_the_turn_goes_on_from_one_topic_to_the_next():
    assert assigned(assign, group(c0="a b", c1="a b"), a=3, b=3) == {
        "c0": "a-0 a-2 b-1",
        "c1": "a-1 b-0 b-2",
    }


def test_ten_topics_of_8_partitions_are_spread_evenly_over_three_consumers():
    topics = {f"t{number}": 8 for number in range(10)}
    everything = " ".join(topics)
    given = assigned(assign, group(c0=everything, c1=everything, c2=everything), **topics)
    assert [len(share.split()) for share in given.values()] == [27, 27, 26]


def test_a_turn_that_wraps_passes_over_those_who_are_not_subscribed():
    members = group(c0="a b", c1="a", c2="a")
    assert assigned(assign, members, a=2, b=2) == {"c0": "a-0 b-0 b-1", "c1": "a-1", "c2": ""}


def test_static_members_have_their_turn_first():
    members = {"a": member("t"), "z": member("t", instance_id="i")}
    assert assigned(assign, members, t=1) == {"z": "t-0", "a": ""}
