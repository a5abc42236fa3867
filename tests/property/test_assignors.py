"""What holds for every assignment, whatever the group: completeness, balance, stickiness, and one reader at a time."""

import builtins
import random
from collections import Counter
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.assignors import cooperative_sticky, range, round_robin, sticky, uniform
from ottla.assignors.spec import Assignment, MemberSpec

TOPICS = ["t0", "t1", "t2", "t3"]
EAGER = {
    "range": range.assign,
    "roundrobin": round_robin.assign,
    "sticky": sticky.assign,
    "uniform": uniform.assign,
}
STICKY = {"sticky": sticky.assign, "uniform": uniform.assign}
ALL = {**EAGER, "cooperative-sticky": cooperative_sticky.assign}
Members = dict[str, MemberSpec[str]]

at_leisure = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""A busy machine is no fault of an assignor's."""

topic_sets = st.frozensets(st.sampled_from([*TOPICS, "missing"]))
claimed = st.dictionaries(
    st.sampled_from([*TOPICS, "missing"]), st.frozensets(st.integers(-1, 8), max_size=6), max_size=4
)
members_of_any_kind = st.builds(
    MemberSpec,
    subscribed=topic_sets,
    current=claimed,
    instance_id=st.sampled_from([None, "", "i0", "i1", "\U0001f600"]),
    rack_id=st.none(),
    generation_id=st.integers(-1, 3),
)
names = st.sampled_from(["", "a", "b", "c", "d", "e", "ä", "\U0001f600", "\uffee"])
counts = st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 8))


class Group(NamedTuple):
    members: Members
    partition_counts: dict[str, int]


@st.composite
def groups(draw: st.DrawFn, all_want_the_same: bool | None = None) -> Group:
    """Any group, with claims that contradict each other and what exists."""
    members = draw(st.dictionaries(names, members_of_any_kind, max_size=7))
    if all_want_the_same or (all_want_the_same is None and draw(st.booleans())):
        wanted = draw(topic_sets)
        members = {name: member._replace(subscribed=wanted) for name, member in members.items()}
    return Group(members, draw(counts))


def partitions_of(assignment: Assignment[str]) -> Counter[tuple[str, int]]:
    return Counter(
        (topic, each)
        for share in assignment.values()
        for topic, partitions in share.items()
        for each in partitions
    )


def load(share: dict[str, frozenset[int]]) -> int:
    return sum(map(len, share.values()))


def with_assignment(members: Members, assignment: Assignment[str], generation_id: int) -> Members:
    return {
        name: member._replace(current=assignment[name], generation_id=generation_id)
        for name, member in members.items()
        if name in assignment
    }


@pytest.mark.parametrize("name", EAGER)
@at_leisure
@given(group=groups())
def test_every_partition_that_somebody_wants_is_assigned_exactly_once(name, group):
    assignment = EAGER[name](*group)
    wanted = frozenset().union(*(member.subscribed for member in group.members.values()))
    assert partitions_of(assignment) == {
        (topic, each): 1
        for topic, count in group.partition_counts.items()
        if topic in wanted
        for each in builtins.range(count)
    }


@pytest.mark.parametrize("name", ALL)
@at_leisure
@given(group=groups())
def test_members_get_only_what_they_subscribed_to_and_all_are_named(name, group):
    assignment = ALL[name](*group)
    assert assignment.keys() == group.members.keys()
    for member_id, share in assignment.items():
        assert share.keys() <= group.members[member_id].subscribed
        assert all(share.values()), "topics without partitions are left out"


@pytest.mark.parametrize("name", ALL)
@at_leisure
@given(group=groups(), source=st.randoms(use_true_random=False))
def test_the_order_in_which_things_are_listed_does_not_matter(name, group, source: random.Random):
    members, topics = list(group.members.items()), list(group.partition_counts.items())
    source.shuffle(members)
    source.shuffle(topics)
    assert ALL[name](dict(members), dict(topics)) == ALL[name](*group)


@pytest.mark.parametrize("name", STICKY)
@at_leisure
@given(group=groups())
def test_nobody_could_take_a_partition_off_one_that_has_two_more(name, group):
    assignment = STICKY[name](*group)
    for share in assignment.values():
        for topic in share:
            for other, other_share in assignment.items():
                if topic in group.members[other].subscribed:
                    assert load(share) <= load(other_share) + 1


@pytest.mark.parametrize("name", STICKY)
@at_leisure
@given(group=groups(all_want_the_same=True))
def test_loads_differ_by_one_at_most_where_all_want_the_same(name, group):
    loads = [load(share) for share in STICKY[name](*group).values()]
    assert not loads or max(loads) - min(loads) <= 1


@pytest.mark.parametrize("name", STICKY)
@at_leisure
@given(group=groups())
def test_nothing_moves_if_nothing_has_changed(name, group):
    first = STICKY[name](*group)
    assert STICKY[name](with_assignment(group.members, first, 5), group.partition_counts) == first


@pytest.mark.parametrize("name", STICKY)
@at_leisure
@given(group=groups(all_want_the_same=True), data=st.data())
def test_when_members_leave_those_who_stay_lose_nothing(name, group, data):
    first = STICKY[name](*group)
    gone = data.draw(st.sets(st.sampled_from(sorted(first)))) if first else set()
    left = {member_id: share for member_id, share in first.items() if member_id not in gone}
    second = STICKY[name](with_assignment(group.members, left, 5), group.partition_counts)
    for member_id, share in left.items():
        for topic, partitions in share.items():
            assert partitions <= second[member_id][topic]


@pytest.mark.parametrize("name", STICKY)
@at_leisure
@given(group=groups(all_want_the_same=True), newcomers=st.sets(names, min_size=1, max_size=3))
def test_when_members_join_nothing_moves_but_to_them(name, group, newcomers):
    first = STICKY[name](*group)
    wanted = next((member.subscribed for member in group.members.values()), frozenset(TOPICS))
    members = with_assignment(group.members, first, 5)
    joined = {each: MemberSpec(wanted, {}) for each in newcomers if each not in members}
    second = STICKY[name]({**members, **joined}, group.partition_counts)
    for member_id, share in first.items():
        for topic, partitions in second[member_id].items():
            assert partitions <= share[topic]


@at_leisure
@given(group=groups())
def test_cooperative_members_get_nothing_that_another_may_still_be_reading(group):
    assignment = cooperative_sticky.assign(*group)
    assert all(count == 1 for count in partitions_of(assignment).values())
    for member_id, share in assignment.items():
        for topic, partitions in share.items():
            for other, spec in group.members.items():
                for each in partitions & spec.current.get(topic, frozenset()) if other != member_id else ():
                    own = group.members[member_id]
                    assert each in own.current[topic], "a new owner must wait"
                    assert own.generation_id > spec.generation_id, (
                        "only a claim that is out of date may be ignored"
                    )


@at_leisure
@given(group=groups())
def test_cooperative_members_have_everything_after_a_second_round(group):
    first = cooperative_sticky.assign(*group)
    members = with_assignment(group.members, first, 5)
    second = cooperative_sticky.assign(members, group.partition_counts)
    assert second == sticky.assign(members, group.partition_counts), "nothing is withheld any more"
    for member_id, share in first.items():
        for topic, partitions in share.items():
            assert partitions <= second[member_id][topic], "what was given is not taken away again"


@at_leisure
@given(group=groups(all_want_the_same=True))
def test_range_gives_runs_and_cuts_equal_topics_alike(group):
    for share in range.assign(*group).values():
        for topic, partitions in share.items():
            assert max(partitions) - min(partitions) == len(partitions) - 1
            for other, count in group.partition_counts.items():
                if count == group.partition_counts[topic] and other in share:
                    assert share[other] == partitions
